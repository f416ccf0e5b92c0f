//! Requests by second of the window.
//!
//! A request of an open loop belongs to the second in which it was due, whenever its reply comes: what a server that
//! stands still leaves waiting is in the seconds that it stood still, also if that was at the end of the window. A
//! request of a closed loop belongs to the second in which it was done. A worker counts into [`Slots`] and tells of a
//! second when all of its requests have ended; [`Seconds`] combines what several workers, or several machines, tell.

use crate::measure::failures::{FailureKind, Failures};
use crate::measure::histogram::histogram;
use crate::measure::latency::Latency;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// The requests of one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecondCounts {
    /// Of those that were answered; `None`: none was.
    pub(crate) latency_ns: Option<Histogram<u64>>,
    /// If a follower shows it, and the loop is open.
    pub(crate) slip_ns: Option<Histogram<u64>>,
    pub(crate) failures: Failures,
}

impl SecondCounts {
    fn add(&mut self, other: SecondCounts) {
        add(&mut self.latency_ns, other.latency_ns);
        add(&mut self.slip_ns, other.slip_ns);
        self.failures.add_all(&other.failures);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.latency_ns.is_none() && self.failures == Failures::default()
    }
}

fn add(sum: &mut Option<Histogram<u64>>, other: Option<Histogram<u64>>) {
    match (sum, other) {
        (Some(sum), Some(other)) => sum.add(other).expect("histograms of one shape"),
        (sum @ None, other) => *sum = other,
        (Some(_), None) => {}
    }
}

/// The figures of a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SecondStats {
    /// Seconds since the window opened.
    pub(crate) second: u64,
    /// `None`: none was answered.
    pub(crate) latency: Option<Latency>,
    /// For an open loop, if a follower shows it.
    pub(crate) slip: Option<Latency>,
    pub(crate) answered: u64,
    pub(crate) failures: Failures,
}

/// A second that all threads, or all agents, have told of.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) interval: SecondStats,
    pub(crate) counts: SecondCounts,
}

impl Whole {
    fn of(second: u64, counts: SecondCounts) -> Whole {
        let interval = SecondStats {
            second,
            latency: counts.latency_ns.as_ref().and_then(Latency::of),
            slip: counts.slip_ns.as_ref().and_then(Latency::of),
            answered: counts.latency_ns.as_ref().map_or(0, Histogram::len),
            failures: counts.failures,
        };
        Whole { interval, counts }
    }
}

/// One worker's seconds that it has not told of yet.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    open_ns: u64,
    /// The last second of the window: what belongs to a later one is counted in it.
    last: u64,
    /// The second of the first slot; what belongs to an earlier one is counted in it.
    first: u64,
    slots: VecDeque<SecondCounts>,
    /// The slot that counts now, and the times that belong to it.
    current: usize,
    current_ns: Range<u64>,
    with_slip: bool,
}

/// Before the window is known, everything is in one second.
impl Default for Slots {
    fn default() -> Slots {
        Slots::new(0..u64::MAX, false)
    }
}

impl Slots {
    pub(crate) fn new(window_ns: Range<u64>, with_slip: bool) -> Slots {
        let last = match window_ns.end {
            u64::MAX => u64::MAX,
            end_ns => (end_ns - window_ns.start).div_ceil(SECOND_NS).max(1) - 1,
        };
        let slots = VecDeque::from([SecondCounts::default()]);
        let mut slots = Slots {
            open_ns: window_ns.start,
            last,
            first: 0,
            slots,
            current: 0,
            current_ns: 0..0,
            with_slip,
        };
        slots.turn_to(window_ns.start);
        slots
    }

    /// Whether this time belongs to the slot that counts now.
    #[inline]
    pub(crate) fn is_current(&self, at_ns: u64) -> bool {
        self.current_ns.contains(&at_ns)
    }

    /// From now on the slot of this time counts.
    pub(crate) fn turn_to(&mut self, at_ns: u64) {
        let second = self.second_of(at_ns).min(self.last).max(self.first);
        self.current = (second - self.first) as usize;
        while self.slots.len() <= self.current {
            self.slots.push_back(SecondCounts::default());
        }
        let start_ns = |second: u64| self.open_ns.saturating_add(second.saturating_mul(SECOND_NS));
        self.current_ns = Range {
            start: if self.current == 0 { 0 } else { start_ns(second) },
            end: if second >= self.last { u64::MAX } else { start_ns(second + 1) },
        };
    }

