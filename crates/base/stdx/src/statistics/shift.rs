//! The difference between two groups of values: estimate, interval and p of one statistic.
//!
//! The statistic is a rank test's count: of pairs, the averages of any two differences (Walsh averages; Wilcoxon's
//! signed-rank test counts those above zero), and of groups that are no pairs, all differences between them (Mann and
//! Whitney's test). The estimate is their median (Hodges and Lehmann 1963), the interval lies between two of them,
//! chosen by the same distribution that gives p. So the interval excludes zero exactly when p is at most [`ALPHA`], the
//! estimate is always inside, and exchanging the sides mirrors all three. Ties count against the observed direction,
//! which can make p larger, never smaller.

use std::iter::repeat_with;

use crate::prng::Prng;

use super::ALPHA;

/// A shift, as estimated from values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The lower end of the interval that holds it; without bound where so few values cannot give one.
    pub low: f64,
    /// The estimate.
    pub middle: f64,
    /// The upper end.
    pub high: f64,
    /// An upper bound of the probability that chance alone gives such a shift in any of the comparisons.
    pub p: f64,
    /// The least that `p` can be for this many values, however far apart they are.
    pub p_min: f64,
}

/// Up to this many pairs all ways to choose their signs are counted; of more, [`DRAWS`] are drawn.
const COUNTED_PAIRS_MAX: usize = 200;

/// Groups up to this many differences between them have all ways to exchange their values counted.
const COUNTED_DIFFERENCES_MAX: usize = 2_500;

/// With these, the error of a p of 0.001 is a tenth of it.
const DRAWS: usize = 100_000;

/// Fixed, so that the same values give the same p.
const SEED: u64 = 1;

impl Shift {
    /// The shift of pairs, by their differences, as one of `comparisons` that together err in 5 % (Bonferroni's
    /// correction, which also applies to the interval). `None` without pairs.
    pub fn of_pairs(differences: &[f64], comparisons: usize) -> Option<Shift> {
        let averages = differences
            .iter()
            .enumerate()
            .flat_map(|(place, first)| differences[place..].iter().map(move |second| (first + second) / 2.0));
        let count = differences.len();
        Shift::of(averages.collect(), &Tail::of_signs(count), comparisons)
    }

    /// How much larger the new values are than the old ones, which are not paired. `None` if either group is empty.
    pub fn of_groups(old: &[f64], new: &[f64], comparisons: usize) -> Option<Shift> {
        let differences = new.iter().flat_map(|new| old.iter().map(move |old| new - old));
        Shift::of(differences.collect(), &Tail::of_exchanges(new.len(), old.len()), comparisons)
    }

    fn of(mut shifts: Vec<f64>, tail: &Tail, comparisons: usize) -> Option<Shift> {
        shifts.sort_unstable_by(f64::total_cmp);
        let last = shifts.len().checked_sub(1)?;
        let p = |beyond: usize| (2.0 * comparisons.max(1) as f64 * tail.chance(beyond)).min(1.0);
        let not_above = shifts.partition_point(|shift| *shift <= 0.0);
        let not_below = shifts.len() - shifts.partition_point(|shift| *shift < 0.0);
        // This many may lie beyond each end.
        let beyond = (0..=last / 2).take_while(|beyond| p(*beyond) <= ALPHA).last();
        Some(Shift {
            low: beyond.map_or(f64::NEG_INFINITY, |beyond| shifts[beyond]),
            middle: (shifts[last / 2] + shifts[last.div_ceil(2)]) / 2.0,
            high: beyond.map_or(f64::INFINITY, |beyond| shifts[last - beyond]),
            p: p(not_above.min(not_below)),
            p_min: p(0),
        })
    }

    /// Whether there is a bounded interval.
    pub fn is_bounded(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

/// The probability that this few of all shifts, or fewer, lie on one side of zero if there is no shift.
enum Tail {
    /// Exact, by count.
    Counted(Vec<f64>),
    /// Numbers that were drawn, the least first.
    Drawn(Vec<usize>),
}

impl Tail {
    fn chance(&self, count: usize) -> f64 {
        match self {
            Tail::Counted(chances) => chances.get(count).copied().unwrap_or(1.0),
            // The data themselves are one of the arrangements, so it is never 0.
            Tail::Drawn(drawn) => {
                (drawn.partition_point(|it| *it <= count) + 1) as f64 / (drawn.len() + 1) as f64
            }
        }
    }

    fn counted(mut ways: Vec<f64>) -> Tail {
        let (total, mut sum): (f64, f64) = (ways.iter().sum(), 0.0);
        for way in &mut ways {
            sum += *way;
            *way = sum / total;
        }
        Tail::Counted(ways)
    }

    fn drawn(draw: impl FnMut() -> usize) -> Tail {
        let mut drawn: Vec<usize> = repeat_with(draw).take(DRAWS).collect();
        drawn.sort_unstable();
        Tail::Drawn(drawn)
    }

    /// Of pairs: the sum of the ranks of those differences that have one sign.
    fn of_signs(pairs: usize) -> Tail {
        if pairs <= COUNTED_PAIRS_MAX { counted_signs(pairs) } else { drawn_signs(pairs) }
    }

    /// Of groups: how many pairs of a new value and an old one have the old one below.
    fn of_exchanges(news: usize, olds: usize) -> Tail {
        match news * olds <= COUNTED_DIFFERENCES_MAX {
            true => counted_exchanges(news, olds),
            false => drawn_exchanges(news, olds),
        }
    }
}

fn counted_signs(pairs: usize) -> Tail {
    let sums = pairs * (pairs + 1) / 2;
    let mut chances = vec![0.0; sums + 1];
    chances[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=sums).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |without| chances[without]);
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    Tail::counted(chances)
}

fn drawn_signs(pairs: usize) -> Tail {
    let mut prng = Prng::new(SEED);
    Tail::drawn(|| (1..=pairs).filter(|_| prng.next_u64() >> 63 == 1).sum())
}

fn counted_exchanges(news: usize, olds: usize) -> Tail {
    let most = news * olds;
    // `ways[n][count]`: n values among those so far are new, and have so many old ones below them.
    let mut ways = vec![vec![0.0; most + 1]; news + 1];
    ways[0][0] = 1.0;
    for value in 0..news + olds {
        for new in (1..=news.min(value + 1)).rev() {
            let below = value + 1 - new;
            let (fewer, more) = ways.split_at_mut(new);
            for count in below..=most {
                more[0][count] += fewer[new - 1][count - below];
            }
        }
    }
    Tail::counted(ways.swap_remove(news))
}

fn drawn_exchanges(news: usize, olds: usize) -> Tail {
    let mut prng = Prng::new(SEED);
    // Each value in turn is a new one with the share of new ones among those that are left.
    Tail::drawn(|| {
        let (mut new, mut count) = (0, 0);
        for value in 0..news + olds {
            if prng.below((news + olds - value) as u64) < (news - new) as u64 {
                count += value - new;
                new += 1;
            }
        }
        count
    })
}

#[cfg(test)]
mod tests;
