//! The log of routes that the judge holds answers against: the generation of each router, and since when each slot has its member.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fleet::{FleetContent, Generation, MemberId};

use super::history::Request;
use super::shape::{ROUTERS, SLOTS, SLOTS_GROWN};

/// A generation as it was published.
#[derive(Debug)]
pub(super) struct KnownGeneration {
    pub(super) content: FleetContent,
    pub(super) text: String,
    reason: String,
    /// The generation before.
    pub(super) parent: Option<u64>,
    /// The generation with which each slot got its member.
    epochs: [u64; SLOTS_GROWN],
    /// The generation with which each slot got its member, unless that came by phases: whatever was deleted before was deleted from it as well.
    owners: [u64; SLOTS_GROWN],
    /// The newest generation that all routers had when it was published.
    pub(super) had_by_all: u64,
}

/// The history of routes.
#[derive(Debug, Default)]
pub(super) struct RouteLog {
    pub(super) generations: BTreeMap<u64, KnownGeneration>,
    /// When each router put which generation in force.
    loads: [Vec<(u64, u64)>; ROUTERS],
}

impl RouteLog {
    /// Notes a generation that has become the target. `lives` says of members that leave a slot at once whether they could have left it by
    /// phases.
    pub(super) fn publish(&mut self, generation: Generation, lives: impl Fn(&MemberId) -> bool) {
        let number = generation.number.0;
        let before = generation.parent.map(|parent| parent.0);
        let parent = generation.parent.and_then(|parent| self.generations.get(&parent.0));
        let slots = &generation.content.clusters[0].slots;
        let (mut epochs, mut owners) = ([number; SLOTS_GROWN], [number; SLOTS_GROWN]);
        if let Some(parent) = parent {
            let before = &parent.content.clusters[0].slots;
            // A slot that is not there has the member that it had last.
            (epochs[slots.len()..]).copy_from_slice(&parent.epochs[slots.len()..]);
            (owners[slots.len()..]).copy_from_slice(&parent.owners[slots.len()..]);
            for (slot, (new, old)) in slots.iter().zip(before).enumerate() {
                if old.member == new.member {
                    epochs[slot] = parent.epochs[slot];
                }
                if old.has(&new.member) || lives(&old.member) {
                    owners[slot] = parent.owners[slot];
                }
            }
        }
        let text = fleet::texts(&generation.content).into_values().next().expect("a view");
        let (content, reason) = (generation.content, generation.reason);
        let had_by_all = self.everywhere();
        let known = KnownGeneration { content, text, reason, parent: before, epochs, owners, had_by_all };
        self.generations.insert(number, known);
    }

    /// Notes that a router has put a generation in force.
    pub(super) fn load(&mut self, router: usize, at_us: u64, generation: u64) {
        self.loads[router].push((at_us, generation));
    }

    /// The generation that a router has, or had last.
    pub(super) fn present(&self, router: usize) -> u64 {
        self.loads[router].last().map_or(0, |(_, generation)| *generation)
    }

    /// Loads of a router in a time.
    pub(super) fn loads_within(
        &self,
        router: usize,
        from_us: u64,
        until_us: u64,
    ) -> impl Iterator<Item = u64> {
        let all = self.loads[router].iter();
        all.filter(move |(at_us, _)| (from_us..=until_us).contains(at_us)).map(|(_, generation)| *generation)
    }

    /// The ages of the members that a router may have used for a slot in a time: the generations with which they entered it.
    pub(super) fn epochs(
        &self,
        router: usize,
        slot: usize,
        from_us: u64,
        until_us: u64,
    ) -> RangeInclusive<u64> {
        let before = self.loads[router].iter().rev().find(|(at_us, _)| *at_us < from_us);
        let first = before.map(|(_, generation)| *generation);
        let all = first.into_iter().chain(self.loads_within(router, from_us, until_us));
        let mut epochs = all.map(|generation| self.generations[&generation].epochs[slot]);
        let first = epochs.next().unwrap_or(0);
        epochs.fold(first..=first, |range, epoch| *range.start().min(&epoch)..=*range.end().max(&epoch))
    }

