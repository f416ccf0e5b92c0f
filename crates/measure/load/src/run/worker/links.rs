//! Links: which connections of a worker are open, and when those that have ended are opened again.
//!
//! No socket here. A connection that has ended is opened again at once if it had answered something. Each further
//! attempt waits twice as long as the one before, up to a second, so that a server which is gone or turns clients away is
//! not flooded; and not all connections wait equally long, so that one which comes back is not either.

use std::collections::BTreeSet;
use std::time::Duration;
use stdx::prng::mix;

/// The connections of one thread.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    /// When something is to be done about a connection that is not open; one entry for each of them.
    due: BTreeSet<(u64, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    state: LinkState,
    /// Ends and failed attempts without an answer in between.
    failed: u32,
}

/// What a connection is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Open,
    /// It is being opened, until this time.
    Opening(u64),
    /// It is closed, and opened again at this time.
    Down(u64),
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueLink {
    /// The connection is to be opened; from now on it is being opened.
    Open(usize),
    /// The connection was not open in time.
    Late(usize),
}

/// An attempt may take this long: longer than the kernel takes to send the first packet three times.
pub(crate) const ATTEMPT_NS_MAX: u64 = 5_000_000_000;
/// The second attempt waits at most this long.
const WAIT_NS_FIRST: u64 = 50_000_000;
/// No attempt waits longer: a server that has come back is used a second later.
const WAIT_NS_MAX: u64 = 1_000_000_000;

impl Links {
    pub(crate) fn new(connections: usize) -> Links {
        let link = Link { state: LinkState::Open, failed: 0 };
        Links { links: vec![link; connections], due: BTreeSet::new() }
    }

    pub(crate) fn state(&self, connection: usize) -> LinkState {
        self.links[connection].state
    }

    /// Whether any is not open.
    pub(crate) fn is_any_away(&self) -> bool {
        !self.due.is_empty()
    }

    /// A connection, or the attempt to open it, has ended.
    pub(crate) fn ended(&mut self, connection: usize, has_answered: bool, now_ns: u64) {
        let link = &mut self.links[connection];
        if has_answered {
            link.failed = 0;
        }
        let wait_ns = wait_ns(connection, link.failed);
        link.failed = link.failed.saturating_add(1);
        self.turn(connection, LinkState::Down(now_ns + wait_ns));
    }

    /// A connection is being opened.
    pub(crate) fn opens(&mut self, connection: usize, now_ns: u64) {
        self.turn(connection, LinkState::Opening(now_ns + ATTEMPT_NS_MAX));
    }

    pub(crate) fn opened(&mut self, connection: usize) {
        self.turn(connection, LinkState::Open);
    }

    fn turn(&mut self, connection: usize, state: LinkState) {
        let before = std::mem::replace(&mut self.links[connection].state, state);
        if let LinkState::Opening(at_ns) | LinkState::Down(at_ns) = before {
            self.due.remove(&(at_ns, connection));
        }
        if let LinkState::Opening(at_ns) | LinkState::Down(at_ns) = state {
            self.due.insert((at_ns, connection));
        }
    }

    /// The next connection about which something is to be done now.
    #[inline]
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<DueLink> {
        let &(at_ns, connection) = self.due.first()?;
        if at_ns > now_ns {
            return None;
        }
        match self.state(connection) {
            LinkState::Down(_) => {
                self.opens(connection, now_ns);
                Some(DueLink::Open(connection))
            }
            _ => Some(DueLink::Late(connection)),
        }
    }

    /// The time until something is to be done.
    #[inline]
    pub(crate) fn rest(&self, now_ns: u64) -> Duration {
        let next_ns = self.due.first().map(|(at_ns, _)| *at_ns);
        next_ns.map_or(Duration::MAX, |at_ns| Duration::from_nanos(at_ns.saturating_sub(now_ns)))
    }
}

/// The wait before an attempt: between a half and the whole of what so many failures cost.
fn wait_ns(connection: usize, failed: u32) -> u64 {
    let Some(doublings) = failed.checked_sub(1) else { return 0 };
    let most_ns = WAIT_NS_FIRST.checked_shl(doublings.min(10)).unwrap_or(WAIT_NS_MAX).min(WAIT_NS_MAX);
    most_ns / 2 + mix(connection as u64 ^ u64::from(failed) << 32) % (most_ns / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_waits_longer_and_an_answer_ends_that() {
        let mut links = Links::new(2);
        let mut now_ns = 1000;
        let mut fail = |links: &mut Links, has_answered| {
            links.ended(1, has_answered, now_ns);
            let wait = links.rest(now_ns);
            now_ns += wait.as_nanos() as u64;
            assert!(wait.is_zero() || links.next(now_ns - 1).is_none());
            assert_eq!(links.next(now_ns), Some(DueLink::Open(1)));
            assert_eq!(links.next(now_ns), None);
            wait.as_millis()
        };
        assert_eq!(fail(&mut links, true), 0, "at once");
        let waits: Vec<u128> = (0..8).map(|_| fail(&mut links, false)).collect();
        for (wait, most) in waits.iter().zip([50, 100, 200, 400, 800, 1000, 1000, 1000]) {
            assert!((most / 2..=most).contains(wait), "{waits:?}");
        }
        assert_eq!(fail(&mut links, true), 0);
        links.opened(1);
        assert!(!links.is_any_away() && links.rest(0) == Duration::MAX);
    }

    #[test]
    fn an_attempt_that_takes_too_long_is_over() {
        let mut links = Links::new(3);
        links.opens(2, 7);
        assert_eq!((links.next(6 + ATTEMPT_NS_MAX), links.state(0)), (None, LinkState::Open));
        assert_eq!(links.next(7 + ATTEMPT_NS_MAX), Some(DueLink::Late(2)));
        links.ended(2, false, 7 + ATTEMPT_NS_MAX);
        assert_eq!(links.next(7 + ATTEMPT_NS_MAX), Some(DueLink::Open(2)));
    }

    #[test]
    fn not_all_come_back_at_the_same_moment() {
        let mut links = Links::new(64);
        (0..64).for_each(|connection| links.ended(connection, false, 0));
        (0..64).for_each(|connection| links.ended(connection, false, 0));
        let moments: BTreeSet<u64> = links.due.iter().map(|(at_ns, _)| *at_ns).collect();
        assert!(moments.len() > 60, "{moments:?}");
    }
}
