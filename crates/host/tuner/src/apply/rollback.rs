//! Rollback: the old bytes of every step, the newest first, from the journal and nothing else.
//!
//! Everything is restored first and recorded afterwards: a journal that cannot be written does not prevent restoring.
//! It can be interrupted and repeated, because settings that have their old value are left alone. A device that has
//! vanished has no value to restore; a setting that cannot be restored does not stop the others, and the journal
//! stays open for another try.
//!
//! Threads inherit their scheduling from the thread that starts them, so a server that has grown since has threads
//! that no journal names. They are found and restored like the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::io::Errno;

use crate::apply::expected_effect::ExpectedEffect;
use crate::apply::host::{HostAccess, is_same};
use crate::apply::journal::{self, BootAndNamespace, Journal, PlanState};
use crate::apply::meaning;
use crate::observe::network_namespace;
use crate::observe::scheduling::Scheduling;
use crate::plan::change::{Change, Setting};

/// The result of undoing one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// It had its old value: the step was never done, or another process has undone it.
    AsBefore,
    /// It has its old value again.
    Restored,
    /// It has its old value again; another process had given it this value in between.
    RestoredOver(String),
    /// It keeps this value, which it was given after the plan; its value from before the plan.
    KeptLater {
        /// Its value now.
        found: String,
        /// Its value before the plan.
        before: String,
    },
    /// It does not exist any more.
    Vanished,
    /// It could not be restored.
    Failed(String),
}

/// The treatment of values that settings were given after a plan, by a person, a program or a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterValues {
    /// They stay: whoever undoes the plan does not know them, and the one who chose them knew the plan's.
    Keep,
    /// They are overwritten by those from before the plan.
    Overwrite,
}

/// The results of all steps, the newest first.
#[derive(Debug, Default)]
pub struct RolledBack {
    /// Each step that was done, and the threads that have inherited from it.
    pub steps: Vec<(Setting, StepOutcome)>,
    /// The error of recording this: without the record, the plan counts as in force, or interrupted.
    pub unrecorded: Option<journal::Error>,
}

impl RolledBack {
    /// Whether everything is restored.
    pub fn is_whole(&self) -> bool {
        self.failures().is_empty()
    }

    /// Settings that could not be restored, in words.
    pub fn failures(&self) -> Vec<String> {
        let failed = |(setting, outcome): &(Setting, StepOutcome)| match outcome {
            StepOutcome::Failed(why) => Some(format!("{setting}: {why}")),
            _ => None,
        };
        self.steps.iter().filter_map(failed).collect()
    }
}

/// Reasons why a journal cannot be undone here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Elsewhere {
    /// The host was restarted since.
    #[error("the host was restarted since, which has reset these settings: there is nothing to undo")]
    Rebooted,
    /// No line that can be read says of which boot it is.
    #[error("none of its lines that can be read says of which boot it is")]
    Unknown,
    /// The paths name other devices here.
    #[error("it was done in the network namespace {}, and this is another one", network_namespace::name(.0))]
    Network(String),
}

/// Whether a journal's settings are of this boot and namespace.
pub fn check_place(journal: &Journal, here: &BootAndNamespace) -> Result<(), Elsewhere> {
    let there = journal.place().ok_or(Elsewhere::Unknown)?;
    if there.boot_id != here.boot_id {
        return Err(Elsewhere::Rebooted);
    }
    match (&there.network, &here.network) {
        (Some(there), Some(here)) if network_namespace::is_same(there, here) => Ok(()),
        (Some(there), _) => Err(Elsewhere::Network(there.clone())),
        (None, _) => Ok(()),
    }
}

/// The reason for undoing an [overdue](is_overdue) plan.
pub const NOT_CONFIRMED: &str = "not confirmed in time";

/// Whether a plan of this boot and namespace should have been undone by now, because it was not confirmed, in
/// milliseconds since boot: a clock that cannot be set, and that restarts with the boot that ends all settings.
pub fn is_overdue(journal: &Journal, here: &BootAndNamespace, now_ms: u64) -> bool {
    has_run_out(journal, now_ms) && check_place(journal, here).is_ok()
}

/// The network namespace in which a plan should have been undone by now, if it is another one: it cannot be undone
/// from here.
pub fn overdue_elsewhere(journal: &Journal, here: &BootAndNamespace, now_ms: u64) -> Option<String> {
    match check_place(journal, here) {
        Err(Elsewhere::Network(network)) if has_run_out(journal, now_ms) => Some(network),
        _ => None,
    }
}

fn has_run_out(journal: &Journal, now_ms: u64) -> bool {
    let is_open = matches!(journal.state(), PlanState::Unfinished | PlanState::Applied);
    is_open && journal.confirm_by_ms().is_some_and(|end| end <= now_ms)
}

