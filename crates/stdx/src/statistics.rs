//! What paired runs say: the unit is the run, never a second of it.
//!
//! Seconds of one run resemble each other (on a shared machine the next one is predicted by the last to 0.7), so tests
//! that take them for independent find differences between equals. Runs are paired within a round, because a host drifts
//! more between rounds than inside of one. Pure; random numbers come from a seed.

use crate::prng::Prng;

/// Samples drawn for an interval.
const RESAMPLES: usize = 10_000;

/// Up to so many pairs every way to flip their signs is tried (65,536); of more, so many are drawn.
const EXACT_PAIRS_MAX: usize = 16;

/// Share of intervals that should hold the true value.
const CONFIDENCE: f64 = 0.95;

/// Chance to speak of a difference where there is none, over all comparisons of one question together.
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
/// samples with replacement). With few values it is as wide as they are.
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

/// How much larger the median of `new` is than that of `old`, and the interval that holds this with 95 % confidence, by
/// bootstrap of both. For values that are no pairs; there must be one of each at least.
pub fn shift_interval(old: &[f64], new: &[f64], seed: u64) -> (f64, f64) {
    let mut prng = Prng::new(seed);
    let mut resampled = |values: &[f64]| {
        let mut draw = || values[prng.below(values.len() as u64) as usize];
        median(&(0..values.len()).map(|_| draw()).collect::<Vec<_>>())
    };
    let mut shifts: Vec<f64> = (0..RESAMPLES).map(|_| resampled(new) - resampled(old)).collect();
    shifts.sort_by(f64::total_cmp);
    let tail = (RESAMPLES as f64 * (1.0 - CONFIDENCE) / 2.0) as usize;
    (shifts[tail], shifts[RESAMPLES - 1 - tail])
}

/// How often chance alone makes the means of two groups differ as much: if there is no effect, any values might as well
/// be in the other group. Two-sided; for values that are no pairs.
pub fn exchange_p(old: &[f64], new: &[f64], seed: u64) -> f64 {
    let mut all = [old, new].concat();
    if old.is_empty() || new.is_empty() {
        return 1.0;
    }
    let total: f64 = all.iter().sum();
    let difference = |all: &[f64]| {
        let first: f64 = all[..old.len()].iter().sum();
        (first / old.len() as f64 - (total - first) / new.len() as f64).abs()
    };
    // A hair below, so that the same groups in another order of adding count.
    let reached = difference(&all) * (1.0 - 1e-9);
    let mut prng = Prng::new(seed);
    let hits = (0..RESAMPLES).filter(|_| {
        // The first group is drawn anew, without replacement.
        for place in 0..old.len() {
            let other = place + prng.below((all.len() - place) as u64) as usize;
            all.swap(place, other);
        }
        difference(&all) >= reached
    });
    // The data themselves are one of the ways, so it is never 0.
    (hits.count() + 1) as f64 / (RESAMPLES + 1) as f64
}

/// How often chance alone gives a mean as far from zero as that of `differences`: if there is no effect, each of them
/// might as well have the other sign. Two-sided; 1 for no differences.
pub fn sign_flip_p(differences: &[f64], seed: u64) -> f64 {
    let count = differences.len();
    // A hair below, so that the flips that give the same sum in another order of adding count.
    let reached = differences.iter().sum::<f64>().abs() * (1.0 - 1e-9);
    let reaches = |flips: u64| {
        let flipped = differences.iter().enumerate();
        let sum: f64 = flipped.map(|(i, d)| if flips >> (i % 64) & 1 == 1 { -d } else { *d }).sum();
        sum.abs() >= reached
    };
    if count <= EXACT_PAIRS_MAX {
        let ways = 1u64 << count;
        return (0..ways).filter(|flips| reaches(*flips)).count() as f64 / ways as f64;
    }
    let mut prng = Prng::new(seed);
    let draws = 1u64 << EXACT_PAIRS_MAX;
    let hits = (0..draws).filter(|_| reaches(prng.next_u64())).count();
    // The data themselves are one of the ways, so it is never 0.
    (hits + 1) as f64 / (draws + 1) as f64
}

/// The least that [`sign_flip_p`] can be of so many differences, however large they are.
pub fn sign_flip_p_min(count: usize) -> f64 {
    // Itself and its opposite, of all ways.
    2.0 / 2f64.powi(count.max(1) as i32)
}

/// The same p values, raised so that all together give a false alarm no more often than one alone would (Holm 1979).
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|a, b| ps[*a].total_cmp(&ps[*b]));
    let mut adjusted = vec![0.0; ps.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max(ps[index] * (ps.len() - rank) as f64).min(1.0);
        adjusted[index] = least;
    }
    adjusted
}

/// Rounds that it takes at least to show any difference among so many comparisons, however large it is.
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
    fn p_is_the_share_of_flips_that_reach_as_far() {
        // All the same sign: only the data themselves and their opposite.
        assert_eq!((sign_flip_p(&[1.0; 6], 1), sign_flip_p_min(6)), (2.0 / 64.0, 2.0 / 64.0));
        assert_eq!((sign_flip_p(&[1.0], 1), sign_flip_p_min(1)), (1.0, 1.0));
        // 3 + 2 - 1 = 4 is reached by itself, by 3 + 2 + 1 and by their opposites, of eight.
        assert_eq!(sign_flip_p(&[3.0, 2.0, -1.0], 1), 0.5);
        assert_eq!(sign_flip_p(&[0.0; 5], 1), 1.0);
        assert_eq!(sign_flip_p(&[], 1), 1.0);
        // Of 20 pairs only some are drawn; the exact value is 2 / 2^20.
        assert!(sign_flip_p(&[1.0; 20], 1) <= 4.0 / 65_536.0);
        let mixed: Vec<f64> = (0..20).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(sign_flip_p(&mixed, 1), 1.0);
    }

    #[test]
    fn groups_that_are_no_pairs_are_told_apart_by_exchanging() {
        // Two of the 20 ways to choose three of six are as far apart as 1, 2, 3 and 4, 5, 6.
        let p = exchange_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 1);
        assert!((0.085..0.115).contains(&p), "{p}");
        assert_eq!((exchange_p(&[5.0; 3], &[5.0; 4], 1), exchange_p(&[], &[1.0], 1)), (1.0, 1.0));
        let old: Vec<f64> = (0..20).map(f64::from).collect();
        let new: Vec<f64> = old.iter().map(|value| value + 15.0).collect();
        assert!(exchange_p(&old, &new, 1) < 0.001);
        let (low, high) = shift_interval(&old, &new, 1);
        assert!(low < 15.0 && 15.0 < high && low > 5.0, "{low} to {high}");
        assert_eq!(shift_interval(&[2.0; 4], &[3.0; 5], 1), (1.0, 1.0));
    }

    #[test]
    fn holm_raises_the_least_most() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let wanted = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn so_many_rounds_can_show_something() {
        assert_eq!((rounds_min(1), rounds_min(2), rounds_min(10)), (6, 7, 9));
        assert!(sign_flip_p(&[1.0; 6], 1) <= ALPHA && sign_flip_p(&[1.0; 5], 1) > ALPHA);
    }

    #[test]
    fn the_interval_holds_the_median_about_as_often_as_it_says() {
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
