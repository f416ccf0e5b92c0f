//! Plans in force at a place.

use tuner::apply::journal::{BootAndNamespace, Journal, PlanState};
use tuner::apply::rollback::check_place;

/// The journals that are not undone and belong to this place, the newest first.
pub(crate) fn in_force(all: Vec<Journal>, here: &BootAndNamespace) -> Vec<Journal> {
    let is_in_force =
        |journal: &Journal| journal.state() != PlanState::RolledBack && check_place(journal, here).is_ok();
    all.into_iter().rev().filter(is_in_force).collect()
}

/// Whether a plan is undone unless it is confirmed.
pub(crate) fn waits_for_confirmation(journal: &Journal) -> bool {
    journal.state() == PlanState::Applied && journal.confirm_by_ms().is_some()
}