    /// The generations with which a slot got members that did not come by phases, among those that a request may have met.
    pub(super) fn owners(&self, request: &Request, slot: usize) -> RangeInclusive<u64> {
        let mut owners = self.within(request).map(|generation| self.generations[&generation].owners[slot]);
        let first = owners.next().unwrap_or(0);
        owners.fold(first..=first, |range, owner| *range.start().min(&owner)..=*range.end().max(&owner))
    }

    /// Generations that a router had during a request.
    fn within(&self, request: &Request) -> impl Iterator<Item = u64> {
        let loads = &self.loads[request.router];
        let before = loads.iter().rev().find(|(at_us, _)| *at_us < request.from_us);
        let first = before.map(|(_, generation)| *generation);
        first.into_iter().chain(self.loads_within(request.router, request.from_us, request.until_us))
    }

    /// Whether a router had a phase of a drain of a slot during a request.
    pub(super) fn is_drained(&self, request: &Request, slot: usize) -> bool {
        let slots = |number: u64| &self.generations[&number].content.clusters[0].slots;
        self.within(request).any(|number| slots(number).get(slot).is_some_and(|slot| slot.drain.is_some()))
    }

    /// Whether a router had a phase of a resize during a request.
    pub(super) fn is_resized(&self, request: &Request) -> bool {
        self.within(request).any(|number| self.generations[&number].content.clusters[0].resize.is_some())
    }

    /// Whether the cluster was ever resized.
    pub(super) fn was_resized(&self) -> bool {
        let mut clusters = self.generations.values().map(|known| &known.content.clusters[0]);
        clusters.any(|cluster| cluster.resize.is_some() || cluster.slots.len() > SLOTS)
    }

    /// Whether a slot has had nobody but this member since a generation.
    pub(super) fn is_steady(&self, slot: usize, epoch: u64) -> bool {
        let slots = self.generations.range(epoch..).map(|(_, known)| &known.content.clusters[0].slots[slot]);
        slots.clone().all(|slot| slot.drain.is_none()) && epoch == self.newest_epoch(slot)
    }

    /// The newest generation that every router has, or a later one.
    pub(super) fn everywhere(&self) -> u64 {
        (0..ROUTERS).map(|router| self.present(router)).min().unwrap_or(0)
    }

    /// The member that got a slot with a generation.
    pub(super) fn member(&self, slot: usize, epoch: u64) -> &MemberId {
        &self.generations[&epoch].content.clusters[0].slots[slot].member
    }

    /// Since when the slot has the member that it has in the newest generation.
    pub(super) fn newest_epoch(&self, slot: usize) -> u64 {
        self.generations.last_key_value().map_or(0, |(_, newest)| newest.epochs[slot])
    }

    /// Whether two generations have other members in slots.
    pub(super) fn differ(&self, one: u64, other: u64) -> bool {
        self.generations[&one].epochs != self.generations[&other].epochs
    }

    /// For people: members of the generations, and when routers had them.
    pub(super) fn lines(&self) -> Vec<String> {
        let generation = |(number, known): (&u64, &KnownGeneration)| {
            let members = known.content.clusters[0].slots.iter().map(|slot| slot.member.to_string());
            let members: Vec<String> = members.collect();
            let loads = self.loads.iter().enumerate().flat_map(|(router, loads)| {
                let of_it = loads.iter().filter(move |(_, loaded)| loaded == number);
                of_it.map(move |(at_us, _)| format!(" r{router} at {} ms", at_us / 1000))
            });
            let (members, loads) = (members.join(" "), loads.collect::<String>());
            format!("generation {number} ({}): {members}; loaded by{loads}", known.reason)
        };
        self.generations.iter().map(generation).collect()
    }
}
