//! A host's findings in a short form, with what a plan would change because of them, and the state of its tuning.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::HostFacts;
use super::json::{kind, list, short, text};
use super::plan::HostPlan;

/// Bytes of a check in its short form, as JSON: some ten findings. 5,000 hosts have 20 MB of them.
pub const CHECK_LEN_MAX: usize = 4096;
/// Bytes of a sentence, and of a name.
const SENTENCE_LEN_MAX: usize = 240;
const NAME_LEN_MAX: usize = 80;
/// Plans in force of one host that are named.
const PLANS_MAX: usize = 4;
/// CPUs whose load is kept: more are too many to compare.
const CPUS_MAX: usize = 32;
/// Rules of consequences that are named.
const CONSEQUENCES_MAX: usize = 6;

/// A check in its short form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCheck {
    /// Seconds over which counters were read.
    pub window_s: f64,
    /// Findings, as the tuner orders them: the most severe first.
    pub findings: Vec<FindingLine>,
    /// The load of its CPUs, by their numbers: all, or those with the most to do. Empty if an older tuner does not say it.
    #[serde(default)]
    pub cpus: Vec<CpuBusy>,
    /// Findings that were cut, because they are beyond the limit of bytes.
    #[serde(default)]
    pub cut: usize,
    /// How much the tuner could not see, and the first of it.
    #[serde(default)]
    pub gaps: usize,
    /// The first of it.
    #[serde(default)]
    pub gap: Option<String>,
    /// What is in force.
    #[serde(default)]
    pub state: TuningState,
}

/// What a CPU did in the window, in percent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuBusy {
    /// Its number.
    pub cpu: u32,
    /// In soft interrupts.
    pub softirq: u8,
    /// In all but idling.
    pub busy: u8,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// Good to know.
    Note,
    /// It costs something, or will when load grows.
    Warning,
    /// It limits the service now.
    Critical,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingLine {
    /// The rule, for `tune explain`.
    pub rule: String,
    /// How much it matters.
    pub severity: FindingSeverity,
    /// What it is about, on this host.
    pub subject: String,
    /// The cause, in one sentence.
    pub cause: String,
    /// What would change it, without this host's names.
    pub change: String,
    /// How many other subjects it is about as well.
    #[serde(default)]
    pub also: usize,
    /// Rules of findings that follow from it.
    #[serde(default)]
    pub causes: Vec<String>,
}

/// What the tuner has changed on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningState {
    /// Why it is not known, if it is not.
    #[serde(default)]
    pub unknown: Option<String>,
    /// Plans in force, the newest first, as far as there is room.
    #[serde(default)]
    pub plans: Vec<PlanInForce>,
    /// How many there are.
    #[serde(default)]
    pub plans_all: usize,
    /// Files that keep settings over a restart, and those of them that are not as they were written.
    #[serde(default)]
    pub files: usize,
    /// Those that are not as they were written.
    #[serde(default)]
    pub files_changed: usize,
    /// Journals that cannot be read in full, or plans of another network namespace that nobody has confirmed.
    #[serde(default)]
    pub doubts: usize,
}

/// A plan in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanInForce {
    /// Its journal's file.
    pub journal: String,
    /// In the tuner's word: `in_force`, `waiting` for its confirmation, `interrupted`.
    pub phase: String,
    /// Its settings, and those of them that have another value now: whoever watches them has put them back or stepped aside.
    pub settings: usize,
    /// Those that have another value now.
    pub drifted: usize,
}

/// A check, and what the host is.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadCheck {
    /// In its short form.
    pub check: HostCheck,
    /// What the host is, if its tuner says that.
    pub facts: Option<HostFacts>,
}

impl FindingSeverity {
    /// All, the worst last.
    pub const ALL: [FindingSeverity; 3] =
        [FindingSeverity::Note, FindingSeverity::Warning, FindingSeverity::Critical];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            FindingSeverity::Note => "note",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Critical => "critical",
        }
    }
}

impl fmt::Display for FindingSeverity {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

impl HostCheck {
    /// From the JSON of `tune check`, and the state of the tuning.
    ///
    /// # Errors
    /// What is not as in such a text.
    pub fn read(json: &Value, state: TuningState) -> Result<ReadCheck, String> {
        let facts = HostFacts::of(json)?;
        let window_s = json["window_s"]
            .as_f64()
            .ok_or_else(|| format!("expected a number \"window_s\", found {}", kind(&json["window_s"])))?;
        let plan = match &json["plan"] {
            // An older tuner does not say what it would change.
            Value::Null => None,
            plan => Some(
                HostPlan::read_of(plan, facts.clone()).map_err(|error| format!("\"plan\": {error}"))?.plan,
            ),
        };
        let findings: Result<Vec<_>, String> =
            list(json, "findings")?.iter().map(|finding| line(finding, plan.as_ref())).collect();
        let gaps = json["gaps"].as_array();
        let gap = gaps.and_then(|gaps| gaps.first()?.as_str()).map(|gap| short(gap, SENTENCE_LEN_MAX));
        let gaps = gaps.map_or(0, Vec::len);
        let (findings, cpus) = (findings?, cpus(&json["loads"])?);
        let mut check = HostCheck { window_s, findings, cpus, cut: 0, gaps, gap, state };
        check.cut_to(CHECK_LEN_MAX);
        Ok(ReadCheck { check, facts })
    }

