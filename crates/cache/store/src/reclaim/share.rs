//! The share of memory that the small queue may take.
//!
//! It is the policy's, a tenth or so, as long as the main queue is in use. While nothing in the main queue is read, new items
//! may be as valuable: a load that is stored before it is read must not push itself out. The small queue may then grow to
//! 60 % of the memory. When the main queue is read again, victims come from the small queue until it has its share: its items
//! still leave no faster than others arrive, and those that were read meanwhile go on to the main queue.

/// What sampled keys have shown so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueActivity {
    /// New items stored.
    pub(crate) stored: u64,
    /// Gets that found an item in the main queue.
    pub(crate) found_in_main: u64,
}

#[derive(Debug, Default)]
pub(super) struct SmallShare {
    /// At the beginning of the window.
    since: QueueActivity,
    /// Whether something in the main queue was read in the last window.
    is_used: bool,
}

/// Percent of the memory that the small queue may take while the main queue is idle: half of the memory, and what was in the
/// queue before. The rest stays to items that were read, however much is stored that nobody reads.
const IDLE_PERCENT: u8 = 60;
/// Sampled new items of a window. A cache that finds something in its main queue for one in twenty of its new items has found
/// five meanwhile, and takes its main queue for idle in 1 % of the windows. A load must fill less than the share of
/// the small queue in a window: the sample has 1,000 items or more of a full memory.
const WINDOW: u64 = 96;

impl SmallShare {
    /// Whether the main queue is in use: not before a window has shown that.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// The present share in percent, where the policy's is `percent`.
    pub(super) fn percent(&mut self, now: QueueActivity, percent: u8) -> u8 {
        if now.stored - self.since.stored >= WINDOW {
            self.is_used = now.found_in_main != self.since.found_in_main;
            self.since = now;
        }
        if self.is_used { percent } else { percent.max(IDLE_PERCENT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_queue_grows_only_while_nothing_in_the_main_queue_is_read() {
        let mut share = SmallShare::default();
        let mut now = QueueActivity::default();
        let mut after = |stored, found_in_main| {
            now.stored += stored;
            now.found_in_main += found_in_main;
            share.percent(now, 10)
        };
        assert_eq!(after(WINDOW - 1, 1), 60);
        assert_eq!(after(1, 0), 10);
        assert_eq!(after(WINDOW - 1, 0), 10);
        assert_eq!(after(1, 0), 60);
        assert_eq!(after(WINDOW - 1, 1), 60);
        assert_eq!(after(1, 0), 10, "a get found something meanwhile");
        assert_eq!(after(WINDOW, 0), 60);
    }
}
