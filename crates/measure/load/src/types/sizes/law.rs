//! Laws of sizes: the distributions that published workloads were fitted to.
//!
//! The size of an item follows from its hash, so a law is its quantile function: a hash, read as a number between 0
//! and 1, is the share of all items that are smaller.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A distribution of sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    /// Of this mean.
    Exponential(f64),
    /// Generalised Pareto.
    Pareto(Shape),
    /// Generalised extreme value.
    ExtremeValue(Shape),
    /// The keys of Facebook's ETC pool.
    FacebookKey,
    /// The values of Facebook's ETC pool.
    FacebookValue,
}

/// The parameters of a law that has three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    location: f64,
    scale: f64,
    shape: f64,
}

/// Atikoglu et al. (SIGMETRICS 2012).
const FACEBOOK_KEY: Shape = Shape { location: 30.7984, scale: 8.20449, shape: 0.078_688 };
/// For values of 15 bytes and more.
const FACEBOOK_VALUE: Shape = Shape { location: 15.0, scale: 214.476, shape: 0.348_238 };
/// The shares of values of 0, 1, … 14 bytes, which that law does not describe.
const FACEBOOK_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];

impl Law {
    /// The size that the share `below` of all is smaller than; `below` is between 0 and 1, without the two.
    fn quantile(self, below: f64) -> f64 {
        match self {
            Law::Exponential(mean) => -mean * (-below).ln_1p(),
            Law::Pareto(shape) => shape.pareto(below),
            Law::ExtremeValue(shape) => shape.extreme_value(below),
            Law::FacebookKey => FACEBOOK_KEY.extreme_value(below),
            Law::FacebookValue => {
                let mut sum = 0.0;
                for (size, share) in FACEBOOK_SMALL.iter().enumerate() {
                    sum += share;
                    if below < sum {
                        return size as f64;
                    }
                }
                FACEBOOK_VALUE.pareto((below - sum) / (1.0 - sum))
            }
        }
    }
}

impl Shape {
    fn pareto(self, below: f64) -> f64 {
        self.location + self.scale * power_ratio(-(-below).ln_1p(), self.shape)
    }

    fn extreme_value(self, below: f64) -> f64 {
        self.location + self.scale * power_ratio(-(-below.ln()).ln(), self.shape)
    }
}

/// `(e^(shape * x) - 1) / shape`, which is `x` for a shape of 0.
fn power_ratio(x: f64, shape: f64) -> f64 {
    if shape == 0.0 { x } else { (shape * x).exp_m1() / shape }
}

impl FromStr for Law {
    type Err = String;

    fn from_str(text: &str) -> Result<Law, String> {
        let refuse = || format!("{text:?} is none of {LAWS}");
        let shape = |numbers: &str| -> Result<Shape, String> {
            let numbers: Result<Vec<f64>, _> = numbers.split(',').map(str::parse).collect();
            let Ok([location, scale, shape]) = numbers.as_deref() else { return Err(refuse()) };
            let (location, scale, shape) = (*location, *scale, *shape);
            // A mean exists below 1 only; a shape of less than -1 has its largest sizes as the most likely ones.
            let fits = location.is_finite() && scale > 0.0 && scale.is_finite() && shape.abs() < 1.0;
            if fits { Ok(Shape { location, scale, shape }) } else { Err(format!("{text}: {LIMITS}")) }
        };
        match text.split_once(':') {
            None if text == "fb_key" => Ok(Law::FacebookKey),
            None if text == "fb_value" => Ok(Law::FacebookValue),
            Some(("exp", mean)) => match mean.parse() {
                Ok(mean) if mean > 0.0 && f64::is_finite(mean) => Ok(Law::Exponential(mean)),
                _ => Err(refuse()),
            },
            Some(("gpareto", numbers)) => shape(numbers).map(Law::Pareto),
            Some(("gev", numbers)) => shape(numbers).map(Law::ExtremeValue),
            _ => Err(refuse()),
        }
    }
}

