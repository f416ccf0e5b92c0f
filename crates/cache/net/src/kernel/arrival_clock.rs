//! Conversion of receive stamps, which are times of the wall clock, to the server's own clock.
//!
//! The wall clock can be set at any time, so a difference of two of its readings may be negative or years. The distance
//! between both clocks changes only when it is set (the kernel lets both run faster or slower alike, adjtimex(2)): a stamp
//! from before a change is discarded.

use stdx::clock::Now;

/// The clocks read one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) before: Now,
    /// Microseconds since 1970.
    pub(crate) wall_us: i64,
    pub(crate) after: Now,
}

/// A change of the distance by less is taken for an inaccurate reading. So a wait can be wrong by as much.
const TOLERANCE_US: i64 = 1_000;

/// The distance between both clocks (wall clock less own clock), as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalClock {
    least_us: i64,
    most_us: i64,
    /// Since when it is known to have been so.
    since: Now,
}

impl ArrivalClock {
    pub(crate) fn new(reading: ClockReading) -> ArrivalClock {
        // The thread may have been interrupted between two reads: the distance is between these.
        let least_us = reading.wall_us.saturating_sub_unsigned(reading.after.us);
        let most_us = reading.wall_us.saturating_sub_unsigned(reading.before.us);
        ArrivalClock { least_us, most_us, since: reading.after }
    }

    /// The time of a stamp; `None` if the wall clock has been set since.
    pub(crate) fn arrival(&mut self, stamp_us: i64, reading: ClockReading) -> Option<Now> {
        let now = ArrivalClock::new(reading);
        let (least_us, most_us) = (self.least_us.max(now.least_us), self.most_us.min(now.most_us));
        match least_us - most_us {
            ..=0 => (self.least_us, self.most_us) = (least_us, most_us),
            1..=TOLERANCE_US => (self.least_us, self.most_us) = (now.least_us, now.most_us),
            _ => {
                *self = now;
                return None;
            }
        }
        if self.most_us - self.least_us > TOLERANCE_US {
            return None;
        }
        let us = u64::try_from(stamp_us.saturating_sub(self.least_us)).ok()?;
        let latest_us = reading.after.us + TOLERANCE_US.unsigned_abs();
        (self.since.us..=latest_us).contains(&us).then(|| Now { us: us.min(reading.after.us) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_US: i64 = 1_700_000_000_000_000;
    const HOUR_US: i64 = 3_600_000_000;

    /// Read at `us` of the own clock, within `width_us`, while the wall clock is ahead by `distance_us`.
    fn read(us: u64, width_us: u64, distance_us: i64) -> ClockReading {
        let wall_us = us as i64 + distance_us;
        ClockReading { before: Now { us }, wall_us, after: Now { us: us + width_us } }
    }

    /// Arrivals at these times of the own clock, each received 50 µs later, with the wall clock's distance then: what the
    /// waits are taken for.
    #[track_caller]
    fn check(arrivals: &[(u64, i64, i64)], expected: &[Option<u64>]) {
        let mut clock = ArrivalClock::new(read(0, 0, NOON_US));
        let waits = arrivals.iter().map(|(at, stamped_with, read_with)| {
            let arrival = clock.arrival(*at as i64 + stamped_with, read(at + 50, 0, *read_with));
            arrival.map(|arrival| at + 50 - arrival.us)
        });
        assert_eq!(waits.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn waits_are_the_own_clocks_while_the_wall_clock_is_left_alone() {
        let steady = (NOON_US, NOON_US);
        check(&[(100, steady.0, steady.1), (5_000_000, steady.0, steady.1)], &[Some(50), Some(50)]);
    }

    #[test]
    fn a_stamp_from_before_the_clock_was_set_is_discarded_and_the_next_one_counts() {
        for step in
            [HOUR_US, -HOUR_US, 1_000_000, -1_000_000, 10 * 365 * 24 * HOUR_US, -NOON_US, 2_000, -2_000]
        {
            let set = NOON_US + step;
            check(
                &[(100, NOON_US, NOON_US), (2_000_000, NOON_US, set), (3_000_000, set, set)],
                &[Some(50), None, Some(50)],
            );
        }
    }

    /// Two rounds with a stamp each; the clock is set between the receives of both, and seen with the first.
    #[test]
    fn a_stamp_that_waited_longer_than_the_change_is_known_is_discarded() {
        let mut clock = ArrivalClock::new(read(0, 0, NOON_US));
        let set = NOON_US + HOUR_US;
        assert_eq!(clock.arrival(1_000_000 + NOON_US, read(2_000_000, 0, set)), None);
        assert_eq!(clock.arrival(1_500_000 + NOON_US, read(2_100_000, 0, set)), None, "it looks an hour old");
        assert_eq!(
            clock.arrival(1_500_000 + set, read(2_200_000, 0, set)),
            None,
            "it came before the change was seen"
        );
        let back = NOON_US;
        assert_eq!(clock.arrival(3_000_000 + set, read(4_000_000, 0, back)), None);
        assert_eq!(clock.arrival(3_500_000 + set, read(4_100_000, 0, back)), None, "it comes in an hour");
    }

    #[test]
    fn an_interrupted_reading_is_no_change_of_the_clock() {
        let mut clock = ArrivalClock::new(read(0, 500_000, NOON_US));
        let mut arrival =
            |at: u64, width_us| clock.arrival(at as i64 + NOON_US, read(at + 100, width_us, NOON_US));
        assert_eq!(arrival(1_000_000, 9_000_000), None, "nobody knows the distance yet");
        assert_eq!(arrival(11_000_000, 0), Some(Now { us: 11_000_000 }));
        assert_eq!(arrival(12_000_000, 9_000_000), Some(Now { us: 12_000_000 }));
        assert_eq!(arrival(22_000_000, 0), Some(Now { us: 22_000_000 }));
    }

    #[test]
    fn stamps_without_sense_are_discarded() {
        let mut clock = ArrivalClock::new(read(0, 0, NOON_US));
        for stamp_us in [0, -1, i64::MIN, i64::MAX, NOON_US - 1, NOON_US + HOUR_US] {
            assert_eq!(clock.arrival(stamp_us, read(1000, 0, NOON_US)), None, "{stamp_us}");
        }
        // Of the same moment, but the clocks are not read at once.
        assert_eq!(clock.arrival(NOON_US + 1_010, read(1000, 0, NOON_US)), Some(Now { us: 1000 }));
    }
}
