//! Service times by class of command: from the beginning of a turn until its replies were given to the kernel.
//!
//! The clock is read once, at the end of a round that served requests; all its requests count with the time of the
//! round, because their replies were sent together. What a class has is the difference of the worker's counters, so a
//! request pays nothing.

use std::sync::Arc;

use stdx::counter::Counter;

use crate::figures::counters::Counters;
use crate::figures::histogram::{TimeHistogram, Times};

/// A class of commands. A command on several keys counts for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandClass {
    Get,
    Set,
    Delete,
    Arithmetic,
    Touch,
}

impl CommandClass {
    pub(crate) const ALL: [CommandClass; 5] = [
        CommandClass::Get,
        CommandClass::Set,
        CommandClass::Delete,
        CommandClass::Arithmetic,
        CommandClass::Touch,
    ];

    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CommandClass::Get => "get",
            CommandClass::Set => "set",
            CommandClass::Delete => "delete",
            CommandClass::Arithmetic => "arithmetic",
            CommandClass::Touch => "touch",
        }
    }

    #[inline]
    fn count(self, counters: &Counters) -> u64 {
        let of = |several: &[&Counter]| several.iter().map(|counter| counter.value()).sum();
        match self {
            CommandClass::Get => of(&[&counters.cmd_get]),
            CommandClass::Set => of(&[&counters.cmd_set]),
            CommandClass::Delete => of(&[&counters.delete_hits, &counters.delete_misses]),
            CommandClass::Arithmetic => {
                of(&[&counters.incr_hits, &counters.incr_misses, &counters.decr_hits, &counters.decr_misses])
            }
            CommandClass::Touch => of(&[&counters.cmd_touch]),
        }
    }
}

const CLASSES: usize = CommandClass::ALL.len();

/// What a worker has counted of each class: 10 loads of cache lines that requests have written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassCounts([u64; CLASSES]);

impl ClassCounts {
    #[inline]
    pub(crate) fn of(counters: &Counters) -> ClassCounts {
        ClassCounts(CommandClass::ALL.map(|class| class.count(counters)))
    }
}

/// One worker's histograms: 10 KiB. Only this worker writes them.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ServiceTimes {
    classes: [Times; CLASSES],
}

impl ServiceTimes {
    /// Counts what was served since `before` with the time of a round.
    pub(crate) fn record(&self, before: &ClassCounts, after: &ClassCounts, round_us: u64) {
        for ((times, before), after) in self.classes.iter().zip(before.0).zip(after.0) {
            let count = after.wrapping_sub(before);
            if count > 0 {
                times.record(round_us, count);
            }
        }
    }

    /// The histogram of a class over all workers.
    pub(crate) fn histogram(workers: &[Arc<ServiceTimes>], class: CommandClass) -> TimeHistogram {
        TimeHistogram::of(workers.iter().map(|worker| &worker.classes[class as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_counts_in_its_class_with_the_time_of_its_round() {
        let (counters, times) = (Counters::default(), Arc::new(ServiceTimes::default()));
        let begin = ClassCounts::of(&counters);
        counters.cmd_get.add(3);
        counters.decr_misses.add(1);
        let first = ClassCounts::of(&counters);
        assert_ne!(begin, first);
        times.record(&begin, &first, 70);
        counters.cmd_get.add(1);
        counters.delete_hits.add(2);
        times.record(&first, &ClassCounts::of(&counters), 5);
        let histogram = |class| ServiceTimes::histogram(&[Arc::clone(&times)], class);
        let get = histogram(CommandClass::Get);
        assert_eq!((get.count(), get.sum_us, get.below(8), get.below(64), get.below(128)), (4, 215, 1, 1, 4));
        let counts = CommandClass::ALL.map(|class| histogram(class).count());
        assert_eq!(counts, [4, 0, 2, 1, 0]);
    }

    #[test]
    fn times_without_end_are_counted() {
        let (counters, times) = (Counters::default(), Arc::new(ServiceTimes::default()));
        let begin = ClassCounts::of(&counters);
        counters.cmd_touch.add(2);
        times.record(&begin, &ClassCounts::of(&counters), u64::MAX);
        let touch = ServiceTimes::histogram(&[times], CommandClass::Touch);
        assert_eq!((touch.count(), touch.below(1 << 31)), (2, 0));
    }
}
