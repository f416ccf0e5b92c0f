//! Steadiness of a series: how many values at its start are not steady yet, and which level it keeps in the end.

use crate::statistics::median;

/// Fewer values than this cannot show a trend.
const VALUES_MIN: usize = 10;
/// A beginning that differs from the rest by less is not relevant.
const RELEVANT: f64 = 0.05;
/// The beginning must differ by this many standard errors. They are those of independent noise: the place to cut was
/// chosen because the two sides differ there, and noise that lasts for some seconds differs by as much as 9.
const ERRORS: f64 = 10.0;
/// Medians of seconds do not vary by half of their size, so a difference of that size needs no standard errors.
const LARGE: f64 = 0.5;
const ERRORS_OF_LARGE: f64 = 4.0;
/// A step, or a slope, must be this many standard errors; seconds of a link differ by less noise than latencies do.
const ERRORS_OF_STEP: f64 = 6.0;

/// The length of the unsteady beginning, if the series has no longer steady part after it.
pub fn unsettled(series: &[f64]) -> Option<usize> {
    if series.len() < VALUES_MIN {
        return None;
    }
    let cut = settled_from(series, (series.len() / 4).max(3));
    if cut <= series.len() / 2 {
        return None;
    }
    let (beginning, rest) = series.split_at(cut);
    let difference = (mean(beginning) - mean(rest)).abs();
    let needed_errors = if difference > LARGE * mean(rest).abs() { ERRORS_OF_LARGE } else { ERRORS };
    // From one value to the next, a trend adds little to the noise.
    let squares =
        [beginning, rest].into_iter().flat_map(|part| part.windows(2)).map(|w| (w[1] - w[0]).powi(2));
    let variance = squares.sum::<f64>() / 2.0 / (series.len() - 2) as f64;
    let error = (variance * (1.0 / beginning.len() as f64 + 1.0 / rest.len() as f64)).sqrt();
    (difference > RELEVANT * mean(rest).abs() && difference > needed_errors * error).then_some(cut)
}

/// A level of fewer values is not known to last.
const LEVEL_MIN: usize = 10;
/// A step has at least so many values on each side: one slow second is none.
const SIDE_MIN: usize = 5;

/// The level that a series keeps in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SustainedLevel {
    /// Its median.
    pub level: f64,
    /// The first value of the level.
    pub from: usize,
    /// The median before the step to this level; none if the series has it from its beginning.
    pub before: Option<f64>,
}

/// The level that a series keeps after its last step, such as the rate of a link whose burst credit is spent. None if it is not
/// known: the series is still changing slowly, or too short, or the last step was too late.
pub fn sustained(series: &[f64]) -> Option<SustainedLevel> {
    let (mut from, mut before) = (0, None);
    loop {
        let rest = &series[from..];
        if rest.len() < LEVEL_MIN {
            return None;
        }
        match last_change(rest) {
            None => return Some(SustainedLevel { level: median(rest), from, before }),
            Some(Change::Slow) => return None,
            Some(Change::Step(cut)) => {
                before = Some(median(&rest[..cut]));
                from += cut;
            }
        }
    }
}

enum Change {
    /// At this value.
    Step(usize),
    Slow,
}

/// The change that describes a series best, if one is larger than its noise.
fn last_change(series: &[f64]) -> Option<Change> {
    let noise =
        series.windows(2).map(|w| (w[1] - w[0]).powi(2)).sum::<f64>() / 2.0 / (series.len() - 1) as f64;
    let is_relevant = |from: f64, to: f64, error: f64| {
        (from - to).abs() > RELEVANT * from.abs().max(to.abs()) && (from - to).abs() > ERRORS_OF_STEP * error
    };
    let line = Line::through(series);
    let length = series.len() as f64;
    // The standard error of the line's rise over all values is √12 times that of a mean.
    let is_line = is_relevant(line.at(0.0), line.at(length - 1.0), (12.0 * noise / length).sqrt());
    let cut = best_cut(series);
    let step = cut.filter(|&(cut, _)| {
        let error = (noise / cut as f64 + noise / (series.len() - cut) as f64).sqrt();
        is_relevant(median(&series[..cut]), median(&series[cut..]), error)
    });
    match step {
        Some((_, of_step)) if is_line && line.squares(series) < of_step => Some(Change::Slow),
        Some((cut, _)) => Some(Change::Step(cut)),
        None => is_line.then_some(Change::Slow),
    }
}

