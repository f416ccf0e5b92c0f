//! Disk settings: I/O scheduler, merging of requests, reading ahead.

use crate::observe::facts::BlockDevice;
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};

/// The kernel's default of `read_ahead_kb`.
const READ_AHEAD_KB: u32 = 128;

/// `nomerges`: no search for neighbours of a request at all.
const NEVER_MERGED: u32 = 2;

const SCHEDULER: Reason = Reason {
    why: "a disk that does not turn has no order that is better than the one of arrival",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise),
        ExpectedSignals::words("CPU time per request falls"),
    ],
};
const NO_MERGES: Reason = Reason {
    why: "random requests have no neighbours, and the search for them costs CPU for each",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::figure(Figure::DiskWait, Moves::DoesNotRise),
        ExpectedSignals::words("CPU time per request falls"),
    ],
};
const LESS_AHEAD: Reason = Reason {
    why: "a database reads pages at random, and what is read ahead of them takes bandwidth and cache",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::DiskWait, Moves::Falls)],
};

/// No I/O scheduler.
pub(crate) fn no_scheduler(proposed: &mut ProposedChanges, scope: &Scope) {
    for disk in scope.disks().filter(|disk| !disk.rotational) {
        let has_none = disk.schedulers.iter().any(|choice| choice == "none");
        if let Some(now) = disk.scheduler.as_ref().filter(|_| has_none) {
            let setting = Setting::choice(format!("/sys/block/{}/queue/scheduler", disk.name));
            proposed.propose(Stage::Disk, setting, now.clone(), "none".into(), SCHEDULER);
        }
    }
}

/// No search for neighbours of requests.
pub(crate) fn no_merges(proposed: &mut ProposedChanges, scope: &Scope) {
    number(proposed, scope, "nomerges", |disk| disk.nomerges, NEVER_MERGED, NO_MERGES);
}

/// Less reading ahead.
pub(crate) fn less_read_ahead(proposed: &mut ProposedChanges, scope: &Scope) {
    number(proposed, scope, "read_ahead_kb", |disk| disk.read_ahead_kb, READ_AHEAD_KB, LESS_AHEAD);
}

fn number(
    proposed: &mut ProposedChanges,
    scope: &Scope,
    name: &str,
    now: fn(&BlockDevice) -> Option<u32>,
    wanted: u32,
    reason: Reason,
) {
    for (disk, now) in scope.disks().filter_map(|disk| Some((disk, now(disk)?))) {
        let setting = Setting::number(format!("/sys/block/{}/queue/{name}", disk.name));
        proposed.propose(Stage::Disk, setting, now.to_string(), wanted.to_string(), reason);
    }
}
