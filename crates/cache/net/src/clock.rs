//! The clock. Everything above this crate gets the time as an argument.

use rustix::time::{ClockId, clock_gettime};
use stdx::clock::Now;

use crate::kernel::arrival_clock::ClockReading;

/// A clock that counts from the moment when it was started, or from that of an earlier process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Before 0, that is, near 2^64, for a clock that has gone for longer than the machine.
    origin_us: u64,
}

impl Clock {
    /// Starts at 0.
    pub fn start() -> Clock {
        Clock::resume(Now::default())
    }

    /// Shows `now` at this moment, and goes on from there.
    pub fn resume(now: Now) -> Clock {
        Clock { origin_us: precise_us().wrapping_sub(now.us) }
    }

    /// A clock of another process of this machine.
    pub fn of_origin(origin_us: u64) -> Clock {
        Clock { origin_us }
    }

    /// What makes it this clock, for another process of this machine: the reading of the kernel's monotonic clock when it showed 0.
    /// It wraps around.
    pub fn origin_us(&self) -> u64 {
        self.origin_us
    }

    /// The time since the start. A worker reads it once in a round (about 30 ns).
    #[inline]
    pub fn now(&self) -> Now {
        Now { us: precise_us().wrapping_sub(self.origin_us) }
    }

    /// This clock and the wall clock.
    pub(crate) fn read_both(&self) -> ClockReading {
        ClockReading { before: self.now(), wall_us: wall_us(), after: self.now() }
    }
}

/// Microseconds of the wall clock since 1970. It can be set at any time.
pub(crate) fn wall_us() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Microseconds of the monotonic clock, from an arbitrary origin.
pub(crate) fn precise_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
