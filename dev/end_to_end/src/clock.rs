//! Clocks and waits: the only module of these tests that uses them.
//!
//! The servers under test use real time, so their clients must, too; nothing else here may.

use std::time::{Duration, Instant, SystemTime};

/// How long a client waits for a server: long, so that a test does not fail on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two checks of a condition without an event.
const GLANCE: Duration = Duration::from_millis(5);

/// The present moment, for measurements.
#[expect(clippy::disallowed_methods, reason = "the clients of a real server use real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clients of a real server use real time")]
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Sleeps, for servers that use real time.
#[expect(clippy::disallowed_methods, reason = "expiry by the second cannot be seen without waiting for it")]
pub fn pass(duration: Duration) {
    std::thread::sleep(duration);
}

/// Sleeps until `due`; returns by how much it is late already.
pub fn pass_until(due: Instant) -> Duration {
    let late = now().saturating_duration_since(due);
    pass(due.saturating_duration_since(now()));
    late
}

/// Repeats `ready` until it has an answer, or the time is over.
pub fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(answer) = ready() {
            return Some(answer);
        }
        if now() >= deadline {
            return None;
        }
        pass(GLANCE);
    }
}
