//! Waiting for what must happen.

use std::time::Duration;

/// Looks, ten milliseconds apart, before a test gives up: a minute.
pub(crate) const LOOKS_MAX: usize = 6000;

/// Waits until it is so.
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
