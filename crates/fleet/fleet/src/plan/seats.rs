//! The slots of one cluster while they are planned: which hosts and zones have them, and who is free.
//!
//! A cluster may have thousands of slots and the inventory thousands of members: nothing here looks at all of them for each slot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::policy::ClusterPolicy;
use crate::{ClusterRecord, FleetMember, HostId, Inventory, MemberId, ZoneName};

/// The slots of a cluster.
pub(super) struct ClusterSeats<'i> {
    pub(super) policy: &'i ClusterPolicy,
    inventory: &'i Inventory,
    hosts: HashMap<&'i HostId, usize>,
    /// Slots of each zone.
    pub(super) zones: BTreeMap<&'i ZoneName, usize>,
    /// Members that may take a slot, by zone, if anybody has asked for them.
    free: Option<BTreeMap<&'i ZoneName, BTreeSet<&'i MemberId>>>,
}

impl<'i> ClusterSeats<'i> {
    pub(super) fn new(
        inventory: &'i Inventory,
        policy: &'i ClusterPolicy,
        record: &ClusterRecord,
    ) -> ClusterSeats<'i> {
        let mut seats =
            ClusterSeats { policy, inventory, hosts: HashMap::new(), zones: BTreeMap::new(), free: None };
        let members = record.slots.iter().filter_map(|slot| inventory.get(&slot.member));
        members.for_each(|member| seats.take(member));
        seats
    }

    /// A member has one more slot.
    fn take(&mut self, member: &'i FleetMember) {
        *self.hosts.entry(&member.host).or_default() += 1;
        *self.zones.entry(&member.zone).or_default() += 1;
    }

    /// A member that was chosen gets a new slot.
    pub(super) fn add(&mut self, member: &FleetMember) {
        let Some(member) = self.inventory.get(&member.id) else { return };
        self.take(member);
        if let Some(of_zone) = self.free.as_mut().and_then(|free| free.get_mut(&member.zone)) {
            of_zone.remove(&member.id);
        }
    }

    /// A member that was chosen gets the slot of another one.
    pub(super) fn replace(&mut self, old: &MemberId, new: &FleetMember) {
        self.add(new);
        let Some(old) = self.inventory.get(old) else { return };
        if let Some(count) = self.hosts.get_mut(&old.host) {
            *count -= 1;
        }
        if let Some(count) = self.zones.get_mut(&old.zone) {
            *count -= 1;
        }
    }

    /// Whether a host has a slot of this cluster other than that of `present`.
    pub(super) fn has_other(&self, host: &HostId, present: Option<&MemberId>) -> bool {
        let present = present.and_then(|member| self.inventory.get(member));
        let own = usize::from(present.is_some_and(|member| member.host == *host));
        self.hosts.get(host).copied().unwrap_or(0) > own
    }

    /// Finds the members that may take a slot, unless that was done before.
    pub(super) fn find_free(&mut self, is_fit: impl Fn(&FleetMember) -> bool) {
        if self.free.is_some() {
            return;
        }
        let mut free: BTreeMap<&ZoneName, BTreeSet<&MemberId>> = BTreeMap::new();
        for member in self.inventory.members().filter(|member| is_fit(member)) {
            free.entry(&member.zone).or_default().insert(&member.id);
        }
        self.free = Some(free);
    }

    /// Counted anew from the slots, it is the same.
    #[cfg(test)]
    pub(super) fn check(&self, record: &ClusterRecord) {
        let new = ClusterSeats::new(self.inventory, self.policy, record);
        let used = |count: &&usize| **count > 0;
        assert!(
            self.hosts.iter().filter(|(_, count)| used(count)).all(|(host, count)| new.hosts[host] == *count)
        );
        assert!(
            self.zones.iter().filter(|(_, count)| used(count)).all(|(zone, count)| new.zones[zone] == *count)
        );
        assert_eq!(new.hosts.len(), self.hosts.values().filter(used).count());
    }

    /// The first free member, by its name, of the zone that `present` is in, or else of the zones with the fewest slots.
    pub(super) fn best(&self, present: Option<&MemberId>) -> Option<&'i FleetMember> {
        let wanted = present.and_then(|member| self.inventory.get(member)).map(|member| &member.zone);
        let firsts = self.free.as_ref()?.iter().filter_map(|(zone, members)| {
            let mut members = members.iter().filter_map(|member| self.inventory.get(member));
            let first =
                members.find(|member| self.policy.shares_hosts || !self.has_other(&member.host, present))?;
            let is_elsewhere = wanted.is_some_and(|wanted| wanted != *zone);
            Some((is_elsewhere, self.zones.get(zone).copied().unwrap_or(0), first))
        });
        firsts
            .min_by_key(|(is_elsewhere, count, first)| (*is_elsewhere, *count, &first.id))
            .map(|(_, _, first)| first)
    }
}
