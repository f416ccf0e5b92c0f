//! Timers of destinations: when to look at which one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stdx::clock::Now;

/// Times at which to look at destinations, by their places. Whoever adds one sees to it that a destination has at most one.
#[derive(Default)]
pub(super) struct PlaceTimers(BinaryHeap<Reverse<(Now, u32)>>);

impl PlaceTimers {
    #[inline]
    pub(super) fn add(&mut self, place: u32, at: Now) {
        self.0.push(Reverse((at, place)));
    }

    /// The earliest time.
    #[inline]
    pub(super) fn next(&self) -> Option<Now> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// The destination whose time has come first. It stays until it is removed.
    pub(super) fn due(&self, now: Now) -> Option<u32> {
        self.0.peek().filter(|Reverse((at, _))| *at <= now).map(|Reverse((_, place))| *place)
    }

    /// Removes the earliest time.
    pub(super) fn remove_first(&mut self) {
        self.0.pop();
    }

    /// Removes a destination that is forgotten.
    pub(super) fn forget(&mut self, place: u32) {
        self.0.retain(|Reverse((_, other))| *other != place);
    }
}

/// The earliest of some times; `None` for never.
#[inline]
pub(crate) fn earliest<const N: usize>(times: [Option<Now>; N]) -> Option<Now> {
    let us = times.iter().fold(u64::MAX, |first, at| at.map_or(first, |at| at.us.min(first)));
    (us < u64::MAX).then_some(Now { us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_due_in_the_order_of_their_times() {
        let mut timers = PlaceTimers::default();
        for (place, ms) in [(1, 30), (2, 10), (3, 20), (4, 20)] {
            timers.add(place, Now::at_ms(ms));
        }
        timers.forget(3);
        assert_eq!((timers.next(), timers.due(Now::at_ms(9))), (Some(Now::at_ms(10)), None));
        let mut due = Vec::new();
        while let Some(place) = timers.due(Now::at_ms(20)) {
            timers.remove_first();
            due.push(place);
        }
        assert_eq!((due, timers.next()), (vec![2, 4], Some(Now::at_ms(30))));
    }

    #[test]
    fn never_is_later_than_any_time() {
        assert_eq!(earliest([None, Some(Now::at_ms(2)), Some(Now::at_ms(1))]), Some(Now::at_ms(1)));
        assert_eq!(earliest::<2>([None, None]), None);
    }
}