const LAWS: &str = "exp:MEAN, gpareto:LOC,SCALE,SHAPE, gev:LOC,SCALE,SHAPE, fb_key, fb_value";
const LIMITS: &str = "SCALE has to be above 0 and SHAPE between -1 and 1";

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, Shape { location, scale, shape }) = match self {
            Law::Exponential(mean) => return write!(f, "exp:{mean}"),
            Law::FacebookKey => return write!(f, "fb_key"),
            Law::FacebookValue => return write!(f, "fb_value"),
            Law::Pareto(shape) => ("gpareto", shape),
            Law::ExtremeValue(shape) => ("gev", shape),
        };
        write!(f, "{name}:{location},{scale},{shape}")
    }
}

/// A law that is cheap to evaluate: straight lines between 4,096 quantiles, where they are accurate enough.
///
/// Where a line would be off by more than half a byte, in the tails, the law itself is evaluated. For ETC's values
/// that is one item in two hundred.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    law: Law,
    limits: RangeInclusive<usize>,
    /// The quantiles at the ends of the buckets.
    knots: Vec<f32>,
    /// A bit for every bucket in which the law is evaluated.
    curved: Vec<u64>,
}

const BUCKET_BITS: u32 = 12;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// Where in a bucket its line is compared with the law.
const PLACES: [f64; 3] = [0.25, 0.5, 0.75];
const OFF_BYTES_MAX: f64 = 0.5;

impl Curve {
    /// Sizes of `law`; those outside of the limits take the nearest that is inside.
    pub(crate) fn new(law: Law, limits: RangeInclusive<usize>) -> Curve {
        let quantile = |place: f64| law.quantile(place / BUCKETS as f64);
        let mut curved = vec![0; BUCKETS / 64];
        for bucket in 0..BUCKETS {
            let start = bucket as f64;
            let (from, to) = (quantile(start), quantile(start + 1.0));
            // At the two ends a law may be infinite.
            let is_end = bucket == 0 || bucket == BUCKETS - 1;
            let is_off =
                |place: f64| (quantile(start + place) - (from + (to - from) * place)).abs() > OFF_BYTES_MAX;
            if is_end || PLACES.into_iter().any(is_off) {
                curved[bucket / 64] |= 1 << (bucket % 64);
            }
        }
        let knots = (0..=BUCKETS).map(|bucket| quantile(bucket as f64) as f32).collect();
        Curve { law, limits, knots, curved }
    }

    /// The size that belongs to `hash`.
    #[inline]
    pub(crate) fn of(&self, hash: u64) -> usize {
        let bucket = (hash >> (64 - BUCKET_BITS)) as usize;
        let size = if self.curved[bucket / 64] >> (bucket % 64) & 1 == 0 {
            let place = ((hash << BUCKET_BITS) >> 40) as f32 * (1.0 / (1 << 24) as f32);
            let (from, to) = (self.knots[bucket], self.knots[bucket + 1]);
            (from + (to - from) * place + 0.5) as usize
        } else {
            self.exact(hash)
        };
        size.clamp(*self.limits.start(), *self.limits.end())
    }

