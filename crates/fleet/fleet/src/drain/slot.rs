//! The drain of a slot in a generation: which of two members is read. What a generation says is all there is to know of a
//! drain, so whichever controller reads it goes on with it.

use serde::{Deserialize, Serialize};

use super::DrainPhase;
use crate::MemberId;
use crate::generation::{ClusterRecord, FleetContent, SlotRecord};
use crate::inventory::FleetMember;
use crate::names::SlotId;

/// Drains of a fleet at a time. Each costs memory bandwidth and misses; a host is drained member by member.
pub const DRAINS_MAX: usize = 1;

/// A second member of a slot, while it is drained. The one that is read is the slot's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotDrain {
    /// How far it has come.
    pub phase: DrainPhase,
    /// The member that is not read: the new one in the first phase, afterwards the old one.
    pub other: MemberId,
    /// Where routers find it.
    pub other_address: String,
    /// How long the new member is warmed up at most, in seconds.
    pub warm_up_s: u32,
}

impl SlotRecord {
    /// The member that leaves the slot and the one that takes it.
    pub fn drained(&self) -> Option<(&MemberId, &MemberId)> {
        let drain = self.drain.as_ref()?;
        Some(match drain.phase {
            DrainPhase::ReadOld => (&self.member, &drain.other),
            DrainPhase::ReadNew | DrainPhase::NewOnly => (&drain.other, &self.member),
        })
    }

    fn exchange(&mut self) {
        if let Some(drain) = &mut self.drain {
            std::mem::swap(&mut self.member, &mut drain.other);
            std::mem::swap(&mut self.address, &mut drain.other_address);
        }
    }

    fn set_phase(&mut self, phase: DrainPhase) {
        let Some(drain) = &mut self.drain else { return };
        let is_exchanged = (drain.phase == DrainPhase::ReadOld) != (phase == DrainPhase::ReadOld);
        drain.phase = phase;
        if is_exchanged {
            self.exchange();
        }
    }
}

impl FleetContent {
    /// The slot that is drained.
    pub fn draining(&self) -> Option<(&ClusterRecord, &SlotRecord, &SlotDrain)> {
        self.clusters.iter().find_map(|cluster| {
            cluster.slots.iter().find_map(|slot| Some((cluster, slot, slot.drain.as_ref()?)))
        })
    }

    /// The same, with the slot of a member in the first phase of its drain.
    #[must_use]
    pub fn with_drain(mut self, member: &MemberId, new: &FleetMember, warm_up_s: u32) -> FleetContent {
        for slot in self.slots_mut().filter(|slot| slot.member == *member) {
            let (other, other_address) = (new.id.clone(), new.address.clone());
            slot.drain = Some(SlotDrain { phase: DrainPhase::ReadOld, other, other_address, warm_up_s });
            // It would be warmed up from two places.
            slot.is_cold = false;
        }
        self
    }

    /// The same, with the drain in this phase.
    #[must_use]
    pub fn in_drain_phase(mut self, phase: DrainPhase) -> FleetContent {
        self.slots_mut().for_each(|slot| slot.set_phase(phase));
        self
    }

    /// The same, with the member that is read alone in its slot.
    #[must_use]
    pub fn without_drain(mut self) -> FleetContent {
        self.slots_mut().for_each(|slot| slot.drain = None);
        self
    }

    /// The same, with the drain turned back. As long as the new member is not read, it only leaves. Afterwards the old one may
    /// lack what the new one has got, so it comes back as a new one does: by the same phases.
    #[must_use]
    pub fn with_drain_turned_back(mut self) -> FleetContent {
        for slot in self.slots_mut() {
            match &mut slot.drain {
                Some(drain) if drain.phase != DrainPhase::ReadOld => drain.phase = DrainPhase::ReadOld,
                _ => slot.drain = None,
            }
        }
        self
    }

