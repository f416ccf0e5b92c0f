//! Time, which only a program that measures may read.

use std::time::{Duration, Instant};

/// This moment.
pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is where measurements take their time from")]
    Instant::now()
}

/// Does nothing for so long.
pub(crate) fn pause(duration: Duration) {
    #[expect(clippy::disallowed_methods, reason = "load at a fixed rate is mostly waiting")]
    std::thread::sleep(duration);
}

/// Does nothing until then; says by how much it is too late already.
pub(crate) fn pause_until(due: Instant) -> Duration {
    let now = now();
    match due.checked_duration_since(now) {
        Some(early) => {
            pause(early);
            Duration::ZERO
        }
        None => now - due,
    }
}