    /// The number of the second that a time is in.
    pub(crate) fn second_of(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.open_ns) / SECOND_NS
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The number of the second after the last one with anything in it.
    pub(crate) fn used(&self) -> u64 {
        let used = self.slots.iter().rposition(|counts| !counts.is_empty());
        self.first + used.map_or(0, |at| at as u64 + 1)
    }

    /// When the first second that is not told of yet ends.
    pub(crate) fn first_ends_ns(&self) -> u64 {
        self.open_ns.saturating_add((self.first + 1).saturating_mul(SECOND_NS))
    }

    /// The histogram of the slot that counts now.
    #[inline]
    pub(crate) fn latency_ns(&mut self) -> &mut Histogram<u64> {
        self.slots[self.current].latency_ns.get_or_insert_with(histogram)
    }

    #[inline]
    pub(crate) fn slipped(&mut self, slip_ns: u64) {
        if self.with_slip {
            let slip = self.slots[self.current].slip_ns.get_or_insert_with(histogram);
            slip.saturating_record(slip_ns);
        }
    }

    pub(crate) fn fail(&mut self, at_ns: u64, kind: FailureKind, requests: u64) {
        self.turn_to(at_ns);
        self.slots[self.current].failures.add(kind, requests);
    }

    /// Gives out the seconds before this one.
    pub(crate) fn close(&mut self, until: u64) -> Vec<(u64, SecondCounts)> {
        let mut closed = Vec::new();
        while self.first < until {
            closed.push((self.first, self.slots.pop_front().unwrap_or_default()));
            self.first += 1;
        }
        // What comes next finds its slot anew.
        self.current_ns = 0..0;
        closed
    }
}

/// Combines what workers, or machines, tell of the same seconds.
#[derive(Debug)]
pub(crate) struct Seconds {
    /// By worker: the second that it tells of next; and whether it tells of any.
    next: Vec<(u64, bool)>,
    /// Seconds before this one are given out.
    from: u64,
    /// Seconds that some have told of.
    pending: BTreeMap<u64, SecondCounts>,
    whole: Vec<SecondStats>,
    /// Whole seconds that `take` has not returned yet.
    fresh: Vec<Whole>,
}

/// One that hangs is waited for as long as the others tell of this many more seconds, some 200 kB each. What it tells of
/// older ones then is counted in the oldest that is not given out.
const PENDING_MAX: usize = 64;