/// The cut into two parts whose values are nearest to their means, with the sum of the squares of what is left.
fn best_cut(series: &[f64]) -> Option<(usize, f64)> {
    // Around the mean, so that sums of squares keep their digits.
    let centre = mean(series);
    let total: f64 = series.iter().map(|value| (value - centre).powi(2)).sum();
    let mut sum = 0.0;
    let gains = series.iter().enumerate().map(|(at, value)| {
        // The sum of both parts is 0: each mean follows from that of the other.
        let (left, right) = (at as f64, (series.len() - at) as f64);
        let gain = sum * sum * (1.0 / left + 1.0 / right);
        sum += value - centre;
        (at, total - gain)
    });
    let possible = SIDE_MIN..=series.len().saturating_sub(SIDE_MIN);
    gains.filter(|(at, _)| possible.contains(at)).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// A straight line through a series, by least squares.
struct Line {
    start: f64,
    slope: f64,
}

impl Line {
    fn through(series: &[f64]) -> Line {
        let (middle, mean) = ((series.len() - 1) as f64 / 2.0, mean(series));
        let places = || series.iter().enumerate().map(|(at, value)| (at as f64 - middle, value - mean));
        let slope = places().map(|(at, value)| at * value).sum::<f64>()
            / places().map(|(at, _)| at * at).sum::<f64>();
        Line { start: mean - slope * middle, slope }
    }

    fn at(&self, place: f64) -> f64 {
        self.start + self.slope * place
    }

    fn squares(&self, series: &[f64]) -> f64 {
        series.iter().enumerate().map(|(at, value)| (value - self.at(at as f64)).powi(2)).sum()
    }
}

/// MSER (White 1997): the cut at the front that minimizes the standard error of the rest. At least `rest_min` values
/// are left.
fn settled_from(series: &[f64], rest_min: usize) -> usize {
    let error = |from: usize| {
        let rest = &series[from..];
        let mean = mean(rest);
        rest.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let places = 0..=series.len().saturating_sub(rest_min);
    places.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or_default()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn a_different_beginning_is_cut() {
        let series = |high: usize| -> Vec<f64> {
            (0..30)
                .map(|n| if n < high { 500.0 } else { 100.0 } + (crate::prng::mix(n as u64) % 10) as f64)
                .collect()
        };
        assert_eq!(settled_from(&series(5), 5), 5);
        assert_eq!(settled_from(&series(20), 5), 20);
        assert!(settled_from(&series(0), 5) <= 15);
        assert_eq!(settled_from(&[1.0, 1.0, 1.0], 1), 0, "a constant is steady from its beginning");
        assert_eq!(unsettled(&series(20)), Some(20));
        assert_eq!((unsettled(&series(5)), unsettled(&series(0))), (None, None));
    }

    #[test]
    fn a_ramp_has_not_settled() {
        for seconds in [10, 15, 30, 60] {
            let ramp = |n: usize| 1000.0 - 900.0 * n as f64 / (seconds - 1) as f64;
            assert!(unsettled(&(0..seconds).map(ramp).collect::<Vec<_>>()).is_some(), "{seconds} s down");
            assert!(unsettled(&(0..seconds).rev().map(ramp).collect::<Vec<_>>()).is_some(), "{seconds} s up");
        }
        assert_eq!(unsettled(&[900.0, 100.0, 100.0]), None, "too few");
    }

    /// Seconds of a link: levels with their lengths, and noise of this share of the level.
    fn link(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<f64> {
        let mut random = Prng::new(seed);
        let levels = levels.iter().flat_map(|&(level, length)| std::iter::repeat_n(level, length));
        levels.map(|level| level * (1.0 + noise * (2.0 * random.unit() - 1.0))).collect()
    }

    #[track_caller]
    fn check(series: &[f64], level: f64, from: usize, before: Option<f64>) {
        let found = sustained(series).unwrap_or_else(|| panic!("no level in {series:.1?}"));
        let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.07;
        assert!(is_near(found.level, level), "{found:?}");
        assert!(found.from.abs_diff(from) <= 1, "{found:?}");
        assert_eq!(found.before.is_some(), before.is_some(), "{found:?}");
        assert!(
            found.before.zip(before).is_none_or(|(found, expected)| is_near(found, expected)),
            "{found:?}"
        );
    }

    #[test]
    fn without_a_credit_the_level_is_that_of_the_whole_series() {
        check(&[10.0; 30], 10.0, 0, None);
        for seed in 0..100 {
            check(&link(&[(10.0, 60)], 0.05, seed), 10.0, 0, None);
        }
    }

    #[test]
    fn the_level_after_a_spent_credit_is_found_with_its_second() {
        for (seed, high) in [5, 12, 40, 100, 200].into_iter().enumerate() {
            for noise in [0.0, 0.02, 0.05, 0.1] {
                let length = 300 - high;
                check(&link(&[(10.0, high), (2.5, length)], noise, seed as u64), 2.5, high, Some(10.0));
                check(&link(&[(10.0, high), (8.0, length)], noise / 2.0, seed as u64), 8.0, high, Some(10.0));
            }
        }
        // A slow start, and two credits one after the other.
        check(&link(&[(4.0, 5), (10.0, 30), (5.0, 30), (2.5, 60)], 0.02, 1), 2.5, 65, Some(5.0));
    }

    #[test]
    fn a_slow_decline_has_no_level_yet() {
        for noise in [0.0, 0.02, 0.05] {
            for seconds in [20, 60, 300] {
                let levels: Vec<_> =
                    (0..seconds).map(|at| (10.0 - 5.0 * at as f64 / seconds as f64, 1)).collect();
                assert_eq!(sustained(&link(&levels, noise, seconds)), None, "{seconds} s, noise {noise}");
            }
        }
    }

    #[test]
    fn a_series_that_is_too_short_or_drops_at_its_end_has_no_level() {
        assert_eq!(sustained(&[]), None);
        assert_eq!(sustained(&[10.0; LEVEL_MIN - 1]), None);
        assert_eq!(sustained(&link(&[(10.0, 60), (2.5, 7)], 0.02, 1)), None);
    }

    #[test]
    fn single_slow_seconds_are_no_step() {
        let mut series = link(&[(10.0, 40), (2.5, 60)], 0.02, 1);
        (series[20], series[70]) = (1.0, 0.5);
        check(&series, 2.5, 40, Some(10.0));
        assert_eq!(
            sustained(&[0.0; 20]).map(|found| found.level),
            Some(0.0),
            "nothing, which is a level as well"
        );
    }

    /// Of noise alone the level is found nearly always.
    #[test]
    fn noise_is_no_step() {
        let found = (0..1000).filter(|seed| {
            let series = link(&[(10.0, 60)], 0.2, *seed);
            sustained(&series).is_some_and(|found| found.before.is_none() && (found.level - 10.0).abs() < 0.6)
        });
        let found = found.count();
        assert!(found >= 970, "{found} of 1000");
    }

    #[test]
    fn an_irrelevant_change_is_ignored() {
        let step = |high: f64| (0..30).map(|n| if n < 20 { high } else { 100.0 }).collect::<Vec<f64>>();
        assert_eq!(unsettled(&step(104.0)), None);
        assert_eq!(unsettled(&step(106.0)), Some(20));
    }

    /// Noise of a tenth of the mean, autocorrelated.
    #[test]
    fn noise_has_settled() {
        const RUNS: usize = 1000;
        let mut prng = Prng::new(1);
        for seconds in [10, 15, 20, 40, 60] {
            for share in [0.0_f64, 0.5, 0.7] {
                let mut run = || {
                    let mut noise = 0.0;
                    let mut next = || {
                        let normal = (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0;
                        noise = share * noise + normal * (1.0 - share * share).sqrt();
                        100.0 + 10.0 * noise
                    };
                    (0..20).for_each(|_| _ = next());
                    (0..seconds).map(|_| next()).collect::<Vec<f64>>()
                };
                let accused = (0..RUNS).filter(|_| unsettled(&run()).is_some()).count();
                assert!(accused <= RUNS / 100, "{seconds} s, {share}: {accused} of {RUNS}");
            }
        }
    }
}
