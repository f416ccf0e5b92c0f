//! Obstacles: plans that prevent the application of another plan.
//!
//! A plan records the values that it finds as the old ones. While an earlier plan may still be undone automatically,
//! or is half undone, these are not the values to go back to: both plans, undone, would leave a value that is neither
//! the earlier plan's nor the one from before it.

use std::path::PathBuf;

use crate::apply::journal::{BootAndNamespace, Journal, PlanState};
use crate::apply::rollback::check_place;

/// Reasons why no plan can be applied now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Its process was killed, or not everything could be undone.
    #[error("an earlier one was interrupted ({path})", path = .0.display())]
    Interrupted(PathBuf),
    /// It is undone automatically unless the user confirms it.
    #[error("an earlier one waits to be confirmed ({path})", path = .0.display())]
    Unconfirmed(PathBuf),
}

impl Obstacle {
    /// The first one among the journals of this boot and namespace.
    pub fn find(journals: &[Journal], here: &BootAndNamespace) -> Option<Obstacle> {
        let of = |journal: &Journal| {
            let path = journal.path().to_owned();
            match journal.state() {
                PlanState::Unfinished => Some(Obstacle::Interrupted(path)),
                PlanState::Applied if journal.confirm_by_ms().is_some() => Some(Obstacle::Unconfirmed(path)),
                PlanState::Applied | PlanState::Confirmed | PlanState::RolledBack => None,
            }
        };
        journals.iter().filter(|journal| check_place(journal, here).is_ok()).find_map(of)
    }

    /// The command that removes it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Obstacle::Interrupted(_) => "`evenkeel tune rollback` undoes it",
            Obstacle::Unconfirmed(_) => {
                "`evenkeel tune confirm` keeps it, `evenkeel tune rollback` undoes it"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::journal::{JournalRecord, Journals};
    use crate::observe::shapes::Scratch;

    /// A plan with or without a deadline that has come so far is this obstacle.
    #[track_caller]
    fn check(deadline: bool, records: &[JournalRecord], boot_id: &str, expected: Option<&str>) {
        let scratch = Scratch::new("obstacle");
        let journals = Journals::new(scratch.path());
        let place = |boot_id: &str| BootAndNamespace { boot_id: boot_id.into(), network: None };
        let mut journal = journals.begin(&place("a"), 0, deadline.then_some(7)).unwrap();
        journal.append_all(records.to_vec()).unwrap();
        let found = Obstacle::find(&journals.all().unwrap(), &place(boot_id));
        let said = found.map(|obstacle| obstacle.to_string());
        assert_eq!(said, expected.map(|what| format!("{what} ({})", journal.path().display())));
    }

    #[test]
    fn a_plan_is_in_the_way_until_it_is_finished() {
        let undone = JournalRecord::Undone { step: 0 };
        let rolled_back = JournalRecord::RolledBack { why: String::new(), unread: None };
        let (interrupted, unconfirmed) =
            ("an earlier one was interrupted", "an earlier one waits to be confirmed");
        check(false, &[], "a", Some(interrupted));
        check(true, &[], "a", Some(interrupted));
        check(true, &[JournalRecord::Applied], "a", Some(unconfirmed));
        check(true, &[JournalRecord::Applied], "b", None);
        check(true, &[JournalRecord::Applied, JournalRecord::Confirmed], "a", None);
        check(false, &[JournalRecord::Applied], "a", None);
        check(false, &[JournalRecord::Applied, undone.clone()], "a", Some(interrupted));
        check(false, &[JournalRecord::Applied, undone, rolled_back], "a", None);
    }
}
