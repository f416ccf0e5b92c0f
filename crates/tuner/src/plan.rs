//! Plans: changes in their order, without those that are in force already.
//!
//! Pure: from [`Facts`] and a request to a [`Plan`]. A request can be a strategy, a profile, or findings that have a
//! remedy; the first that asks for a setting decides its value.

pub mod change;
mod draft;
pub(crate) mod listen_queue;
pub mod my_cnf;
pub mod plan_text;
pub mod profile;
pub mod proposal;
mod remedy;
pub mod script;
pub mod signal;
pub mod strategy;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::diagnose::finding::Finding;
use crate::diagnose::rules;
use crate::observe::cpu_model::{Choice, CpuModel, Left, Measured};
use crate::observe::facts::{Facts, Nic};
use change::{Change, PlanRefusal, Setting, Stage};
use os::CpuSet;
use profile::Profile;
use proposal::ProposedChanges;
use strategy::Strategy;

/// The request for a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest<'a> {
    /// A strategy.
    pub strategy: Option<Strategy>,
    /// A profile.
    pub profile: Option<Profile>,
    /// Findings.
    pub findings: &'a [Finding],
    /// The only interface of the plan; `None`: all physical ones that are up.
    pub nic: Option<&'a str>,
    /// The only processes of the plan; none: all data servers.
    pub pids: &'a [u32],
    /// Whether to include settings that are in force already: they have to be kept over the next start, too.
    pub whole: bool,
    /// Whether listeners of running programs may be changed.
    pub live: bool,
    /// Where packets arrive and how busy CPUs are with them, if that was measured.
    pub measured: Measured,
    /// The CPUs that are to take interrupts, and those that may be used at all.
    pub choice: Choice,
    /// Whether real-time threads may take every CPU, as long as there is a limit for threads that never wait.
    pub accept_risk: bool,
}

/// The result of planning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order in which they are to be made.
    pub changes: Vec<Change>,
    /// Requests that are not planned.
    #[serde(default)]
    pub refusals: Vec<PlanRefusal>,
    /// Actions that no live setting can replace.
    #[serde(default)]
    pub advice: Vec<String>,
    /// CPUs for services: those that take no interrupts, where interrupts are kept to some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_cpus: Option<Left>,
    /// The request for the rest, to be planned after the changes: they give queues and interrupts other numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Intent>,
}

/// The request of a plan, to be planned again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// A strategy.
    pub strategy: Option<Strategy>,
    /// A profile.
    pub profile: Option<Profile>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Whether listeners of running programs may be changed.
    #[serde(default)]
    pub live: bool,
    /// The only processes of the plan; none: all data servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The interfaces of the plan. One whose queues are made anew may be down for a moment.
    pub nics: Vec<String>,
    /// The chosen CPUs.
    #[serde(default, skip_serializing_if = "Choice::is_free")]
    pub choice: Choice,
}

/// The requested strategy, from the user or from the rule of a finding.
pub fn strategy_behind(asked_by: &str) -> Option<Strategy> {
    let (asked_by, _) = Choice::split(asked_by);
    let of_rule = rules::remedy(asked_by).and_then(remedy::strategy);
    Strategy::named(asked_by).or(of_rule)
}

/// The profile that a finding's rule requests.
pub fn profile_behind(asked_by: &str) -> Option<Profile> {
    rules::remedy(asked_by).and_then(remedy::profile)
}

/// Makes a plan. One that gives an interface other queues holds nothing else: changes that depend on them are planned
/// by [`rest`] when they exist.
pub fn plan(facts: &Facts, asked: &PlanRequest) -> Plan {
    let narrowed = narrowed(facts, asked.pids);
    let facts = narrowed.as_ref().unwrap_or(facts);
    let nics = meant(facts, asked.nic);
    let mut plan = draft::complete(facts, asked, &nics);
    let renews = |change: &Change| change.stage == Stage::Queues;
    if !asked.whole && plan.changes.iter().any(renews) {
        plan.changes.retain(renews);
        plan.then = Some(Intent {
            strategy: asked.strategy,
            profile: asked.profile,
            findings: asked.findings.to_vec(),
            live: asked.live,
            pids: asked.pids.to_vec(),
            nics: nics.iter().map(|nic| nic.name.clone()).collect(),
            choice: asked.choice.clone(),
        });
    }
    plan
}

/// The rest after a plan's queues exist: everything but queues.
pub fn rest(facts: &Facts, intent: &Intent) -> Plan {
    let narrowed = narrowed(facts, &intent.pids);
    let facts = narrowed.as_ref().unwrap_or(facts);
    let nics: Vec<&Nic> = facts.nics.iter().filter(|nic| intent.nics.contains(&nic.name)).collect();
    // These requested rings only, which would be doubled once more.
    let of_rings = |finding: &Finding| strategy_behind(&finding.rule) == Some(Strategy::Rings);
    let findings = rules::unfold(&intent.findings).into_iter().map(|(finding, _)| finding);
    let findings: Vec<Finding> = findings.filter(|finding| !of_rings(finding)).collect();
    let asked = PlanRequest {
        strategy: intent.strategy.filter(|strategy| *strategy != Strategy::Rings),
        profile: intent.profile,
        findings: &findings,
        live: intent.live,
        choice: intent.choice.clone(),
        ..PlanRequest::default()
    };
    let mut plan = draft::complete(facts, &asked, &nics);
    plan.changes.retain(|change| change.stage != Stage::Queues);
    plan
}

/// Requested settings, each with its first requester.
type Taken = BTreeMap<Setting, String>;

/// Stages whose changes depend on the chosen CPUs.
const OF_CPUS: [Stage; 4] = [Stage::Queues, Stage::Irqbalance, Stage::Affinity, Stage::Steering];

