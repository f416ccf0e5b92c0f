//! Laws of chance that published workloads follow, each a function from random bits to a number.

use stdx::prng::Prng;

/// How long keys or values are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Fixed(usize),
    /// Log-normal with this mean, and a logarithm that deviates by 0.8: where only the mean is published.
    Around(f64),
    /// Keys of Facebook's ETC pool: generalised extreme values.
    EtcKey,
    /// Values of Facebook's ETC pool: a list up to 14 bytes, beyond that generalised Pareto.
    EtcValue,
}

/// Spread of [`Length::Around`].
const SPREAD: f64 = 0.8;

/// The shares of ETC's values of 0, 1, 2 … bytes (Atikoglu et al. 2012, as mutilate has them).
const ETC_SHORT: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];

impl Length {
    pub(crate) fn draw(self, prng: &mut Prng) -> f64 {
        match self {
            Length::Fixed(len) => len as f64,
            Length::Around(mean) => mean * (SPREAD * normal(prng) - SPREAD * SPREAD / 2.0).exp(),
            Length::EtcKey => {
                let (place, scale, shape) = (30.7984, 8.20449, 0.078688);
                place + scale * ((-open(prng).ln()).powf(-shape) - 1.0) / shape
            }
            Length::EtcValue => {
                let mut left = prng.unit();
                for (len, share) in ETC_SHORT.iter().enumerate() {
                    if left < *share {
                        return len as f64;
                    }
                    left -= share;
                }
                let (place, scale, shape) = (15.0, 214.476, 0.348238);
                place + scale * (open(prng).powf(-shape) - 1.0) / shape
            }
        }
    }
}

/// In (0, 1]: a number to take the logarithm of.
fn open(prng: &mut Prng) -> f64 {
    1.0 - prng.unit()
}

/// Box and Muller.
fn normal(prng: &mut Prng) -> f64 {
    (-2.0 * open(prng).ln()).sqrt() * (std::f64::consts::TAU * prng.unit()).cos()
}

/// Ranks 0, 1, 2 …, of which rank r is drawn with a probability proportional to (r + 1)^-alpha: rejection
/// from an integrated hat (Hörmann and Derflinger 1996), which needs no table and takes any alpha above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZipfLaw {
    alpha: f64,
    ranks: f64,
    /// The hat's integral up to 1.5, less the first rank's probability, and up to the last rank.
    area: (f64, f64),
    /// Closer than this to the rank, nothing has to be computed.
    near: f64,
}

impl ZipfLaw {
    pub(crate) fn new(ranks: u64, alpha: f64) -> ZipfLaw {
        let mut zipf = ZipfLaw { alpha, ranks: ranks as f64, area: (0.0, 0.0), near: 0.0 };
        zipf.area = (zipf.integral(1.5) - 1.0, zipf.integral(zipf.ranks + 0.5));
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    pub(crate) fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let area = self.area.1 + prng.unit() * (self.area.0 - self.area.1);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.near || area >= self.integral(rank + 0.5) - self.hat(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn hat(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.alpha) * log;
        log * if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.alpha)).max(-1.0);
        (area * if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_published_means() {
        for (law, mean, tolerance) in [
            (Length::Fixed(20), 20.0, 0.0),
            (Length::Around(273.0), 273.0, 3.0),
            (Length::EtcKey, 36.2, 0.2),
            (Length::EtcValue, 194.4, 4.0),
        ] {
            let mut prng = Prng::new(1);
            let found = (0..200_000).map(|_| law.draw(&mut prng)).sum::<f64>() / 200_000.0;
            assert!((found - mean).abs() <= tolerance, "{law:?}: mean {found}");
        }
    }

    #[test]
    fn ranks_are_drawn_in_proportion_to_their_power() {
        for alpha in [0.3, 0.99, 1.0, 1.3] {
            let zipf = ZipfLaw::new(1000, alpha);
            let mut prng = Prng::new(1);
            let mut drawn = [0.0; 1000];
            (0..400_000).for_each(|_| drawn[zipf.draw(&mut prng) as usize] += 1.0);
            let all: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-alpha)).sum();
            for rank in [1, 2, 3, 10] {
                let expected = 400_000.0 * f64::from(rank).powf(-alpha) / all;
                let found = drawn[rank as usize - 1];
                let tolerance = 5.0 * expected.sqrt();
                assert!(
                    (found - expected).abs() < tolerance,
                    "alpha {alpha}, rank {rank}: {found}, {expected}"
                );
            }
        }
    }
}
