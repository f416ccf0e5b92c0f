//! Verification result: all measurements of `verify`, and the conclusion.

use serde::Serialize;

use crate::diagnose::finding::Finding;
use crate::verify::{ExpectationResult, Holding, Judged};

/// A value that a plan has set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueResult {
    /// The setting.
    pub setting: String,
    /// The value.
    pub wanted: String,
    /// Whether it holds.
    #[serde(flatten)]
    pub holding: Holding,
}

/// A requirement of the service meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveResult {
    /// The command, or the server.
    pub what: String,
    /// The observation.
    pub seen: String,
    /// Whether it was met; `None`: unknown.
    pub held: Option<bool>,
}

/// Values, signals and objectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// The conclusion.
    pub outcome: VerificationOutcome,
    /// Of all plans in force.
    pub values: Vec<ValueResult>,
    /// Of the newest plan.
    pub signals: Vec<Judged>,
    /// Under load.
    pub objectives: Vec<ObjectiveResult>,
    /// Limits that no setting can change, and that spoil every comparison.
    pub limits: Vec<Finding>,
    /// Whether the host was measured before the newest plan.
    pub measured_before: bool,
    /// The length of the measurement, in seconds.
    pub window_s: f64,
}

/// The conclusion, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationOutcome {
    /// A value is no longer the one that was set.
    NotHeld,
    /// An objective was missed.
    ObjectiveMissed,
    /// A figure did not move as expected.
    NotMoved,
    /// No load, or the host's limits came and went, or what moved is within the noise: nothing can be credited.
    NothingShown,
    /// Values hold, nothing contradicts, and at least one expectation was measured and met.
    Verified,
}

impl Verification {
    /// Draws the conclusion.
    pub fn conclude(
        values: Vec<ValueResult>,
        mut signals: Vec<Judged>,
        objectives: Vec<ObjectiveResult>,
        limits: Vec<Finding>,
        measured_before: bool,
        window_s: f64,
    ) -> Verification {
        if !limits.is_empty() {
            for judged in &mut signals {
                let why = "the host's limits, named below, change every figure".to_owned();
                judged.verdict = ExpectationResult::Unknown { why };
            }
        }
        let broken = values.iter().any(|value| matches!(value.holding, Holding::No { .. }));
        let missed = objectives.iter().any(|objective| objective.held == Some(false));
        let not_moved = signals.iter().any(|judged| judged.verdict == ExpectationResult::NotMoved);
        let is_shown = |judged: &Judged| {
            matches!(judged.verdict, ExpectationResult::Moved | ExpectationResult::AsBefore)
        };
        let shown =
            signals.iter().any(is_shown) || objectives.iter().any(|objective| objective.held == Some(true));
        let outcome = match () {
            () if broken => VerificationOutcome::NotHeld,
            () if missed => VerificationOutcome::ObjectiveMissed,
            () if not_moved => VerificationOutcome::NotMoved,
            () if !shown || !limits.is_empty() => VerificationOutcome::NothingShown,
            () => VerificationOutcome::Verified,
        };
        Verification { outcome, values, signals, objectives, limits, measured_before, window_s }
    }
}

impl VerificationOutcome {
    /// In one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            VerificationOutcome::NotHeld => "Not verified: a value is no longer what it was set to.",
            VerificationOutcome::ObjectiveMissed => "Not verified: an objective was missed.",
            VerificationOutcome::NotMoved => "Not verified: a figure did not move as expected.",
            VerificationOutcome::NothingShown => "Nothing shown: no figure can be credited to the plan.",
            VerificationOutcome::Verified => {
                "Verified: the values hold, and what was measured is as expected."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::Severity;

    fn value(holding: Holding) -> ValueResult {
        ValueResult { setting: "/sys/x".into(), wanted: "1".into(), holding }
    }

    fn signal(verdict: ExpectationResult) -> Judged {
        let (expected, settings) = ("it falls".into(), Vec::new());
        Judged { expected, settings, before: None, after: None, unit: "", verdict }
    }

    fn objective(held: Option<bool>) -> ObjectiveResult {
        ObjectiveResult { what: "true".into(), seen: String::new(), held }
    }

    #[track_caller]
    fn check(
        signals: &[ExpectationResult],
        held: &[Option<bool>],
        limits: usize,
        wanted: VerificationOutcome,
    ) {
        for (holding, wanted) in
            [(Holding::Yes, wanted), (Holding::No { found: "2".into() }, VerificationOutcome::NotHeld)]
        {
            let verification = Verification::conclude(
                vec![value(holding)],
                signals.iter().cloned().map(signal).collect(),
                held.iter().copied().map(objective).collect(),
                vec![Finding::about(Severity::Critical, "eth0"); limits],
                true,
                60.0,
            );
            assert_eq!(verification.outcome, wanted);
        }
    }

    #[test]
    fn the_worst_decides_and_nothing_is_credited_unmeasured() {
        use ExpectationResult::{AsBefore, Moved, NotMoved};
        let unknown = || ExpectationResult::Unknown { why: "no load".into() };
        check(&[Moved, unknown()], &[], 0, VerificationOutcome::Verified);
        check(&[AsBefore], &[], 0, VerificationOutcome::Verified);
        check(&[unknown()], &[], 0, VerificationOutcome::NothingShown);
        let noise = || ExpectationResult::WithinNoise { did: "fell" };
        check(&[noise()], &[], 0, VerificationOutcome::NothingShown);
        check(&[Moved, noise()], &[], 0, VerificationOutcome::Verified);
        check(&[], &[], 0, VerificationOutcome::NothingShown);
        check(&[], &[None], 0, VerificationOutcome::NothingShown);
        check(&[unknown()], &[Some(true)], 0, VerificationOutcome::Verified);
        check(&[Moved, NotMoved], &[Some(true)], 0, VerificationOutcome::NotMoved);
        check(&[NotMoved], &[Some(false)], 0, VerificationOutcome::ObjectiveMissed);
        check(&[Moved], &[Some(true)], 1, VerificationOutcome::NothingShown);
        check(&[NotMoved], &[Some(true)], 1, VerificationOutcome::NothingShown);
        check(&[Moved], &[Some(false)], 1, VerificationOutcome::ObjectiveMissed);
    }
}
