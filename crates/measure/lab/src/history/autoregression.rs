//! Level changes of an autocorrelated series that are more than its own slow swings.
//!
//! Runs of a history resemble their neighbours: a host has good weeks and bad ones. A t test, which takes runs for
//! independent, finds a regression in every third such history. Here a series is an autoregression around its levels,
//!
//! ```text
//! x[t] - level[t] = rho * (x[t-1] - level[t-1]) + noise
//! ```
//!
//! and a change of level counts if it makes the series so much more likely that chance rarely does, where both sides
//! of the comparison use the rho that suits them best: without the change a large one explains the difference as a
//! swing. Changes are added one by one, the most significant first, from places that the caller proposes.

use crate::history::student::two_sided_p;

/// Values of rho that are tried. A negative one, with which runs alternate, would make a change look more certain.
const RHO_STEP: f64 = 0.05;
const RHO_STEPS: u32 = 20;

/// A run farther from its level than this, in standard deviations estimated by the median distance, counts as being
/// at that distance: a bad night is no level, and would hide the similarity of the others.
const DEVIATIONS_MAX: f64 = 3.0;

/// Of a normal distribution: standard deviations for each median distance from the middle.
const DEVIATIONS_OF_MEDIAN: f64 = 1.4826;

/// A sum of squares below this share of the whole counts as this share: what is left is rounding.
const ROUNDING: f64 = 1e-12;

/// The places where chance makes such a change in fewer than `p_max` of series without one, with that probability, in
/// order.
pub(crate) fn beyond_swings(series: &[f64], places: &[usize], p_max: f64) -> Vec<(usize, f64)> {
    if places.is_empty() {
        return Vec::new();
    }
    let values = clamped(series, places);
    let (mut taken, mut left) = (Vec::new(), places.to_vec());
    let mut misfit = least_misfit(&values, &places_of(&taken));
    while let Some((index, with_it)) = best(&values, &taken, &left) {
        // The mean, rho, and the changes taken in so far, with this one.
        let freedom = values.len() as f64 - taken.len() as f64 - 3.0;
        if freedom < 1.0 {
            break;
        }
        let gain = (misfit - with_it).max(0.0) / values.len() as f64;
        let p = two_sided_p((gain.exp_m1() * freedom).sqrt(), freedom);
        if p >= p_max {
            break;
        }
        taken.push((left.remove(index), p));
        misfit = with_it;
    }
    taken.sort_by_key(|(place, _)| *place);
    taken
}

