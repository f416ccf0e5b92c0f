//! Series of a history: one metric of one cell on one machine, and its levels over the runs.

use super::entry::Entry;
use crate::analyze::verdict::{Interval, Verdict};
use crate::record::quantity::{Better, number};

/// One metric of one cell on one machine, the oldest run first.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSeries {
    /// The question of the experiment, as the newest run has it.
    pub experiment: String,
    /// The host's name.
    pub machine: String,
    /// The cell's name, as the newest run has it.
    pub cell: String,
    /// The metric's name.
    pub metric: String,
    /// Whether it decides the experiment.
    pub is_primary: bool,
    /// Which values are good, if that is known.
    pub better: Option<Better>,
    /// Relative differences below this are insignificant in practice, by the newest run.
    pub matters: f64,
    /// The digest that defines its trials; empty: an earlier version has stored it, and only its names are known.
    pub definition: String,
    /// The cell that it is measured by, which may be itself; empty: there is none.
    pub pinned: String,
    /// The points of the runs.
    pub points: Vec<Point>,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The commit.
    pub commit: String,
    /// The kernel.
    pub kernel: String,
    /// When its first trial began.
    pub began_unix_s: u64,
    /// How many trials count.
    pub trials: usize,
    /// Their median.
    pub median: Interval,
    /// The value of each, with its round; none if an earlier version has stored the run.
    pub values: Vec<(u32, f64)>,
    /// Its ratio to the pinned cell in the same run.
    pub ratio: Option<f64>,
}

impl MetricSeries {
    /// Without a definition, only the names are known.
    pub(super) fn key(&self) -> [String; 5] {
        let named = |name: &String| if self.definition.is_empty() { name.clone() } else { String::new() };
        let (machine, metric) = (self.machine.clone(), self.metric.clone());
        [self.definition.clone(), machine, metric, named(&self.experiment), named(&self.cell)]
    }

    /// Whether such a run adds a point to it.
    pub fn is_of(&self, machine: &str, entries: &[Entry]) -> bool {
        self.machine == machine && self.entry(entries).is_some()
    }

    /// The point of such a run, whatever its machine.
    pub fn entry<'e>(&self, entries: &'e [Entry]) -> Option<&'e Entry> {
        let is_same = |entry: &&Entry| entry.definition == self.definition && entry.metric == self.metric;
        entries.iter().find(is_same)
    }

    /// Among all series.
    pub(super) fn place(&self) -> (&str, &str, bool, &str, &str, &str) {
        (&self.experiment, &self.machine, !self.is_primary, &self.metric, &self.cell, &self.definition)
    }

    /// Whether it is judged by its ratio to the pinned subject: a slower host affects both.
    pub fn is_relative(&self) -> bool {
        let is_other = !self.pinned.is_empty() && self.pinned != self.cell;
        is_other && self.points.iter().all(|point| point.ratio.is_some())
    }

    /// Whether it is the pinned subject itself: it shows the host, and nothing else can have changed.
    pub fn is_pinned(&self) -> bool {
        self.pinned == self.cell
    }

    /// The medians, the oldest first.
    pub fn medians(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.median.middle).collect()
    }

    /// The judged values, the oldest first: ratios to the pinned subject, or else medians.
    pub fn levels(&self) -> Vec<f64> {
        let is_relative = self.is_relative();
        let level = |point: &Point| point.ratio.filter(|_| is_relative).unwrap_or(point.median.middle);
        self.points.iter().map(level).collect()
    }

    /// The verdict for the change from one level to another.
    pub fn judge(&self, before: f64, after: f64) -> Verdict {
        match self.better {
            None => Verdict::Different,
            Some(better) if (after < before) == (better == Better::Lower) => Verdict::Better,
            Some(_) => Verdict::Worse,
        }
    }

    /// The newest levels as a line of bars, and the values of the lowest and the highest bar, times the factor of a unit.
    pub fn sparkline(&self, factor: f64) -> String {
        let say = |level: f64| number(level * factor);
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let levels = self.levels();
        let newest = &levels[levels.len().saturating_sub(SPARKS_MAX)..];
        let low = newest.iter().copied().fold(f64::INFINITY, f64::min);
        let high = newest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let bar = |value: &f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.5 };
            BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
        };
        let bars: String = newest.iter().map(bar).collect();
        match high > low {
            true => {
                format!("{bars} ({} {}, {} {})", BARS[0], say(low), BARS[BARS.len() - 1], say(high))
            }
            false => format!("{bars} (all {})", say(low)),
        }
    }
}

/// At most this many runs have a bar.
const SPARKS_MAX: usize = 40;
