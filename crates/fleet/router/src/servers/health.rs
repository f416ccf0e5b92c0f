//! Health of a server, shared by all workers: whether requests are sent to it at all.
//!
//! mcrouter's rules. After some timeouts in a row, or one failure to connect, a server is marked unavailable (TKO, for
//! technical knock-out): requests fail at once. One worker then sends probes, at growing intervals with a random part, and
//! only a probe that is answered makes the server available again.

mod guard;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stdx::clock::Now;

use crate::message::outcome::Outcome;
use guard::Admission;
pub(crate) use guard::{GuardLimits, PoolGuard};

/// Limits and times of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Timeouts in a row after which a server is unavailable (`--timeouts-until-tko`).
    pub timeouts_until_unavailable: u32,
    /// Milliseconds until the first probe (`--probe-timeout-initial`).
    pub probe_initial_ms: u32,
    /// The longest time between two probes, in milliseconds (`--probe-timeout-max`).
    pub probe_max_ms: u32,
    /// No server is ever unavailable (`--disable-tko-tracking`).
    pub disabled: bool,
}

impl Default for HealthSettings {
    /// mcrouter's defaults.
    fn default() -> HealthSettings {
        HealthSettings {
            timeouts_until_unavailable: 3,
            probe_initial_ms: 10_000,
            probe_max_ms: 60_000,
            disabled: false,
        }
    }
}

/// The state of one server.
#[derive(Debug, Default)]
pub struct Health {
    /// Failures in a row that count towards the limit.
    failures: AtomicU32,
    unavailable: AtomicBool,
    /// The outcome that made it unavailable.
    reason: AtomicU8,
    /// When some worker last saw large values arrive from it, in microseconds; 0 for never.
    delivered_us: AtomicU64,
    /// Locked only where the server becomes unavailable or available.
    detail: Mutex<HealthDetail>,
}

#[derive(Debug, Default)]
struct HealthDetail {
    /// The guard of its pool, if it has one.
    guard: Option<Arc<PoolGuard>>,
    /// The guard that counts it, while it is unavailable.
    counted: Option<Arc<PoolGuard>>,
    /// Since when it is unavailable.
    since: Now,
}

/// What a failure has changed.
#[derive(Debug)]
pub enum HealthChange {
    /// Nothing.
    None,
    /// The server is unavailable: the caller sends the probes.
    Unavailable,
    /// The server would be unavailable, but the guard of its pool has opened.
    GuardOpened(Arc<PoolGuard>),
}

/// The end of a server's unavailability.
#[derive(Debug)]
pub struct HealthRecovery {
    /// How long it was unavailable.
    pub after_us: u64,
    /// The guard that has closed because of it.
    pub closed: Option<Arc<PoolGuard>>,
}

/// Outcomes that make a server unavailable, by their number in [`Health::reason`].
const REASONS: [Outcome; 4] =
    [Outcome::Timeout, Outcome::ConnectError, Outcome::ConnectTimeout, Outcome::Shutdown];

