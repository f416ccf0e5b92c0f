//! Memory settings: transparent huge pages.

use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};

const HUGE_PAGES: Reason = Reason {
    why: "huge pages for programs that did not ask cost memory, and pauses when pages are compacted or copied after a fork",
    risk: Risk::Low,
    signal: &[ExpectedSignals::figure(Figure::Compaction, Moves::StandsStill)],
};

/// Huge pages for programs that ask for them.
pub(crate) fn huge_pages_on_request(proposed: &mut ProposedChanges, scope: &Scope) {
    instead_of_always(proposed, "enabled", &scope.facts().huge_pages.enabled, "madvise");
}

/// Huge pages for no program.
pub(crate) fn no_huge_pages(proposed: &mut ProposedChanges, scope: &Scope) {
    instead_of_always(proposed, "enabled", &scope.facts().huge_pages.enabled, "never");
}

/// Pauses to make huge pages for programs that ask for them, and for no others.
pub(crate) fn compaction_on_request(proposed: &mut ProposedChanges, scope: &Scope) {
    instead_of_always(proposed, "defrag", &scope.facts().huge_pages.defrag, "madvise");
}

/// In place of `always`. `madvise` and `never` alike keep huge pages from programs that did not ask; neither is a reason
/// to change the other.
fn instead_of_always(proposed: &mut ProposedChanges, name: &str, now: &Option<String>, wanted: &str) {
    if let Some(now) = now.as_ref().filter(|now| *now == "always") {
        let setting = Setting::choice(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
        proposed.propose(Stage::Memory, setting, now.clone(), wanted.into(), HUGE_PAGES);
    }
}
