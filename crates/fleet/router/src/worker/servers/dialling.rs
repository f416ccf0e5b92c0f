//! Connections to servers: dials, to which address and with which first bytes, until a connection is there.
//!
//! Early data is what is sent with the first packet of a connection (TCP Fast Open), and may arrive twice.

use std::net::SocketAddr;
use std::sync::Arc;

use net::{Dial, DialTls, Link, Place, Turn, Unreachable};
use stdx::clock::Now;

use super::{NotSent, Servers};
use crate::message::outcome::Outcome;
use crate::plan::ServerPlace;
use crate::stats::DestinationPhase;

impl Servers {
    /// Begins a connection for a request that may arrive twice, or not.
    pub(super) fn dial(
        &mut self,
        place: u32,
        may_repeat: bool,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let Some(to) = self.place_to_dial(place) else { return Ok(()) };
        let to = self.early_place(place, to, may_repeat);
        let destination = &mut self.destinations[place as usize];
        let spec = &destination.spec;
        let tls = match &spec.tls {
            None => None,
            Some(name) => {
                // Never in clear text what is to be encrypted.
                let settings = self.shared.tls().ok_or(NotSent::plain(Outcome::LocalError))?;
                Some(DialTls { settings, name: name.clone() })
            }
        };
        let dial = Dial { place: to, timeout_ms: spec.connect_timeout_ms, tls };
        turn.dial(dial, u64::from(place)).map_err(|_| NotSent::plain(Outcome::LocalError))?;
        destination.connection.dial();
        Ok(())
    }

    /// Where to dial; `None` if the name has no address yet. Then the destination waits for one.
    fn place_to_dial(&mut self, place: u32) -> Option<Place> {
        let destination = &mut self.destinations[place as usize];
        let (host, port) = match &destination.spec.place {
            ServerPlace::Fixed(fixed) => return Some(fixed.clone()),
            ServerPlace::Named { host, port } => (host, *port),
        };
        let known = self.shared.names.known(host);
        if known.addresses.is_empty() {
            self.shared.names.want(host);
            let until = Now { us: self.now.us + u64::from(destination.spec.connect_timeout_ms) * 1000 };
            destination.connection.resolve();
            self.names.wait(place, until, known.lookups);
            return None;
        }
        let address = destination.connection.choose(&known.addresses);
        Some(Place::Tcp(SocketAddr::new(address, port)))
    }

    /// The place to dial for a request that may arrive twice, or not.
    fn early_place(&mut self, place: u32, to: Place, may_repeat: bool) -> Place {
        let destination = &mut self.destinations[place as usize];
        let Place::Tcp(address) = to else { return to };
        if !destination.spec.fast_open {
            return to;
        }
        // With TLS, what is early is the handshake's first word.
        destination.connection.set_early(may_repeat && destination.spec.tls.is_none());
        match may_repeat || destination.spec.tls.is_some() {
            true => Place::FastTcp(address),
            false => to,
        }
    }

    /// A connection that was dialled is there.
    pub(crate) fn connected(&mut self, place: u32, link: Link, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        destination.connection.open(link, turn);
        destination.cells.set_phase(DestinationPhase::Up);
        self.counts.cells().servers_opened.add(1);
        self.watch_use();
    }

    /// A dial has failed. Returns with what requests fail, unless another dial is under way.
    pub(crate) fn unreachable(
        &mut self,
        place: u32,
        why: Unreachable,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Option<Outcome> {
        if self.dial_other(place, why, turn) {
            return None;
        }
        Some(match why {
            Unreachable::TimedOut => Outcome::ConnectTimeout,
            Unreachable::LimitReached | Unreachable::Exhausted => Outcome::LocalError,
            Unreachable::Stopping => Outcome::Aborted,
            _ => Outcome::ConnectError,
        })
    }

    /// A dial has failed. Whether another one is under way: to the name's address of the other family.
    fn dial_other(&mut self, place: u32, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) -> bool {
        let destination = &mut self.destinations[place as usize];
        let ServerPlace::Named { host, .. } = &destination.spec.place else { return false };
        let is_second = destination.connection.note_failed_dial();
        // Nothing is left of a time that is over.
        let is_known_at_once =
            matches!(why, Unreachable::Refused | Unreachable::NoRoute | Unreachable::Failed(_));
        if is_second || !is_known_at_once || self.shared.names.known(host).addresses.len() < 2 {
            return false;
        }
        destination.connection.begin_second_dial();
        self.dial(place, false, turn).is_ok()
    }
}
