//! Health of a server, shared by all workers: whether requests are sent to it at all.
//!
//! mcrouter's rules. After some timeouts in a row, or one failure to connect, a server is marked unavailable (TKO, for
//! technical knock-out): requests fail at once. One worker then sends probes, at growing intervals with a random part, and
//! only a probe that is answered makes the server available again.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::outcome::Outcome;

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

    /// A request has failed. Whether the server becomes unavailable by it: then the caller sends the probes.
    pub fn failed(&self, outcome: Outcome, settings: &HealthSettings) -> bool {
        let Some(reason) = REASONS.iter().position(|reason| *reason == outcome) else { return false };
        let failures = self.failures.fetch_add(1, Relaxed) + 1;
        let soft = outcome == Outcome::Timeout;
        if settings.disabled || soft && failures < settings.timeouts_until_unavailable {
            return false;
        }
        if self.unavailable.swap(true, Relaxed) {
            return false;
        }
        self.reason.store(reason as u8, Relaxed);
        true
    }

    /// A probe was answered.
    pub fn recovered(&self) {
        self.failures.store(0, Relaxed);
        self.unavailable.store(false, Relaxed);
    }
}

/// Milliseconds from one probe to the next. `random` is any number.
pub(crate) fn probe_interval_ms(settings: &HealthSettings, previous_ms: Option<u32>, random: u64) -> u32 {
    let base = match previous_ms {
        None => settings.probe_initial_ms,
        // One and a half times the last one.
        Some(previous_ms) => previous_ms.saturating_add(previous_ms / 2).min(settings.probe_max_ms),
    };
    // 5 to 50 % more, so that the probes of many routers do not arrive together.
    base + base / 20 + (random % (u64::from(base) * 9 / 20 + 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_timeouts_in_a_row_make_a_server_unavailable() {
        let (health, settings) = (Health::default(), HealthSettings::default());
        assert!(!health.failed(Outcome::Timeout, &settings));
        assert!(!health.failed(Outcome::Timeout, &settings));
        health.answered();
        assert!(!health.failed(Outcome::Timeout, &settings));
        assert!(!health.failed(Outcome::Timeout, &settings));
        assert_eq!(health.unavailable(), None);
        assert!(health.failed(Outcome::Timeout, &settings), "one worker begins to probe");
        assert!(!health.failed(Outcome::Timeout, &settings), "only one");
        health.answered();
        assert_eq!(health.unavailable(), Some(Outcome::Timeout), "a late reply is no probe");
        health.recovered();
        assert_eq!((health.unavailable(), health.failures()), (None, 0));
    }

    #[test]
    fn one_failure_to_connect_is_enough_and_errors_of_a_server_are_not() {
        let (health, settings) = (Health::default(), HealthSettings::default());
        assert!(!health.failed(Outcome::RemoteError, &settings));
        assert!(health.failed(Outcome::ConnectError, &settings));
        assert_eq!(health.unavailable(), Some(Outcome::ConnectError));
        let disabled = HealthSettings { disabled: true, ..settings };
        assert!(!Health::default().failed(Outcome::ConnectError, &disabled));
    }

    #[test]
    fn probes_come_at_growing_intervals_with_a_random_part() {
        let settings = HealthSettings::default();
        for random in [0, 1, u64::MAX, 12_345_678] {
            let first = probe_interval_ms(&settings, None, random);
            assert!((10_500..=15_000).contains(&first), "{first}");
            let later = probe_interval_ms(&settings, Some(100_000), random);
            assert!((63_000..=90_000).contains(&later), "{later}");
            assert!(probe_interval_ms(&settings, Some(10_000), random) >= 15_750);
        }
    }
}
