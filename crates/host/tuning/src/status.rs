//! Status: plans in force and persistent files, and whether both still hold.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use os::CpuSet;
use os::clock::since_boot_ms;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{Holder, Journal, JournalDoubt, PlanState};
use tuner::apply::label::PlanLabel;
use tuner::persist::store;
use tuner::{Root, Setting};

use crate::error::Error;
use crate::in_force::in_force;
pub use crate::rollback::elsewhere::Overdue;
use crate::rollback::elsewhere::overdue;
use crate::state::{Seen, StateDirectory};

/// The status of a host.
#[derive(Debug)]
pub struct TuneStatus {
    /// Plans in force, the newest first.
    pub plans: Vec<PlanStatus>,
    /// Plans of other network namespaces that should have been undone.
    pub overdue: Vec<Overdue>,
    /// What cannot be read, and may be in force.
    pub doubts: Vec<JournalDoubt>,
    /// What persists; a manifest that is damaged hides no plan.
    pub persists: Result<store::Status, Error>,
}

/// One plan in force.
#[derive(Debug)]
pub struct PlanStatus {
    /// Its journal.
    pub journal: PathBuf,
    /// Its label, if it has one.
    pub label: Option<PlanLabel>,
    /// Its phase.
    pub phase: PlanPhase,
    /// Its settings, except those that a later plan has set.
    pub settings: Vec<SettingStatus>,
}

/// The phase of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanPhase {
    /// This process is applying or undoing it.
    AtWork(Holder),
    /// It was interrupted before its end.
    Interrupted,
    /// It is undone at its deadline unless it is confirmed.
    Waiting {
        /// Seconds until the deadline.
        left_s: u64,
    },
    /// It is in force.
    InForce,
    /// It is undone.
    Undone,
}

/// One setting and its value.
#[derive(Debug)]
pub struct SettingStatus {
    /// The setting.
    pub setting: Setting,
    /// What it was set to.
    pub wanted: String,
    /// What it reads now.
    pub found: SettingState,
}

/// What a setting reads.
#[derive(Debug)]
pub enum SettingState {
    /// The value that it was set to.
    Holds {
        /// For an interrupt that has not moved yet: the CPUs that handled it last.
        came_to: Option<CpuSet>,
    },
    /// Another value.
    Drifted {
        /// The value.
        reads: String,
        /// Whether it is the value from before the plan.
        as_before: bool,
    },
    /// It cannot be read.
    Unreadable(io::Error),
}

impl SettingState {
    /// Whether it has the value that it was set to.
    pub fn holds(&self) -> bool {
        matches!(self, SettingState::Holds { .. })
    }
}

impl PlanStatus {
    /// Whether all of its settings read as before the plan: after a rollback that could not be recorded, or a reset of
    /// the device.
    pub fn is_as_before(&self) -> bool {
        let as_before =
            |value: &SettingStatus| matches!(value.found, SettingState::Drifted { as_before: true, .. });
        !self.settings.is_empty() && self.settings.iter().all(as_before)
    }
}

impl TuneStatus {
    /// Whether all that can be read is as it should be.
    pub fn is_whole(&self) -> bool {
        let persists = |status: &store::Status| {
            let as_written =
                |(_, condition): &(_, store::FileState)| *condition == store::FileState::AsWritten;
            status.files.is_empty() || status.files.iter().all(as_written) && !status.interrupted
        };
        self.plans.iter().flat_map(|plan| &plan.settings).all(|value| value.found.holds())
            && self.overdue.is_empty()
            && self.persists.as_ref().is_ok_and(persists)
    }
}

/// Reads the journals, the settings and the files.
pub fn status(root: &Root, directory: &StateDirectory) -> Result<TuneStatus, Error> {
    let seen = directory.look(root)?;
    let doubts = seen.doubts();
    let Seen { found, here } = seen;
    let overdue = overdue(&found.journals, &here, root);
    let found = in_force(found.journals, &here);
    let holder = directory.journals().holder();
    let persists = store::status(root).map_err(Error::other);
    let host = FileHost::new(root.clone());
    let mut set = BTreeSet::new();
    let plan = |journal: &Journal| {
        let steps = journal.steps().into_iter().filter(|step| !step.left && !step.undone);
        // A later plan may have set it since.
        let own: Vec<_> = steps.filter(|step| set.insert(step.setting.clone())).collect();
        let value = |step: tuner::apply::journal::JournalStep| {
            let wanted = step.wanted.trim().to_owned();
            let found = match host.read(&step.setting) {
                Ok(found) if step.setting.same(&found, &wanted) => {
                    SettingState::Holds { came_to: still_comes_to(&host, &step.setting, &wanted) }
                }
                Ok(found) => SettingState::Drifted {
                    as_before: step.setting.same(&found, &step.before),
                    reads: found.trim().to_owned(),
                },
                Err(error) => SettingState::Unreadable(error),
            };
            SettingStatus { setting: step.setting, wanted, found }
        };
        PlanStatus {
            journal: journal.path().to_owned(),
            label: journal.label().cloned(),
            phase: phase(journal, holder.as_ref()),
            settings: own.into_iter().map(value).collect(),
        }
    };
    Ok(TuneStatus { plans: found.iter().map(plan).collect(), overdue, doubts, persists })
}

/// The CPUs that handled an interrupt last, if it has not moved yet. A single reading cannot show whether it will.
fn still_comes_to(host: &FileHost, setting: &Setting, wanted: &str) -> Option<CpuSet> {
    let (_, cpus) = setting.irq().and_then(|irq| host.interrupt(irq).ok())?;
    let wanted = CpuSet::parse_mask(wanted).ok()?;
    (!cpus.without(&wanted).is_empty()).then_some(cpus)
}

fn phase(journal: &Journal, holder: Option<&Holder>) -> PlanPhase {
    match (journal.state(), journal.confirm_by_ms(), holder) {
        (PlanState::Unfinished, _, Some(holder)) => PlanPhase::AtWork(holder.clone()),
        (PlanState::Unfinished, _, None) => PlanPhase::Interrupted,
        (PlanState::Applied, Some(end), _) => {
            PlanPhase::Waiting { left_s: end.saturating_sub(since_boot_ms()) / 1000 }
        }
        (PlanState::Applied | PlanState::Confirmed, ..) => PlanPhase::InForce,
        (PlanState::RolledBack, ..) => PlanPhase::Undone,
    }
}
