//! Guards of pools (`tko_tracker`): a limit on how many servers of a pool may be unavailable at a time.
//!
//! mcrouter's rule. If one more than the limit would become unavailable, the fault is probably not the servers': from then on
//! no further one is marked (the guard is open), until fewer than a second limit are left. Those that are marked stay so.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// The most servers that are unavailable.
    pub upper: u32,
    /// With fewer than these the guard closes again.
    pub lower: u32,
}

/// The guard of a pool, shared by all workers.
#[derive(Debug)]
pub struct PoolGuard {
    /// The name of the pool.
    pub(crate) pool: Box<str>,
    state: Mutex<GuardState>,
}

#[derive(Debug)]
struct GuardState {
    limits: GuardLimits,
    unavailable: u32,
    is_open: bool,
}

/// A guard's answer to a server that is about to be unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is, and counted.
    Counted,
    /// It is not; the guard has opened because of it.
    Opens,
    /// It is not: the guard is open.
    IsOpen,
}

impl PoolGuard {
    pub(crate) fn new(pool: &str, limits: GuardLimits) -> PoolGuard {
        let state = Mutex::new(GuardState { limits, unavailable: 0, is_open: false });
        PoolGuard { pool: pool.into(), state }
    }

    /// Locked only where a server fails or recovers.
    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets other limits. What was counted stays.
    pub(crate) fn set_limits(&self, limits: GuardLimits) {
        self.state().limits = limits;
    }

    /// A server has failed.
    pub(super) fn admit(&self) -> Admission {
        let mut state = self.state();
        if state.is_open {
            return Admission::IsOpen;
        }
        if state.unavailable >= state.limits.upper {
            state.is_open = true;
            return Admission::Opens;
        }
        state.unavailable += 1;
        Admission::Counted
    }

    /// Counts a server that was unavailable before it belonged to this pool.
    pub(super) fn count(&self) {
        self.state().unavailable += 1;
    }

    /// A server that was counted is available, or gone. Whether the guard has closed.
    pub(super) fn release(&self) -> bool {
        let mut state = self.state();
        state.unavailable -= 1;
        let closes = state.is_open && state.unavailable < state.limits.lower;
        state.is_open &= !closes;
        closes
    }

    /// The most servers that are unavailable.
    pub(crate) fn upper(&self) -> u32 {
        self.state().limits.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_opens_beyond_its_upper_limit_and_closes_below_the_lower() {
        let guard = PoolGuard::new("main", GuardLimits { upper: 3, lower: 2 });
        assert_eq!([(); 3].map(|()| guard.admit()), [Admission::Counted; 3]);
        assert_eq!([guard.admit(), guard.admit()], [Admission::Opens, Admission::IsOpen]);
        assert!(!guard.release(), "two are left, which is not below the limit");
        assert_eq!(guard.admit(), Admission::IsOpen);
        assert!(guard.release());
        assert_eq!(guard.admit(), Admission::Counted);
    }

    #[test]
    fn other_limits_hold_from_the_next_failure_on() {
        let guard = PoolGuard::new("main", GuardLimits { upper: 1, lower: 1 });
        guard.admit();
        guard.set_limits(GuardLimits { upper: 2, lower: 1 });
        assert_eq!([guard.admit(), guard.admit()], [Admission::Counted, Admission::Opens]);
        guard.set_limits(GuardLimits { upper: 9, lower: 9 });
        assert!(guard.release(), "one is left, and that is below nine");
    }
}
