//! Student's t test of two samples with one variance.

/// Mean, standard deviation and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) mean: f64,
    /// That of the population, as estimated from the sample: squares are divided by n - 1. 0 of a single value.
    pub(crate) deviation: f64,
    pub(crate) len: usize,
}

impl Sample {
    /// There must be a value.
    pub(crate) fn of(values: &[f64]) -> Sample {
        let len = values.len() as f64;
        let mean = values.iter().sum::<f64>() / len;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let variance = if values.len() < 2 { 0.0 } else { squares / (len - 1.0) };
        Sample { mean, deviation: variance.sqrt(), len: values.len() }
    }
}

/// The probability that samples of one population differ as much in their means; two-sided. 1 for fewer than three
/// values, and for samples without any variance that are equal.
pub(crate) fn t_test_p(left: Sample, right: Sample) -> f64 {
    let (n, m) = (left.len as f64, right.len as f64);
    let freedom = n + m - 2.0;
    let difference = left.mean - right.mean;
    if freedom < 1.0 || difference == 0.0 {
        return 1.0;
    }
    let squares = (n - 1.0) * left.deviation.powi(2) + (m - 1.0) * right.deviation.powi(2);
    let t = difference / (squares / freedom * (1.0 / n + 1.0 / m)).sqrt();
    two_sided_p(t, freedom)
}

/// The probability of a t at least as far from 0.
pub(crate) fn two_sided_p(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    front * fraction(x, a, b)
}

/// Terms after which the fraction is given up; for any a and b of a t test it takes fewer than a hundred.
const TERMS_MAX: u32 = 500;

/// Lentz's method: numerator and denominator as one running product.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_0 = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_0(1.0 - (a + b) * x / (a + 1.0)));
    let mut product = d;
    for term in 1..=TERMS_MAX {
        let k = f64::from(term);
        let even = k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k));
        let odd = -(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0));
        let mut factor = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / away_from_0(1.0 + coefficient * d);
            c = away_from_0(1.0 + coefficient / c);
            factor = c * d;
            product *= factor;
        }
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

/// Stirling's series, from where it is exact enough; below, by ln Γ(x) = ln Γ(x + 1) - ln x.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found:e}, expected {expected:e}");
    }

    /// The expected values are those of scipy 1.x.
    #[test]
    fn the_tails_are_those_of_scipy() {
        is(two_sided_p(0.0, 5.0), 1.0);
        is(two_sided_p(1.0, 1.0), 0.5);
        is(two_sided_p(2.0, 10.0), 0.073_388_034_770_740_39);
        is(two_sided_p(5.5, 58.0), 8.945_218_047_794_513e-7);
        is(two_sided_p(20.0, 198.0), 2.068_940_257_467_849_4e-49);
        is(two_sided_p(-3.0, 7.0), 0.019_942_126_131_992_522);
    }

    #[test]
    fn two_samples_are_compared_as_scipy_does() {
        let sample = |mean, deviation, len| Sample { mean, deviation, len };
        is(t_test_p(sample(100.0, 3.0, 30), sample(90.0, 3.0, 30)), 1.060_487_724_267_042_8e-18);
        is(t_test_p(sample(100.0, 5.0, 10), sample(101.0, 5.0, 12)), 0.645_477_478_017_935_3);
        is(t_test_p(sample(5.0, 0.1, 2), sample(6.0, 0.2, 3)), 0.007_991_211_082_066_284);
        is(t_test_p(sample(1.0, 1.0, 100), sample(1.2, 1.1, 400)), 0.098_547_925_849_126_42);
    }

    #[test]
    fn samples_have_the_deviation_of_their_population() {
        let sample = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((sample.mean, sample.len), (5.0, 8));
        is(sample.deviation, (32.0f64 / 7.0).sqrt());
        assert_eq!(Sample::of(&[3.0]).deviation, 0.0);
        // As scipy.stats.ttest_ind has it.
        is(
            t_test_p(Sample::of(&[1.0, 2.0, 3.0, 4.0]), Sample::of(&[3.0, 5.0, 6.0, 8.0, 9.0])),
            0.027_785_213_724_021_85,
        );
    }

    #[test]
    fn constants_are_equal_or_not() {
        let constant = |value: f64| Sample::of(&[value; 5]);
        assert_eq!(t_test_p(constant(2.0), constant(2.0)), 1.0);
        assert_eq!(t_test_p(constant(2.0), constant(3.0)), 0.0);
        assert_eq!(t_test_p(Sample::of(&[1.0]), Sample::of(&[2.0])), 1.0);
    }
}
