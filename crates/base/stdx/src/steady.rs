//! Warm-up detection: how many values at the start of a series are not steady yet.

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
