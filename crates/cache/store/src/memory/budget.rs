//! The memory limit, and how much of it is charged.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

use crate::sync::pause;

/// The account of resident memory: charged before memory is touched, given back after it is released.
///
/// A limit below the charged amount takes effect step by step, as memory is given back. Until then the
/// charged amount cannot grow, and no request has to wait until the whole difference is reclaimed.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    /// The limit, or the amount that was charged when the limit was lowered or when
    /// [`Budget::lower_effective`] was last called.
    effective: AtomicU64,
    charged: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Budget {
        Budget { limit: AtomicU64::new(limit), effective: AtomicU64::new(limit), charged: AtomicU64::new(0) }
    }

    /// Charges `bytes` if they are within the limit.
    #[must_use]
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        self.charge_keeping(bytes, 0)
    }

    /// Charges `bytes` if `keep` more bytes would then still be within the limit.
    #[must_use]
    pub(crate) fn charge_keeping(&self, bytes: u64, keep: u64) -> bool {
        pause();
        let most = self.effective.load(Relaxed).saturating_sub(keep);
        let within = |charged: u64| charged.checked_add(bytes).filter(|sum| *sum <= most);
        self.charged.fetch_update(AcqRel, Relaxed, within).is_ok()
    }

    /// Charges what memory that another process has filled takes, whatever the limit is.
    pub(crate) fn add(&self, bytes: u64) {
        self.charged.fetch_add(bytes, AcqRel);
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
        self.lower_effective(0);
    }

    /// Lowers the effective limit to what is charged now, but not below `least`: memory that was given back
    /// since the limit was lowered cannot be charged again.
    pub(crate) fn lower_effective(&self, least: u64) {
        self.effective.store(self.limit().max(self.charged()).max(least), Relaxed);
    }

    /// Replaces what is charged: by what is in use in memory that another process has filled.
    pub(crate) fn adopt(&self, charged: u64) {
        self.charged.store(charged, Relaxed);
        self.lower_effective(0);
    }

    /// Whether the effective limit is still above the limit.
    pub(crate) fn is_lowering(&self) -> bool {
        self.effective.load(Relaxed) > self.limit()
    }

    /// Bytes that can still be charged.
    pub(crate) fn left(&self) -> u64 {
        self.effective.load(Relaxed).saturating_sub(self.charged())
    }

    /// Bytes charged beyond a limit that has been lowered.
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
        assert!(budget.charge(5), "memory that was given back can be charged");
        budget.lower_effective(0);
        assert!(!budget.charge(1));
        budget.give_back(75);
        budget.lower_effective(0);
        assert_eq!((budget.left(), budget.excess(), budget.is_lowering()), (50, 0, false));
        budget.lower_effective(60);
        assert_eq!((budget.left(), budget.is_lowering()), (60, true));
    }
}
