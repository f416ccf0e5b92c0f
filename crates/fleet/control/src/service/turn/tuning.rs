//! Tuning in turns: what a host's tuner says, and what is asked of it.
//!
//! What a tuner says is named by digests, and its text travels only when a controller lacks it: a turn in which nothing has changed
//! has some 200 bytes of it. Agents answer controllers, and controllers each other, in the same way.

use fleet::TuneAskId;
use fleet::tuning::{AnswerDigest, CHECK_LEN_MAX, HostCheck, HostFacts, HostPlan, PLAN_LEN_MAX, PlanWish};
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::fault::{TurnFault, shorten};

/// Questions that are open at one time: each of some operators has one or two. Agents keep so many answers.
pub const ASKS_MAX: usize = 8;
/// Texts in one turn: a check and two plans with the facts of each. What is beyond goes with the next turn.
pub const BODIES_PER_TURN_MAX: usize = 6;
/// Bytes of facts: sixteen interfaces with two names of 100 bytes each, and what is beside them.
const FACTS_LEN_MAX: usize = 8 * 1024;
/// Bytes of the name around a text.
const NAME_LEN: usize = 64;
/// Bytes of a text: the longest is a plan.
const BODY_LEN_MAX: usize = PLAN_LEN_MAX + NAME_LEN;
const _: () = assert!(CHECK_LEN_MAX <= PLAN_LEN_MAX);
/// Digests that a controller asks one agent for: those of a check and of all plans.
const LACKS_MAX: usize = 2 + 2 * ASKS_MAX;

/// What an agent says of its host's tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    /// The last check.
    #[serde(deserialize_with = "answer")]
    pub check: TuneAnswer,
    /// Questions that this check answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<TuneAskId>,
    /// Plans that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanReport>,
    /// Texts that the controller lacks: each is a [`TuneBody`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<String>,
    /// The user that the agent runs as. One who is not root sees less.
    #[serde(default)]
    pub uid: u32,
}

/// A plan that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReport {
    /// By which question.
    pub ask: TuneAskId,
    /// What has come of it.
    #[serde(deserialize_with = "answer")]
    pub answer: TuneAnswer,
}

/// What has come of a check or a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneAnswer {
    /// Nothing yet.
    Waiting,
    /// The agent's file does not allow it.
    NotAllowed,
    /// The agent does not run as root.
    NotRoot,
    /// It was tried.
    Failed {
        /// What was seen.
        why: String,
        /// Seconds since.
        age_s: u64,
    },
    /// It is done.
    Done {
        /// What was found: the digest of a [`TuneBody`].
        body: AnswerDigest,
        /// What the host is: the same; none if the tuner does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        facts: Option<AnswerDigest>,
        /// Changes when the same plan would do something else on this host. `apply` names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own: Option<AnswerDigest>,
        /// Seconds since.
        age_s: u64,
    },
}

/// A text about a host's tuning. It is known by the digest of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneBody {
    /// What a check has found.
    Check(HostCheck),
    /// A plan.
    Plan(HostPlan),
    /// What the host is.
    Facts(HostFacts),
}

/// What a controller asks about a host's tuning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneOrders {
    /// Texts that the controller does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<AnswerDigest>,
    /// Open questions. One that was answered stays until it is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "understood")]
    pub asks: Vec<TuneAsk>,
}

/// A question about a host's tuning. None changes anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneAsk {
    /// Its name.
    pub id: TuneAskId,
    /// What is to be done.
    pub what: TuneWhat,
}

/// What is to be done for a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneWhat {
    /// Look again what limits the host.
    Check,
    /// Plan, and change nothing.
    Plan(PlanWish),
}

/// An answer; one of a newer agent that is not understood is a failure. Its turn counts all the same.
fn answer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TuneAnswer, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_else(|error| {
        let why = format!("the controller does not understand the answer: {error}");
        TuneAnswer::Failed { why, age_s: 0 }
    }))
}

/// Those of a list that are understood: a newer controller may ask what this program cannot do.
pub(crate) fn understood<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let values = Vec::<Value>::deserialize(deserializer)?;
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

impl TuneBody {
    /// Its text, and the digest of it.
    pub fn text(&self) -> (AnswerDigest, String) {
        let text = serde_json::to_string(self).expect("it has texts, numbers and lists");
        (answer_digest(text.as_bytes()), text)
    }
}

impl TuneBody {
    /// Understands a text.
    ///
    /// # Errors
    /// If it is none, or would do something to a terminal: no honest agent sends such characters.
    pub(crate) fn parse(text: &str) -> Result<TuneBody, String> {
        let body = TuneBody::read(text)?;
        let most = match body {
            TuneBody::Check(_) => CHECK_LEN_MAX,
            TuneBody::Plan(_) => PLAN_LEN_MAX,
            TuneBody::Facts(_) => FACTS_LEN_MAX,
        };
        // The name around it.
        match text.len() {
            found if found > most + NAME_LEN => Err(format!("it has {found} bytes, and {most} are the most")),
            _ => Ok(body),
        }
    }

    fn read(text: &str) -> Result<TuneBody, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if has_control(&value) {
            return Err("it has control characters".to_owned());
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

fn has_control(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(char::is_control),
        Value::Array(list) => list.iter().any(has_control),
        Value::Object(fields) => fields.values().any(has_control),
        _ => false,
    }
}

/// The digest of a text.
pub(crate) fn answer_digest(text: &[u8]) -> AnswerDigest {
    let letters: String = digest(&SHA256, text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    letters.parse().expect("it is a SHA-256")
}

impl TuneAnswer {
    /// The texts that it names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &AnswerDigest> {
        let (body, facts) = match self {
            TuneAnswer::Done { body, facts, .. } => (Some(body), facts.as_ref()),
            _ => (None, None),
        };
        body.into_iter().chain(facts)
    }

    /// The same of this age.
    pub(crate) fn aged(&self, age: u64) -> TuneAnswer {
        let mut answer = self.clone();
        if let TuneAnswer::Done { age_s, .. } | TuneAnswer::Failed { age_s, .. } = &mut answer {
            *age_s = age;
        }
        answer
    }
}

impl TuneReport {
    /// The texts that its answers name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &AnswerDigest> {
        self.check.named().chain(self.plans.iter().flat_map(|plan| plan.answer.named()))
    }

