//! I5, I6, I7: who may lose a slot, who may get one, and how many.

use std::collections::BTreeMap;

use super::InvariantChecker;
use crate::register::Author;
use crate::shape::{FleetShape, ZONES};

/// Replacements count together within this.
const HOUR_MS: u64 = 3_600_000;
/// Additional misses that voluntary changes may cause, and a tenth for what is measured late.
const HEADROOM: f64 = 0.5 * 1.1;

/// A replacement that controllers carry out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotChange {
    pub(crate) slot: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) author: Author,
}

/// What was true when the replacement was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeFacts {
    /// Kinds of observers that had a reason to accuse the member: agent, probes, routers.
    pub(crate) accusing_kinds: u32,
    /// Additional misses of the cluster with this change, as a part of the usual ones.
    pub(crate) cold_load: f64,
    /// The zone of the slot.
    pub(crate) zone: usize,
    /// The new member has values that have missed deletes.
    pub(crate) has_old_values: bool,
}

/// What the checks need of the past.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Replacements of lost members within the hour: time, cluster, zone.
    replaced: Vec<(u64, usize, usize)>,
    /// Losses of hosts: times.
    losses: BTreeMap<usize, Vec<u64>>,
}

impl InvariantChecker {
    /// The register has forgotten the last hour, and so has who counts in it.
    pub(crate) fn forget_replacements(&mut self) {
        self.replacements = History::default();
    }

    /// I5, I6, I7: guard, budget, quarantine, two kinds of observers, empty members.
    pub(crate) fn changes(
        &mut self,
        at_ms: u64,
        shape: &FleetShape,
        change: &SlotChange,
        facts: &ChangeFacts,
    ) {
        let SlotChange { slot, from, to, author } = *change;
        self.require(!facts.has_old_values, at_ms, "I7", || {
            format!("host {to} enters slot {slot} with values from a slot that it left")
        });
        // A backup gives back what was decided before it.
        if author == Author::Backup {
            return;
        }
        let losses = self.replacements.losses.get(&to);
        let flaps = losses.is_some_and(|losses| losses.windows(2).any(|two| two[1] - two[0] <= HOUR_MS));
        self.require(!flaps, at_ms, "I5", || {
            format!("host {to} enters slot {slot} and was lost twice within an hour")
        });
        if author == Author::Operator {
            self.require(facts.cold_load <= HEADROOM, at_ms, "I5", || {
                format!("voluntary changes add {:.2} of the usual misses", facts.cold_load)
            });
            return;
        }
        self.require(facts.accusing_kinds >= 2, at_ms, "I6", || {
            format!("slot {slot} loses host {from}, which {} kinds of observers accuse", facts.accusing_kinds)
        });
        self.replacements.losses.entry(from).or_default().push(at_ms);
        self.limits(at_ms, shape, slot / shape.slots, facts.zone);
    }

    fn limits(&mut self, at_ms: u64, shape: &FleetShape, cluster: usize, zone: usize) {
        let replaced = &mut self.replacements.replaced;
        replaced.retain(|(then, ..)| at_ms - then <= HOUR_MS);
        replaced.push((at_ms, cluster, zone));
        let limit = |size: usize, percent: usize| (size * percent / 100).max(2);
        let count =
            |is_in: &dyn Fn(&(u64, usize, usize)) -> bool| replaced.iter().filter(|one| is_in(one)).count();
        let scopes = [
            ("the fleet", count(&|_| true), limit(shape.servers(), 5)),
            ("a zone", count(&|one| one.2 == zone), limit(shape.servers().div_ceil(ZONES), 20)),
            ("a cluster", count(&|one| one.1 == cluster), limit(shape.slots, 5)),
        ];
        for (scope, found, limit) in scopes {
            self.require(found <= limit, at_ms, "I5", || {
                format!("{found} of {scope} replaced in an hour, not {limit}")
            });
        }
    }
}