    /// The same, with the other member of the drained slot alone in it: the one that was read is lost.
    #[must_use]
    pub fn with_other_alone(mut self, id: &SlotId, member: &MemberId) -> FleetContent {
        for cluster in &mut self.clusters {
            let is_cold = cluster.warm_source().is_some();
            for slot in cluster.slots.iter_mut().filter(|slot| slot.id == *id && slot.member == *member) {
                slot.exchange();
                (slot.drain, slot.is_cold) = (None, is_cold);
            }
        }
        self
    }

    fn slots_mut(&mut self) -> impl Iterator<Item = &mut SlotRecord> {
        self.clusters.iter_mut().flat_map(|cluster| &mut cluster.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DrainPhase::*;

    /// A cluster with m1, of which m1 is drained to m3.
    fn drained() -> FleetContent {
        let member = |id: &str| FleetMember {
            id: id.parse().expect("a name"),
            host: id.parse().expect("a name"),
            zone: "a".parse().expect("a name"),
            class: None,
            address: format!("{id}:1"),
            is_held: false,
        };
        let m1 = member("m1");
        let slots = vec![SlotRecord {
            id: "s0".parse().expect("a name"),
            member: m1.id.clone(),
            address: m1.address,
            is_cold: true,
            drain: None,
        }];
        let name = "web".parse().expect("a name");
        let cluster = ClusterRecord {
            name,
            pool: Default::default(),
            gutter: None,
            warm_up: None,
            shadow: None,
            resize: None,
            slots,
        };
        let content = FleetContent { clusters: vec![cluster], views: Vec::new() };
        content.with_drain(&m1.id, &member("m3"), 60)
    }

    /// `m1 (m3) ReadOld`: the member that is read, the other one, and the phase.
    #[track_caller]
    fn check(content: &FleetContent, expected: &str) {
        let slot = &content.clusters[0].slots[0];
        assert_eq!(slot.address, format!("{}:1", slot.member));
        let found = match &slot.drain {
            None => slot.member.to_string(),
            Some(drain) => {
                assert_eq!(drain.other_address, format!("{}:1", drain.other));
                format!("{} ({}) {:?}", slot.member, drain.other, drain.phase)
            }
        };
        assert_eq!(found, expected);
        assert!(!slot.is_cold);
    }

    #[test]
    fn the_phases_read_one_member_and_keep_the_other() {
        let content = drained();
        check(&content, "m1 (m3) ReadOld");
        check(&content.clone().in_drain_phase(ReadNew), "m3 (m1) ReadNew");
        check(&content.clone().in_drain_phase(ReadNew).in_drain_phase(NewOnly), "m3 (m1) NewOnly");
        check(&content.clone().in_drain_phase(NewOnly), "m3 (m1) NewOnly");
        check(&content.clone().without_drain(), "m1");
        check(&content.in_drain_phase(NewOnly).without_drain(), "m3");
    }

    #[test]
    fn a_drain_is_turned_back_by_the_same_phases_once_the_new_member_is_read() {
        let content = drained();
        check(&content.clone().with_drain_turned_back(), "m1");
        for phase in [ReadNew, NewOnly] {
            let back = content.clone().in_drain_phase(phase).with_drain_turned_back();
            check(&back, "m3 (m1) ReadOld");
            check(&back.in_drain_phase(NewOnly).without_drain(), "m1");
        }
    }

    #[test]
    fn both_members_of_a_drained_slot_have_it() {
        let content = drained();
        let member = |id: &str| id.parse().expect("a name");
        assert!(content.slot_of(&member("m1")).is_some() && content.slot_of(&member("m3")).is_some());
        assert_eq!(content.slot_of(&member("m2")), None);
        let slot = &content.clusters[0].slots[0];
        assert_eq!(slot.drained(), Some((&member("m1"), &member("m3"))));
        let id = slot.id.clone();
        check(&content.clone().with_other_alone(&id, &member("m1")), "m3");
        let content = content.in_drain_phase(ReadNew);
        assert_eq!(content.clusters[0].slots[0].drained(), Some((&member("m1"), &member("m3"))));
        check(&content.with_other_alone(&id, &member("m3")), "m1");
    }
}