/// Of the remaining places, the index of the one that makes the series most likely.
fn best(values: &[f64], taken: &[(usize, f64)], left: &[usize]) -> Option<(usize, f64)> {
    let with = |(index, place): (usize, &usize)| {
        let mut places = places_of(taken);
        places.push(*place);
        places.sort_unstable();
        (index, least_misfit(values, &places))
    };
    left.iter().enumerate().map(with).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn places_of(taken: &[(usize, f64)]) -> Vec<usize> {
    let mut places: Vec<usize> = taken.iter().map(|(place, _)| *place).collect();
    places.sort_unstable();
    places
}

/// Around the middle of the whole, with values far from the level of their part drawn nearer.
fn clamped(series: &[f64], places: &[usize]) -> Vec<f64> {
    let ends: Vec<usize> = [0].iter().chain(places).chain([&series.len()]).copied().collect();
    let levels: Vec<f64> =
        ends.windows(2).flat_map(|ends| vec![middle(&series[ends[0]..ends[1]]); ends[1] - ends[0]]).collect();
    let distances: Vec<f64> =
        series.iter().zip(&levels).map(|(value, level)| (value - level).abs()).collect();
    let far = DEVIATIONS_MAX * DEVIATIONS_OF_MEDIAN * middle(&distances);
    let whole = middle(series);
    let near = |(value, level): (&f64, &f64)| {
        // More than half are equal: the scale is unknown.
        let distance = if far > 0.0 { (value - level).clamp(-far, far) } else { value - level };
        level + distance - whole
    };
    series.iter().zip(&levels).map(near).collect()
}

fn middle(values: &[f64]) -> f64 {
    stdx::statistics::median(values)
}

/// Minus twice the logarithm of the likelihood, but for a constant, with the levels and rho that suit best.
fn least_misfit(values: &[f64], places: &[usize]) -> f64 {
    let rhos = (0..RHO_STEPS).map(|step| f64::from(step) * RHO_STEP);
    rhos.map(|rho| misfit(values, places, rho)).fold(f64::INFINITY, f64::min)
}

/// With that rho: each run less rho times the one before is independent of the others, and levels are found by least
/// squares.
fn misfit(values: &[f64], places: &[usize], rho: f64) -> f64 {
    let starts: Vec<usize> = std::iter::once(0).chain(places.iter().copied()).collect();
    // The first run has no other before it, and as much variance as all of them.
    let first = (1.0 - rho * rho).sqrt();
    let whitened = |of: &dyn Fn(usize) -> f64, run: usize| match run {
        0 => of(0) * first,
        run => of(run) - rho * of(run - 1),
    };
    let size = starts.len();
    let mut sums = vec![vec![0.0; size + 1]; size];
    let (mut squares, mut row) = (0.0, vec![0.0; size]);
    for run in 0..values.len() {
        let value = whitened(&|run| values[run], run);
        for (cell, start) in row.iter_mut().zip(&starts) {
            *cell = whitened(&|run| f64::from(u8::from(run >= *start)), run);
        }
        for (sums, own) in sums.iter_mut().zip(&row) {
            for (sum, other) in sums.iter_mut().zip(row.iter().chain([&value])) {
                *sum += own * other;
            }
        }
        squares += value * value;
    }
    let rest = residue(sums, squares).max(ROUNDING * squares).max(f64::MIN_POSITIVE);
    values.len() as f64 * rest.ln() - (1.0 - rho * rho).ln()
}

/// The rest of `squares` after least squares: Gauss's elimination of the normal equations.
fn residue(mut sums: Vec<Vec<f64>>, mut squares: f64) -> f64 {
    for pivot in 0..sums.len() {
        let row = sums[pivot].clone();
        let right = row.len() - 1;
        squares -= row[right] * row[right] / row[pivot];
        for lower in &mut sums[pivot + 1..] {
            let share = lower[pivot] / row[pivot];
            lower.iter_mut().zip(&row).for_each(|(cell, above)| *cell -= share * above);
        }
    }
    squares
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    /// An autoregression, with the changes of its level.
    fn series(seed: u64, len: usize, rho: f64, changes: &[(usize, f64)]) -> Vec<f64> {
        let mut prng = Prng::new(seed);
        let mut normal = || (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0;
        let mut swing = normal();
        let mut run = |place: usize| {
            swing = rho * swing + (1.0 - rho * rho).sqrt() * normal();
            let level: f64 = changes.iter().filter(|(at, _)| *at <= place).map(|(_, by)| by).sum();
            100.0 + swing + level
        };
        (0..len).map(&mut run).collect()
    }

    fn places(series: &[f64], places: &[usize]) -> Vec<usize> {
        beyond_swings(series, places, 1e-6).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn a_swing_is_no_change_and_a_change_of_independent_runs_is() {
        for seed in 1..20 {
            assert_eq!(places(&series(seed, 60, 0.9, &[]), &[15, 30, 45]), [0; 0], "seed {seed}");
            assert_eq!(places(&series(seed, 60, 0.0, &[(40, -5.0)]), &[20, 40]), [40], "seed {seed}");
        }
    }

    #[test]
    fn several_changes_are_told_from_each_other() {
        let steps = series(3, 90, 0.3, &[(30, -8.0), (60, 6.0)]);
        assert_eq!(places(&steps, &[15, 30, 60, 80]), [30, 60]);
    }

    #[test]
    fn a_bad_night_hides_nothing() {
        let mut runs = series(5, 60, 0.0, &[(40, -6.0)]);
        runs[10] = 20.0;
        assert_eq!(places(&runs, &[40]), [40]);
    }

    #[test]
    fn without_noise_or_with_hardly_a_run_nothing_breaks() {
        let exact: Vec<f64> = (0..20).map(|run| if run < 10 { 100.0 } else { 90.0 }).collect();
        assert_eq!(places(&exact, &[10]), [10]);
        assert_eq!(places(&[1.0, 2.0, 1.0], &[1]), [0; 0]);
        assert_eq!(places(&[5.0; 12], &[6]), [0; 0]);
        assert_eq!(places(&[], &[]), [0; 0]);
    }

    #[test]
    fn least_squares_are_the_distances_from_the_means() {
        // Independent: the misfit is that of two means.
        let values = [1.0, 3.0, 10.0, 14.0];
        let expected = 4.0 * (2.0_f64 + 8.0).ln();
        assert!((misfit(&values, &[2], 0.0) - expected).abs() < 1e-9);
    }
}