impl Health {
    /// Why nothing is sent to the server; `None` while it is available.
    #[inline]
    pub fn unavailable(&self) -> Option<Outcome> {
        self.unavailable.load(Relaxed).then(|| REASONS[usize::from(self.reason.load(Relaxed))])
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// A reply has arrived: failures no longer follow each other.
    #[inline]
    pub fn answered(&self) {
        // A load of a shared cache line; it is written only after a failure.
        if self.failures.load(Relaxed) != 0 && !self.unavailable.load(Relaxed) {
            self.failures.store(0, Relaxed);
        }
    }

    /// Large values are arriving. Called for some hundred kilobytes at a time, because workers share the cache line.
    #[inline]
    pub fn delivers(&self, now: Now) {
        self.delivered_us.store(now.us, Relaxed);
    }

    /// Whether large values have arrived within this time: then a request without a reply waits behind them, or for the CPU that
    /// sends them, and says nothing about the server.
    pub fn is_delivering(&self, now: Now, within_us: u64) -> bool {
        let delivered_us = self.delivered_us.load(Relaxed);
        delivered_us > 0 && now.us.saturating_sub(delivered_us) < within_us
    }

    /// A request has failed.
    pub fn failed(&self, outcome: Outcome, settings: &HealthSettings, now: Now) -> HealthChange {
        let Some(reason) = REASONS.iter().position(|reason| *reason == outcome) else {
            return HealthChange::None;
        };
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        let soft = outcome == Outcome::Timeout;
        if settings.disabled || soft && failures < settings.timeouts_until_unavailable {
            return HealthChange::None;
        }
        let mut detail = self.detail();
        if self.unavailable.load(Relaxed) {
            return HealthChange::None;
        }
        if let Some(guard) = detail.guard.clone() {
            match guard.admit() {
                Admission::Counted => detail.counted = Some(guard),
                Admission::Opens => return HealthChange::GuardOpened(guard),
                Admission::IsOpen => return HealthChange::None,
            }
        }
        detail.since = now;
        self.reason.store(reason as u8, Relaxed);
        self.unavailable.store(true, Relaxed);
        HealthChange::Unavailable
    }

    /// A probe was answered, or nobody asks any more. `None` if it was available.
    pub fn recovered(&self, now: Now) -> Option<HealthRecovery> {
        let mut detail = self.detail();
        self.failures.store(0, Relaxed);
        if !self.unavailable.swap(false, Relaxed) {
            return None;
        }
        let closed = detail.counted.take().filter(|guard| guard.release());
        Some(HealthRecovery { after_us: now.us.saturating_sub(detail.since.us), closed })
    }

    /// Puts the server under the guard of its pool, or under none.
    pub(crate) fn set_guard(&self, guard: Option<Arc<PoolGuard>>) {
        let mut detail = self.detail();
        let is_same = match (&detail.guard, &guard) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        if let Some(before) = detail.counted.take() {
            before.release();
        }
        if self.unavailable.load(Relaxed) {
            detail.counted = guard.clone().inspect(|guard| guard.count());
        }
        detail.guard = guard;
    }

    fn detail(&self) -> MutexGuard<'_, HealthDetail> {
        self.detail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The interval between two probes without its random part, in milliseconds: half as long again as the one before. What is random is not in it,
/// as in mcrouter: intervals would grow with it, twice as fast in the end.
pub(crate) fn probe_interval_ms(settings: &HealthSettings, previous_ms: Option<u32>) -> u32 {
    match previous_ms {
        None => settings.probe_initial_ms,
        // One millisecond has no half.
        Some(previous_ms) => previous_ms.saturating_add((previous_ms / 2).max(1)).min(settings.probe_max_ms),
    }
}

/// The time until a probe: 5 to 50 % more than the interval, so that the probes of many routers do not arrive together. `random` is any number.
pub(crate) fn probe_delay_ms(interval_ms: u32, random: u64) -> u64 {
    let interval = u64::from(interval_ms);
    interval + interval / 20 + random % (interval * 9 / 20 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the server becomes unavailable.
    fn fails(health: &Health, outcome: Outcome) -> bool {
        let change = health.failed(outcome, &HealthSettings::default(), Now { us: 5 });
        matches!(change, HealthChange::Unavailable)
    }

    #[test]
    fn three_timeouts_in_a_row_make_a_server_unavailable() {
        let health = Health::default();
        assert!(!fails(&health, Outcome::Timeout));
        assert!(!fails(&health, Outcome::Timeout));
        health.answered();
        assert!(!fails(&health, Outcome::Timeout));
        assert!(!fails(&health, Outcome::Timeout));
        assert_eq!(health.unavailable(), None);
        assert!(fails(&health, Outcome::Timeout), "one worker begins to probe");
        assert!(!fails(&health, Outcome::Timeout), "only one");
        health.answered();
        assert_eq!(health.unavailable(), Some(Outcome::Timeout), "a late reply is no probe");
        let recovery = health.recovered(Now { us: 12 }).expect("it was unavailable");
        assert_eq!((recovery.after_us, health.unavailable(), health.failures()), (7, None, 0));
        assert!(health.recovered(Now { us: 13 }).is_none(), "once");
    }

    #[test]
    fn one_failure_to_connect_is_enough_and_errors_of_a_server_are_not() {
        let health = Health::default();
        assert!(!fails(&health, Outcome::RemoteError));
        assert!(fails(&health, Outcome::ConnectError));
        assert_eq!(health.unavailable(), Some(Outcome::ConnectError));
        let disabled = HealthSettings { disabled: true, ..HealthSettings::default() };
        let change = Health::default().failed(Outcome::ConnectError, &disabled, Now::default());
        assert!(matches!(change, HealthChange::None));
    }

    #[test]
    fn a_guard_keeps_servers_available_and_counts_each_once() {
        let guard = Arc::new(PoolGuard::new("main", GuardLimits { upper: 1, lower: 1 }));
        let servers: [Health; 3] = Default::default();
        servers.iter().for_each(|server| server.set_guard(Some(Arc::clone(&guard))));
        assert!(fails(&servers[0], Outcome::ConnectError));
        let settings = HealthSettings::default();
        let change = servers[1].failed(Outcome::ConnectError, &settings, Now::default());
        assert!(matches!(change, HealthChange::GuardOpened(_)));
        assert!(!fails(&servers[2], Outcome::ConnectError));
        assert_eq!(servers.each_ref().map(|server| server.unavailable().is_some()), [true, false, false]);
        let recovery = servers[0].recovered(Now::default()).expect("it was unavailable");
        assert!(recovery.closed.is_some());
        assert!(fails(&servers[2], Outcome::ConnectError), "the guard is closed again");
        // Out of the pool, it counts no longer; back in it, it does.
        servers[2].set_guard(None);
        assert!(fails(&servers[1], Outcome::ConnectError));
        servers[2].set_guard(Some(Arc::clone(&guard)));
        servers.iter().for_each(|server| drop(server.recovered(Now::default())));
        assert!(fails(&servers[0], Outcome::ConnectError), "none is counted");
    }

    #[test]
    fn probes_come_at_growing_intervals_with_a_random_part() {
        let settings = HealthSettings::default();
        let mut interval = None;
        for expected in [10_000, 15_000, 22_500, 33_750, 50_625, 60_000, 60_000] {
            interval = Some(probe_interval_ms(&settings, interval));
            assert_eq!(interval, Some(expected), "without what is random");
        }
        for random in [0, 1, u64::MAX, 12_345_678] {
            let delay = probe_delay_ms(10_000, random);
            assert!((10_500..=15_000).contains(&delay), "{delay}");
        }
        let shortest = HealthSettings { probe_initial_ms: 1, ..settings };
        let first = probe_interval_ms(&shortest, None);
        assert_eq!((first, probe_interval_ms(&shortest, Some(first))), (1, 2));
    }
}
