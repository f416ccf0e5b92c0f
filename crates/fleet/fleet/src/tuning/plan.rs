//! A host's plan in a short form: changes by reason, risk and setting, what is not planned, and what is to do by hand.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::AnswerDigest;
use super::facts::HostFacts;
use super::form::HostNames;
use super::json::{list, short, text};

/// Bytes of a plan in its short form, as JSON: 128 masks of 256 CPUs, for 64 pairs of queues, have 230 bytes each. What is beyond is counted.
pub const PLAN_LEN_MAX: usize = 32 * 1024;
/// Changes that are read: every queue of the largest host several times over.
const CHANGES_MAX: usize = 16_384;
/// Bytes of a sentence, and of a setting or its value: a mask of 1,024 CPUs has 290.
const SENTENCE_LEN_MAX: usize = 300;
/// Requests that are not planned, and things to do by hand.
const SENTENCES_MAX: usize = 16;

/// A plan in its short form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlan {
    /// Digest of the form of all changes, also of those that were cut: plans are equal if it is.
    #[serde(default)]
    pub form: Option<AnswerDigest>,
    /// Changes, in their order.
    pub steps: Vec<PlanStep>,
    /// How many there are, with those that were cut.
    pub changes: usize,
    /// How many were cut.
    #[serde(default)]
    pub cut: usize,
    /// More is planned after these, when queues have been made anew.
    #[serde(default)]
    pub continues: bool,
    /// What is not planned.
    #[serde(default)]
    pub refused: Vec<PlanRefused>,
    /// To do by hand.
    #[serde(default)]
    pub advice: Vec<String>,
}

/// Changes with the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Who asks for it: a profile, a strategy, a rule.
    pub asked_by: String,
    /// The risk, in the tuner's word.
    pub risk: String,
    /// The reason.
    pub why: String,
    /// The settings.
    pub lines: Vec<PlanLine>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLine {
    /// Its name, without this host's names.
    pub setting: String,
    /// Its value before; `*` if that differs from host to host by chance.
    pub now: String,
    /// Its value after.
    pub wanted: String,
}

/// A request that is not planned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanRefused {
    /// Who asks for it.
    pub asked_by: String,
    /// For what.
    pub subject: String,
    /// Why not.
    pub reason: String,
}

/// A plan, and the texts whose digests it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    /// In its short form.
    pub plan: HostPlan,
    /// The form of all changes. Hosts with the same text have equal plans.
    pub form: String,
    /// The form, the host's own names and its facts: it changes when the same plan would do something else on this host.
    pub own: String,
    /// What the host is, if its tuner says that.
    pub facts: Option<HostFacts>,
}

impl HostPlan {
    /// From the JSON of `tune plan`.
    ///
    /// # Errors
    /// What is not as in such a text.
    pub fn read(json: &Value) -> Result<ReadPlan, String> {
        HostPlan::read_of(json, HostFacts::of(json)?)
    }

    /// The same of a host with these facts, from an object that has only the plan.
    pub(super) fn read_of(json: &Value, facts: Option<HostFacts>) -> Result<ReadPlan, String> {
        let mut names = HostNames::new(facts.as_ref());
        let (mut plan, mut form) = (HostPlan::default(), String::new());
        let changes = list(json, "changes")?;
        if changes.len() > CHANGES_MAX {
            return Err(format!("expected {CHANGES_MAX} changes at most, found {}", changes.len()));
        }
        for change in changes {
            plan.add(change, &mut names, &mut form)?;
        }
        plan.changes = changes.len();
        names.layout().into_iter().for_each(|layout| {
            let _ = writeln!(form, "{layout}");
        });
        if let then @ Value::Object(_) = &json["then"] {
            plan.continues = true;
            let asked = ["strategy", "profile", "live", "choice"].map(|name| then[name].to_string());
            let _ = writeln!(form, "then {}", asked.join(" "));
        }
        for refused in json["refusals"].as_array().into_iter().flatten().take(SENTENCES_MAX) {
            let sentence = |name| Ok::<_, String>(short(text(refused, name)?, SENTENCE_LEN_MAX));
            let (asked_by, subject, reason) =
                (sentence("asked_by")?, sentence("subject")?, sentence("reason")?);
            plan.refused.push(PlanRefused { asked_by, subject, reason });
        }
        for advice in json["advice"].as_array().into_iter().flatten().take(SENTENCES_MAX) {
            plan.advice.push(short(advice.as_str().unwrap_or_default(), SENTENCE_LEN_MAX));
        }
        plan.cut_to(PLAN_LEN_MAX);
        let facts_text = serde_json::to_string(&facts).map_err(|error| error.to_string())?;
        let own = format!("{form}{}{facts_text}\n", names.text());
        Ok(ReadPlan { plan, form, own, facts })
    }

    fn add(&mut self, change: &Value, names: &mut HostNames<'_>, form: &mut String) -> Result<(), String> {
        let (asked_by, risk) = (text(change, "asked_by")?, text(change, "risk")?);
        let stage = text(change, "stage")?;
        let formed = names.formed(change)?;
        // In JSON, so that no value can look like the beginning of another field.
        let fields = [stage, asked_by, risk, &*formed.name, &*formed.now, &*formed.wanted];
        let _ = writeln!(form, "{}", Value::from(&fields[..]));
        let why = short(text(change, "why")?, SENTENCE_LEN_MAX);
        let (asked_by, risk) = (short(asked_by, SENTENCE_LEN_MAX), short(risk, SENTENCE_LEN_MAX));
        let cut = |text: &str| short(text, SENTENCE_LEN_MAX);
        let line =
            PlanLine { setting: cut(&formed.name), now: cut(&formed.now), wanted: cut(&formed.wanted) };
        match self.steps.last_mut() {
            Some(last) if (&last.asked_by, &last.risk, &last.why) == (&asked_by, &risk, &why) => {
                last.lines.push(line);
            }
            _ => self.steps.push(PlanStep { asked_by, risk, why, lines: vec![line] }),
        }
        Ok(())
    }

    /// Cuts the last settings off until the JSON is short enough, and counts them.
    fn cut_to(&mut self, len_max: usize) {
        // Room for the digest of the form, which is added later.
        let room = 100;
        let mut len = serde_json::to_string(self).map_or(usize::MAX, |json| json.len()) + room;
        while len > len_max {
            let Some(step) = self.steps.last_mut() else { break };
            match step.lines.pop() {
                Some(line) => {
                    self.cut += 1;
                    len -= serde_json::to_string(&line).map_or(0, |json| json.len());
                }
                None => {
                    self.steps.pop();
                }
            }
        }
        self.steps.retain(|step| !step.lines.is_empty());
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes == 0 && !self.continues
    }
}

#[cfg(test)]
mod tests;
