//! Free address ranges of the mapping of large values.
//!
//! Ranges have any length. The smallest free range that is long enough is taken, and a range
//! that is given back is merged with its free neighbours. So addresses are reusable for values of any size,
//! even where there are few (`ulimit -v`, `vm.overcommit_memory=2`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The free ranges of a mapping.
#[derive(Debug)]
pub(crate) struct FreeRanges {
    /// Lengths by start; no two ranges touch.
    by_start: BTreeMap<usize, usize>,
    /// The same ranges as length and start.
    by_len: BTreeSet<(usize, usize)>,
}

impl FreeRanges {
    /// All `len` bytes are free.
    pub(crate) fn new(len: usize) -> FreeRanges {
        let mut ranges = FreeRanges { by_start: BTreeMap::new(), by_len: BTreeSet::new() };
        ranges.insert(0, len);
        ranges
    }

    /// The start of the smallest free range of at least `len` bytes.
    pub(crate) fn smallest(&self, len: usize) -> Option<usize> {
        self.by_len.range((len, 0)..).next().map(|(_, start)| *start)
    }

    /// Whether all of this range is free.
    pub(crate) fn contains(&self, range: &Range<usize>) -> bool {
        let before = self.by_start.range(..=range.start).next_back();
        before.is_some_and(|(start, len)| range.end <= start + len)
    }

    /// Takes exactly this range. False if some of it is not free.
    pub(crate) fn take_at(&mut self, start: usize, len: usize) -> bool {
        let Some((&free, &free_len)) = self.by_start.range(..=start).next_back() else { return false };
        let Some(end) = start.checked_add(len).filter(|end| *end <= free + free_len) else { return false };
        self.remove(free, free_len);
        if free < start {
            self.insert(free, start - free);
        }
        if end < free + free_len {
            self.insert(end, free + free_len - end);
        }
        true
    }

    /// Gives a range back.
    pub(crate) fn give_back(&mut self, mut start: usize, mut len: usize) {
        if let Some((&before, &before_len)) = self.by_start.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before, before_len);
            (start, len) = (before, before_len + len);
        }
        if let Some(&after_len) = self.by_start.get(&(start + len)) {
            self.remove(start + len, after_len);
            len += after_len;
        }
        self.insert(start, len);
    }

    fn insert(&mut self, start: usize, len: usize) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: usize, len: usize) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    const PAGE: usize = 4096;

    fn take(ranges: &mut FreeRanges, len: usize) -> Option<usize> {
        let start = ranges.smallest(len)?;
        assert!(ranges.contains(&(start..start + len)) && ranges.take_at(start, len));
        assert!(!ranges.contains(&(start..start + 1)));
        Some(start)
    }

    #[test]
    fn addresses_are_reusable_for_any_size() {
        let mut ranges = FreeRanges::new(64 * PAGE);
        let small: Vec<usize> = (0..16).map(|_| take(&mut ranges, 4 * PAGE).unwrap()).collect();
        assert_eq!(take(&mut ranges, PAGE), None);
        small.iter().for_each(|start| ranges.give_back(*start, 4 * PAGE));
        assert_eq!(take(&mut ranges, 63 * PAGE), Some(0));
        assert_eq!(take(&mut ranges, PAGE), Some(63 * PAGE));
    }

    #[test]
    fn a_given_range_is_taken_once() {
        let mut ranges = FreeRanges::new(10 * PAGE);
        assert!(ranges.take_at(4 * PAGE, 2 * PAGE));
        for (start, len) in [(4, 1), (5, 1), (3, 2), (5, 2), (0, 10), (9, 2), (10, 1)] {
            assert!(!ranges.take_at(start * PAGE, len * PAGE), "{start} {len}");
        }
        assert!(ranges.take_at(0, 4 * PAGE) && ranges.take_at(6 * PAGE, 4 * PAGE));
        assert!(ranges.by_start.is_empty() && ranges.by_len.is_empty());
        assert!(!ranges.take_at(usize::MAX - PAGE, 2 * PAGE));
    }

    #[test]
    fn ranges_never_overlap_and_merge_again() {
        let mut ranges = FreeRanges::new(1000 * PAGE);
        let mut prng = Prng::new(1);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for _ in 0..20_000 {
            let len = (1 + prng.below(40) as usize) * PAGE;
            if prng.below(2) == 0
                && let Some(start) = take(&mut ranges, len)
            {
                assert!(
                    taken
                        .iter()
                        .all(|(other, other_len)| start + len <= *other || other + other_len <= start)
                );
                taken.push((start, len));
            } else if !taken.is_empty() {
                let (start, len) = taken.swap_remove(prng.below(taken.len() as u64) as usize);
                ranges.give_back(start, len);
            }
            let in_use: usize = taken.iter().map(|(_, len)| len).sum();
            let free: usize = ranges.by_start.values().sum();
            assert_eq!((in_use + free, ranges.by_len.len()), (1000 * PAGE, ranges.by_start.len()));
        }
        taken.into_iter().for_each(|(start, len)| ranges.give_back(start, len));
        assert_eq!(ranges.by_start, BTreeMap::from([(0, 1000 * PAGE)]));
    }
}
