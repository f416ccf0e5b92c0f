//! The roster: members in slots, as one generation names them, with an index for each member, cluster and zone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::SlotId;
use crate::{ClusterName, GenerationNumber, HostId, MemberId, ZoneName};

/// Most members in slots: five times the largest published fleet.
pub const MEMBERS_MAX: usize = 25_000;
/// Most clusters: routers' traffic is a set of this many bits.
pub const CLUSTERS_MAX: usize = 256;
/// Most zones, of members, routers and controllers each: the counts per zone are arrays.
pub const ZONES_MAX: usize = 16;

/// A slot and the member that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlotMember {
    /// The slot's cluster.
    pub cluster: ClusterName,
    /// The slot; unique in its cluster.
    pub slot: SlotId,
    /// Who has it; a member has one slot.
    pub member: MemberId,
    /// The member's host.
    pub host: HostId,
    /// The host's zone.
    pub zone: ZoneName,
}

/// Why members are not a roster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// Two slots have one member.
    #[error("give {member} a second slot: a member has one; name another spare")]
    MemberTwice {
        /// Which.
        member: MemberId,
    },
    /// A slot is there twice.
    #[error("list the slot {slot} of {cluster} a second time: a slot is unique in its cluster; rename one")]
    SlotTwice {
        /// Which.
        slot: SlotId,
        /// Where.
        cluster: ClusterName,
    },
    /// A limit.
    #[error("keep {found} {what}: at most {most} are accepted; split the fleet")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The limit.
        most: usize,
    },
}

/// Members in slots, in the order of the generation.
#[derive(Clone, Debug)]
pub struct Roster {
    pub(super) generation: GenerationNumber,
    pub(super) places: Vec<SlotMember>,
    /// For each place its cluster's and its zone's index.
    pub(super) scopes: Vec<(usize, usize)>,
    pub(super) clusters: Vec<(ClusterName, u32)>,
    pub(super) zones: Vec<(ZoneName, u32)>,
    by_member: BTreeMap<MemberId, usize>,
    /// Slots whose keys are on their way from one member to another, because a person has asked for it.
    drained: BTreeSet<(ClusterName, SlotId)>,
}

impl Roster {
    /// The members of a generation.
    pub fn new(generation: GenerationNumber, places: Vec<SlotMember>) -> Result<Roster, RosterError> {
        within("members", places.len(), MEMBERS_MAX)?;
        let mut by_member = BTreeMap::new();
        let mut slots = BTreeSet::new();
        let mut clusters: BTreeMap<&ClusterName, (usize, u32)> = BTreeMap::new();
        let mut zones: BTreeMap<&ZoneName, (usize, u32)> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            if by_member.insert(place.member.clone(), at).is_some() {
                return Err(RosterError::MemberTwice { member: place.member.clone() });
            }
            if !slots.insert((&place.cluster, &place.slot)) {
                return Err(RosterError::SlotTwice {
                    slot: place.slot.clone(),
                    cluster: place.cluster.clone(),
                });
            }
            clusters.entry(&place.cluster).or_default().1 += 1;
            zones.entry(&place.zone).or_default().1 += 1;
        }
        within("clusters", clusters.len(), CLUSTERS_MAX)?;
        within("zones", zones.len(), ZONES_MAX)?;
        clusters.values_mut().enumerate().for_each(|(at, (index, _))| *index = at);
        zones.values_mut().enumerate().for_each(|(at, (index, _))| *index = at);
        let scopes = places.iter().map(|place| (clusters[&place.cluster].0, zones[&place.zone].0)).collect();
        let clusters = clusters.into_iter().map(|(name, (_, size))| (name.clone(), size)).collect();
        let zones = zones.into_iter().map(|(name, (_, size))| (name.clone(), size)).collect();
        let drained = BTreeSet::new();
        Ok(Roster { generation, scopes, clusters, zones, by_member, places, drained })
    }

    /// With slots that are drained: that another member is read there is a person's wish, and no replacement.
    #[must_use]
    pub fn with_drained(self, drained: impl IntoIterator<Item = (ClusterName, SlotId)>) -> Roster {
        Roster { drained: drained.into_iter().collect(), ..self }
    }

    pub(super) fn is_drained(&self, place: &SlotMember) -> bool {
        !self.drained.is_empty() && self.drained.contains(&(place.cluster.clone(), place.slot.clone()))
    }

    pub(super) fn index(&self, member: &MemberId) -> Option<usize> {
        self.by_member.get(member).copied()
    }

    pub(super) fn cluster_index(&self, cluster: &ClusterName) -> Option<usize> {
        self.clusters.binary_search_by(|(name, _)| name.cmp(cluster)).ok()
    }
}

fn within(what: &'static str, found: usize, most: usize) -> Result<(), RosterError> {
    if found > most { Err(RosterError::TooMany { what, found, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cluster: &str, slot: &str, member: &str) -> SlotMember {
        SlotMember {
            cluster: cluster.parse().expect("a name"),
            slot: slot.parse().expect("a name"),
            member: member.parse().expect("a name"),
            host: "h1".parse().expect("a name"),
            zone: "z1".parse().expect("a name"),
        }
    }

    #[track_caller]
    fn check(places: Vec<SlotMember>, expected: &str) {
        let found = Roster::new(GenerationNumber(1), places).err().map(|error| error.to_string());
        assert!(found.as_deref().unwrap_or_default().starts_with(expected), "{found:?}");
        assert_eq!(found.is_none(), expected.is_empty());
    }

    #[test]
    fn members_and_slots_are_unique_and_limited() {
        check(vec![place("c1", "s1", "m1"), place("c2", "s1", "m2")], "");
        check(vec![place("c1", "s1", "m1"), place("c1", "s2", "m1")], "give m1 a second slot");
        check(vec![place("c1", "s1", "m1"), place("c1", "s1", "m2")], "list the slot s1 of c1");
        let many = |count: usize| (0..count).map(|at| place("c1", &format!("s{at}"), &format!("m{at}")));
        check(many(MEMBERS_MAX + 1).collect(), "keep 25001 members");
        let clusters = (0..=CLUSTERS_MAX).map(|at| place(&format!("c{at}"), "s", &format!("m{at}")));
        check(clusters.collect(), "keep 257 clusters");
    }
}
