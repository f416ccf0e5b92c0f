//! The connection of a destination: its state, what waits to be sent over it, and its dials.

use std::net::IpAddr;
use std::sync::Arc;

use net::{Link, Turn};

use crate::client::HeldOutput;

/// Bytes of requests that a destination has not taken: 64 clients may send a value of memcached's usual limit at the same
/// moment, before anybody's request is refused.
pub(crate) const UNSENT_MAX: usize = 64 << 20;

/// The state of a connection to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DestinationState {
    /// None; the next request dials.
    #[default]
    Idle,
    /// The address of its name is being looked up.
    Resolving,
    Dialling,
    Open(Link),
}

/// A connection to a server, or none yet.
#[derive(Default)]
pub(crate) struct DestinationConnection {
    state: DestinationState,
    /// Requests that wait for the connection.
    unsent: HeldOutput,
    /// The server may get what is sent twice, until it has answered: the connection began with TCP Fast Open.
    is_early: bool,
    /// Requests that wait for that answer, because they must not arrive twice, and all that follow them.
    later: HeldOutput,
    /// A request was sent since connections without use were last looked for.
    was_used: bool,
    /// Something has come over the connection.
    has_answered: bool,
    /// The address of its name that was dialled last.
    address: Option<IpAddr>,
    /// Dials that have failed: which of a name's addresses is the next.
    dials_failed: u32,
    /// The dial that is under way follows one to the name's other address.
    is_second_dial: bool,
}

impl DestinationConnection {
    #[inline]
    pub(crate) fn state(&self) -> DestinationState {
        self.state
    }

    /// The address of its name that was dialled last.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The address of its name is being looked up.
    pub(crate) fn resolve(&mut self) {
        self.state = DestinationState::Resolving;
    }

    /// Which of a name's addresses is dialled.
    pub(crate) fn choose(&mut self, addresses: &[IpAddr]) -> IpAddr {
        let address = addresses[self.dials_failed as usize % addresses.len()];
        self.address = Some(address);
        address
    }

    /// A dial is under way.
    pub(crate) fn dial(&mut self) {
        self.state = DestinationState::Dialling;
    }

    /// The dial may carry the first request, which then may arrive twice.
    pub(crate) fn set_early(&mut self, is_early: bool) {
        self.is_early = is_early;
    }

    /// A dial has failed. Whether it was the second one.
    pub(crate) fn note_failed_dial(&mut self) -> bool {
        self.dials_failed = self.dials_failed.wrapping_add(1);
        std::mem::take(&mut self.is_second_dial)
    }

    /// The dial that follows is to the name's other address.
    pub(crate) fn begin_second_dial(&mut self) {
        self.is_second_dial = true;
    }

    /// The connection is there: what waits for it is sent.
    pub(crate) fn open(&mut self, link: Link, turn: &mut Turn<Arc<[u8]>>) {
        self.state = DestinationState::Open(link);
        (self.was_used, self.is_second_dial, self.has_answered) = (true, false, false);
        if let Some(output) = turn.output(link) {
            output.append(std::mem::take(&mut self.unsent));
        }
    }

    /// Something has come over the connection: the server knows it, and gets what waits for that.
    #[inline]
    pub(crate) fn note_answer(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.has_answered = true;
        if self.is_early {
            self.end_early(turn);
        }
    }

    #[cold]
    fn end_early(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        self.is_early = false;
        if let DestinationState::Open(link) = self.state
            && let Some(output) = turn.output(link)
        {
            output.append(std::mem::take(&mut self.later));
        }
    }

    /// Whether something has come over the connection.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Whether the server may get what is sent twice.
    pub(crate) fn is_early(&self) -> bool {
        self.is_early
    }

    /// Whether a request of this connection may have arrived twice; it is no more among such.
    pub(crate) fn take_early(&mut self) -> bool {
        std::mem::take(&mut self.is_early)
    }

    /// Whether there is room for another request; `None` if the end of the connection is about to be reported.
    #[inline]
    pub(crate) fn has_room(&self, turn: &Turn<Arc<[u8]>>) -> Option<bool> {
        let unsent = match self.state {
            DestinationState::Open(link) => {
                if !turn.is_open(link) {
                    return None;
                }
                turn.blocked(link)
            }
            _ => self.unsent.len(),
        };
        Some(unsent + self.later.len() <= UNSENT_MAX)
    }

    /// Where to write a request that may arrive twice, or not; `None` if the end of the connection is about to be reported.
    #[inline]
    pub(crate) fn output<'o>(
        &'o mut self,
        may_repeat: bool,
        turn: &'o mut Turn<Arc<[u8]>>,
    ) -> Option<&'o mut HeldOutput> {
        // The first answer on a connection that began with TCP Fast Open is waited for.
        let must_wait = self.is_early && (!may_repeat || !self.later.is_empty());
        match self.state {
            _ if must_wait => Some(&mut self.later),
            DestinationState::Open(link) => turn.output(link),
            _ => Some(&mut self.unsent),
        }
    }

    /// A request was written.
    #[inline]
    pub(crate) fn note_use(&mut self) {
        self.was_used = true;
    }

    /// Whether one was since the last call.
    pub(crate) fn take_use(&mut self) -> bool {
        std::mem::take(&mut self.was_used)
    }

    /// Bytes of requests that wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.unsent.len() + self.later.len()
    }

    /// The connection is gone, or there is none.
    pub(super) fn lose(&mut self) {
        self.unsent.clear();
        self.later.clear();
        self.is_early = false;
        self.state = DestinationState::Idle;
    }
}

#[cfg(test)]
impl DestinationConnection {
    /// Bytes of requests that wait for the connection.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_must_not_arrive_twice_wait_for_the_first_answer_and_all_behind_them() {
        let (mut connection, mut turn) = (DestinationConnection::default(), Turn::default());
        let mut write = |connection: &mut DestinationConnection, may_repeat| {
            connection.output(may_repeat, &mut turn).expect("no connection that ends").copy(b"x");
            (connection.unsent.len(), connection.later.len())
        };
        connection.set_early(true);
        assert_eq!(write(&mut connection, true), (1, 0));
        assert_eq!(write(&mut connection, false), (1, 1));
        assert_eq!(write(&mut connection, true), (1, 2));
        connection.lose();
        assert_eq!((connection.waiting(), connection.is_early()), (0, false));
    }

    #[test]
    fn addresses_of_a_name_are_dialled_in_turn() {
        let mut connection = DestinationConnection::default();
        let addresses = [IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2])];
        assert_eq!(connection.choose(&addresses), addresses[0]);
        assert!(!connection.note_failed_dial());
        connection.begin_second_dial();
        assert_eq!(connection.choose(&addresses), addresses[1]);
        assert!(connection.note_failed_dial());
    }
}
