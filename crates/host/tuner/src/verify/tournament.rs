//! Tournament of strategies: the order of their runs, and the standings.
//!
//! Pure. In a round every contestant runs once, so that each round gives a pair for each comparison with the first
//! contestant. The order of a round is random, and the next round is its mirror image (A B B A): a slow drift adds to
//! one pair the amount that it takes from the next.

use serde::Serialize;
use stdx::prng::Prng;

use stdx::statistics::{ALPHA, Shift, median};

/// Whether high or low figures are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// Latencies, times.
    Lower,
    /// Rates.
    Higher,
}

/// The conclusion from the runs of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContestantVerdict {
    /// The baseline of the others.
    Baseline,
    /// A difference was shown, for the better.
    Better,
    /// A difference was shown, for the worse.
    Worse,
    /// Chance may have made the difference.
    NoDifferenceShown,
}

/// A contestant, compared with the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Its median figure.
    pub median: f64,
    /// Its ratio to the first contestant's runs of the same rounds.
    pub ratio: f64,
    /// The interval that holds it, together with those of all others, with 95 % confidence. Very few rounds may have
    /// none: then it is without bounds.
    pub ratio_low: f64,
    /// Its upper end.
    pub ratio_high: f64,
    /// The probability that chance alone gives as much in any of the comparisons. At most 0.05 exactly when the
    /// interval does not contain 1.
    pub p: f64,
    /// The verdict.
    pub verdict: ContestantVerdict,
}

impl Standing {
    /// Whether rounds were enough to give an interval.
    pub fn is_bounded(&self) -> bool {
        self.ratio_low > 0.0 && self.ratio_high.is_finite()
    }
}

/// The order of all runs: one list of contestants per round.
pub fn order(contestants: usize, rounds: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut prng = Prng::new(seed);
    let mut order: Vec<Vec<usize>> = Vec::new();
    for round in 0..rounds {
        let next = match order.last() {
            Some(last) if round % 2 == 1 => last.iter().rev().copied().collect(),
            _ => shuffled(contestants, &mut prng),
        };
        order.push(next);
    }
    order
}

fn shuffled(contestants: usize, prng: &mut Prng) -> Vec<usize> {
    let mut places: Vec<usize> = (0..contestants).collect();
    for last in (1..contestants).rev() {
        places.swap(last, prng.below(last as u64 + 1) as usize);
    }
    places
}

/// The standings from whole rounds: `figures[contestant][round]`, all of them above zero. There must be a round.
pub fn standings(figures: &[Vec<f64>], better: Preference) -> Vec<Standing> {
    let baseline = &figures[0];
    let log_ratios = |runs: &Vec<f64>| -> Vec<f64> {
        runs.iter().zip(baseline).map(|(run, base)| run.ln() - base.ln()).collect()
    };
    let first = Standing {
        median: median(baseline),
        ratio: 1.0,
        ratio_low: 1.0,
        ratio_high: 1.0,
        p: 1.0,
        verdict: ContestantVerdict::Baseline,
    };
    let comparisons = figures.len() - 1;
    let others = figures[1..].iter().map(|runs| {
        let shift = Shift::of_pairs(&log_ratios(runs), comparisons).expect("there is a round");
        Standing {
            median: median(runs),
            ratio: shift.middle.exp(),
            ratio_low: shift.low.exp(),
            ratio_high: shift.high.exp(),
            p: shift.p,
            verdict: match shift.p <= ALPHA {
                false => ContestantVerdict::NoDifferenceShown,
                true if (shift.high < 0.0) == (better == Preference::Lower) => ContestantVerdict::Better,
                true => ContestantVerdict::Worse,
            },
        }
    });
    std::iter::once(first).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of a noisy host that drifts: as many contestants as effects, the first one's being 1.
    fn runs(effects: &[f64], rounds: u32, seed: u64) -> Vec<Vec<f64>> {
        let mut prng = Prng::new(seed);
        let mut figures = vec![vec![0.0; rounds as usize]; effects.len()];
        let mut drift: f64 = 0.0;
        for (round, contestants) in order(effects.len(), rounds, seed).into_iter().enumerate() {
            for contestant in contestants {
                // What one run has, the next one has mostly, too.
                drift = 0.9 * drift + 0.05 * (prng.unit() - 0.5) + 0.01;
                let noise = 0.2 * (prng.unit() + prng.unit() + prng.unit() - 1.5);
                figures[contestant][round] = 500.0 * effects[contestant] * (drift + noise).exp();
            }
        }
        figures
    }

    #[track_caller]
    fn verdicts(figures: &[Vec<f64>], better: Preference) -> Vec<ContestantVerdict> {
        standings(figures, better).into_iter().map(|standing| standing.verdict).collect()
    }

    #[test]
    fn every_round_has_everybody_and_the_next_one_is_its_mirror_image() {
        let order = order(4, 7, 3);
        for (round, places) in order.iter().enumerate() {
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            if round % 2 == 1 {
                assert!(places.iter().eq(order[round - 1].iter().rev()), "{order:?}");
            }
        }
        assert!(order.iter().step_by(2).any(|places| *places != order[0]), "{order:?}");
        assert_eq!(super::order(4, 7, 3), order, "the same seed gives the same order");
    }

    #[test]
    fn equals_are_told_apart_no_more_often_than_stated() {
        let alarm = |seed: &u64| {
            let figures = runs(&[1.0; 4], 8, *seed);
            standings(&figures, Preference::Lower).iter().any(|standing| standing.p <= ALPHA)
        };
        let alarms = (0..2000).filter(alarm).count();
        // 5 % of 2,000 are 100; three standard deviations more are 130.
        assert!(alarms <= 130, "{alarms} of 2,000");
        assert!(alarms > 10, "{alarms} of 2,000: such a test would not find anything either");
    }

    #[test]
    fn planted_effects_are_found_and_sized() {
        let figures = runs(&[1.0, 0.6, 1.0, 1.7], 12, 5);
        let wanted = [
            ContestantVerdict::Baseline,
            ContestantVerdict::Better,
            ContestantVerdict::NoDifferenceShown,
            ContestantVerdict::Worse,
        ];
        assert_eq!(verdicts(&figures, Preference::Lower), wanted);
        let standing = &standings(&figures, Preference::Lower)[1];
        assert!(standing.ratio_low < 0.6 && 0.6 < standing.ratio_high, "{standing:?}");
        assert!((0.5..0.7).contains(&standing.ratio) && standing.p < 0.01, "{standing:?}");
        assert_eq!(
            verdicts(&figures, Preference::Higher)[1..],
            [ContestantVerdict::Worse, ContestantVerdict::NoDifferenceShown, ContestantVerdict::Better]
        );
    }

    #[test]
    fn too_few_rounds_show_nothing_however_large_the_effect() {
        let figures = vec![vec![100.0; 5], vec![1.0; 5]];
        assert_eq!(verdicts(&figures, Preference::Lower)[1], ContestantVerdict::NoDifferenceShown);
        let figures = vec![vec![100.0; 6], vec![1.0; 6]];
        assert_eq!(verdicts(&figures, Preference::Lower)[1], ContestantVerdict::Better);
    }

    #[test]
    fn what_is_exactly_the_same_shows_nothing() {
        let figures = vec![vec![7.0; 12]; 3];
        assert_eq!(verdicts(&figures, Preference::Lower)[1..], [ContestantVerdict::NoDifferenceShown; 2]);
    }
}
