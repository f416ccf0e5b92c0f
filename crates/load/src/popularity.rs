//! Which item a request is about.

use crate::zipf::Zipf;
use std::fmt;
use std::str::FromStr;
use stdx::prng::Prng;

/// How often items are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All equally often.
    Uniform,
    /// The rank-k item `k^-s` as often as the first.
    Zipf(f64),
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Popularity, String> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(Popularity::Uniform),
            None if text == "zipf" => Some(0.99),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            _ => None,
        };
        match exponent {
            Some(exponent) if exponent > 0.0 && exponent <= 20.0 => Ok(Popularity::Zipf(exponent)),
            _ => Err(String::from("one of uniform, zipf, zipf:EXPONENT (0 < EXPONENT <= 20)")),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => write!(f, "uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// Draws items.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    count: u64,
    zipf: Option<Zipf>,
    /// Spreads neighbouring ranks over the items: the most popular ones shall not be those stored first.
    stride: u64,
}

impl Chooser {
    pub(crate) fn new(count: u64, popularity: Popularity) -> Chooser {
        let zipf = match popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(exponent) => Some(Zipf::new(count, exponent)),
        };
        Chooser { count, zipf, stride: coprime_near_golden(count) }
    }

    /// The next item, in `0..count`.
    #[inline]
    pub(crate) fn choose(&self, prng: &mut Prng) -> u64 {
        match &self.zipf {
            None => prng.below(self.count),
            Some(zipf) => self.item_of_rank(zipf.sample(prng)),
        }
    }

    /// A bijection between ranks and items, because the stride and the count have no common divisor.
    fn item_of_rank(&self, rank: u64) -> u64 {
        match (rank - 1).checked_mul(self.stride) {
            Some(product) => product % self.count,
            None => (u128::from(rank - 1) * u128::from(self.stride) % u128::from(self.count)) as u64,
        }
    }
}

fn coprime_near_golden(count: u64) -> u64 {
    let start = (count as f64 * 0.618_033_988_749_895) as u64;
    (start.max(1)..).find(|&stride| gcd(stride, count) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_are_read() {
        assert_eq!("uniform".parse(), Ok(Popularity::Uniform));
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf(0.99)));
        assert_eq!("zipf:1.2".parse(), Ok(Popularity::Zipf(1.2)));
        for bad in ["", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "gauss", "uniform:1"] {
            assert!(bad.parse::<Popularity>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_rank_has_its_own_item() {
        for count in [1, 2, 3, 10, 97, 1000, 4096] {
            let chooser = Chooser::new(count, Popularity::Zipf(1.0));
            let items: std::collections::HashSet<_> =
                (1..=count).map(|rank| chooser.item_of_rank(rank)).collect();
            assert_eq!(items.len() as u64, count);
            assert!(items.iter().all(|&item| item < count));
        }
    }

    #[test]
    fn uniform_items_cover_the_keyspace() {
        let chooser = Chooser::new(10, Popularity::Uniform);
        let mut prng = Prng::new(1);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[chooser.choose(&mut prng) as usize] += 1;
        }
        assert!(seen.iter().all(|&times| times > 850 && times < 1150), "{seen:?}");
    }
}
