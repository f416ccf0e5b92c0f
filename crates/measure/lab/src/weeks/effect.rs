//! The change of a level from one day to the next, of days that resemble their neighbours and differ by weekday.
//!
//! ```text
//! ln(day) = weekday + effect, from the change on + swing        swing = rho * (swing the day before) + noise
//! ```
//!
//! With few days nobody knows rho, and the answer depends on it: a large one explains a difference as a swing. So every
//! rho is tried, by least squares on what it makes independent, and has the weight of its likelihood (that of the residuals,
//! which does not favour small ones). Estimate, interval and p are of the mixture of these: p is at most 0.05 exactly when
//! the interval excludes "no change".

use crate::analyze::verdict::Interval;
use crate::history::student::two_sided_p;
use stdx::statistics::ALPHA;

/// Values of rho that are tried.
const RHO_STEP: f64 = 0.05;
const RHO_STEPS: u32 = 20;

/// A sum of squares below this share of the whole counts as this share: what is left is rounding.
const ROUNDING: f64 = 1e-12;

/// The logarithm of a ratio and the probability of as much without a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct DailyEffect {
    pub(super) interval: Interval,
    pub(super) p: f64,
}

/// With one rho: the estimate, its error and the weight of this rho, as a logarithm.
struct Fit {
    estimate: f64,
    error: f64,
    log_weight: f64,
}

/// Of days and their values, those before and those after; one of so many comparisons. `None` if a value is not above zero,
/// or no weekday is on both sides.
pub(super) fn effect(before: &[(u64, f64)], after: &[(u64, f64)], comparisons: usize) -> Option<DailyEffect> {
    let mixture = mixture(before, after)?;
    let comparisons = comparisons.max(1) as f64;
    let tail = ALPHA / comparisons / 2.0;
    let quantile = |share| mixture.quantile(share);
    let interval = Interval { low: quantile(tail), middle: quantile(0.5), high: quantile(1.0 - tail) };
    Some(DailyEffect { interval, p: (mixture.p() * comparisons).min(1.0) })
}

/// What is known of the effect.
pub(super) fn mixture(before: &[(u64, f64)], after: &[(u64, f64)]) -> Option<Mixture> {
    let days: Vec<(u64, f64, bool)> = before
        .iter()
        .map(|(day, value)| (*day, *value, false))
        .chain(after.iter().map(|(day, value)| (*day, *value, true)))
        .collect();
    if days.iter().any(|(_, value, _)| *value <= 0.0) {
        return None;
    }
    let mut weekdays: Vec<u64> = days.iter().map(|(day, ..)| day % 7).collect();
    weekdays.sort_unstable();
    weekdays.dedup();
    let row = |(day, _, is_after): &(u64, f64, bool)| -> Vec<f64> {
        let dummies = weekdays.iter().map(|weekday| f64::from(u8::from(day % 7 == *weekday)));
        std::iter::once(f64::from(u8::from(*is_after))).chain(dummies).collect()
    };
    let rows: Vec<Vec<f64>> = days.iter().map(row).collect();
    let logs: Vec<f64> = days.iter().map(|(_, value, _)| value.ln()).collect();
    let gaps: Vec<u64> = days.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let freedom = days.len().checked_sub(weekdays.len() + 1).filter(|freedom| *freedom > 0)? as f64;
    let rhos = (0..RHO_STEPS).map(|step| f64::from(step) * RHO_STEP);
    let fits: Option<Vec<Fit>> = rhos.map(|rho| fit(&rows, &logs, &gaps, (rho, freedom))).collect();
    Some(Mixture::of(fits?, freedom))
}

