//! The clock, read in this one place.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec as u64
}
