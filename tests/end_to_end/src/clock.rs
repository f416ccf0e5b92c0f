//! The one place of these tests that reads clocks and waits.
//!
//! The servers under test live in real time, so their clients must too; nothing else here may.

use std::time::{Duration, Instant, SystemTime};

/// How long a client waits for a server that owes it something: long, so that a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that announces itself in no other way.
const GLANCE: Duration = Duration::from_millis(5);

/// Now, for measuring.
#[expect(clippy::disallowed_methods, reason = "the clients of a real server live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clients of a real server live in real time")]
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Lets real time pass, for servers whose seconds are real.
#[expect(clippy::disallowed_methods, reason = "expiry by the second cannot be seen without waiting for it")]
pub fn pass(duration: Duration) {
    std::thread::sleep(duration);
}

/// Lets real time pass until `due`; returns by how much it is too late already.
pub fn pass_until(due: Instant) -> Duration {
    let late = now().saturating_duration_since(due);
    pass(due.saturating_duration_since(now()));
    late
}

/// Looks until `ready` has an answer, or patience ends.
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