/// The host after the change.
fn move_interrupt(facts: &mut Facts, change: &Change) {
    let (Some(irq), Ok(cpus)) = (change.setting.irq(), CpuSet::parse_mask(&change.wanted)) else { return };
    for interrupt in facts.interrupts.iter_mut().filter(|interrupt| interrupt.irq == irq) {
        interrupt.affinity = cpus.clone();
        interrupt.effective = cpus.clone();
    }
}

impl Plan {
    fn refuse(&mut self, subject: &str, asked_by: &str, reason: &str) {
        let is_same = |other: &PlanRefusal| other.subject == subject && other.reason == reason;
        if !self.refusals.iter().any(is_same) {
            let (subject, asked_by) = (subject.to_owned(), asked_by.to_owned());
            self.refusals.push(PlanRefusal { subject, asked_by, reason: reason.to_owned() });
        }
    }

    /// In a container, a plan would fail at its first step.
    fn refuse_read_only(&mut self, facts: &Facts) {
        let place = |change: &Change| {
            let path = change.setting.to_string();
            let holds =
                |place: &&String| path.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'));
            facts.read_only.iter().find(holds)
        };
        let (refused, changes) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| place(change).is_some());
        self.changes = changes;
        let refused: Vec<Change> = refused;
        for change in refused {
            let reason = "it is mounted read-only, as in most containers: make the plan on the host itself";
            let place = place(&change).cloned().unwrap_or_default();
            self.refuse(&place, &change.asked_by, reason);
        }
    }

    /// The other CPUs, where interrupts are kept to some: by choice, or because a strategy gathers them.
    fn leave_to_services(&mut self, model: &CpuModel, gathered: &CpuSet) {
        let irqs = model.choice.irq_cpus.clone().unwrap_or_default().or(gathered);
        if model.choice.is_free() && irqs.is_empty() {
            return;
        }
        // Interrupts that the plan does not move stay where they are; on all CPUs, they leave nothing to choose from.
        let all = irqs.or(&self.taking(model));
        let irqs = if model.for_services(&all).and(&all).is_empty() { all } else { irqs };
        let mut proposed = ProposedChanges::default();
        if model.choice.irq_cpus.is_some() && irqs != model.online {
            strategy::keep_off(&mut proposed, model, &irqs);
        }
        proposed.advice.retain(|advice| !self.advice.contains(advice));
        self.advice.extend(proposed.advice);
        self.service_cpus = Some(model.for_services(&irqs).into());
    }

    /// CPUs that take interrupts of interfaces once the changes are made.
    fn taking(&self, model: &CpuModel) -> CpuSet {
        let mut moved = model.facts.clone();
        self.changes.iter().for_each(|change| move_interrupt(&mut moved, change));
        let then = model.after(&moved, self.changes.iter().filter_map(|change| change.setting.irq()));
        moved.nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&then.irq_cpus(nic)))
    }

    fn add(&mut self, proposed: ProposedChanges, rule: Option<&str>, asked: &PlanRequest, taken: &mut Taken) {
        for change in proposed.changes {
            let mut asked_by = rule.map_or(change.asked_by.clone(), str::to_owned);
            // The intent at boot needs the chosen CPUs.
            let (of_cpus, chosen) = (OF_CPUS.contains(&change.stage), asked.choice.typed());
            if of_cpus && !asked_by.ends_with(&chosen) {
                asked_by.push_str(&chosen);
            }
            let Entry::Vacant(first) = taken.entry(change.setting.clone()) else { continue };
            first.insert(asked_by.clone());
            #[cfg(test)]
            assert!(crate::apply::undoable::is_ours(&change.setting), "{} is missing there", change.setting);
            if asked.whole || change.is_due() {
                self.changes.push(Change { asked_by, ..change });
            }
        }
        for refusal in proposed.refusals {
            let asked_by = rule.map_or(refusal.asked_by, str::to_owned);
            let known =
                |other: &PlanRefusal| other.subject == refusal.subject && other.reason == refusal.reason;
            if !self.refusals.iter().any(known) {
                self.refusals.push(PlanRefusal { asked_by, ..refusal });
            }
        }
        for advice in proposed.advice {
            if !self.advice.contains(&advice) {
                self.advice.push(advice);
            }
        }
    }
}

/// The host with these processes as its only services; `None`: as it is.
fn narrowed(facts: &Facts, pids: &[u32]) -> Option<Facts> {
    let mut facts = (!pids.is_empty()).then(|| facts.clone())?;
    facts.services.retain(|service| pids.contains(&service.pid));
    Some(facts)
}

/// The interface that was named, or those that carry the host's traffic.
fn meant<'f>(facts: &'f Facts, name: Option<&str>) -> Vec<&'f Nic> {
    let Some(name) = name else { return facts.nics.iter().filter(|nic| nic.is_wire()).collect() };
    let mut below = Vec::new();
    facts.nic(name).into_iter().for_each(|nic| devices_below(facts, nic, &mut below));
    match below.is_empty() {
        true => facts.nic(name).into_iter().collect(),
        false => below,
    }
}

/// The interfaces with a device below one: queues and interrupts of a bond or a VLAN are theirs, and so are those of
/// Azure's synthetic interface, although it has a device itself.
fn devices_below<'f>(facts: &'f Facts, nic: &'f Nic, found: &mut Vec<&'f Nic>) {
    if !nic.physical || !nic.lower.is_empty() {
        let lower = nic.lower.iter().filter_map(|name| facts.nic(name));
        return lower.for_each(|nic| devices_below(facts, nic, found));
    }
    if !found.iter().any(|other| other.name == nic.name) {
        found.push(nic);
    }
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
