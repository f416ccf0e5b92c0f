//! CPU load over a window: shares of time, soft interrupts and interrupts by CPU.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::observe::reading::{Reading, Series};

/// From this share on interrupts are worth spreading.
pub(crate) const BUSY_PERCENT: f64 = 30.0;

/// A CPU's load in the window, in percent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Load {
    /// In programs.
    pub user: f64,
    /// In the kernel for programs.
    pub system: f64,
    /// In interrupt handlers.
    pub irq: f64,
    /// In soft interrupts.
    pub softirq: f64,
    /// Given to another guest.
    pub steal: f64,
    /// Idle, also while a disk was busy.
    pub idle: f64,
}

impl Load {
    /// In interrupts of both kinds.
    pub(crate) fn interrupts(self) -> f64 {
        self.irq + self.softirq
    }
}

/// The load of each CPU that counted time.
pub fn loads(series: &Series) -> BTreeMap<u32, Load> {
    let load = |cpu: &u32| {
        let times = series.cpu(*cpu)?;
        let total = times.total();
        let percent = |ticks: u64| 100.0 * ticks as f64 / total as f64;
        (total > 0).then(|| Load {
            user: percent(times.user),
            system: percent(times.system),
            irq: percent(times.irq),
            softirq: percent(times.softirq),
            steal: percent(times.steal),
            idle: percent(times.idle + times.iowait),
        })
    };
    series.last().cpus.keys().filter_map(|cpu| Some((*cpu, load(cpu)?))).collect()
}

/// Counts by CPU, of a reading or made from it.
pub(crate) type CpuCounts<'s> = Cow<'s, BTreeMap<u32, u64>>;

/// The increment of a per-CPU counter, on each. The counts of a reading are taken once, and not once for each CPU: with
/// 512 CPUs that was nearly all of the time that a check took.
pub(crate) fn by_cpu<'s>(
    series: &'s Series,
    counts: impl Fn(&'s Reading) -> Option<CpuCounts<'s>>,
) -> BTreeMap<u32, u64> {
    let readings = series.readings().iter();
    let Some(counts) = readings.map(|reading| counts(reading)).collect::<Option<Vec<_>>>() else {
        return BTreeMap::new();
    };
    let grown = |(cpu, last): (&u32, &u64)| {
        let ascends = |pair: &[CpuCounts]| Some(pair[0].get(cpu)? <= pair[1].get(cpu)?);
        let all_ascend = counts.windows(2).all(|pair| ascends(pair) == Some(true));
        all_ascend.then(|| (*cpu, last - counts[0][cpu]))
    };
    counts[counts.len() - 1].iter().filter_map(grown).collect()
}

/// The number of runs of a soft interrupt, by CPU.
pub fn softirqs(series: &Series, kind: &str) -> BTreeMap<u32, u64> {
    by_cpu(series, |reading| reading.softirqs.get(kind).map(Cow::Borrowed))
}

/// The number of an interrupt's arrivals, by CPU.
pub fn arrivals(series: &Series, irq: u32) -> BTreeMap<u32, u64> {
    by_cpu(series, |reading| reading.interrupts.get(&irq).map(Cow::Borrowed))
}
