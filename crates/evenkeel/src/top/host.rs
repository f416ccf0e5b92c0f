//! The CPUs of this host, where one of the servers runs on it: as in `evenkeel tune top`.

use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use tuner::observe::read::cpus;
use tuner::report::TextStyle;
use tuner::{Facts, Reading, Root, Series, probe, report};

use super::fetch::Place;

/// What was read is shown for so many intervals: a host that has stopped answering is not shown as idle.
const INTERVALS_MAX: u32 = 5;
/// The host's interrupts and CPUs are looked up anew after so many readings: a driver may have new ones.
const FACTS_EVERY: u32 = 60;

/// Reads the host on a thread of its own, which ends with the process.
pub(super) struct LocalHost {
    seen: Arc<Mutex<Option<Seen>>>,
    interval: Duration,
}

struct Seen {
    facts: Arc<Facts>,
    series: Series,
    at: Stopwatch,
}

impl LocalHost {
    /// If none of the places is on this host, it reads nothing.
    pub(super) fn start(places: Vec<Place>, interval: Duration) -> std::io::Result<LocalHost> {
        let seen = Arc::new(Mutex::new(None));
        let host = LocalHost { seen: Arc::clone(&seen), interval };
        std::thread::Builder::new().name("host".into()).spawn(move || {
            // A name may take long to be looked up.
            if places.iter().any(is_here) {
                watch(&Root::new("/"), interval, &seen);
            }
        })?;
        Ok(host)
    }

    /// A heading and a line for each of the busiest CPUs; empty if the host is not known.
    pub(super) fn heat(&self, style: TextStyle, rows_max: usize) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = seen.as_ref().filter(|seen| seen.at.passed() < self.interval * INTERVALS_MAX);
        fresh.map_or(String::new(), |seen| report::heat(&seen.facts, &seen.series, style, rows_max))
    }
}

/// A socket can be bound to the addresses of this host alone.
fn is_here(place: &Place) -> bool {
    let addresses = (place.host(), 0).to_socket_addrs();
    addresses.is_ok_and(|mut addresses| addresses.any(|address| UdpSocket::bind(address).is_ok()))
}

fn watch(root: &Root, interval: Duration, seen: &Mutex<Option<Seen>>) {
    let clock = Stopwatch::start();
    let (mut facts, mut before): (Option<Arc<Facts>>, Option<Reading>) = (None, None);
    for round in 0_u32.. {
        if round.is_multiple_of(FACTS_EVERY) {
            facts = probe(root, &[]).ok().map(Arc::new);
        }
        let Some(facts) = &facts else { return };
        let after = cpus(root, facts, clock.ms()).ok();
        let pair =
            before.take().zip(after.clone()).and_then(|(before, after)| Series::new(vec![before, after]));
        if let Some(series) = pair {
            let now = Seen { facts: Arc::clone(facts), series, at: Stopwatch::start() };
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        before = after;
        pause(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_this_host_are_known_by_their_addresses() {
        let here = |text: &str| is_here(&Place::parse(text).expect("a place"));
        assert!(here("127.0.0.1:9150") && here("localhost"));
        // Of documentation: no host has it.
        assert!(!here("192.0.2.1"));
    }
}
