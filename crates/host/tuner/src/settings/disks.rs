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
    scope.disks().filter(|disk| !disk.rotational).for_each(|disk| take_scheduler(proposed, disk));
}

/// No search for neighbours of requests.
pub(crate) fn no_merges(proposed: &mut ProposedChanges, scope: &Scope) {
    scope.disks().for_each(|disk| merge_nothing(proposed, disk, NO_MERGES));
}

/// Less reading ahead.
pub(crate) fn less_read_ahead(proposed: &mut ProposedChanges, scope: &Scope) {
    scope.disks().for_each(|disk| read_ahead(proposed, disk, READ_AHEAD_KB, LESS_AHEAD));
}

/// No scheduler for this disk, where it can do without.
pub(super) fn take_scheduler(proposed: &mut ProposedChanges, disk: &BlockDevice) {
    let has_none = disk.schedulers.iter().any(|choice| choice == "none");
    if let Some(now) = disk.scheduler.as_ref().filter(|_| has_none) {
        let setting = Setting::choice(format!("/sys/block/{}/queue/scheduler", disk.name));
        proposed.propose(Stage::Disk, setting, now.clone(), "none".into(), SCHEDULER);
    }
}

/// No search for neighbours of this disk's requests.
pub(super) fn merge_nothing(proposed: &mut ProposedChanges, disk: &BlockDevice, reason: Reason) {
    number(proposed, disk, "nomerges", disk.nomerges, NEVER_MERGED, reason);
}

/// At most so much read ahead from this disk.
pub(super) fn read_ahead(proposed: &mut ProposedChanges, disk: &BlockDevice, kilobytes: u32, reason: Reason) {
    number(proposed, disk, "read_ahead_kb", disk.read_ahead_kb, kilobytes, reason);
}

fn number(
    proposed: &mut ProposedChanges,
    disk: &BlockDevice,
    name: &str,
    now: Option<u32>,
    wanted: u32,
    reason: Reason,
) {
    if let Some(now) = now {
        let setting = Setting::number(format!("/sys/block/{}/queue/{name}", disk.name));
        proposed.propose(Stage::Disk, setting, now.to_string(), wanted.to_string(), reason);
    }
}
