//! Statistics of paired runs: the unit is the run, never one second of it.
//!
//! Seconds of one run are correlated (on a shared machine with the next one by 0.7), so tests that take them as
//! independent find differences between equals. Runs are paired within a round, because a host drifts more between
//! rounds than within one. Pure; random numbers come from a seed.

mod shift;

pub use shift::Shift;

use crate::prng::Prng;

/// Samples drawn for an interval.
const RESAMPLES: usize = 10_000;

/// Share of intervals that should hold the true value.
const CONFIDENCE: f64 = 0.95;

/// The probability of reporting a difference where there is none, over all comparisons of one question together.
pub const ALPHA: f64 = 0.05;

/// The middle one, or the mean of the two in the middle. There must be at least one.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "nothing has no middle");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[half - 1] + sorted[half]) / 2.0 } else { sorted[half] }
}

/// The interval that holds the median of `values` with 95 % confidence, by bootstrap (percentiles of the medians of
/// samples with replacement). With few values it spans all of them.
pub fn median_interval(values: &[f64], seed: u64) -> (f64, f64) {
    let mut prng = Prng::new(seed);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            sample.fill_with(|| values[prng.below(values.len() as u64) as usize]);
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = (RESAMPLES as f64 * (1.0 - CONFIDENCE) / 2.0) as usize;
    (medians[tail], medians[RESAMPLES - 1 - tail])
}

/// Rounds that are necessary to show any difference among this many comparisons, however large it is.
pub fn rounds_min(comparisons: usize) -> u32 {
    let reachable = |rounds: u32| 2.0 / 2f64.powi(rounds as i32) * comparisons.max(1) as f64;
    (1..).find(|rounds| reachable(*rounds) <= ALPHA).expect("it halves with every round")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nearly normal: the sum of twelve uniform numbers.
    fn normal(prng: &mut Prng) -> f64 {
        (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
    }

    #[test]
    fn the_least_number_of_rounds_can_show_a_difference() {
        assert_eq!((rounds_min(1), rounds_min(2), rounds_min(10)), (6, 7, 9));
        for comparisons in [1, 2, 10, 33] {
            let rounds = rounds_min(comparisons) as usize;
            let p = |rounds: usize| Shift::of_pairs(&vec![1.0; rounds], comparisons).expect("pairs").p;
            assert!(p(rounds) <= ALPHA && p(rounds - 1) > ALPHA, "{comparisons}");
        }
    }

    #[test]
    fn the_coverage_of_the_median_interval_is_near_its_confidence() {
        let mut prng = Prng::new(7);
        let held = (0..80).filter(|round| {
            let values: Vec<f64> = (0..10).map(|_| normal(&mut prng)).collect();
            let (low, high) = median_interval(&values, *round);
            low <= 0.0 && 0.0 <= high
        });
        let held = held.count();
        assert!((70..=80).contains(&held), "{held} of 80");
        assert_eq!(median_interval(&[2.0; 5], 1), (2.0, 2.0));
    }
}
