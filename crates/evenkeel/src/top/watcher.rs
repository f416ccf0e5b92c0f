//! A thread that reads one server again and again, so that an unreachable one does not hold up the others.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::clock::{Stopwatch, pause};

use super::fetch::{Place, fetch};
use super::figures::ServerFigures;
use super::reading::ServerReading;

/// What is known of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerState {
    pub(super) name: String,
    pub(super) seen: Seen,
}

impl ServerState {
    /// Whether there are figures.
    pub(super) fn has_figures(&self) -> bool {
        matches!(self.seen, Seen::Figures(_))
    }
}

/// The outcome of the last attempt.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// None has ended.
    Nothing,
    /// Once: there are no rates yet.
    Once,
    /// The figures since the attempt before.
    Figures(Box<ServerFigures>),
    /// Not: why.
    Unreachable(String),
}

/// A server that is being read. Its thread ends with the process.
pub(super) struct Watcher {
    name: String,
    seen: Arc<Mutex<Seen>>,
    /// Attempts that have ended.
    rounds: Arc<AtomicU64>,
}

impl Watcher {
    pub(super) fn start(place: Place, interval: Duration) -> io::Result<Watcher> {
        let seen = Arc::new(Mutex::new(Seen::Nothing));
        let rounds = Arc::new(AtomicU64::new(0));
        let watcher =
            Watcher { name: place.to_string(), seen: Arc::clone(&seen), rounds: Arc::clone(&rounds) };
        let work = move || watch(&place, interval, &seen, &rounds);
        std::thread::Builder::new().name("watcher".into()).spawn(work)?;
        Ok(watcher)
    }

    pub(super) fn state(&self) -> ServerState {
        ServerState { name: self.name.clone(), seen: self.seen().clone() }
    }

    /// Attempts that have ended.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    /// Whether rates are known, or will not be.
    pub(super) fn has_rates(&self) -> bool {
        matches!(*self.seen(), Seen::Figures(_) | Seen::Unreachable(_))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its answers come, and no time passes between them: the process is stopped behind a cache of its answers, or another
/// program repeats an old one.
const STANDS_STILL: &str = "its uptime stands still: something repeats an old answer of it";

fn watch(place: &Place, interval: Duration, seen: &Mutex<Seen>, rounds: &AtomicU64) -> ! {
    let mut before: Option<ServerReading> = None;
    loop {
        let watch = Stopwatch::start();
        let read = fetch(place).and_then(|report| ServerReading::parse(&report));
        let now = match (&read, &before) {
            (Err(why), _) => Seen::Unreachable(why.clone()),
            (Ok(after), Some(before)) if after.uptime_us == before.uptime_us => {
                Seen::Unreachable(STANDS_STILL.to_owned())
            }
            (Ok(after), Some(before)) => ServerFigures::between(before, after)
                .map_or(Seen::Once, |figures| Seen::Figures(Box::new(figures))),
            (Ok(_), None) => Seen::Once,
        };
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        rounds.fetch_add(1, Ordering::Release);
        before = read.ok();
        pause(interval.saturating_sub(watch.passed()));
    }
}
