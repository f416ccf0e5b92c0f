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
    /// Few keys that get a share of the requests of their own.
    Hot {
        /// Of the requests; the other keys share the rest.
        share: f64,
        /// How many keys are hot.
        keys: u64,
    },
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Popularity, String> {
        let exponent = match text.split_once(':') {
            None if text == "uniform" => return Ok(Popularity::Uniform),
            None if text == "zipf" => Some(0.99),
            Some(("zipf", exponent)) => exponent.parse().ok(),
            Some(("hot", set)) => return hot(set).ok_or_else(|| String::from(LAWS)),
            _ => None,
        };
        match exponent {
            Some(exponent) if exponent > 0.0 && exponent <= 20.0 => Ok(Popularity::Zipf(exponent)),
            _ => Err(String::from(LAWS)),
        }
    }
}

const LAWS: &str = "one of uniform, zipf, zipf:EXPONENT (0 < EXPONENT <= 20), hot:SHARE,KEYS (hot:0.9,1000: nine in ten requests for a thousand keys)";

fn hot(set: &str) -> Option<Popularity> {
    let (share, keys) = set.split_once(',')?;
    let (share, keys) = (share.parse().ok()?, keys.parse().ok()?);
    (share > 0.0 && share <= 1.0 && keys > 0).then_some(Popularity::Hot { share, keys })
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => write!(f, "uniform"),
            Popularity::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Popularity::Hot { share, keys } => write!(f, "hot:{share},{keys}"),
        }
    }
}

/// How ranks are drawn.
#[derive(Clone, Debug)]
enum Law {
    Uniform,
    Zipf(Zipf),
    Hot { share: f64, keys: u64 },
}

/// Draws items.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    count: u64,
    law: Law,
    /// Spreads neighbouring ranks over the items: the most popular ones shall not be those stored first.
    stride: u64,
}

impl Chooser {
    /// Fewer keys are hot than there are.
    pub(crate) fn new(count: u64, popularity: Popularity) -> Chooser {
        let law = match popularity {
            Popularity::Uniform => Law::Uniform,
            Popularity::Zipf(exponent) => Law::Zipf(Zipf::new(count, exponent)),
            Popularity::Hot { share, keys } => Law::Hot { share, keys },
        };
        Chooser { count, law, stride: coprime_near_golden(count) }
    }

    /// The next item, in `0..count`.
    #[inline]
    pub(crate) fn choose(&self, prng: &mut Prng) -> u64 {
        match &self.law {
            Law::Uniform => prng.below(self.count),
            Law::Zipf(zipf) => self.item_of_rank(zipf.sample(prng)),
            Law::Hot { share, keys } => self.item_of_rank(match prng.unit() < *share {
                true => 1 + prng.below(*keys),
                false => 1 + keys + prng.below(self.count - keys),
            }),
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
        assert_eq!("hot:0.9,1000".parse(), Ok(Popularity::Hot { share: 0.9, keys: 1000 }));
        for bad in [
            "",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "gauss",
            "uniform:1",
            "hot",
            "hot:0.9",
            "hot:0,1",
            "hot:2,1",
            "hot:1,0",
        ] {
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
    fn a_hot_set_gets_its_share() {
        let chooser = Chooser::new(1000, Popularity::Hot { share: 0.9, keys: 10 });
        let mut prng = Prng::new(1);
        let mut seen = vec![0; 1000];
        for _ in 0..200_000 {
            seen[chooser.choose(&mut prng) as usize] += 1;
        }
        seen.sort_unstable();
        let (cold, hot) = seen.split_at(990);
        assert!(hot.iter().all(|&times| (17_000..19_000).contains(&times)), "{hot:?}");
        // 20 each.
        assert!(cold[0] > 3 && cold[989] < 50, "{} to {}", cold[0], cold[989]);
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
