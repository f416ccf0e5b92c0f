//! The choice of the item that a request is about.

use crate::types::popularity::Popularity;
use crate::workload::zipf::Zipf;
use stdx::prng::Prng;

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
    /// Spreads neighbouring ranks over the items: the most popular ones must not be those stored first.
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
