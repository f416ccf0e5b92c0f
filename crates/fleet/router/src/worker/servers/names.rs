//! Servers with a name: which address is dialled, and what happens when the name has another one.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::Servers;
use crate::message::outcome::Outcome;
use crate::plan::ServerPlace;
use crate::servers::destination::{Destination, DestinationState};
use crate::worker::hot::HotValues;

/// A destination that waits for the address of its name.
pub(crate) struct AwaitedName {
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

    /// A destination waits until then for another lookup than the first so many.
    pub(super) fn wait(&mut self, place: u32, until: Now, lookups: u64) {
        self.awaited.push(AwaitedName { place, until, lookups });
    }
}

/// A destination whose server has no address, and with what its requests fail, and why.
pub(crate) type Nameless = (u32, Outcome, Option<&'static str>);

impl Servers {
    /// A server with a name does not answer: perhaps it is elsewhere.
    pub(super) fn doubt_name(&self, place: u32) {
        if let ServerPlace::Named { host, .. } = &self.destinations[place as usize].spec.place {
            self.shared.names.want(host);
        }
    }

    /// Whether lookups have ended or take too long. [`Servers::take_awaited`] follows then.
    #[inline]
    pub(crate) fn has_names_to_follow(&self) -> bool {
        self.has_new_names() || self.names.next().is_some_and(|at| at <= self.now)
    }

    /// Takes the destinations that wait for an address, for [`Servers::go_on`]; and whether there are other addresses, for
    /// [`Servers::move_destinations`].
    pub(crate) fn take_awaited(&mut self) -> (Vec<AwaitedName>, bool) {
        // Read once: a lookup that ends meanwhile is news for the next time.
        let version = self.shared.names.version();
        let has_news = version != self.names.version;
        self.names.version = version;
        (std::mem::take(&mut self.names.awaited), has_news)
    }

    #[inline]
    fn has_new_names(&self) -> bool {
        self.shared.names.version() != self.names.version
    }

    /// Dials, waits on, or gives up.
    pub(crate) fn go_on(&mut self, awaited: AwaitedName, turn: &mut Turn<Arc<[u8]>>) -> Option<Nameless> {
        let AwaitedName { place, until, lookups } = awaited;
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        let ServerPlace::Named { host, .. } = &spec.place else { return None };
        let known = self.shared.names.known(host);
        if !known.addresses.is_empty() {
            // What waits may be anything.
            return self.dial(place, false, turn).is_err().then_some((place, Outcome::LocalError, None));
        }
        if known.lookups > lookups {
            return Some((place, Outcome::ConnectError, Some("its name cannot be resolved")));
        }
        if until <= self.now {
            return Some((place, Outcome::ConnectTimeout, Some("its name is not resolved yet")));
        }
        self.names.awaited.push(awaited);
        None
    }

    /// Servers that are connected to an address which their name has lost get a new destination. The old one is to be retired:
    /// it is closed when its last reply has come. Takes and returns the destination of each server of the plan; `None` if no
    /// server has moved.
    pub(crate) fn move_destinations(&mut self, places: &[u32], hot: &mut HotValues) -> Option<Arc<[u32]>> {
        let moved: Vec<(usize, u32)> = (places.iter().copied().enumerate())
            .filter(|(_, place)| self.has_moved(&self.destinations[*place as usize]))
            .collect();
        if moved.is_empty() {
            return None;
        }
        let mut places = places.to_vec();
        for (server, place) in moved {
            let Destination { spec, health, .. } = &self.destinations[place as usize];
            let destination = Destination::new(Arc::clone(spec), Arc::clone(health));
            if let Some(of_name) = self.by_name.get_mut(&spec.name) {
                of_name.retain(|other| *other != place);
            }
            // What it had is another server's.
            hot.drop_server(&self.destinations[place as usize]);
            places[server] = self.insert(destination, hot);
        }
        Some(places.into())
    }

    fn has_moved(&self, destination: &Destination) -> bool {
        let (ServerPlace::Named { host, .. }, Some(address), DestinationState::Open(_)) =
            (&destination.spec.place, destination.connection.address(), destination.connection.state())
        else {
            return false;
        };
        let known = self.shared.names.known(host);
        !known.addresses.is_empty() && !known.addresses.contains(&address)
    }
}
