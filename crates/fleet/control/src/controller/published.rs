//! Published texts: what routers read of a generation.

use std::collections::BTreeMap;

use fleet::rollout::PublishedTexts;
use fleet::{FleetContent, GenerationNumber, ViewName, texts};

use crate::router_client::digest_of;

/// A generation's texts as routers see them, and the texts themselves.
pub(super) fn published(
    number: GenerationNumber,
    content: &FleetContent,
) -> (PublishedTexts, BTreeMap<ViewName, String>) {
    let texts = texts(content);
    let digests = texts.iter().map(|(view, text)| (view.clone(), digest_of(text.as_bytes()))).collect();
    (PublishedTexts { generation: number, digests }, texts)
}
