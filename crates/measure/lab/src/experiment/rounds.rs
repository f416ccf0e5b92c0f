//! Number of rounds that an experiment needs before its comparisons can show a difference. Pure.
//!
//! With few pairs no difference is shown, however large, and more comparisons need more pairs. Some trials do not
//! count even when they are repeated, and their pairs are lost. All of that is known before the first trial.

use stdx::statistics::rounds_min;

use super::contrast;
use super::design::Design;
use super::types::{Error, Experiment};

/// The needs of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundPlan {
    /// The number of things compared together: cells with their baselines, or effects of factors, whichever are more.
    pub comparisons: usize,
    /// Pairs that each of them needs to show a difference, however large.
    pub pairs: u32,
    /// Rounds that leave as many pairs although some trials are lost.
    pub rounds: u32,
    /// The share of trials that is expected to be lost.
    pub lost: f64,
}

/// The probability with which a comparison keeps the pairs that it needs.
const SURE: f64 = 0.95;

/// More rounds than this are too many for any experiment, however many trials are lost.
const ROUNDS_MAX: u32 = 10_000;

impl RoundPlan {
    /// The needs of an experiment; `None` if it compares nothing.
    pub fn of(experiment: &Experiment) -> Option<RoundPlan> {
        let design = Design::of(experiment);
        let cells = design.cells.iter().filter(|cell| design.baseline(cell) != *cell).count();
        let comparisons = cells.max(contrast::count(experiment));
        let (pairs, lost) = (rounds_min(comparisons), experiment.repeat.lost);
        (comparisons > 0).then(|| RoundPlan { comparisons, pairs, rounds: with_losses(pairs, lost), lost })
    }

    /// `1 comparison needs`, `7 comparisons need`.
    fn compared(&self, verbs: [&str; 2]) -> String {
        match self.comparisons {
            1 => format!("1 comparison {}", verbs[0]),
            many => format!("{many} comparisons {}", verbs[1]),
        }
    }

    /// Refuses an experiment that could not reach a verdict with any data.
    pub fn check(experiment: &Experiment) -> Result<(), Error> {
        let rounds = experiment.repeat.rounds;
        let Some(plan) =
            RoundPlan::of(experiment).filter(|plan| rounds < plan.pairs && experiment.repeat.verdict)
        else {
            return Ok(());
        };
        let RoundPlan { pairs, rounds: planned, .. } = plan;
        Err(Error::Sense {
            place: "repeat.rounds".to_owned(),
            what: format!(
                "{} show no difference in {rounds} {}, however large it is: it takes {pairs} at least, and {planned} \
                 with {} lost; leave the key out to have as many, or ask for no verdict with `verdict = false`",
                plan.compared(["can", "can"]),
                if rounds == 1 { "round" } else { "rounds" },
                share(plan.lost)
            ),
        })
    }

    /// The text shown before the first trial.
    pub fn sentence(&self, rounds: u32) -> String {
        let RoundPlan { pairs, rounds: planned, lost, .. } = *self;
        let compared = self.compared(["needs", "need"]);
        let round = if rounds == 1 { "round" } else { "rounds" };
        let what = format!("{rounds} {round}: {compared} {pairs} pairs to show a difference, however large");
        if rounds < pairs {
            format!("{what}, so there will be no verdict")
        } else if rounds < planned {
            format!("{what}; with {} lost, {planned} rounds would be sure to have them", share(lost))
        } else {
            format!("{what}, and keep them with {} lost", share(lost))
        }
    }
}

fn share(lost: f64) -> String {
    format!("{} % of the trials", crate::record::quantity::number(lost * 100.0))
}

/// The fewest rounds of which enough keep both trials of a pair.
fn with_losses(pairs: u32, lost: f64) -> u32 {
    let kept = (1.0 - lost).powi(2);
    (pairs..ROUNDS_MAX).find(|rounds| at_least(pairs, *rounds, kept) >= SURE).unwrap_or(ROUNDS_MAX)
}

