//! A limit on the items on flash, from the moment on when their index has too much of the memory.
//!
//! From then on as many items come to flash as leave it, so that what is there does not grow old. An index page splits when it is
//! full, and two pages become one only when both are nearly empty: items that come and go let an index grow for a while although their
//! number stays the same. So the limit is lowered with each percent that it grows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The part of what the index and the write buffers may have at the most, in percent, from which on there is a limit.
const PERCENT_MAX: u64 = 90;
/// With so little the limit is given up.
const PERCENT_LOW: u64 = 87;
/// With so much segments are emptied whatever the limit is.
const PERCENT_CRITICAL: u64 = 95;
/// One part in so many is taken from the limit with each percent.
const STEP: u64 = 32;

#[derive(Debug)]
pub(super) struct IndexLimit {
    objects_max: AtomicU64,
    /// The highest share since there is a limit; 0: there is none.
    percent: AtomicU64,
    /// The share at present.
    percent_now: AtomicU64,
}

impl Default for IndexLimit {
    fn default() -> IndexLimit {
        IndexLimit {
            objects_max: AtomicU64::new(u64::MAX),
            percent: AtomicU64::new(0),
            percent_now: AtomicU64::new(0),
        }
    }
}

impl IndexLimit {
    /// Takes note of the share at present, and of the number of items on flash.
    pub(super) fn note(&self, percent: u64, objects: u64) {
        self.percent_now.store(percent, Relaxed);
        let highest = self.percent.load(Relaxed);
        if highest == 0 && percent < PERCENT_MAX || percent == highest {
            return;
        }
        if percent < PERCENT_LOW {
            self.percent.store(0, Relaxed);
            self.objects_max.store(u64::MAX, Relaxed);
        } else if percent > highest && self.percent.fetch_max(percent, Relaxed) < percent {
            // Of several threads that see it, one lowers the limit.
            let most = self.objects_max.load(Relaxed).min(objects);
            self.objects_max.store(most - most / STEP, Relaxed);
        }
    }

    /// Whether one more item may come.
    pub(super) fn admits(&self, objects: u64) -> bool {
        objects < self.objects_max.load(Relaxed)
    }

    /// Whether a segment of so many items is to be emptied, so that others can come.
    pub(super) fn wants_room(&self, objects: u64, per_segment: u64) -> bool {
        let is_near = objects.saturating_add(per_segment) >= self.objects_max.load(Relaxed);
        objects > 0 && (is_near || self.percent_now.load(Relaxed) >= PERCENT_CRITICAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_limit_until_the_index_has_its_share() {
        let limit = IndexLimit::default();
        limit.note(89, 1000);
        assert!(limit.admits(u64::MAX - 1) && !limit.wants_room(1000, 100));
    }

    #[test]
    fn from_then_on_items_come_as_others_leave() {
        let limit = IndexLimit::default();
        limit.note(90, 3200);
        assert!(limit.admits(3099) && !limit.admits(3100));
        assert!(limit.wants_room(3000, 100) && !limit.wants_room(2999, 100));
        limit.note(89, 3000);
        assert!(!limit.admits(3100), "as long as the index has not shrunk by more");
        limit.note(86, 3000);
        assert!(limit.admits(3100));
    }

    #[test]
    fn the_limit_sinks_while_the_index_grows_nevertheless() {
        let limit = IndexLimit::default();
        limit.note(90, 3200);
        limit.note(90, 3200);
        limit.note(91, 3100);
        assert!(limit.admits(3003) && !limit.admits(3004));
        assert!(!limit.wants_room(10, 100));
        limit.note(95, 3004);
        assert!(
            limit.wants_room(10, 100),
            "whatever the number, that of items in memory must not sink to nothing"
        );
        assert!(!limit.wants_room(0, 100));
        limit.note(94, 2800);
        assert!(!limit.wants_room(10, 100));
    }
}