/// Undoes a journal that this process has just carried out: everything is as before then, whoever has changed something
/// meanwhile. The caller has the lock, and has checked boot and namespace.
pub fn undo(host: &mut dyn HostAccess, journal: &mut Journal, why: &str) -> RolledBack {
    undo_below(host, journal, why, LaterValues::Overwrite, &BTreeSet::new())
}

/// Undoes journals, the newest first, and reports each. A setting of a later plan that could not be undone there is
/// left alone in the earlier ones, too: the later plan has to restore its value first.
pub fn undo_all(
    host: &mut dyn HostAccess,
    newest_first: &mut [Journal],
    why: &str,
    later: LaterValues,
    mut tell: impl FnMut(&Journal, &RolledBack),
) {
    let mut stuck = BTreeSet::new();
    for journal in newest_first {
        let undone = undo_below(host, journal, why, later, &stuck);
        tell(journal, &undone);
        let failed =
            undone.steps.into_iter().filter(|(_, outcome)| matches!(outcome, StepOutcome::Failed(_)));
        stuck.extend(failed.map(|(setting, _)| setting));
    }
}

/// Undoes a journal, except for settings that a later one could not restore.
fn undo_below(
    host: &mut dyn HostAccess,
    journal: &mut Journal,
    why: &str,
    later: LaterValues,
    stuck: &BTreeSet<Setting>,
) -> RolledBack {
    let mut undoing = Undoing::default();
    if journal.state() == PlanState::RolledBack {
        return undoing.outcomes;
    }
    if journal.may_be_cut() && has_steps_besides(host, journal) {
        journal.note_cut();
    }
    // A journal of an interrupted rollback must not look like a plan in force.
    let begun = journal.rolling_back(why);
    let mut refused: Option<journal::JournalStep> = None;
    let steps = under_their_names(host, journal.steps());
    // What a setting resets belongs to its value: queues that stay as they were chosen keep their masks.
    let mut of_kept = BTreeSet::new();
    for step in steps.into_iter().rev().filter(|step| !step.undone) {
        let outcome = match stuck.contains(&step.setting) {
            true => StepOutcome::Failed("a later plan has set it, too, and could not be undone".to_owned()),
            false if step.left && of_kept.contains(&step.setting) => StepOutcome::AsBefore,
            false => restore(host, &step, later),
        };
        if matches!(outcome, StepOutcome::KeptLater { .. }) {
            of_kept.extend(host.reset_by(&step.setting));
        }
        // The settings that it resets are restored next, and may bring it back.
        let may_come_back =
            matches!(outcome, StepOutcome::Failed(_)) && !host.reset_by(&step.setting).is_empty();
        let before = if may_come_back {
            refused.replace(step)
        } else {
            undoing.note(step, outcome);
            refused.take()
        };
        undoing.again(host, before);
    }
    undoing.again(host, refused);
    let mut looked_at = BTreeSet::new();
    for step in journal.steps() {
        disinherit(host, &step, &mut looked_at, &mut undoing.outcomes);
    }
    let Undoing { done, mut outcomes } = undoing;
    let whole = outcomes.is_whole().then_some(why);
    // The beginning is recorded together with the results.
    outcomes.unrecorded = journal.undone(&done, whole).err().or(begun.err().filter(|_| whole.is_none()));
    outcomes
}

/// Whether planned settings that no step names have their planned values: then the steps were in lines that are gone.
fn has_steps_besides(host: &dyn HostAccess, journal: &Journal) -> bool {
    let Ok(Some(expected)) = ExpectedEffect::of(journal.path()) else { return false };
    let named: BTreeSet<Setting> = journal.steps().into_iter().map(|step| step.setting).collect();
    let is_set = |change: &Change| {
        let (setting, wanted) = (&change.setting, host.taken(&change.setting, &change.wanted));
        let is_changed = |found: &str| setting.same(found, &wanted) && !setting.same(found, &change.now);
        host.read(setting).is_ok_and(|found| is_changed(&found))
    };
    expected.changes.iter().filter(|change| !named.contains(&change.setting)).any(is_set)
}

/// Steps with the names that their interfaces have now. An interface that is gone, or was made anew, is looked up by
/// its name, like those from before their numbers were in journals.
fn under_their_names(
    host: &dyn HostAccess,
    mut steps: Vec<journal::JournalStep>,
) -> Vec<journal::JournalStep> {
    let numbers = steps.iter().filter_map(|step| Some((step.setting.nic()?.to_owned(), step.interface?)));
    let renamed: BTreeMap<String, String> = numbers
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .filter_map(|(nic, number)| Some((nic, host.interface_name(number)?)))
        .collect();
    for step in &mut steps {
        if let Some(name) = step.setting.nic().and_then(|nic| renamed.get(nic)) {
            step.setting = step.setting.clone().of_nic(name);
        }
    }
    steps
}

