//! State of a controller for single parts of its work, and times that several of them share.

use std::collections::{BTreeMap, BTreeSet};

use fleet::drain::Drain;
use fleet::health::WarmUp;
use fleet::{GenerationNumber, TextDigest, ViewName};
use stdx::clock::Now;

use crate::decisions::ListScope;

/// Time after a start in which every agent has had a turn: turns take up to 20 s, and an agent restarts within 30 s.
pub(super) const ALL_HEARD_MS: u64 = 60_000;
/// How often lists of routers are looked at: routers that come together are one change.
pub(super) const LISTS_LOOK_EVERY_MS: u64 = 5_000;

/// A phase of a drain that this controller watches.
pub(super) struct DrainWatch {
    /// The generation with which the phase began.
    pub(super) since: GenerationNumber,
    /// The texts of the phase are those of the generations up to this one.
    pub(super) until: GenerationNumber,
    pub(super) texts: BTreeSet<(ViewName, TextDigest)>,
    pub(super) machine: Drain,
    pub(super) warm_up: WarmUp,
}

/// What is done about a target whose text has failed.
#[derive(Default)]
pub(super) struct FailedText {
    /// The text had failed before this controller began its rollout: the generation that routers have instead.
    pub(super) base: Option<GenerationNumber>,
    /// Since when it is known here.
    pub(super) since: Option<Now>,
    /// When something is tried again, and why it did not help, for people.
    pub(super) try_at: Now,
    pub(super) note: Option<String>,
}

/// Texts of the lists of routers.
pub(super) struct RouterLists {
    pub(super) digests: BTreeMap<ListScope, TextDigest>,
    pub(super) look_at: Now,
    /// What was wrong the last time, which is said once.
    pub(super) trouble: Option<String>,
}

impl RouterLists {
    /// Of a controller that begins. Its agents come first.
    pub(super) fn new(now: Now) -> RouterLists {
        let look_at = Now::at_ms(now.ms() + LISTS_LOOK_EVERY_MS);
        RouterLists { digests: BTreeMap::new(), look_at, trouble: None }
    }
}
