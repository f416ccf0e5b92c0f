//! Servers with a name: which address is dialled, and what happens when the name has another one.

use std::net::SocketAddr;
use std::sync::Arc;

use net::{Place, Turn, Unreachable};
use stdx::clock::Now;

use super::RouteWorker;
use crate::message::outcome::Outcome;
use crate::plan::ServerPlace;
use crate::servers::destination::{Destination, DestinationState};

/// A destination that waits for the address of its name.
pub(super) struct AwaitedName {
    place: u32,
    /// When the time for connecting is over.
    until: Now,
    /// Lookups of the name before.
    lookups: u64,
}

/// What a worker knows of names.
#[derive(Default)]
pub(super) struct NameWatch {
    awaited: Vec<AwaitedName>,
    /// The lookups that were considered.
    version: u64,
}

impl NameWatch {
    /// When the first of those that wait gives up.
    #[inline]
    pub(super) fn next(&self) -> Option<Now> {
        if self.awaited.is_empty() {
            return None;
        }
        self.awaited.iter().map(|awaited| awaited.until).min()
    }
}

impl RouteWorker {
    /// Where to dial; `None` if the name has no address yet. Then the destination waits for one.
    pub(super) fn place_to_dial(&mut self, place: u32) -> Option<Place> {
        let destination = &mut self.destinations[place as usize];
        let (host, port) = match &destination.spec.place {
            ServerPlace::Fixed(fixed) => return Some(fixed.clone()),
            ServerPlace::Named { host, port } => (host, *port),
        };
        let known = self.shared.names.known(host);
        if known.addresses.is_empty() {
            self.shared.names.want(host);
            let until = Now { us: self.now.us + u64::from(destination.spec.connect_timeout_ms) * 1000 };
            destination.state = DestinationState::Resolving;
            self.names.awaited.push(AwaitedName { place, until, lookups: known.lookups });
            return None;
        }
        let address = known.addresses[destination.dials_failed as usize % known.addresses.len()];
        destination.address = Some(address);
        Some(Place::Tcp(SocketAddr::new(address, port)))
    }

    /// A dial has failed. Whether another one is under way: to the name's address of the other family.
    pub(super) fn dial_other(&mut self, place: u32, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) -> bool {
        let destination = &mut self.destinations[place as usize];
        let ServerPlace::Named { host, .. } = &destination.spec.place else { return false };
        destination.dials_failed = destination.dials_failed.wrapping_add(1);
        let is_second = std::mem::take(&mut destination.is_second_dial);
        // Nothing is left of a time that is over.
        let is_known_at_once =
            matches!(why, Unreachable::Refused | Unreachable::NoRoute | Unreachable::Failed(_));
        if is_second || !is_known_at_once || self.shared.names.known(host).addresses.len() < 2 {
            return false;
        }
        destination.is_second_dial = true;
        self.dial(place, false, turn).is_ok()
    }

    /// A server with a name does not answer: perhaps it is elsewhere.
    pub(super) fn doubt_name(&self, place: u32) {
        if let ServerPlace::Named { host, .. } = &self.destinations[place as usize].spec.place {
            self.shared.names.want(host);
        }
    }

    /// Goes on with lookups that have ended, and with those that take too long.
    pub(super) fn follow_names(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let version = self.shared.names.version();
        let has_news = version != self.names.version;
        if !has_news && self.names.next().is_none_or(|at| at > self.now) {
            return;
        }
        self.names.version = version;
        for awaited in std::mem::take(&mut self.names.awaited) {
            self.go_on(awaited, turn);
        }
        if has_news {
            self.move_destinations();
        }
    }

    fn go_on(&mut self, awaited: AwaitedName, turn: &mut Turn<Arc<[u8]>>) {
        let AwaitedName { place, until, lookups } = awaited;
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        let ServerPlace::Named { host, .. } = &spec.place else { return };
        let known = self.shared.names.known(host);
        if !known.addresses.is_empty() {
            // What waits may be anything.
            if self.dial(place, false, turn).is_err() {
                self.lose(place, Outcome::LocalError, None, turn);
            }
        } else if known.lookups > lookups {
            self.lose(place, Outcome::ConnectError, Some(&"its name cannot be resolved"), turn);
        } else if until <= self.now {
            self.lose(place, Outcome::ConnectTimeout, Some(&"its name is not resolved yet"), turn);
        } else {
            self.names.awaited.push(awaited);
        }
    }

    /// Servers that are connected to an address which their name has lost get a new destination. The old one is retired: it
    /// is closed when its last reply has come.
    fn move_destinations(&mut self) {
        let moved: Vec<(usize, u32)> = (self.places.iter().copied().enumerate())
            .filter(|(_, place)| self.has_moved(&self.destinations[*place as usize]))
            .collect();
        if moved.is_empty() {
            return;
        }
        let mut places = self.places.to_vec();
        for (server, place) in moved {
            let Destination { spec, health, .. } = &self.destinations[place as usize];
            let destination = Destination::new(Arc::clone(spec), Arc::clone(health));
            if let Some(of_name) = self.by_name.get_mut(&spec.name) {
                of_name.retain(|other| *other != place);
            }
            // What it had is another server's.
            self.drop_hot_of(place);
            places[server] = self.insert(destination);
        }
        self.places = places.into();
        self.retire();
    }

    fn has_moved(&self, destination: &Destination) -> bool {
        let (ServerPlace::Named { host, .. }, Some(address), DestinationState::Open(_)) =
            (&destination.spec.place, destination.address, destination.state)
        else {
            return false;
        };
        let known = self.shared.names.known(host);
        !known.addresses.is_empty() && !known.addresses.contains(&address)
    }
}
