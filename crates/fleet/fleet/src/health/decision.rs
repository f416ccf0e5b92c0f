//! Decisions about members' health: requests to the planner and news for people, each with its reason.

use std::fmt;

use stdx::clock::Now;

use super::roster::SlotMember;
use super::verdict::{MemberVerdict, Unmet};
use crate::{ClusterName, GenerationNumber, MemberId, ZoneName};

/// Members that an alarm or a freeze names: enough to look at, few enough for a pager.
pub(super) const EXAMPLES_MAX: usize = 5;
/// Decisions of one pass. More is a mass event, which the freezes describe; they come first.
pub const DECISIONS_MAX: usize = 2_000;

/// A part of the fleet that is frozen as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardScope {
    /// Everything.
    Fleet,
    /// Members of a zone, over all clusters.
    Zone(ZoneName),
    /// Members of a cluster, over all zones.
    Cluster(ClusterName),
}

impl fmt::Display for GuardScope {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            GuardScope::Fleet => write!(formatter, "fleet"),
            GuardScope::Zone(zone) => write!(formatter, "zone {zone}"),
            GuardScope::Cluster(cluster) => write!(formatter, "cluster {cluster}"),
        }
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthDecision {
    /// A scope in which nothing is replaced.
    Freeze {
        /// Which.
        scope: GuardScope,
        /// Since when.
        since: Now,
        /// What was seen, and what ends it.
        reason: String,
    },
    /// A request to the planner: another member into this slot. It is repeated by every pass until the roster has another
    /// member there, or the member works again; a request that is not repeated is void.
    Replace {
        /// The slot, and the member that it loses.
        place: SlotMember,
        /// What was seen, and what happens next.
        reason: String,
    },
    /// A member that is given time.
    WaitUntil {
        /// Which.
        place: SlotMember,
        /// The end of that time.
        until: Now,
        /// What was seen, and what happens then.
        reason: String,
    },
    /// Members about which a person should know, and with which nothing is done.
    Alarm {
        /// Where.
        cluster: ClusterName,
        /// Their state.
        verdict: MemberVerdict,
        /// The condition that a replacement lacks, if one of their observers accuses them or too little is known.
        unmet: Option<Unmet>,
        /// How many of the cluster.
        count: usize,
        /// The first of them.
        members: Vec<MemberId>,
        /// What was seen at the first, and what a person can do.
        reason: String,
    },
}

/// The decisions of one pass, freezes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthDecisions {
    /// The generation that they are about: a planner uses them for its successor only.
    pub generation: GenerationNumber,
    /// At most [`DECISIONS_MAX`].
    pub list: Vec<HealthDecision>,
    /// Decisions beyond the limit.
    pub left_out: usize,
}

impl HealthDecisions {
    pub(super) fn push(&mut self, decision: HealthDecision) {
        if self.list.len() < DECISIONS_MAX { self.list.push(decision) } else { self.left_out += 1 }
    }

    pub(super) fn has_room(&self) -> bool {
        self.list.len() < DECISIONS_MAX
    }
}
