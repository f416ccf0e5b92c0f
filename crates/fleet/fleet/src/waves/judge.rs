//! The verdict of a look: differences of pairs against the margins, with p raised for the number of looks.

use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::statistics::{ALPHA, Shift};

use super::figures::{FigureKind, Logs};
use super::settings::WaveSettings;

/// What a look says about one kind of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookVerdict {
    /// No figure is worse than its margin, and what was promised is better.
    Better,
    /// No figure is worse than its margin.
    NotWorse,
    /// These figures are worse than their margins as estimated, and not only by chance.
    Worse(Vec<FigureKind>),
    /// Neither could be shown with so many units.
    Undecided,
}

/// One figure of a look, in percent; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookFigure {
    /// Which.
    pub figure: FigureKind,
    /// The lower end of the interval; none if so few units have no interval.
    pub low: Option<f64>,
    /// The estimate.
    pub middle: f64,
    /// The upper end.
    pub high: Option<f64>,
}

/// A look as people read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookReport {
    /// The wave's number, from 0 for the canaries.
    pub wave: usize,
    /// Pairs, or pairs in turns.
    pub units: usize,
    /// Figures with their intervals.
    pub figures: Vec<LookFigure>,
    /// What follows.
    pub verdict: LookVerdict,
}

impl fmt::Display for LookReport {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        for (place, figure) in self.figures.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(formatter, "{separator}{} {:+.1} %", figure.figure.word(), figure.middle)?;
            match (figure.low, figure.high) {
                (Some(low), Some(high)) => write!(formatter, " ({low:+.1} to {high:+.1})")?,
                _ => write!(formatter, " (no interval)")?,
            }
        }
        write!(formatter, " of {} pairs", self.units)
    }
}

/// The limits of a judgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement<'s> {
    pub(super) settings: &'s WaveSettings,
    /// Figures that shall become better.
    pub(super) promised: &'s [FigureKind],
    /// Kinds of hosts that are judged in the same change.
    pub(super) kinds: usize,
    /// The change can go on and off.
    pub(super) may_turn: bool,
}

impl Judgement<'_> {
    /// Judges differences of pairs. A figure that too few units have is named instead: such a look is none.
    pub(super) fn look(&self, wave: usize, units: &[Logs], wanted: usize) -> Result<LookReport, FigureKind> {
        let (mut figures, mut worse, mut better) = (Vec::new(), Vec::new(), Vec::new());
        let (mut is_within, mut count) = (true, usize::MAX);
        for (figure, margin) in &self.settings.margins {
            let known: Vec<f64> = units.iter().filter_map(|unit| unit[*figure as usize]).collect();
            count = count.min(known.len());
            let shift = Shift::of_pairs(&known, self.settings.looks());
            let Some(shift) = shift.filter(|_| known.len() >= wanted) else { return Err(*figure) };
            let least = (1.0 - margin / 100.0).ln();
            is_within &= shift.low > least;
            // The chance of a false word grows with the kinds that are looked at.
            let p = shift.p * self.kinds as f64;
            if shift.middle < least {
                worse.push((p, *figure));
            } else if shift.middle > 0.0 && self.promised.contains(figure) {
                better.push((p, *figure));
            }
            let percent = |log: f64| log.is_finite().then(|| (log.exp() - 1.0) * 100.0);
            let (low, high) = (percent(shift.low), percent(shift.high));
            figures.push(LookFigure {
                figure: *figure,
                low,
                middle: (shift.middle.exp() - 1.0) * 100.0,
                high,
            });
        }
        let worse = holm(worse, self.settings.margins.len());
        let better = holm(better, self.promised.len());
        let verdict = match (is_within, worse.is_empty()) {
            (true, _) if !self.promised.is_empty() && better.len() == self.promised.len() => {
                LookVerdict::Better
            }
            (true, _) => LookVerdict::NotWorse,
            (false, false) => LookVerdict::Worse(worse),
            (false, true) => LookVerdict::Undecided,
        };
        Ok(LookReport { wave, units: count, figures, verdict })
    }
}

/// The figures whose differences are no chance, by Holm's method over `count` figures.
fn holm(mut candidates: Vec<(f64, FigureKind)>, count: usize) -> Vec<FigureKind> {
    candidates.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ranked = candidates.into_iter().enumerate();
    ranked
        .take_while(|(rank, (p, _))| p * (count.max(rank + 1) - rank) as f64 <= ALPHA)
        .map(|(_, (_, figure))| figure)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with these differences in percent, spread evenly by `spread` to both sides.
    fn units(count: usize, middles: [f64; 3], spread: f64) -> Vec<Logs> {
        let step = |place: usize| (place as f64 + 0.5) / count as f64 * 2.0 - 1.0;
        (0..count).map(|place| middles.map(|middle| Some((middle + spread * step(place)) / 100.0))).collect()
    }

    #[track_caller]
    fn check(units: &[Logs], expected: Result<LookVerdict, FigureKind>) {
        let settings = WaveSettings::default();
        let promised = [FigureKind::RequestsPerCpuS];
        let judgement = Judgement { settings: &settings, promised: &promised, kinds: 1, may_turn: false };
        assert_eq!(judgement.look(0, units, 8).map(|look| look.verdict), expected);
    }

    #[test]
    fn a_look_goes_on_only_if_it_has_shown_that_nothing_is_worse_than_the_margin() {
        use FigureKind::{P99, SchedulingWait};
        check(&units(8, [0.0; 3], 1.5), Ok(LookVerdict::NotWorse));
        check(&units(8, [0.0; 3], 4.0), Ok(LookVerdict::Undecided));
        check(&units(28, [3.0, 0.0, 0.0], 2.0), Ok(LookVerdict::Better));
        check(&units(28, [0.0, -5.0, 0.0], 4.0), Ok(LookVerdict::Worse(vec![P99])));
        check(&units(28, [9.0, -5.0, -6.0], 4.0), Ok(LookVerdict::Worse(vec![P99, SchedulingWait])));
        // Worse by less than the margin is within it.
        check(&units(96, [0.0, -0.8, 0.0], 2.0), Ok(LookVerdict::NotWorse));
        // Eight pairs cannot show that one of three figures is worse, nor that it is not.
        check(&units(8, [0.0, -5.0, 0.0], 1.0), Ok(LookVerdict::Undecided));
        check(&units(7, [0.0; 3], 1.0), Err(FigureKind::RequestsPerCpuS));
        let mut unknown = units(8, [0.0; 3], 1.0);
        unknown[3][P99 as usize] = None;
        check(&unknown, Err(P99));
    }

    #[test]
    fn people_read_intervals() {
        let (settings, units) = (WaveSettings::default(), units(8, [1.0, -2.0, 0.0], 1.0));
        let judgement = Judgement { settings: &settings, promised: &[], kinds: 1, may_turn: false };
        let look = judgement.look(0, &units, 8).expect("a look");
        assert_eq!(
            look.to_string(),
            "requests_per_cpu_s +1.0 % (+0.1 to +1.9), p99 -2.0 % (-2.8 to -1.1), scheduling_wait +0.0 % (-0.9 to +0.9) of 8 pairs"
        );
    }
}
