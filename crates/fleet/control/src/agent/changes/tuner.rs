//! Settings of the host: plans that the tuner applies with a label, by which it finds them again.
//!
//! The tuner's journal is the way back, and its own deadline takes back what is not confirmed. It is known by its command line, its JSON
//! and its exit statuses alone.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::tuning::{HostPlan, PlanWish, ReadPlan};
use serde_json::Value;

use super::actor::{ActPhase, ActState, BegunAct, HostActor};
use super::standard::StandardPlan;
use crate::agent::settings::TuneSettings;
use crate::agent::state::AgentStore;
use crate::agent::tuning::program::check_way;
use crate::agent::tuning::runs::{STATUSES, TunerRuns};
use crate::service::turn::{ChangeOrder, HostAct, answer_digest};

/// The name of the file with the plan that is applied.
const PLAN: &str = "plan-of-the-host";
/// Letters of the plan's digest in a label: another plan with the number of this one is not taken for it.
const DIGEST_LEN: usize = 12;

/// Looks in a row after which settings with other values count: a program that sets them back and `tune watch` that repairs them take turns.
const DRIFT_LOOKS: u32 = 2;

/// The tuner, as it changes a host.
pub(super) struct TunerActor {
    runs: TunerRuns,
    store: AgentStore,
    is_allowed: bool,
    /// Plans of which settings had other values in the last looks, by the beginning of their labels.
    drifted: BTreeMap<String, Drifted>,
}

/// Settings of a plan that have other values.
struct Drifted {
    /// Looks in a row that have found some: once, somebody may be about to put them back.
    looks: u32,
    /// In words.
    what: String,
}

impl TunerActor {
    /// With these settings, and a folder for the plan that is applied.
    pub(super) fn new(settings: &TuneSettings, store: AgentStore) -> TunerActor {
        TunerActor {
            runs: TunerRuns::new(settings),
            store,
            is_allowed: settings.apply,
            drifted: BTreeMap::new(),
        }
    }

    /// Plans for a host's standard, and changes nothing.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn plan_standard(&mut self, wish: &PlanWish) -> Result<StandardPlan, String> {
        let mark = self.runs.program_mark()?;
        let (_, ReadPlan { plan, own, .. }) = self.plan(wish)?;
        if plan.is_empty() {
            return Ok(StandardPlan::Empty { mark });
        }
        let first = plan.steps.iter().flat_map(|step| &step.lines).next();
        let first = first.map_or("more is planned than can be shown".to_owned(), |line| {
            format!("{} is {}, and {} is wanted", line.setting, line.now, line.wanted)
        });
        Ok(StandardPlan::Lacks { settings: plan.changes, first, own: answer_digest(own.as_bytes()), mark })
    }

    fn plan(&mut self, wish: &PlanWish) -> Result<(Value, ReadPlan), String> {
        let (kind, name) = wish.words();
        if !wish.is_well_named() {
            return Err(format!("expected a {kind} of small letters, digits and '-'"));
        }
        let json = self.runs.json(&["tune", "plan", "--json", &format!("--{kind}={name}")], &[0])?;
        let read = HostPlan::read(&json).map_err(|error| format!("understand `tune plan`: {error}"))?;
        Ok((json, read))
    }
}

impl HostActor for TunerActor {
    fn look(&mut self, change: &ChangeOrder) -> Result<ActState, String> {
        let status = self.runs.json(&["tune", "status", "--json"], &STATUSES)?;
        let prefix = prefix(change);
        let found = state(&status, &prefix).map_err(|why| format!("understand `tune status`: {why}"))?;
        match drift(&status, &prefix) {
            Some(what) => {
                let drifted = self.drifted.entry(prefix).or_insert(Drifted { looks: 0, what: String::new() });
                (drifted.looks, drifted.what) = (drifted.looks + 1, what);
            }
            None => {
                self.drifted.remove(&prefix);
            }
        }
        Ok(found)
    }

    fn aside(&self, change: &ChangeOrder) -> Option<String> {
        let drifted = self.drifted.get(&prefix(change)).filter(|drifted| drifted.looks >= DRIFT_LOOKS)?;
        Some(drifted.what.clone())
    }

