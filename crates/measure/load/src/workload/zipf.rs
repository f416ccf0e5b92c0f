//! Zipf-distributed ranks by rejection inversion (Hörmann and Derflinger 1996): constant memory and about 24 ns a
//! number, whatever the number of ranks and the exponent.

use stdx::prng::Prng;

/// Rank `k` of `1..=n` has a probability proportional to `k` to the power of `-exponent`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    n: f64,
    exponent: f64,
    /// The integral up to 1.5, less the whole weight of rank 1.
    low: f64,
    /// The integral up to n + 0.5.
    high: f64,
    /// Below this distance a rank is accepted without evaluating the integral.
    sure: f64,
}

impl Zipf {
    /// Panics unless `n` is at least 1 and `exponent` positive.
    pub(crate) fn new(n: u64, exponent: f64) -> Zipf {
        assert!(n >= 1 && exponent > 0.0 && exponent.is_finite(), "a Zipf distribution of {n}, {exponent}");
        let mut zipf = Zipf { n: n as f64, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// The next rank, from 1 to n.
    #[inline]
    pub(crate) fn sample(&self, prng: &mut Prng) -> u64 {
        loop {
            let area = self.high + prng.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight from 1 to `x`: `(x^(1-s) - 1) / (1 - s)`, and `ln x` for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_ratio((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding can take the product just below -1, where the logarithm ends.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (ln1p_ratio(t) * area).exp()
    }
}

/// `(e^x - 1) / x`, also near 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

/// `ln(1 + x) / x`, also near 0.
fn ln1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's statistic of `draws` numbers against the exact probabilities; cells are merged until each expects 20.
    fn check(n: u64, exponent: f64) {
        const DRAWS: u64 = 400_000;
        let zipf = Zipf::new(n, exponent);
        let mut prng = Prng::new(n ^ exponent.to_bits());
        let mut seen = vec![0u64; n as usize + 1];
        for _ in 0..DRAWS {
            seen[zipf.sample(&mut prng) as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        let weight = |rank: u64| (rank as f64).powf(-exponent);
        let total: f64 = (1..=n).map(weight).sum();
        let (mut cells, mut statistic, mut expected, mut observed) = (0u32, 0.0, 0.0, 0u64);
        for rank in 1..=n {
            expected += weight(rank) / total * DRAWS as f64;
            observed += seen[rank as usize];
            if expected >= 20.0 || rank == n {
                statistic += (observed as f64 - expected).powi(2) / expected.max(1e-9);
                (cells, expected, observed) = (cells + 1, 0.0, 0);
            }
        }
        // Four standard deviations above the mean of chi-square: one false alarm in some 30,000 seeds.
        let freedom = f64::from(cells.max(2) - 1);
        let limit = freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0;
        assert!(statistic < limit, "n {n} s {exponent}: {statistic:.1} of {limit:.1} over {cells} cells");
    }

    #[test]
    fn ranks_follow_the_exact_probabilities() {
        for n in [1, 2, 3, 10, 1000, 100_000] {
            for exponent in [0.2, 0.5, 0.99, 1.0, 1.2, 2.5] {
                check(n, exponent);
            }
        }
    }

    #[test]
    fn huge_ranges_stay_in_range() {
        let mut prng = Prng::new(3);
        for exponent in [0.01, 0.99, 1.0, 8.0] {
            let zipf = Zipf::new(1_000_000_000_000, exponent);
            for _ in 0..10_000 {
                assert!((1..=1_000_000_000_000).contains(&zipf.sample(&mut prng)));
            }
        }
    }
}