#[derive(Default)]
struct Undoing {
    outcomes: RolledBack,
    /// The numbers of the steps that are restored.
    done: Vec<usize>,
}

impl Undoing {
    fn note(&mut self, step: journal::JournalStep, outcome: StepOutcome) {
        if !matches!(outcome, StepOutcome::Failed(_)) {
            self.done.push(step.number);
        }
        // A step that was left out and needs nothing is not reported.
        if !(step.left && outcome == StepOutcome::AsBefore) {
            self.outcomes.steps.push((step.setting, outcome));
        }
    }

    /// Restores a step that was refused before. A limit of 0 bytes cannot be written, but results from restoring the
    /// same limit as a ratio.
    fn again(&mut self, host: &mut dyn HostAccess, refused: Option<journal::JournalStep>) {
        let Some(step) = refused else { return };
        let outcome = match restore(host, &step, LaterValues::Overwrite) {
            StepOutcome::AsBefore => StepOutcome::Restored,
            outcome => outcome,
        };
        self.note(step, outcome);
    }
}

/// Searches for inheriting threads, at most: each search finds threads that were started since the search before.
const LOOKS_MAX: usize = 8;

/// Resets threads that have inherited a step's setting to the earlier state of that step's thread. Each process is
/// searched once, with the first of its steps: one plan sets the same for all threads.
fn disinherit(
    host: &mut dyn HostAccess,
    step: &journal::JournalStep,
    looked_at: &mut BTreeSet<u32>,
    outcomes: &mut RolledBack,
) {
    let Setting::Thread { tid } = &step.setting else { return };
    if looked_at.contains(tid) {
        return;
    }
    let (Ok(before), Ok(wanted)) = (step.before.parse::<Scheduling>(), step.wanted.parse()) else { return };
    for _ in 0..LOOKS_MAX {
        // A thread that has ended, alone or with the whole process, needs nothing.
        let others = host.others(*tid).unwrap_or_default();
        looked_at.extend(&others);
        let heir = |tid: u32| {
            let setting = Setting::Thread { tid };
            let found: Scheduling = host.read(&setting).ok()?.parse().ok()?;
            Some((setting, found.inherited(&before, &wanted)?))
        };
        let heirs: Vec<_> = others.into_iter().filter_map(heir).collect();
        if heirs.is_empty() {
            return;
        }
        for (setting, old) in heirs {
            let outcome = match host.write(&setting, &old.to_string()) {
                Ok(()) => StepOutcome::Restored,
                Err(error) => failed(&setting, &error),
            };
            outcomes.steps.push((setting, outcome));
        }
        if !outcomes.is_whole() {
            return;
        }
    }
}

fn failed(setting: &Setting, error: &io::Error) -> StepOutcome {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::SRCH) => StepOutcome::Vanished,
        _ => StepOutcome::Failed(meaning(setting, error)),
    }
}

fn restore(host: &mut dyn HostAccess, step: &journal::JournalStep, later: LaterValues) -> StepOutcome {
    let setting = &step.setting;
    let failed = |error: io::Error| failed(setting, &error);
    // Its number is in use by another thread now, which the plan did not set.
    let expected = step.identity.as_deref();
    if expected.is_some_and(|was| host.identity(setting).is_some_and(|is| !is_same(was, &is))) {
        return StepOutcome::Vanished;
    }
    let found = match host.read(setting) {
        Ok(found) if setting.same(&found, &step.before) => return StepOutcome::AsBefore,
        Ok(found) => found,
        Err(error) => return failed(error),
    };
    // A step that is not recorded as done may have left any value, and one that was left out is reset by another step.
    let is_later = step.done && !step.left && !setting.same(&found, &step.wanted);
    if later == LaterValues::Keep && is_later {
        let before = setting.written(&step.before).trim().to_owned();
        return StepOutcome::KeptLater { found: setting.written(&found).trim().to_owned(), before };
    }
    if let Err(error) = host.write(setting, setting.written(&step.before)) {
        return failed(error);
    }
    match host.read(setting) {
        Ok(now) if !setting.same(&now, &step.before) => {
            StepOutcome::Failed(format!("its old value was accepted, but it reads {now:?}"))
        }
        // A step that was left out was reset by another step.
        Ok(_) if step.left || setting.same(&found, &step.wanted) => StepOutcome::Restored,
        Ok(_) => StepOutcome::RestoredOver(found.trim().to_owned()),
        Err(error) => failed(error),
    }
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;