    fn begin(&mut self, change: &ChangeOrder, attempt: u32) -> Result<BegunAct, String> {
        if !self.is_allowed {
            return Err("the agent's file does not allow it: [tune] apply = true is not there".to_owned());
        }
        let (HostAct::Tune { wish, own } | HostAct::Standard { wish, own }) = &change.act else {
            return Err("it is no tuning".to_owned());
        };
        let path = self.store.path(PLAN);
        // The tuner sets what the file says, as root.
        check_way(path.parent().unwrap_or(&path))?;
        let (json, ReadPlan { plan, own: now, .. }) = self.plan(wish)?;
        if answer_digest(now.as_bytes()) != *own {
            return Err("the host would change something else now than when it was planned".to_owned());
        }
        if plan.is_empty() {
            return Ok(BegunAct::Nothing);
        }
        self.store.keep(PLAN, &json).map_err(|error| crate::words::in_full(&error))?;
        let within = format!("--confirm-within={}s", change.confirm_ms.div_ceil(1000).max(1));
        let (plan, label) = (format!("--plan={}", path.display()), label(change, attempt));
        self.runs.change(&["tune", "apply", &plan, &label, &within])?;
        Ok(BegunAct::Done)
    }

    fn keep(&mut self, change: &ChangeOrder, attempt: u32) -> Result<(), String> {
        self.runs.change(&["tune", "confirm", &label(change, attempt)])
    }

    fn go_back(&mut self, change: &ChangeOrder, attempt: u32) -> Result<(), String> {
        self.runs.change(&["tune", "rollback", &label(change, attempt)])
    }
}

/// The beginning of the labels of all attempts of a change.
fn prefix(change: &ChangeOrder) -> String {
    let digest: String = change.act.own().as_str().chars().take(DIGEST_LEN).collect();
    let whose = match change.act {
        HostAct::Standard { .. } => "standard",
        HostAct::Tune { .. } | HostAct::Upgrade { .. } => "change",
    };
    format!("{whose}-{}-{digest}-", change.order.change)
}

fn label(change: &ChangeOrder, attempt: u32) -> String {
    format!("--label={}{attempt}", prefix(change))
}

/// Settings of a plan in force that have other values than it has set, in words.
fn drift(status: &Value, prefix: &str) -> Option<String> {
    let is_meant = |plan: &&Value| {
        plan["phase"] == "in_force" && plan["label"].as_str().is_some_and(|label| label.starts_with(prefix))
    };
    let settings = status["plans"].as_array()?.iter().find(is_meant)?["settings"].as_array()?;
    let mut drifted = settings.iter().filter(|setting| setting["state"] == "drifted");
    let (first, more) = (drifted.next()?, drifted.count());
    let text = |name: &str| first[name].as_str().unwrap_or("?");
    let (setting, reads, wanted) = (text("setting"), text("reads"), text("wanted"));
    let others = if more > 0 { format!(", and {more} more") } else { String::new() };
    Some(format!("{setting} is {reads} and no longer {wanted}{others}"))
}

/// How the host is with plans whose labels begin so.
fn state(status: &Value, prefix: &str) -> Result<ActState, String> {
    let plans = status["plans"].as_array().ok_or("expected a list \"plans\"")?;
    for plan in plans {
        let Some(attempt) = plan["label"].as_str().and_then(|label| label.strip_prefix(prefix)) else {
            continue;
        };
        let attempt = attempt.parse().map_err(|_| "expected the number of an attempt in a label")?;
        let phase = match plan["phase"].as_str() {
            Some("at_work") => ActPhase::AtWork,
            Some("interrupted") => ActPhase::Interrupted,
            Some("waiting") => {
                let left =
                    plan["left_s"].as_u64().ok_or("expected a number \"left_s\" of a plan that waits")?;
                ActPhase::Waiting(Duration::from_secs(left))
            }
            Some("in_force") => ActPhase::Kept,
            Some("undone") => continue,
            _ => return Err("expected a phase of a plan that this agent knows".to_owned()),
        };
        return Ok(ActState::There { attempt, phase });
    }
    // A plan that cannot be read may be this one.
    let unread = status["unread"].as_array().ok_or("expected a list \"unread\"")?;
    match unread.first() {
        None => Ok(ActState::AsBefore),
        Some(first) => {
            Err(format!("not all that is in force can be read: {}", first.as_str().unwrap_or("?")))
        }
    }
}
