//! Intent, planned anew at boot: strategies and devices rather than numbers, in `/etc/evenkeel/tune.json`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::observe::cpu_model::Choice;
use crate::observe::facts::{Facts, Nic};
use crate::plan::change::{PlanRefusal, Stage};
use crate::plan::profile::Profile;
use crate::plan::strategy::Strategy;
use crate::plan::{self, Plan, PlanRequest};

/// The version of the format; other versions are refused.
const VERSION: u32 = 1;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The version of the format.
    version: u32,
    /// A comment for the reader.
    about: String,
    /// Whether irqbalance leaves these interfaces alone, because it asks the policy script.
    irqbalance_knows: bool,
    /// In this order.
    #[serde(rename = "wishes")]
    parts: Vec<IntentPart>,
}

/// A part of a strategy or profile, for one device or service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentPart {
    /// A layout…
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// … or the profile of a kind of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicIdentity>,
    /// The service, by the name of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The service's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The CPUs chosen for it.
    #[serde(default, skip_serializing_if = "Choice::is_free")]
    pub choice: Choice,
    /// Which of its changes are included; the others have means of their own.
    pub stages: BTreeSet<Stage>,
}

/// An interface, identified over restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicIdentity {
    /// Its name, which counts if it has no bus address.
    pub name: String,
    /// Its driver; another driver at the same address means another device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its bus address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
}

/// A text that is no intent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not in the format.
    #[error("understand the intent")]
    Notation(#[from] serde_json::Error),
    /// It is of another version.
    #[error("understand the intent: it is of version {0}, this program supports {VERSION}")]
    Version(u32),
}

impl NicIdentity {
    pub(super) fn of(nic: &Nic) -> NicIdentity {
        NicIdentity { name: nic.name.clone(), driver: nic.driver.clone(), bus: nic.bus.clone() }
    }

    /// The interface with this identity. A bus address may have several: then the name decides.
    fn find<'f>(&self, facts: &'f Facts) -> Result<&'f Nic, String> {
        let there = |nic: &&Nic| match &self.bus {
            Some(bus) => nic.bus.as_ref() == Some(bus),
            None => nic.name == self.name,
        };
        let there: Vec<&Nic> = facts.nics.iter().filter(there).collect();
        let named = there.iter().copied().find(|nic| nic.name == self.name);
        let at = self.bus.as_deref().unwrap_or(&self.name);
        let nic = match (named, there.as_slice()) {
            (Some(nic), _) => nic,
            (None, [nic]) => *nic,
            (None, []) => return Err(format!("there is no interface at {at}")),
            (None, _) => {
                return Err(format!(
                    "there are several interfaces at {at}, none of them called {}",
                    self.name
                ));
            }
        };
        if self.driver.is_none() || nic.driver == self.driver {
            return Ok(nic);
        }
        let name = |driver: &Option<String>| driver.clone().unwrap_or("none".to_owned());
        Err(format!(
            "the interface at {at} has the driver {} now, and had {}",
            name(&nic.driver),
            name(&self.driver)
        ))
    }
}

impl Intent {
    pub(super) fn new(parts: Vec<IntentPart>, irqbalance_knows: bool) -> Intent {
        let about = "What `evenkeel tune apply --intent` plans anew at boot, because numbers of interrupts and threads \
                     change. Written by `evenkeel tune persist`; `evenkeel tune persist --remove` takes it away.";
        Intent { version: VERSION, about: about.to_owned(), irqbalance_knows, parts }
    }

    /// Reads one.
    pub fn parse(text: &str) -> Result<Intent, Error> {
        let intent: Intent = serde_json::from_str(text)?;
        if intent.version == VERSION { Ok(intent) } else { Err(Error::Version(intent.version)) }
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("an intent is plain data") + "\n"
    }

    /// The plan of it for this host as it is now. If queues have to be made anew, that alone: [`Intent::rest`] is
    /// planned when they exist. Missing devices and services are among the refusals.
    pub fn plan(&self, facts: &Facts) -> Plan {
        let queues = self.each(facts, IntentPart::queues);
        if queues.changes.is_empty() { self.rest(facts) } else { queues }
    }

