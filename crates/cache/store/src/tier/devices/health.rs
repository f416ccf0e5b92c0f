//! Health of devices: one that fails or hangs is left alone for some seconds.
//!
//! Without that, each request for an item on a device that hangs would wait for as long as a read may take. Its items stay: what
//! is read of them later still has to pass its checks.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// So many failures
const FAILURES_MAX: u32 = 16;
/// within so many seconds turn a device off
const WINDOW_S: u32 = 10;
/// for so many.
const OFF_S: u32 = 10;

/// Receives the number of a device that is turned off, and the second. It is called by a thread that has other work.
pub type DeviceOff = Box<dyn Fn(usize, u32) + Send + Sync>;

/// Who is told of devices that are turned off.
#[derive(Default)]
pub(crate) struct OffBell(OnceLock<DeviceOff>);

impl OffBell {
    /// Only the first one is told.
    pub(crate) fn connect(&self, tell: DeviceOff) {
        let _ = self.0.set(tell);
    }

    pub(crate) fn ring(&self, device: usize, second: u32) {
        if let Some(tell) = self.0.get() {
            tell(device, second);
        }
    }
}

impl fmt::Debug for OffBell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffBell").finish_non_exhaustive()
    }
}

/// The health of one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceHealth {
    /// When the window began (the upper half), and failures in it.
    window: AtomicU64,
    /// The second from which it is used again.
    off_until: AtomicU32,
}

impl DeviceHealth {
    /// Takes note of a failure. Returns whether the device is turned off by it.
    pub(crate) fn note_failure(&self, second: u32) -> bool {
        let count = |window: u64| {
            let (began, failures) = ((window >> 32) as u32, window as u32);
            let is_over = failures == 0 || second.saturating_sub(began) >= WINDOW_S;
            Some(if is_over { u64::from(second) << 32 | 1 } else { window + 1 })
        };
        let before = self.window.fetch_update(AcqRel, Acquire, count);
        let failures = before.ok().and_then(count).map_or(0, |window| window as u32);
        let turns_off = failures == FAILURES_MAX;
        if turns_off {
            self.off_until.store(second + OFF_S, Relaxed);
            self.window.store(0, Relaxed);
        }
        turns_off
    }

    /// Whether it is left alone at this second.
    pub(crate) fn is_off(&self, second: u32) -> bool {
        second < self.off_until.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_off_after_many_failures_within_seconds_and_then_tried_again() {
        let health = DeviceHealth::default();
        assert!(!(0..15).any(|_| health.note_failure(100)));
        assert!(!health.is_off(100));
        assert!(health.note_failure(109), "the sixteenth");
        assert!(health.is_off(109) && health.is_off(118) && !health.is_off(119));
        assert!(!(0..15).any(|_| health.note_failure(119)));
        assert!(health.note_failure(119));
    }

    #[test]
    fn rare_failures_turn_nothing_off() {
        let health = DeviceHealth::default();
        assert!(!(0..100).any(|number| health.note_failure(number)), "one in a second");
        assert!(!health.is_off(100));
    }
}
