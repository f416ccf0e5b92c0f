//! Aims of an experiment: what the ratio of a subject to the baseline must be, and whether it is.

use super::comparison::{CellStanding, Metric};
use super::verdict::{Interval, Verdict};
use crate::experiment::design::{Cell, Design};
use crate::experiment::{Aim, Experiment};
use crate::record::quantity::Better;
use serde::Serialize;

/// One aim of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AimStanding {
    /// Treatment and condition.
    pub cell: String,
    /// The metric.
    pub metric: String,
    /// What the ratio to the baseline must be.
    pub must: WantedRatio,
    /// The ratio with its interval; `None`: it was not compared.
    pub ratio: Option<Interval>,
    /// Whether it is so.
    pub verdict: AimVerdict,
}

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WantedRatio {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
    /// So near to 1 that the difference does not matter: by this share at most.
    Within(f64),
}

/// Whether an aim is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AimVerdict {
    /// The whole interval is where it must be.
    Met,
    /// No part of it is.
    NotMet,
    /// A part of it is: more rounds decide.
    Open,
}

impl AimVerdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            AimVerdict::Met => "met",
            AimVerdict::NotMet => "not met",
            AimVerdict::Open => "open",
        }
    }
}

impl WantedRatio {
    /// In words.
    pub fn words(self) -> String {
        match self {
            WantedRatio::AtLeast(ratio) => format!("at least {ratio}"),
            WantedRatio::AtMost(ratio) => format!("at most {ratio}"),
            WantedRatio::Within(band) => {
                format!("within {} %", crate::record::quantity::number(band * 100.0))
            }
        }
    }

    fn judge(self, ratio: Interval) -> AimVerdict {
        let wanted = match self {
            WantedRatio::AtLeast(least) => Interval { low: least, middle: least, high: f64::INFINITY },
            WantedRatio::AtMost(most) => Interval { low: 0.0, middle: most, high: most },
            WantedRatio::Within(band) => Interval { low: 1.0 / (1.0 + band), middle: 1.0, high: 1.0 + band },
        };
        match () {
            () if !ratio.is_bounded() => AimVerdict::Open,
            () if ratio.is_in(wanted) => AimVerdict::Met,
            () if ratio.high < wanted.low || ratio.low > wanted.high => AimVerdict::NotMet,
            () => AimVerdict::Open,
        }
    }
}

/// All aims of an experiment, in the order of its cells.
pub(crate) fn aims(experiment: &Experiment, design: &Design, metrics: &[Metric]) -> Vec<AimStanding> {
    let of_cell = |cell: &Cell| {
        let levels = experiment.factors.iter().flat_map(|factor| {
            factor.levels.iter().filter(|level| cell.levels.get(&factor.name) == Some(&level.name))
        });
        let aims: Vec<AimStanding> = levels
            .filter_map(|level| level.must.get(&cell.subject))
            .flat_map(|aim| of_aim(aim, cell, metrics))
            .collect();
        aims
    };
    design.cells.iter().flat_map(of_cell).collect()
}

fn of_aim(aim: &Aim, cell: &Cell, metrics: &[Metric]) -> Vec<AimStanding> {
    let wanted: Vec<(&Metric, WantedRatio)> = match aim {
        Aim::Ratio(ratio) => vec![(&metrics[0], wanted(&metrics[0], *ratio))],
        Aim::Equivalent(_) => vec![(&metrics[0], WantedRatio::Within(metrics[0].band))],
        Aim::Metrics(ratios) => {
            let named = |name: &String| metrics.iter().find(|metric| metric.name == *name);
            ratios
                .iter()
                .filter_map(|(name, ratio)| Some((named(name)?, wanted(named(name)?, *ratio))))
                .collect()
        }
    };
    let standing = |(metric, must): (&Metric, WantedRatio)| {
        let is_it = |it: &&CellStanding| it.treatment == cell.treatment && it.condition == cell.condition;
        let standing = metric.standings.iter().find(is_it)?;
        let verdict = standing.ratio.map_or(AimVerdict::Open, |ratio| must.judge(ratio));
        (standing.verdict != Verdict::Baseline).then(|| AimStanding {
            cell: cell.name(),
            metric: metric.name.clone(),
            must,
            ratio: standing.ratio,
            verdict,
        })
    };
    wanted.into_iter().filter_map(standing).collect()
}

fn wanted(metric: &Metric, ratio: f64) -> WantedRatio {
    match metric.better {
        Some(Better::Lower) => WantedRatio::AtMost(ratio),
        _ => WantedRatio::AtLeast(ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: WantedRatio, low: f64, high: f64, expected: AimVerdict) {
        assert_eq!(
            wanted.judge(Interval { low, middle: (low + high) / 2.0, high }),
            expected,
            "{low} to {high}"
        );
    }

    #[test]
    fn an_aim_is_open_as_long_as_its_bound_is_in_the_interval() {
        use AimVerdict::{Met, NotMet, Open};
        check(WantedRatio::AtLeast(1.25), 1.25, 1.4, Met);
        check(WantedRatio::AtLeast(1.25), 1.2, 1.4, Open);
        check(WantedRatio::AtLeast(1.25), 1.2, 1.24, NotMet);
        check(WantedRatio::AtLeast(1.25), f64::NEG_INFINITY, f64::INFINITY, Open);
        check(WantedRatio::AtMost(1.03), 0.9, 1.03, Met);
        check(WantedRatio::AtMost(1.03), 0.9, 1.1, Open);
        check(WantedRatio::AtMost(1.03), 1.04, 1.1, NotMet);
        check(WantedRatio::Within(0.01), 0.995, 1.005, Met);
        check(WantedRatio::Within(0.01), 0.98, 1.005, Open);
        check(WantedRatio::Within(0.01), 0.96, 0.98, NotMet);
        check(WantedRatio::Within(0.01), 1.02, 1.03, NotMet);
    }

    #[test]
    fn what_is_wanted_is_said_in_words() {
        assert_eq!(WantedRatio::AtLeast(1.25).words(), "at least 1.25");
        assert_eq!(WantedRatio::AtMost(1.03).words(), "at most 1.03");
        assert_eq!(WantedRatio::Within(0.01).words(), "within 1 %");
    }
}