    /// Everything but queues.
    pub fn rest(&self, facts: &Facts) -> Plan {
        self.each(facts, IntentPart::rest)
    }

    /// The plans of all parts; the first part that sets a setting decides its value.
    fn each(&self, facts: &Facts, plan: fn(&IntentPart, &Facts) -> Plan) -> Plan {
        let mut facts = facts.clone();
        if self.irqbalance_knows {
            facts.agents.retain(|agent| agent.name != "irqbalance");
            facts.irqbalance = None;
        }
        let mut whole = Plan::default();
        for part in &self.parts {
            let plan = plan(part, &facts);
            let known: BTreeSet<_> = whole.changes.iter().map(|change| change.setting.clone()).collect();
            whole.changes.extend(plan.changes.into_iter().filter(|change| !known.contains(&change.setting)));
            whole.refusals.extend(plan.refusals);
        }
        whole.changes.sort_by_key(|change| change.stage);
        whole
    }
}

impl IntentPart {
    fn queues(&self, facts: &Facts) -> Plan {
        let (_, mut plan) = self.plan(facts);
        plan.changes.retain(|change| change.stage == Stage::Queues && self.stages.contains(&change.stage));
        // Obstacles of the rest are reported with the rest.
        Plan { changes: plan.changes, ..Plan::default() }
    }

    fn rest(&self, facts: &Facts) -> Plan {
        let (facts, plan) = self.plan(facts);
        // Queues with another number, because another program was to make them, do not stop the rest.
        let mut plan = plan.then.as_ref().map_or(plan.clone(), |then| plan::rest(&facts, then));
        plan.changes.retain(|change| change.stage != Stage::Queues && self.stages.contains(&change.stage));
        plan
    }

    /// The whole intent, and the host as far as it concerns this part.
    fn plan(&self, facts: &Facts) -> (Facts, Plan) {
        let nic = match self.nic.as_ref().map(|device| device.find(facts)).transpose() {
            Ok(nic) => nic.map(|nic| nic.name.as_str()),
            Err(reason) => {
                let subject = self.nic.as_ref().map_or(String::new(), |device| device.name.clone());
                let refusal = PlanRefusal { subject, asked_by: self.asked_by(), reason };
                return (facts.clone(), Plan { refusals: vec![refusal], ..Plan::default() });
            }
        };
        // Chosen CPUs may be gone: an error is better than other CPUs.
        if let Err(error) = self.choice.check(facts) {
            let subject = self.nic.as_ref().map_or("CPUs".to_owned(), |device| device.name.clone());
            let refusal = PlanRefusal { subject, asked_by: self.asked_by(), reason: error.to_string() };
            return (facts.clone(), Plan { refusals: vec![refusal], ..Plan::default() });
        }
        let mut facts = facts.clone();
        if self.service.is_some() {
            facts.services.retain(|service| {
                Some(&service.name) == self.service.as_ref()
                    && (self.unit.is_none() || service.unit == self.unit)
            });
        }
        let asked = PlanRequest {
            strategy: self.strategy,
            profile: self.profile,
            nic,
            choice: self.choice.clone(),
            ..PlanRequest::default()
        };
        let plan = plan::plan(&facts, &asked);
        (facts, plan)
    }

    fn asked_by(&self) -> String {
        match (self.strategy, self.profile) {
            (Some(strategy), _) => strategy.name().to_owned(),
            (None, Some(profile)) => format!("profile {}", profile.name()),
            (None, None) => "nobody".to_owned(),
        }
    }
}

/// Each once, with all its stages.
pub(super) fn merged(parts: impl Iterator<Item = IntentPart>) -> Vec<IntentPart> {
    let mut merged: Vec<IntentPart> = Vec::new();
    for part in parts {
        let like =
            |other: &&mut IntentPart| IntentPart { stages: part.stages.clone(), ..(**other).clone() } == part;
        match merged.iter_mut().find(like) {
            Some(other) => other.stages.extend(&part.stages),
            None => merged.push(part),
        }
    }
    merged
}
