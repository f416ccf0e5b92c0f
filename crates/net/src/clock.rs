//! The clock. Everything above this crate is given the time.

use rustix::time::{ClockId, clock_gettime};
use stdx::clock::Now;

/// A clock that shows 0 when it is started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ms: u64,
}

impl Clock {
    /// Starts at 0.
    pub fn start() -> Clock {
        Clock { origin_ms: coarse_ms() }
    }

    /// The time since the start, to within a timer tick of the kernel (1 to 4 ms): reading the coarse clock
    /// costs a few nanoseconds, and nothing here is timed more finely.
    #[inline]
    pub fn now(&self) -> Now {
        Now { ms: coarse_ms().saturating_sub(self.origin_ms) }
    }
}

fn coarse_ms() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Microseconds of the monotonic clock, from an arbitrary origin: for durations that are reported.
pub(crate) fn precise_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