impl Seconds {
    pub(crate) fn new(workers: usize) -> Seconds {
        Seconds {
            next: vec![(0, true); workers],
            from: 0,
            pending: BTreeMap::new(),
            whole: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// A worker tells of a second; each tells of all, in their order.
    pub(crate) fn add(&mut self, worker: usize, second: u64, counts: SecondCounts) {
        self.next[worker].0 = second.saturating_add(1);
        self.pending.entry(second.max(self.from)).or_default().add(counts);
        self.settle();
    }

    /// A worker has ended: it has no requests in seconds that it has not told of.
    pub(crate) fn end(&mut self, worker: usize) {
        self.next[worker].1 = false;
        self.settle();
    }

    fn settle(&mut self) {
        let running = self.next.iter().filter(|(_, is_running)| *is_running).map(|(next, _)| *next);
        let until = running.min().or(self.next.iter().map(|(next, _)| *next).max()).unwrap_or_default();
        while self.from < until || self.pending.len() > PENDING_MAX {
            let counts = self.pending.remove(&self.from).unwrap_or_default();
            let whole = Whole::of(self.from, counts);
            self.from += 1;
            self.whole.push(whole.interval);
            self.fresh.push(whole);
        }
    }

    /// The seconds that have become whole since the last call.
    pub(crate) fn take(&mut self) -> Vec<Whole> {
        std::mem::take(&mut self.fresh)
    }

    /// The figures of a second, if all have told of it.
    pub(crate) fn of(&self, second: u64) -> Option<&SecondStats> {
        self.whole.get(usize::try_from(second).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latencies_us: &[u64], errors: u64) -> SecondCounts {
        let mut counts = SecondCounts::default();
        for us in latencies_us {
            counts.latency_ns.get_or_insert_with(histogram).saturating_record(us * 1000);
        }
        counts.failures.error_replies = errors;
        counts
    }

    /// What each word tells, `a1` that worker a tells of second 1 and `a.` that it has ended, and the seconds that are
    /// known afterwards with their requests.
    #[track_caller]
    fn check(line: &str, known: &str) {
        let mut seconds = Seconds::new(2);
        let mut taken = Vec::new();
        for word in line.split(' ') {
            let (worker, what) = (usize::from(word.starts_with('b')), &word[1..]);
            match what.parse() {
                Ok(second) => seconds.add(worker, second, counts(&[1], 0)),
                Err(_) => seconds.end(worker),
            }
            let one = |whole: &Whole| format!("{}x{}", whole.interval.second, whole.interval.answered);
            taken.extend(seconds.take().iter().map(one));
        }
        assert_eq!(taken.join(" "), known, "{line}");
    }

    #[test]
    fn a_second_is_known_when_all_have_told_of_it() {
        check("a0 a1 b0 a2 b1", "0x2 1x2");
        check("a0 b0 b1 b. a1 a2 a3", "0x2 1x2 2x1 3x1");
        check("a0 a1 b0 b. a2 a.", "0x2 1x1 2x1");
        check("a0 a1 a2 b0 b.", "0x2 1x1 2x1");
        // What an agent has not told of is not known, and holds nothing up.
        check("a0 b0 a1 a2 b2", "0x2 1x1 2x2");
    }

    #[test]
    fn latencies_and_failures_of_a_second_are_added() {
        let mut seconds = Seconds::new(2);
        seconds.add(0, 0, counts(&[10, 500], 3));
        seconds.add(1, 0, counts(&[30], 1));
        let stats = seconds.of(0).expect("both have told of it");
        assert_eq!(
            (stats.latency.map(|latency| latency.max_us as u64), stats.failures.total()),
            (Some(500), 4)
        );
        assert!(seconds.of(1).is_none());
    }

    #[test]
    fn a_worker_that_is_silent_costs_no_memory_and_loses_nothing() {
        let mut seconds = Seconds::new(2);
        (0..1000).for_each(|second| seconds.add(0, second, counts(&[1], 0)));
        assert_eq!(seconds.pending.len(), PENDING_MAX);
        (0..1000).for_each(|second| seconds.add(1, second, counts(&[2], 0)));
        assert_eq!((seconds.whole.len(), seconds.pending.len()), (1000, 0));
        assert_eq!(seconds.whole.iter().map(|stats| stats.answered).sum::<u64>(), 2000);
    }

    #[test]
    fn what_belongs_to_a_second_is_counted_there_as_long_as_it_is_open() {
        let mut slots = Slots::new(10 * SECOND_NS..12 * SECOND_NS + SECOND_NS / 2, false);
        assert_eq!(slots.last(), 2);
        let mut record = |at_s: f64| {
            let at_ns = (at_s * 1e9) as u64;
            if !slots.is_current(at_ns) {
                slots.turn_to(at_ns);
            }
            slots.latency_ns().saturating_record(1000);
        };
        [9.0, 10.0, 11.5, 10.999, 12.2, 30.0, 11.0].into_iter().for_each(&mut record);
        slots.fail(11 * SECOND_NS, FailureKind::Reset, 2);
        let shown = |closed: Vec<(u64, SecondCounts)>| -> Vec<(u64, u64, u64)> {
            let one = |(second, counts): (u64, SecondCounts)| {
                (second, counts.latency_ns.map_or(0, |latency| latency.len()), counts.failures.total())
            };
            closed.into_iter().map(one).collect()
        };
        assert_eq!(shown(slots.close(1)), [(0, 3, 0)]);
        slots.turn_to(10 * SECOND_NS);
        slots.latency_ns().saturating_record(1000);
        assert_eq!(shown(slots.close(3)), [(1, 3, 2), (2, 2, 0)]);
        assert_eq!(shown(slots.close(5)), [(3, 0, 0), (4, 0, 0)]);
    }
}
