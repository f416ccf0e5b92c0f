//! Plans: changes in their order, without those that are in force already.
//!
//! Pure: from [`Facts`] and a request to a [`Plan`]. A request can be a strategy, a profile, or findings that have a
//! remedy. Each of them is a list of [`settings`](crate::settings); [`draft`] has all of them propose, and the first that
//! asks for a setting decides its value.

mod draft;
pub mod my_cnf;
pub mod plan_text;
pub mod script;

use serde::{Deserialize, Serialize};

pub use crate::settings::{change, profile, proposal, signal, strategy};

use crate::diagnose::finding::Finding;
use crate::diagnose::rules::{self, AtBoot, Remedy};
use crate::observe::cpu_model::{Choice, Left, Measured};
use crate::observe::facts::{Facts, Nic};
use change::{Change, PlanRefusal, Stage};
use profile::Profile;
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
    /// The only disks of the profile `flash`; none: those of servers.
    pub disks: &'a [String],
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
    /// The only disks of the profile `flash`; none: those of servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// The chosen CPUs.
    #[serde(default, skip_serializing_if = "Choice::is_free")]
    pub choice: Choice,
}

/// The requested strategy, from the user or from the rule of a finding.
pub fn strategy_behind(asked_by: &str) -> Option<Strategy> {
    let (asked_by, _) = Choice::split(asked_by);
    let of_rule = match at_boot(asked_by) {
        Some(AtBoot::Strategy(strategy)) => Some(strategy),
        _ => None,
    };
    Strategy::named(asked_by).or(of_rule)
}

/// The profile that a finding's rule requests.
pub fn profile_behind(asked_by: &str) -> Option<Profile> {
    match at_boot(asked_by) {
        Some(AtBoot::Profile(profile)) => Some(profile),
        _ => None,
    }
}

fn at_boot(rule: &str) -> Option<AtBoot> {
    rules::remedy(rule).and_then(Remedy::planned)?.at_boot
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
            disks: asked.disks.to_vec(),
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
        disks: &intent.disks,
        choice: intent.choice.clone(),
        ..PlanRequest::default()
    };
    let mut plan = draft::complete(facts, &asked, &nics);
    plan.changes.retain(|change| change.stage != Stage::Queues);
    plan
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
#[cfg(test)]
mod vectors;