/// The probability that this many of the rounds are kept, each independently.
fn at_least(pairs: u32, rounds: u32, kept: f64) -> f64 {
    // From all being kept to one less in each step.
    let mut chance = kept.powi(rounds as i32);
    let mut sum = chance;
    for lost in 1..=rounds - pairs {
        chance *= f64::from(rounds - lost + 1) / f64::from(lost) * (1.0 - kept) / kept;
        sum += chance;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;

    fn experiment(repeat: &str, levels: usize) -> Result<Experiment, Error> {
        let level = |level| format!("[[factor.level]]\nname = \"{level}\"\nenv.A = \"{level}\"\n");
        let levels: String = (0..levels).map(level).collect();
        let factor = if levels.is_empty() { levels } else { format!("[[factor]]\nname = \"a\"\n{levels}") };
        Experiment::parse(&format!("{MINIMAL}[repeat]\n{repeat}\n{factor}"))
    }

    #[track_caller]
    fn check(repeat: &str, levels: usize, wanted: (usize, u32, u32)) {
        let plan = RoundPlan::of(&experiment(repeat, levels).expect("an experiment")).expect("comparisons");
        assert_eq!((plan.comparisons, plan.pairs, plan.rounds), wanted, "{repeat}, {levels} levels");
    }

    #[test]
    fn rounds_follow_from_comparisons_and_losses() {
        check("lost = 0", 0, (1, 6, 6));
        check("", 0, (1, 6, 8));
        check("lost = 0.2", 0, (1, 6, 14));
        // Two subjects with four levels each: seven cells beside the baseline, 1 + 3 + 3 effects.
        check("lost = 0", 4, (7, 9, 9));
        check("", 4, (7, 9, 12));
    }

    #[test]
    fn effects_that_are_not_wanted_take_no_pairs() {
        let factor = |name: &str| {
            let level = |level| format!("[[factor.level]]\nname = \"{level}\"\nenv.{name} = \"{level}\"\n");
            format!("[[factor]]\nname = \"{name}\"\n{}", (0..3).map(level).collect::<String>())
        };
        let comparisons = |effects: &str| {
            let text = format!("{MINIMAL}{effects}\n{}{}", factor("a"), factor("b"));
            RoundPlan::of(&Experiment::parse(&text).expect("an experiment")).expect("comparisons").comparisons
        };
        // Beside the baseline 17 cells; 1 + 2 + 2 effects and 2 + 2 + 4 of two together.
        assert_eq!((comparisons(""), comparisons("effects = false")), (17, 17));
        assert_eq!(
            contrast::count(
                &Experiment::parse(&format!("{MINIMAL}{}{}", factor("a"), factor("b"))).expect("it")
            ),
            13
        );
    }

    #[test]
    fn the_chance_to_keep_pairs_is_binomial() {
        assert!((at_least(6, 6, 0.9) - 0.531_441).abs() < 1e-9);
        assert!((at_least(6, 8, 0.9) - 0.961_908_2).abs() < 1e-6);
        assert!((at_least(1, 3, 0.5) - 0.875).abs() < 1e-12);
        assert_eq!((with_losses(6, 0.0), at_least(6, 9, 1.0)), (6, 1.0));
    }

    #[test]
    fn rounds_that_are_left_out_are_planned() {
        let rounds = |repeat: &str, levels| experiment(repeat, levels).expect("an experiment").repeat.rounds;
        assert_eq!((rounds("", 0), rounds("", 4), rounds("lost = 0.2", 0)), (10, 12, 14));
        assert_eq!((rounds("rounds = 3", 4), rounds("rounds = 30", 0)), (3, 30));
    }

    #[test]
    fn a_verdict_that_no_data_could_give_is_refused() {
        let refused = |repeat: &str| RoundPlan::check(&experiment(repeat, 4).expect("an experiment"));
        let error = refused("rounds = 8").expect_err("too few").to_string();
        let wanted = "use the experiment: repeat.rounds: 7 comparisons can show no difference in 8 rounds, however large \
                      it is: it takes 9 at least, and 12 with 5 % of the trials lost; leave the key out to have as many, \
                      or ask for no verdict with `verdict = false`";
        assert_eq!(error, wanted);
        for repeat in ["rounds = 9", "", "rounds = 1\nverdict = false"] {
            assert_eq!(refused(repeat), Ok(()), "{repeat}");
        }
    }

    #[test]
    fn what_is_planned_is_said() {
        let plan = RoundPlan::of(&experiment("", 4).expect("an experiment")).expect("comparisons");
        let need = |rounds| {
            format!("{rounds} rounds: 7 comparisons need 9 pairs to show a difference, however large")
        };
        assert_eq!(plan.sentence(12), need(12) + ", and keep them with 5 % of the trials lost");
        assert_eq!(
            plan.sentence(10),
            need(10) + "; with 5 % of the trials lost, 12 rounds would be sure to have them"
        );
        assert_eq!(plan.sentence(2), need(2) + ", so there will be no verdict");
    }
}
