//! Generations as they are published: what routers read of one, and the number of the next.

use std::collections::BTreeMap;

use fleet::rollout::PublishedTexts;
use fleet::{FleetContent, Generation, GenerationNumber, GenerationOrigin, ViewName, next_number, texts};

use crate::controller::observing::agents::Agents;
use crate::routers::router_client::digest_of;

/// A generation's texts as routers see them, and the texts themselves.
pub(crate) fn published(
    number: GenerationNumber,
    content: &FleetContent,
) -> (PublishedTexts, BTreeMap<ViewName, String>) {
    let texts = texts(content);
    let digests = texts.iter().map(|(view, text)| (view.clone(), digest_of(text.as_bytes()))).collect();
    (PublishedTexts { generation: number, digests }, texts)
}

/// The generation behind the target.
pub(crate) fn successor(
    parent: Option<GenerationNumber>,
    agents: &Agents,
    (origin, reason): (Option<GenerationOrigin>, String),
    content: FleetContent,
) -> Generation {
    // A register that was restored from a backup has forgotten numbers, and routers refuse those that they have had.
    let number = next_number(parent, agents.routers_have());
    Generation { number, parent, reason, lower: None, origin, content }
}
