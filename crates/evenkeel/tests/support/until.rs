//! Waiting for an event.

use std::time::Duration;

/// Checks, ten milliseconds apart, before a test fails: a minute.
pub(crate) const LOOKS_MAX: usize = 6000;

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("waited for {what} in vain");
}