    /// Refuses what no honest agent sends.
    pub(super) fn check_limits(&mut self) -> Result<(), TurnFault> {
        let most = |what, found, most| match found > most {
            true => Err(TurnFault::TooMany { what, found, most }),
            false => Ok(()),
        };
        most("texts about tuning", self.bodies.len(), BODIES_PER_TURN_MAX)?;
        most("plans", self.plans.len(), ASKS_MAX)?;
        most("answered questions", self.asked.len(), ASKS_MAX)?;
        let longest = self.bodies.iter().map(String::len).max().unwrap_or(0);
        most("bytes of a text about tuning", longest, BODY_LEN_MAX)?;
        let answers =
            std::iter::once(&mut self.check).chain(self.plans.iter_mut().map(|plan| &mut plan.answer));
        for answer in answers {
            if let TuneAnswer::Failed { why, .. } = answer {
                shorten(why);
                *why = why.replace(char::is_control, " ");
            }
        }
        Ok(())
    }
}

impl TuneOrders {
    /// What an agent takes of it: a controller that asks for more is not honest.
    pub(crate) fn bounded(mut self) -> TuneOrders {
        self.lacks.truncate(LACKS_MAX);
        self.asks.truncate(ASKS_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_text_that_would_do_something_to_a_terminal_is_refused() {
        let text = |kernel: &str| json!({"facts": {"kernel": kernel}}).to_string();
        assert!(TuneBody::parse(&text("6.1.0-ä \\n")).is_ok());
        for hostile in ["\u{1b}[2J", "6.1\nh9: all is well", "\u{9b}31m", "\r"] {
            assert_eq!(TuneBody::parse(&text(hostile)), Err("it has control characters".to_owned()));
        }
    }

    #[test]
    fn what_a_newer_agent_or_controller_says_spoils_no_turn() {
        let newer = json!({
            "check": {"melted": {}}, "asked": [], "bodies": [], "uid": 0, "moon": 1,
            "plans": [{"ask": "p1", "answer": {"applied": {"at": 1}}}, {"ask": "p2", "answer": "not_root"}],
        });
        let report: TuneReport = from_value(newer).expect("a report");
        assert!(
            matches!(&report.check, TuneAnswer::Failed { why, .. } if why.contains("unknown variant `melted`"))
        );
        assert!(matches!(report.plans[0].answer, TuneAnswer::Failed { .. }));
        assert_eq!(report.plans[1].answer, TuneAnswer::NotRoot);
        let newer =
            json!({"asks": [{"id": "a1", "what": {"apply": "x"}}, {"id": "a2", "what": "check"}], "moon": 1});
        let orders: TuneOrders = from_value(newer).expect("orders");
        assert_eq!(orders.asks, [TuneAsk { id: "a2".parse().expect("a name"), what: TuneWhat::Check }]);
    }

    #[test]
    fn a_text_beyond_the_limit_of_its_kind_is_refused() {
        let facts = |len: usize| json!({"facts": {"kernel": "k".repeat(len)}}).to_string();
        assert!(TuneBody::parse(&facts(FACTS_LEN_MAX)).is_ok());
        let error = TuneBody::parse(&facts(FACTS_LEN_MAX + NAME_LEN)).expect_err("one more");
        assert!(error.ends_with("bytes, and 8192 are the most"), "{error}");
    }

    #[test]
    fn a_report_beyond_a_limit_is_refused_and_a_reason_is_shortened() {
        let report = |bodies: Vec<String>, why: &str| -> TuneReport {
            from_value(json!({"check": {"failed": {"why": why, "age_s": 1}}, "bodies": bodies}))
                .expect("a report")
        };
        let mut long = report(Vec::new(), &"x".repeat(10_000));
        assert!(long.check_limits().is_ok());
        assert!(
            matches!(&long.check, TuneAnswer::Failed { why, .. } if why.len() == super::super::fault::TEXT_MAX)
        );
        assert!(report(vec!["x".repeat(BODY_LEN_MAX)], "").check_limits().is_ok());
        assert!(report(vec!["x".repeat(BODY_LEN_MAX + 1)], "").check_limits().is_err());
        assert!(report(vec![String::new(); BODIES_PER_TURN_MAX + 1], "").check_limits().is_err());
    }

    #[test]
    fn the_longest_plan_is_within_the_limit_of_a_text() {
        let line = json!({"setting": "s".repeat(290), "now": "n".repeat(290), "wanted": "w".repeat(290)});
        let change = |number: u32| {
            let path = format!("/sys/{number}/{}", line["setting"].as_str().expect("a text"));
            json!({
                "stage": "sysctl", "setting": {"file": {"path": path, "holds": "mask"}}, "now": line["now"], "wanted": line["wanted"],
                "why": "w".repeat(1000), "asked_by": format!("rule-{number}"), "risk": "low",
            })
        };
        let plan = json!({"changes": (0..1000).map(change).collect::<Vec<_>>()});
        let mut plan = HostPlan::read(&plan).expect("a plan").plan;
        plan.form = Some(answer_digest(b"form"));
        let (_, text) = TuneBody::Plan(plan).text();
        assert!(text.len() <= BODY_LEN_MAX, "{}", text.len());
    }
}
