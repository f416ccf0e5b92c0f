//! Verdicts on a difference, and the intervals behind them.

use crate::record::quantity::Better;
use serde::Serialize;
use stdx::statistics::{ALPHA, Shift, median, median_interval};

/// A constant seed: the same records give the same intervals.
pub(crate) const SEED: u64 = 1;

/// A value with its interval of 95 % confidence. Very few values may give no interval: then it has no bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The estimate.
    pub middle: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The median of values, if there are any.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.is_empty() {
            return None;
        }
        let (low, high) = median_interval(values, SEED);
        Some(Interval { low, middle: median(values), high })
    }

    /// An interval of logarithms, converted back to ratios.
    pub fn exp(self) -> Interval {
        Interval { low: self.low.exp(), middle: self.middle.exp(), high: self.high.exp() }
    }

    /// The interval in another unit.
    pub fn times(self, factor: f64) -> Interval {
        Interval { low: self.low * factor, middle: self.middle * factor, high: self.high * factor }
    }

    /// Whether there were enough values for one.
    pub fn is_bounded(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Whether the whole interval lies in another.
    pub fn is_in(self, other: Interval) -> bool {
        self.low >= other.low && self.high <= other.high
    }

    /// Whether the whole interval lies within ±`log`.
    pub fn is_within(self, log: f64) -> bool {
        self.low >= -log && self.high <= log
    }
}

impl From<Shift> for Interval {
    fn from(shift: Shift) -> Interval {
        Interval { low: shift.low, middle: shift.middle, high: shift.high }
    }
}

/// The conclusion from the records of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The baseline of the others.
    Baseline,
    /// A difference was shown, for the better.
    Better,
    /// A difference was shown, for the worse.
    Worse,
    /// A difference was shown, of a metric whose good values are not known.
    Different,
    /// Any difference is too small to matter.
    Equivalent,
    /// Chance may have made the difference.
    NoDifferenceShown,
    /// No difference was shown, and with so few pairs none could be, however large.
    TooFewPairs,
    /// A service has too few whole days before a change or after it.
    TooFewDays,
    /// No pairs have values above zero.
    NotCompared,
}

impl Verdict {
    /// The verdict for a shift of logarithms: differences within `band` do not matter.
    pub(crate) fn of(shift: &Shift, band: f64, better: Option<Better>) -> Verdict {
        let interval = Interval::from(*shift);
        if interval.is_within(band.ln_1p()) {
            return Verdict::Equivalent;
        }
        if shift.p_min > ALPHA {
            return Verdict::TooFewPairs;
        }
        if shift.p > ALPHA {
            return Verdict::NoDifferenceShown;
        }
        match better {
            None => Verdict::Different,
            Some(better) if (shift.high < 0.0) == (better == Better::Lower) => Verdict::Better,
            Some(_) => Verdict::Worse,
        }
    }

    /// Whether it says that there is a difference.
    pub fn is_shown(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse | Verdict::Different)
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Baseline => "baseline",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::Equivalent => "equivalent",
            Verdict::NoDifferenceShown => "no difference shown",
            Verdict::TooFewPairs => "too few pairs",
            Verdict::TooFewDays => "too few days",
            Verdict::NotCompared => "not compared",
        }
    }
}
