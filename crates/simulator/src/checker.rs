//! Invariants of the control plane, checked at every event against what is true of the fleet.
//!
//! The limits are computed here once more, from the rules as documented, so that an error in the guard or the budget is seen.

use std::fmt;

use crate::shape::{FleetShape, ZONES};

/// Replacements count together within this.
const HOUR_MS: u64 = 3_600_000;
/// Additional misses that voluntary changes may cause, and a tenth for what is measured late.
const HEADROOM: f64 = 0.5 * 1.1;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in milliseconds.
    pub at_ms: u64,
    /// Its number in the documentation, as `I5`.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(
            formatter,
            "{} at {}.{:03} s: {}",
            self.invariant,
            self.at_ms / 1000,
            self.at_ms % 1000,
            self.found
        )
    }
}

/// A replacement that controllers carry out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotChange {
    pub(crate) slot: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// An operator asked; otherwise the health of the member.
    pub(crate) is_voluntary: bool,
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
}

/// The first violation, and the history that the checks need.
#[derive(Debug, Default)]
pub(crate) struct InvariantChecker {
    first: Option<Violation>,
    /// Replacements of lost members within the hour: time, cluster, zone.
    replaced: Vec<(u64, usize, usize)>,
    /// Losses of hosts: time of the last two.
    losses: std::collections::BTreeMap<usize, Vec<u64>>,
}

impl InvariantChecker {
    pub(crate) fn into_first(self) -> Option<Violation> {
        self.first
    }

    pub(crate) fn require(
        &mut self,
        holds: bool,
        at_ms: u64,
        invariant: &'static str,
        found: impl FnOnce() -> String,
    ) {
        if !holds && self.first.is_none() {
            self.first = Some(Violation { at_ms, invariant, found: found() });
        }
    }

    /// I5, I6: guard, budget, quarantine, two kinds of observers.
    pub(crate) fn changes(
        &mut self,
        at_ms: u64,
        shape: &FleetShape,
        change: &SlotChange,
        facts: &ChangeFacts,
    ) {
        let SlotChange { slot, from, to, is_voluntary } = *change;
        let flaps = self
            .losses
            .get(&to)
            .is_some_and(|losses| losses.windows(2).any(|two| two[1] - two[0] <= HOUR_MS));
        self.require(!flaps, at_ms, "I5", || {
            format!("host {to} enters slot {slot} and was lost twice within an hour")
        });
        if is_voluntary {
            self.require(facts.cold_load <= HEADROOM, at_ms, "I5", || {
                format!("voluntary changes add {:.2} of the usual misses", facts.cold_load)
            });
            return;
        }
        self.require(facts.accusing_kinds >= 2, at_ms, "I6", || {
            format!("slot {slot} loses host {from}, which {} kinds of observers accuse", facts.accusing_kinds)
        });
        self.losses.entry(from).or_default().push(at_ms);
        self.replaced.retain(|(then, ..)| at_ms - then <= HOUR_MS);
        self.replaced.push((at_ms, slot / shape.slots, facts.zone));
        let limit = |size: usize, percent: usize| (size * percent / 100).max(2);
        let count = |is_in: &dyn Fn(&(u64, usize, usize)) -> bool| {
            self.replaced.iter().filter(|one| is_in(one)).count()
        };
        let scopes = [
            ("the fleet", count(&|_| true), limit(shape.servers(), 5)),
            ("a zone", count(&|one| one.2 == facts.zone), limit(shape.servers().div_ceil(ZONES), 20)),
            ("a cluster", count(&|one| one.1 == slot / shape.slots), limit(shape.slots, 5)),
        ];
        for (scope, found, limit) in scopes {
            self.require(found <= limit, at_ms, "I5", || {
                format!("{found} of {scope} replaced in an hour, not {limit}")
            });
        }
    }
}
