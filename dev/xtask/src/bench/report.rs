//! The verdict: medians over rounds, with their intervals.

use std::fmt::Write;

use serde::Serialize;

use super::subject::RunFigures;
use super::workload::{Goal, WORKLOADS};

/// All single measurements.
#[derive(Default)]
pub(crate) struct BenchReport {
    pub(crate) trials: Vec<Trial>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Trial {
    workload: String,
    subject: String,
    round: usize,
    figures: RunFigures,
}

impl BenchReport {
    pub(crate) fn add(&mut self, workload: &str, subject: &str, round: usize, figures: RunFigures) {
        self.trials.push(Trial { workload: workload.into(), subject: subject.into(), round, figures });
    }

    /// One line per workload and subject: median figure, median ratio to the base in the same round with its interval,
    /// and whether the goal is met.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from(
            "| workload | subject | per server CPU-s | ÷ base (95 %) | goal must/stretch | p50 µs | p99 µs |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for workload in &WORKLOADS {
            let mut subjects: Vec<&str> = Vec::new();
            for trial in self.trials.iter().filter(|trial| trial.workload == workload.name) {
                if !subjects.contains(&trial.subject.as_str()) {
                    subjects.push(&trial.subject);
                }
            }
            subjects.sort_unstable_by_key(|subject| (*subject != self.base(), *subject));
            for subject in subjects {
                self.line(workload.name, subject, workload.goal, &mut text);
            }
        }
        text
    }

    fn line(&self, workload: &str, subject: &str, goal: Goal, text: &mut String) {
        let of = |name: &str, figure: &dyn Fn(&RunFigures) -> f64| -> Vec<(usize, f64)> {
            let trials = self.trials.iter();
            let mine = trials.filter(|trial| trial.workload == workload && trial.subject == name);
            mine.map(|trial| (trial.round, figure(&trial.figures))).collect()
        };
        let compared: &dyn Fn(&RunFigures) -> f64 = match goal {
            Goal::PerCpu { .. } => &|figures| figures.per_server_cpu_s,
            Goal::P50 { .. } => &|figures| figures.p50_us,
        };
        let base = of(self.base(), compared);
        let ratios: Vec<f64> = of(subject, compared)
            .iter()
            .filter_map(|(round, value)| {
                base.iter().find(|(base_round, _)| base_round == round).map(|(_, base)| value / base)
            })
            .collect();
        let values = |figure: &dyn Fn(&RunFigures) -> f64| -> Vec<f64> {
            of(subject, figure).into_iter().map(|(_, value)| value).collect()
        };
        let per_cpu = median(&values(&|figures| figures.per_server_cpu_s));
        let ratio = median(&ratios);
        let (low, high) = interval(&ratios);
        let verdict = if subject.starts_with("evenkeel") { verdict(goal, ratio) } else { String::new() };
        let (p50, p99) =
            (median(&values(&|figures| figures.p50_us)), median(&values(&|figures| figures.p99_us)));
        let _ = writeln!(
            text,
            "| {workload} | {subject} | {} | {ratio:.3} ({low:.3}–{high:.3}) | {verdict} | {p50:.0} | {p99:.0} |",
            thousands(per_cpu)
        );
    }

    /// The subject that all others are compared with: the first peer.
    fn base(&self) -> &str {
        let peers = |subject: &str| !subject.starts_with("evenkeel") && !subject.starts_with("null");
        let names = || self.trials.iter().map(|trial| trial.subject.as_str());
        names()
            .find(|name| *name == "memcached")
            .or_else(|| names().find(|name| peers(name)))
            .unwrap_or("memcached")
    }
}

fn verdict(goal: Goal, ratio: f64) -> String {
    let (must, stretch, met, splendid) = match goal {
        Goal::PerCpu { must, stretch } => (must, stretch, ratio >= must, ratio >= stretch),
        Goal::P50 { must, stretch } => (must, stretch, ratio <= must, ratio <= stretch),
    };
    let word = match (met, splendid) {
        (_, true) => "stretch met",
        (true, false) => "met",
        (false, false) => "NOT MET",
    };
    format!("{must}/{stretch}: {word}")
}

/// The middle value; none of none.
fn median(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { stdx::statistics::median(values) }
}

/// Where the median of all such values lies, at 95 %: between the values of two ranks, which fail by the binomial
/// distribution alone. The lowest and the highest where there are fewer than six.
pub(super) fn interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else { return (f64::NAN, f64::NAN) };
    if sorted.len() < 6 {
        return (*lowest, *highest);
    }
    // The probability that this many values of `n` lie below the median.
    let n = sorted.len();
    let mut chance = 0.5_f64.powi(n as i32);
    let (mut below, mut sum) = (0, chance);
    while sum + chance * (n - below) as f64 / (below + 1) as f64 <= 0.025 {
        chance *= (n - below) as f64 / (below + 1) as f64;
        sum += chance;
        below += 1;
    }
    (sorted[below], sorted[n - 1 - below])
}

/// `1234567` as `1,235 k`.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value / 1000.0);
    let grouped =
        digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect::<Vec<_>>().join(",");
    format!("{grouped} k")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_within_rounds() {
        let mut report = BenchReport::default();
        for (round, base, ours) in [(1, 100.0, 150.0), (2, 10.0, 20.0), (3, 1000.0, 1300.0)] {
            let figures = |value| RunFigures {
                per_server_cpu_s: value,
                per_client_cpu_s: 1.0,
                per_s: 1.0,
                p50_us: 1.0,
                p99_us: 1.0,
            };
            report.add("get-d1-c64", "memcached", round, figures(base));
            report.add("get-d1-c64", "evenkeel-uring", round, figures(ours));
        }
        let table = report.table();
        assert!(table.contains("| 1.500 (1.300–2.000) | 1.25/1.38: stretch met |"), "{table}");
    }

    #[test]
    fn intervals_have_the_ranks_of_the_tables() {
        // As in the tables of confidence intervals for the median: ranks 1 and 6 of 6, 2 and 9 of 10, 14 and 27 of 40.
        for (n, low, high) in [(5, 1.0, 5.0), (6, 1.0, 6.0), (10, 2.0, 9.0), (40, 14.0, 27.0)] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            assert_eq!(interval(&values), (low, high), "{n}");
        }
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(thousands(1_234_567.0), "1,235 k");
    }
}