    /// Cuts the last findings off until the JSON is short enough, and counts them.
    fn cut_to(&mut self, len_max: usize) {
        while serde_json::to_string(self).map_or(0, |json| json.len()) > len_max
            && self.findings.pop().is_some()
        {
            self.cut += 1;
        }
    }
}

/// The load of CPUs, of those with the most to do if they are many.
fn cpus(loads: &Value) -> Result<Vec<CpuBusy>, String> {
    let loads = match loads {
        // An older tuner does not say it.
        Value::Null => return Ok(Vec::new()),
        Value::Object(loads) => loads,
        other => return Err(format!("expected an object \"loads\", found {}", kind(other))),
    };
    let shares = |(cpu, load): (&String, &Value)| {
        let percent = |name: &str| {
            let found = &load[name];
            let value = found.as_f64().filter(|value| (0.0..=100.0).contains(value));
            value.ok_or_else(|| format!("expected a percentage {name:?} of CPU {cpu}, found {found}"))
        };
        let cpu = cpu.parse().map_err(|_| format!("expected the number of a CPU, found {cpu:?}"))?;
        let busy = 100.0 - percent("idle")?;
        Ok::<_, String>(CpuBusy { cpu, softirq: percent("softirq")?.round() as u8, busy: busy.round() as u8 })
    };
    let mut all = loads.iter().map(shares).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|one| (std::cmp::Reverse((one.softirq, one.busy)), one.cpu));
    all.truncate(CPUS_MAX);
    all.sort_by_key(|one| one.cpu);
    Ok(all)
}

fn line(finding: &Value, plan: Option<&HostPlan>) -> Result<FindingLine, String> {
    let severity = text(finding, "severity")?;
    let severity =
        FindingSeverity::ALL.into_iter().find(|known| known.word() == severity).ok_or_else(|| {
            format!(
                "expected the severity note, warning or critical, found {:?}",
                short(severity, NAME_LEN_MAX)
            )
        })?;
    let rule = short(text(finding, "rule")?, NAME_LEN_MAX);
    let causes = finding["consequences"].as_array().into_iter().flatten().take(CONSEQUENCES_MAX);
    let causes: Result<Vec<String>, String> =
        causes.map(|one| Ok(short(text(one, "rule")?, NAME_LEN_MAX))).collect();
    Ok(FindingLine {
        severity,
        subject: short(text(finding, "subject")?, NAME_LEN_MAX),
        cause: short(text(finding, "cause")?, SENTENCE_LEN_MAX),
        change: short(&change(finding, &rule, plan)?, SENTENCE_LEN_MAX),
        also: finding["alike"].as_array().map_or(0, Vec::len),
        causes: causes?,
        rule,
    })
}

/// What would change a finding: the settings of the plan that its rule asks for, or why there are none.
fn change(finding: &Value, rule: &str, plan: Option<&HostPlan>) -> Result<String, String> {
    match &finding["verdict"] {
        Value::String(word) if word == "fixable" => {}
        Value::Object(verdict) if verdict.contains_key("not_here") => {
            return Ok("nothing on this host helps".to_owned());
        }
        other => return Err(format!("expected the verdict fixable or not_here, found {}", kind(other))),
    }
    let Some(plan) = plan else {
        return Ok("unknown: the tuner of this host is of an older version".to_owned());
    };
    let of_rule = |asked_by: &str| asked_by == rule;
    let lines: Vec<_> =
        plan.steps.iter().filter(|step| of_rule(&step.asked_by)).flat_map(|step| &step.lines).collect();
    if let Some(first) = lines.first() {
        let more = match lines.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Ok(format!("{} → {}{more}", first.setting, first.wanted));
    }
    if let Some(refused) = plan.refused.iter().find(|refused| of_rule(&refused.asked_by)) {
        return Ok(format!("not planned: {}", refused.reason));
    }
    Ok("by hand, or with a setting of another finding".to_owned())
}

impl TuningState {
    /// From the JSON of `tune status`.
    ///
    /// # Errors
    /// What is not as in such a text.
    pub fn read(json: &Value) -> Result<TuningState, String> {
        let plans = list(json, "plans")?;
        let plan = |plan: &Value| {
            let settings = list(plan, "settings")?;
            let holds = |setting: &&Value| setting["state"] == "holds";
            let journal = text(plan, "journal")?.rsplit('/').next().unwrap_or_default();
            Ok::<_, String>(PlanInForce {
                journal: short(journal, NAME_LEN_MAX),
                phase: short(text(plan, "phase")?, NAME_LEN_MAX),
                settings: settings.len(),
                drifted: settings.len() - settings.iter().filter(holds).count(),
            })
        };
        let in_force: Result<Vec<_>, String> = plans.iter().take(PLANS_MAX).map(plan).collect();
        let persists = &json["persists"];
        let files = persists["files"].as_array();
        let as_written = |file: &&Value| file["state"] == "as_written";
        let unknown = persists["unknown"].as_str();
        Ok(TuningState {
            unknown: unknown.map(|why| short(&format!("what persists: {why}"), SENTENCE_LEN_MAX)),
            plans: in_force?,
            plans_all: plans.len(),
            files: files.map_or(0, Vec::len),
            files_changed: files.map_or(0, |files| files.len() - files.iter().filter(as_written).count()),
            doubts: list(json, "unread")?.len() + list(json, "overdue")?.len(),
        })
    }

    /// A state that could not be found out.
    pub fn unknown(why: &str) -> TuningState {
        TuningState { unknown: Some(short(why, SENTENCE_LEN_MAX)), ..TuningState::default() }
    }
}

#[cfg(test)]
mod tests;
