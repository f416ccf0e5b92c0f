//! Questions about changes of hosts: one that is to be made, those that are on their way, and what a person wants of one.

use fleet::TuneAskId;
use fleet::figures::shadow::ShadowGate;
use fleet::waves::{ChangeNumber, FigureKind, check_objective};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fault::{QuestionFault, bad, reason};

/// Bytes of an objective: a query of some lines.
const OBJECTIVE_LEN_MAX: usize = 2_000;
/// Kinds of hosts that a person accepts by name.
const ACCEPT_MAX: usize = 100;

/// A change of hosts that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeWanted {
    /// The question that hosts have answered.
    pub id: TuneAskId,
    /// How it is made.
    pub terms: ChangeTerms,
    /// The plan that was shown, and why; none to be shown it.
    pub confirmed: Option<(String, String)>,
}

/// How a change of hosts is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeTerms {
    /// Settings of the waves that differ from those of the policy.
    pub settings: Map<String, Value>,
    /// Figures that shall become better.
    pub promised: Vec<FigureKind>,
    /// Kinds of hosts that a person accepts unjudged.
    pub accept: Vec<String>,
    /// What halts it besides.
    pub objective: Option<String>,
    /// What has to be so before it begins, and halts it if it is so no more.
    pub gate: Option<ShadowGate>,
}

/// What a person wants of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeSteer {
    /// No further host gets it.
    Halt,
    /// It goes on, with what has halted it.
    Resume,
    /// All hosts go back.
    Undo,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeWantedBody {
    id: TuneAskId,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default)]
    promised: Vec<FigureKind>,
    #[serde(default)]
    accept: Vec<String>,
    objective: Option<String>,
    gate: Option<ShadowGate>,
    plan: Option<String>,
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SteerBody {
    number: u64,
    act: ChangeSteer,
    why: String,
}

pub(super) fn wanted(body: ChangeWantedBody) -> Result<ChangeWanted, QuestionFault> {
    let ChangeWantedBody { id, settings, promised, accept, objective, gate, plan, why } = body;
    if let Some(found) =
        objective.as_ref().map(String::len).filter(|len| !(1..=OBJECTIVE_LEN_MAX).contains(len))
    {
        return Err(bad(format!("expected an objective of 1 to {OBJECTIVE_LEN_MAX} bytes, found {found}")));
    }
    if let Some(objective) = &objective {
        check_objective(objective).map_err(|error| bad(format!("objective: {error}")))?;
    }
    if accept.len() > ACCEPT_MAX {
        return Err(bad(format!(
            "expected at most {ACCEPT_MAX} kinds of hosts to accept, found {}",
            accept.len()
        )));
    }
    let confirmed = plan.map(|plan| Ok((plan, reason(why.unwrap_or_default())?))).transpose()?;
    let terms = ChangeTerms { settings, promised, accept, objective, gate };
    Ok(ChangeWanted { id, terms, confirmed })
}

pub(super) fn steered(body: SteerBody) -> Result<(ChangeNumber, ChangeSteer, String), QuestionFault> {
    Ok((ChangeNumber(body.number), body.act, reason(body.why)?))
}

/// A change by its number, or none for all.
pub(super) fn number(text: Option<String>) -> Result<Option<ChangeNumber>, QuestionFault> {
    let number = |text: String| {
        let expected = || bad(format!("number: expected the number of a change, found {text:?}"));
        text.parse::<u64>().map(ChangeNumber).map_err(|_| expected())
    };
    text.map(number).transpose()
}
