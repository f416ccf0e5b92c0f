//! Figures of a host by which a change is judged, and their means over a time.

use serde::{Deserialize, Serialize};

/// Below this share of waiting, differences are of no account: a share of 0 has no logarithm.
const WAIT_FLOOR: f64 = 0.01;
/// A mean of fewer words of a host is no figure: one of them may be the end of what was before.
const WORDS_MIN: u32 = 3;

/// Logarithms of a host's figures, each so that more is better; unknown ones are none.
pub(super) type Logs = [Option<f64>; FigureKind::COUNT];

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Requests per second of the servers' CPU time.
    RequestsPerCpuS,
    /// The 99th percentile of the time for a reply, as routers or servers see it.
    P99,
    /// The share of time that threads were ready and had no CPU.
    SchedulingWait,
}

impl FigureKind {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// All of them.
    pub const ALL: [FigureKind; FigureKind::COUNT] =
        [FigureKind::RequestsPerCpuS, FigureKind::P99, FigureKind::SchedulingWait];

    /// A word for programs, as settings have it.
    pub fn word(self) -> &'static str {
        match self {
            FigureKind::RequestsPerCpuS => "requests_per_cpu_s",
            FigureKind::P99 => "p99",
            FigureKind::SchedulingWait => "scheduling_wait",
        }
    }
}

/// What a host did since its last word. What nobody has measured is unknown, and never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFigures {
    /// Requests per second of CPU time.
    pub requests_per_cpu_s: Option<f64>,
    /// The 99th percentile in microseconds.
    pub p99_us: Option<f64>,
    /// From 0 to 1.
    pub scheduling_wait: Option<f64>,
}

impl HostFigures {
    fn logs(&self) -> Logs {
        let log = |figure: Option<f64>| figure.filter(|it| it.is_finite() && *it > 0.0).map(f64::ln);
        let wait = self.scheduling_wait.filter(|it| *it >= 0.0).map(|it| it + WAIT_FLOOR);
        [log(self.requests_per_cpu_s), log(self.p99_us).map(|it| -it), log(wait).map(|it| -it)]
    }
}

/// Sums of what a host has said.
#[derive(Clone, Debug, Default)]
pub(super) struct FigureWindow {
    sums: [f64; FigureKind::COUNT],
    words: [u32; FigureKind::COUNT],
}

impl FigureWindow {
    /// True if a figure has become known by it.
    pub(super) fn add(&mut self, figures: &HostFigures) -> bool {
        let mut is_known = false;
        for (figure, log) in figures.logs().into_iter().enumerate() {
            if let Some(log) = log {
                self.sums[figure] += log;
                self.words[figure] += 1;
                is_known |= self.words[figure] == WORDS_MIN;
            }
        }
        is_known
    }

    /// The mean of each figure's logarithms.
    pub(super) fn means(&self) -> Logs {
        std::array::from_fn(|figure| {
            let words = self.words[figure];
            (words >= WORDS_MIN).then(|| self.sums[figure] / f64::from(words))
        })
    }
}

/// One less the other; unknown if either is.
pub(super) fn less(one: Logs, other: Logs) -> Logs {
    std::array::from_fn(|figure| Some(one[figure]? - other[figure]?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: HostFigures, after: HostFigures, expected: Logs) {
        let means = |figures| {
            let mut window = FigureWindow::default();
            let known: Vec<bool> = (0..WORDS_MIN + 1).map(|_| window.add(&figures)).collect();
            let is_any = figures.logs().iter().any(Option::is_some);
            assert_eq!(known, [false, false, is_any, false]);
            window.means()
        };
        let found = less(means(after), means(before));
        for (found, expected) in found.into_iter().zip(expected) {
            let is_near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(is_near, "{found:?} and not {expected:?}");
        }
    }

    #[test]
    fn more_is_better_and_unknown_stays_unknown() {
        let figures = |requests, p99, wait| HostFigures {
            requests_per_cpu_s: requests,
            p99_us: p99,
            scheduling_wait: wait,
        };
        check(
            figures(Some(100.0), Some(200.0), Some(0.0)),
            figures(Some(110.0), Some(100.0), Some(0.01)),
            [Some(1.1f64.ln()), Some(2f64.ln()), Some(-(2f64.ln()))],
        );
        check(
            figures(Some(1.0), None, Some(0.1)),
            figures(Some(1.0), Some(1.0), None),
            [Some(0.0), None, None],
        );
        check(figures(Some(0.0), Some(f64::NAN), None), HostFigures::default(), [None; 3]);
    }

    #[test]
    fn too_few_words_are_no_figure() {
        let mut window = FigureWindow::default();
        window.add(&HostFigures { p99_us: Some(1.0), ..HostFigures::default() });
        assert_eq!(window.means(), [None; 3]);
    }
}
