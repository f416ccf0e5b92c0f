//! The memory limit, and how much of it is taken.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

use crate::sync::pause;

/// Everything that is resident is charged here before it is touched, and given back after it is gone.
///
/// A limit below what is charged comes into force step by step, as memory is given back: until then nothing more can
/// be had than there was, and nobody has to wait for the whole difference.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    /// The limit, or what was charged when it was lowered or [tightened](Budget::tighten) last.
    in_force: AtomicU64,
    charged: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { limit: AtomicU64::new(limit), in_force: AtomicU64::new(limit), charged: AtomicU64::new(0) }
    }

    /// Takes `bytes` if they are within the limit.
    #[must_use]
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        self.charge_keeping(bytes, 0)
    }

    /// Takes `bytes` if after that `keep` more would still be within the limit.
    #[must_use]
    pub(crate) fn charge_keeping(&self, bytes: u64, keep: u64) -> bool {
        pause();
        let most = self.in_force.load(Relaxed).saturating_sub(keep);
        let within = |charged: u64| charged.checked_add(bytes).filter(|sum| *sum <= most);
        self.charged.fetch_update(AcqRel, Relaxed, within).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let before = self.charged.fetch_sub(bytes, AcqRel);
        debug_assert!(before >= bytes, "more given back than was taken");
    }

    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
        self.tighten(0);
    }

    /// What has been given back since the limit was lowered cannot be taken again, except for `least` bytes in all.
    pub(crate) fn tighten(&self, least: u64) {
        self.in_force.store(self.limit().max(self.charged()).max(least), Relaxed);
    }

    /// Whether a lower limit is not in force yet.
    pub(crate) fn is_loose(&self) -> bool {
        self.in_force.load(Relaxed) > self.limit()
    }

    /// Bytes that can still be taken.
    pub(crate) fn left(&self) -> u64 {
        self.in_force.load(Relaxed).saturating_sub(self.charged())
    }

    /// Bytes taken beyond a limit that has been lowered.
    pub(crate) fn excess(&self) -> u64 {
        self.charged().saturating_sub(self.limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_limit() {
        let budget = Budget::new(100);
        assert!(budget.charge(60));
        assert!(!budget.charge(41));
        assert!(budget.charge(40));
        budget.give_back(60);
        assert_eq!((budget.charged(), budget.left(), budget.excess()), (40, 60, 0));
        budget.set_limit(30);
        assert_eq!((budget.left(), budget.excess()), (0, 10));
        assert!(!budget.charge(u64::MAX));
    }

    #[test]
    fn a_lower_limit_comes_into_force_as_memory_is_given_back() {
        let budget = Budget::new(100);
        assert!(budget.charge(90));
        budget.set_limit(50);
        assert!(!budget.charge(1), "nothing beyond what there was");
        budget.give_back(20);
        assert!(budget.charge(5), "others go on with what was given back");
        budget.tighten(0);
        assert!(!budget.charge(1));
        budget.give_back(75);
        budget.tighten(0);
        assert_eq!((budget.left(), budget.excess(), budget.is_loose()), (50, 0, false));
        budget.tighten(60);
        assert_eq!((budget.left(), budget.is_loose()), (60, true));
    }
}