/// Least squares with that rho. The effect is the first of the columns.
fn fit(rows: &[Vec<f64>], logs: &[f64], gaps: &[u64], (rho, freedom): (f64, f64)) -> Option<Fit> {
    // Between days that are `gap` apart: what is left of the earlier one, and the weight of what is not.
    let kept = |gap: u64| rho.powi(gap.min(1_000) as i32);
    let weight = |kept: f64| ((1.0 - rho * rho) / (1.0 - kept * kept)).sqrt();
    let size = rows[0].len();
    let (mut normal, mut log_weights) = (vec![vec![0.0; size + 1]; size], 0.0);
    let mut squares = 0.0;
    for day in 0..rows.len() {
        let (rest, scale) = match day {
            0 => (0.0, (1.0 - rho * rho).sqrt()),
            day => (kept(gaps[day - 1]), weight(kept(gaps[day - 1]))),
        };
        let whitened =
            |of: &dyn Fn(usize) -> f64| scale * (of(day) - if day == 0 { 0.0 } else { rest * of(day - 1) });
        let row: Vec<f64> = (0..size).map(|column| whitened(&|day| rows[day][column])).collect();
        let value = whitened(&|day| logs[day]);
        for (sums, own) in normal.iter_mut().zip(&row) {
            sums.iter_mut().zip(row.iter().chain([&value])).for_each(|(sum, other)| *sum += own * other);
        }
        squares += value * value;
        log_weights += scale.ln();
    }
    let moments: Vec<f64> = normal.iter().map(|row| row[size]).collect();
    let (inverse_of_first, solution, log_determinant) = solve(normal)?;
    let explained: f64 = solution.iter().zip(&moments).map(|(own, moment)| own * moment).sum();
    let rest = (squares - explained).max(squares * ROUNDING).max(f64::MIN_POSITIVE);
    Some(Fit {
        estimate: solution[0],
        error: (rest / freedom * inverse_of_first).sqrt(),
        log_weight: log_weights - 0.5 * log_determinant - 0.5 * freedom * rest.ln(),
    })
}

/// Solves normal equations (Gauss and Jordan, with the largest pivot first): the upper left number of the inverse, the
/// solution, and the logarithm of the determinant. `None` if columns depend on each other.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<(f64, Vec<f64>, f64)> {
    let size = rows.len();
    // A further column is the first of the inverse.
    rows.iter_mut().enumerate().for_each(|(row, cells)| cells.push(f64::from(u8::from(row == 0))));
    let mut log_determinant = 0.0;
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column][column];
        if head.abs() < 1e-9 {
            return None;
        }
        log_determinant += head.abs().ln();
        rows[column].iter_mut().for_each(|cell| *cell /= head);
        let own = rows[column].clone();
        for row in (0..size).filter(|row| *row != column) {
            let factor = rows[row][column];
            rows[row].iter_mut().zip(&own).for_each(|(cell, other)| *cell -= factor * other);
        }
    }
    let solution = rows.iter().map(|row| row[size]).collect();
    Some((rows[0][size + 1], solution, log_determinant))
}

/// Student's distributions around the estimates of all rhos, by their weights.
pub(super) struct Mixture {
    parts: Vec<(f64, f64, f64)>,
    freedom: f64,
}

impl Mixture {
    fn of(fits: Vec<Fit>, freedom: f64) -> Mixture {
        let most = fits.iter().map(|fit| fit.log_weight).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = fits.iter().map(|fit| (fit.log_weight - most).exp()).collect();
        let all: f64 = weights.iter().sum();
        let parts =
            fits.iter().zip(weights).map(|(fit, weight)| (weight / all, fit.estimate, fit.error)).collect();
        Mixture { parts, freedom }
    }

    /// The probability of an estimate as far from zero without an effect.
    pub(super) fn p(&self) -> f64 {
        let below = self.below(0.0);
        2.0 * below.min(1.0 - below)
    }

    /// The probability that the effect is below that.
    fn below(&self, effect: f64) -> f64 {
        let part = |(weight, estimate, error): &(f64, f64, f64)| {
            let tail = two_sided_p((effect - estimate) / error, self.freedom) / 2.0;
            weight * if effect > *estimate { 1.0 - tail } else { tail }
        };
        self.parts.iter().map(part).sum()
    }

    fn quantile(&self, share: f64) -> f64 {
        let mut width = self.parts.iter().map(|(_, _, error)| *error).fold(f64::MIN_POSITIVE, f64::max);
        let ends = self.parts.iter().map(|(_, estimate, _)| *estimate);
        let (mut low, mut high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)));
        while self.below(low) > share || self.below(high) < share {
            (low, high, width) = (low - width, high + width, width * 2.0);
        }
        // Halved so often, the rest is far below what a report distinguishes.
        for _ in 0..50 {
            let middle = low + (high - low) / 2.0;
            if self.below(middle) < share { low = middle } else { high = middle }
        }
        low + (high - low) / 2.0
    }
}