    /// To the nearest byte.
    #[cold]
    fn exact(&self, hash: u64) -> usize {
        let below = ((hash >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64);
        (self.law.quantile(below) + 0.5) as usize
    }

    /// About the mean, from the middles of the buckets.
    pub(crate) fn mean(&self) -> f64 {
        let middle = |bucket| self.of((2 * bucket as u64 + 1) << (63 - BUCKET_BITS)) as f64;
        (0..BUCKETS).map(middle).sum::<f64>() / BUCKETS as f64
    }

    pub(crate) fn min(&self) -> usize {
        *self.limits.start()
    }

    pub(crate) fn max(&self) -> usize {
        *self.limits.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::mix;

    const ITEMS: u64 = 1_000_000;

    fn curve(text: &str) -> Curve {
        Curve::new(text.parse().expect(text), 0..=1_000_000)
    }

    /// The mean size of a million items, and the sizes that these shares of them do not exceed.
    #[track_caller]
    fn check(text: &str, mean: f64, quantiles: &[(f64, f64)]) {
        let curve = curve(text);
        let mut sizes: Vec<usize> = (0..ITEMS).map(|item| curve.of(mix(item))).collect();
        let found = sizes.iter().sum::<usize>() as f64 / ITEMS as f64;
        assert!((found / mean - 1.0).abs() < 0.01, "{text}: a mean of {found}, not {mean}");
        assert!((curve.mean() / mean - 1.0).abs() < 0.02, "{text}: a mean of {}, not {mean}", curve.mean());
        sizes.sort_unstable();
        for (share, expected) in quantiles {
            let found = sizes[(ITEMS as f64 * share) as usize] as f64;
            assert!(
                (found - expected).abs() < 0.02 * expected + 1.0,
                "{text}: {share} at {found}, not {expected}"
            );
        }
    }

    /// Means as published for ETC, or by the textbook; quantiles by the formulas, worked out apart from this program.
    #[test]
    fn sizes_have_the_mean_and_the_quantiles_of_their_law() {
        check("fb_key", 36.2, &[(0.01, 19.0), (0.5, 33.8), (0.99, 76.3)]);
        check("fb_value", 194.4, &[(0.1, 2.0), (0.3, 5.0), (0.5, 39.2), (0.9, 520.2), (0.999, 4972.3)]);
        check("exp:100", 100.0, &[(0.5, 69.3), (0.9, 230.3), (0.999, 690.8)]);
        // Of mean location + scale / (1 - shape).
        check("gpareto:10,200,0.2", 260.0, &[(0.5, 158.7), (0.99, 1521.9)]);
        check("gpareto:0,100,0", 100.0, &[(0.5, 69.3), (0.9, 230.3)]);
        // Of mean location + scale * 0.5772, Euler's number.
        check("gev:100,10,0", 105.77, &[(0.5, 103.7), (0.99, 146.0)]);
    }

    #[test]
    fn a_curve_is_within_a_byte_of_its_law() {
        for text in ["fb_key", "fb_value", "exp:3000", "gpareto:15,214.476,0.9", "gev:30,8,-0.3"] {
            let curve = curve(text);
            for hash in (0..100_000).map(mix).chain([0, 1, u64::MAX, u64::MAX / 2]) {
                let (found, exact) = (curve.of(hash), curve.exact(hash).min(1_000_000));
                assert!(found.abs_diff(exact) <= 1, "{text} of {hash}: {found}, not {exact}");
            }
        }
    }

    #[test]
    fn the_law_is_seldom_asked_itself() {
        for text in ["fb_key", "fb_value"] {
            let curved: u32 = curve(text).curved.iter().map(|bits| bits.count_ones()).sum();
            assert!((2..BUCKETS as u32 / 100).contains(&curved), "{text}: {curved} buckets");
        }
    }

    #[test]
    fn sizes_stay_within_their_limits() {
        let curve = Curve::new("gpareto:0,100,0.9".parse().expect("a law"), 9..=250);
        let sizes: std::collections::BTreeSet<_> = (0..10_000).map(|item| curve.of(mix(item))).collect();
        assert_eq!((sizes.first(), sizes.last()), (Some(&9), Some(&250)));
    }

    #[test]
    fn laws_are_read_and_shown() {
        for text in ["exp:1.5", "gpareto:15,214.476,0.348238", "gev:-1,2,-0.5", "fb_key", "fb_value"] {
            assert_eq!(text.parse::<Law>().map(|law| law.to_string()).as_deref(), Ok(text));
        }
        for bad in
            ["exp", "exp:0", "exp:x", "exp:inf", "gev:1,2", "gev:1,2,3", "gev:1,0,0", "gpareto:1,2,0.1,4"]
        {
            assert!(bad.parse::<Law>().is_err(), "{bad:?}");
        }
    }
}
