//! The fleet as its register has it.

use std::collections::BTreeMap;

use fleet::rollout::PublishedTexts;
use fleet::{
    FleetContent, FleetMember, FleetPolicy, Generation, GenerationNumber, Inventory, TextDigest, ViewName,
    texts,
};

use crate::decisions::{
    FleetDecisions, GoneHost, HeldRecord, ListScope, ReplacedRecord, RouterList, TargetRecord,
};
use crate::register::{RegisterEntry, RegisterError, Revision};
use crate::router_client::digest_of;

/// Policy, inventory and generations at one moment.
#[derive(Clone, Debug)]
pub(super) struct FleetView {
    pub(super) policy: Option<FleetPolicy>,
    pub(super) policy_revision: Revision,
    pub(super) inventory: Inventory,
    pub(super) target: Option<TargetRecord>,
    /// Those that are kept.
    pub(super) generations: BTreeMap<GenerationNumber, Generation>,
    /// Scopes, and why nothing may change there.
    pub(super) frozen: Vec<(String, String)>,
    /// Texts that have failed in a router, the oldest first.
    pub(super) condemned: Vec<TextDigest>,
    /// Members and hosts that take no slot.
    pub(super) quarantine: Vec<HeldRecord>,
    /// Routers that clients with auto-discovery are told.
    pub(super) router_lists: BTreeMap<ListScope, (RouterList, Revision)>,
    /// Hosts that have left, the oldest first.
    pub(super) gone: Vec<GoneHost>,
    /// What generations of the last hour have replaced. It may have that of a generation that is newer than the target here.
    pub(super) replaced: BTreeMap<GenerationNumber, ReplacedRecord>,
}

impl FleetView {
    /// Reads it all. What this program does not understand is an error: a part of it is never taken for the whole.
    pub(super) fn read(decisions: &FleetDecisions) -> Result<FleetView, RegisterError> {
        // The target first: what it names is there.
        let target = decisions.target()?;
        let (policy, policy_revision) = decisions.policy()?;
        let policy = policy.map(|text| FleetPolicy::parse(&text)).transpose();
        let policy = policy.map_err(|error| RegisterError::Answer(format!("its policy: {error}")))?;
        let members: Result<Vec<FleetMember>, RegisterError> =
            decisions.members()?.iter().map(member).collect();
        let inventory = Inventory::new(members?);
        let inventory = inventory.map_err(|error| RegisterError::Answer(error.to_string()))?;
        let mut generations = BTreeMap::new();
        for (number, json) in decisions.generations()? {
            let generation = serde_json::from_slice(&json);
            let generation =
                generation.map_err(|error| RegisterError::Answer(format!("generation {number}: {error}")))?;
            generations.insert(number, generation);
        }
        if let Some(target) = target.filter(|target| !generations.contains_key(&target.number)) {
            return Err(RegisterError::Answer(format!(
                "generation {} is the target and missing",
                target.number
            )));
        }
        // Members of a first generation that came meanwhile would look like members without a slot.
        if target.is_none() && decisions.target()?.is_some() {
            return FleetView::read(decisions);
        }
        Ok(FleetView {
            policy,
            policy_revision,
            inventory,
            target,
            generations,
            frozen: decisions.frozen()?,
            condemned: decisions.condemned()?,
            quarantine: decisions.quarantine()?,
            router_lists: decisions.router_lists()?,
            gone: decisions.gone()?,
            replaced: decisions.replaced()?,
        })
    }

    /// The generation in force.
    pub(super) fn current(&self) -> Option<&Generation> {
        self.generations.get(&self.target?.number)
    }

    /// What is in force; nothing before the first generation.
    pub(super) fn content(&self) -> FleetContent {
        self.current().map_or_else(FleetContent::default, |current| current.content.clone())
    }
}

fn member(entry: &RegisterEntry) -> Result<FleetMember, RegisterError> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| RegisterError::Answer(format!("{}: {error}", entry.key)))
}

/// A generation's texts as routers see them, and the texts themselves.
pub(super) fn published(
    number: GenerationNumber,
    content: &FleetContent,
) -> (PublishedTexts, BTreeMap<ViewName, String>) {
    let texts = texts(content);
    let digests = texts.iter().map(|(view, text)| (view.clone(), digest_of(text.as_bytes()))).collect();
    (PublishedTexts { generation: number, digests }, texts)
}
