//! Invariants of the control plane, checked at every event against what is true of the fleet.
//!
//! The limits are computed here once more, from the rules as documented, so that an error in `fleet` is seen. Every check takes
//! what has changed, and keeps what it needs of the past.

mod convergence;
mod generations;
mod owners;
mod replacements;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(crate) use convergence::{Calm, Convergence};
pub(crate) use owners::KeyOwners;
pub(crate) use replacements::{ChangeFacts, SlotChange};

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

/// The first violation, and the history that the checks need.
#[derive(Debug, Default)]
pub(crate) struct InvariantChecker {
    first: Option<Violation>,
    replacements: replacements::History,
    /// Numbers of generations that have become the target.
    accepted: BTreeSet<u64>,
    /// Generations whose crash a controller has heard of.
    known_crashes: BTreeSet<u64>,
    /// Routers that have loaded a generation that crashes them.
    deadly_loads: BTreeMap<u64, usize>,
}

impl InvariantChecker {
    pub(crate) fn into_first(self) -> Option<Violation> {
        self.first
    }

    pub(crate) fn has_found(&self) -> bool {
        self.first.is_some()
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
}
