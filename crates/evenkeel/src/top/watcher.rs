//! A thread that reads one server or router again and again, so that an unreachable one does not hold up the others.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::clock::{Stopwatch, pause};

use super::fetch::{Place, fetch};
use super::figures::ServerFigures;
use super::reading::MemberReading;
use super::router::RouterFigures;

/// What is known of a server or router.
#[derive(Clone, Debug)]
pub(super) struct ServerState {
    pub(super) name: String,
    pub(super) seen: Seen,
    /// Its last answer was a router's. What has not answered yet is taken for a server.
    pub(super) is_router: bool,
}

impl ServerState {
    /// Whether there are figures.
    pub(super) fn has_figures(&self) -> bool {
        matches!(self.seen, Seen::Figures(_) | Seen::Router(_))
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
    /// The figures of a router since the attempt before.
    Router(Box<RouterFigures>),
    /// Not: why.
    Unreachable(String),
}

/// A server or router that is being read. Its thread ends with the process.
pub(super) struct Watcher {
    name: String,
    seen: Arc<Mutex<Seen>>,
    /// Attempts that have ended.
    rounds: Arc<AtomicU64>,
    is_router: Arc<AtomicBool>,
}

impl Watcher {
    pub(super) fn start(place: Place, interval: Duration) -> io::Result<Watcher> {
        let seen = Arc::new(Mutex::new(Seen::Nothing));
        let rounds = Arc::new(AtomicU64::new(0));
        let is_router = Arc::<AtomicBool>::default();
        let watcher = Watcher {
            name: place.to_string(),
            seen: Arc::clone(&seen),
            rounds: Arc::clone(&rounds),
            is_router: Arc::clone(&is_router),
        };
        let work = move || watch(&place, interval, &seen, &rounds, &is_router);
        std::thread::Builder::new().name("watcher".into()).spawn(work)?;
        Ok(watcher)
    }

    pub(super) fn state(&self) -> ServerState {
        let (seen, is_router) = (self.seen().clone(), self.is_router.load(Ordering::Relaxed));
        ServerState { name: self.name.clone(), seen, is_router }
    }

    /// Attempts that have ended.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    /// Whether rates are known, or will not be.
    pub(super) fn has_rates(&self) -> bool {
        matches!(*self.seen(), Seen::Figures(_) | Seen::Router(_) | Seen::Unreachable(_))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its answers come, and no time passes between them: the process is stopped behind a cache of its answers, or another
/// program repeats an old one.
const STANDS_STILL: &str = "its uptime stands still: something repeats an old answer of it";

fn watch(
    place: &Place,
    interval: Duration,
    seen: &Mutex<Seen>,
    rounds: &AtomicU64,
    is_router: &AtomicBool,
) -> ! {
    let mut before: Option<MemberReading> = None;
    loop {
        let watch = Stopwatch::start();
        let read = fetch(place).and_then(|report| MemberReading::parse(&report));
        let now = match (&read, &before) {
            (Err(why), _) => Seen::Unreachable(why.clone()),
            (Ok(after), Some(before)) if after.uptime_us() == before.uptime_us() => {
                Seen::Unreachable(STANDS_STILL.to_owned())
            }
            (Ok(after), Some(before)) => figures(before, after).unwrap_or(Seen::Once),
            (Ok(_), None) => Seen::Once,
        };
        if let Ok(reading) = &read {
            is_router.store(matches!(reading, MemberReading::Router(_)), Ordering::Relaxed);
        }
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        rounds.fetch_add(1, Ordering::Release);
        before = read.ok();
        pause(interval.saturating_sub(watch.passed()));
    }
}

/// `None` if there are no rates: it was started anew, or something else has taken its place.
fn figures(before: &MemberReading, after: &MemberReading) -> Option<Seen> {
    use MemberReading::{Router, Server};
    match (before, after) {
        (Server(before), Server(after)) => {
            ServerFigures::between(before, after).map(|figures| Seen::Figures(Box::new(figures)))
        }
        (Router(before), Router(after)) => {
            RouterFigures::between(before, after).map(|figures| Seen::Router(Box::new(figures)))
        }
        _ => None,
    }
}
