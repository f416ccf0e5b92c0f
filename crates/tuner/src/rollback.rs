//! Goes back: the old bytes of every step, the newest first, from the journal and nothing else.
//!
//! It can be interrupted and begun again. What has vanished has no value to restore; what cannot be restored keeps the
//! others from nothing, and the journal stays open for another try.
//!
//! Threads inherit their scheduling from the one that starts them, so a server that has grown since has threads that no
//! journal names. They are found and made as the others were.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;

use crate::apply::meaning;
use crate::change::Setting;
use crate::host::{Host, is_same};
use crate::journal::{self, Journal, Place, Record, State};
use crate::promise::Promise;
use crate::scheduling::Scheduling;

/// What became of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had its old value: the step was never done, or undone by somebody else.
    AsBefore,
    /// It has its old value again.
    Restored,
    /// It has its old value again; in between somebody else had given it this one.
    RestoredOver(String),
    /// It is not there any more.
    Vanished,
    /// It could not be restored.
    Failed(String),
}

/// What became of all steps, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledBack(pub Vec<(Setting, Outcome)>);

impl RolledBack {
    /// Whether everything is as before.
    pub fn is_whole(&self) -> bool {
        self.failures().is_empty()
    }

    /// What could not be restored, in words.
    pub fn failures(&self) -> Vec<String> {
        let failed = |(setting, outcome): &(Setting, Outcome)| match outcome {
            Outcome::Failed(why) => Some(format!("{setting}: {why}")),
            _ => None,
        };
        self.0.iter().filter_map(failed).collect()
    }
}

/// Why a journal cannot be undone here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Elsewhere {
    /// The host was started again since.
    #[error("the host was restarted since, which has reset these settings: there is nothing to undo")]
    Rebooted,
    /// The paths mean other devices here.
    #[error("it was done in the network namespace {0}, and this is another one")]
    Network(String),
}

/// Whether a journal's settings are those of this place.
pub fn check_place(journal: &Journal, here: &Place) -> Result<(), Elsewhere> {
    let there = journal.place();
    if there.boot_id != here.boot_id {
        return Err(Elsewhere::Rebooted);
    }
    match &there.network {
        Some(network) if there.network != here.network => Err(Elsewhere::Network(network.clone())),
        _ => Ok(()),
    }
}

/// Undoes a journal. The caller has checked the place.
pub fn undo(host: &mut dyn Host, journal: &mut Journal, why: &str) -> Result<RolledBack, journal::Error> {
    let mut outcomes = RolledBack::default();
    if journal.state() == State::RolledBack {
        return Ok(outcomes);
    }
    let mut refused: Option<journal::Step> = None;
    for step in journal.steps().into_iter().rev().filter(|step| !step.undone) {
        let outcome = restore(host, &step);
        // What it resets is restored next, and may bring it back.
        let may_come_back = matches!(outcome, Outcome::Failed(_)) && !host.reset_by(&step.setting).is_empty();
        let before = if may_come_back {
            refused.replace(step)
        } else {
            note(journal, &mut outcomes, step, outcome)?;
            refused.take()
        };
        again(host, journal, &mut outcomes, before)?;
    }
    again(host, journal, &mut outcomes, refused)?;
    let mut looked_at = BTreeSet::new();
    for step in journal.steps() {
        disinherit(host, &step, &mut looked_at, &mut outcomes);
    }
    if outcomes.is_whole() {
        journal.append(Record::RolledBack { why: why.to_owned() })?;
        // A file that is left over does no harm, and the host is as it was before.
        let _ = Promise::forget(journal.path());
    }
    Ok(outcomes)
}

/// What became of a step, in the journal and in the sum.
fn note(
    journal: &mut Journal,
    outcomes: &mut RolledBack,
    step: journal::Step,
    outcome: Outcome,
) -> Result<(), journal::Error> {
    if !matches!(outcome, Outcome::Failed(_)) {
        journal.append(Record::Undone { step: step.number })?;
    }
    // What was left and needs nothing is no news.
    if !(step.left && outcome == Outcome::AsBefore) {
        outcomes.0.push((step.setting, outcome));
    }
    Ok(())
}

/// Restores a step that was refused before. A limit of 0 bytes cannot be written, but is there as soon as the same limit is
/// restored as a ratio.
fn again(
    host: &mut dyn Host,
    journal: &mut Journal,
    outcomes: &mut RolledBack,
    refused: Option<journal::Step>,
) -> Result<(), journal::Error> {
    let Some(step) = refused else { return Ok(()) };
    let outcome = match restore(host, &step) {
        Outcome::AsBefore => Outcome::Restored,
        outcome => outcome,
    };
    note(journal, outcomes, step, outcome)
}

/// Looks for heirs, at most: each look finds what threads have started that the look before has not seen.
const LOOKS_MAX: usize = 8;

/// Makes threads that have inherited what a step set as that step's thread was before. Each process is looked at once, by
/// the first of its steps: what one plan wants of its threads is the same for all.
fn disinherit(
    host: &mut dyn Host,
    step: &journal::Step,
    looked_at: &mut BTreeSet<u32>,
    outcomes: &mut RolledBack,
) {
    let Setting::Thread { tid } = &step.setting else { return };
    if looked_at.contains(tid) {
        return;
    }
    let (Ok(before), Ok(wanted)) = (step.before.parse::<Scheduling>(), step.wanted.parse()) else { return };
    for _ in 0..LOOKS_MAX {
        // Who has ended, alone or with the whole process, has left nothing behind.
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
                Ok(()) => Outcome::Restored,
                Err(error) => failed(&setting, &error),
            };
            outcomes.0.push((setting, outcome));
        }
        if !outcomes.is_whole() {
            return;
        }
    }
}

fn failed(setting: &Setting, error: &io::Error) -> Outcome {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::SRCH) => Outcome::Vanished,
        _ => Outcome::Failed(meaning(setting, error)),
    }
}

fn restore(host: &mut dyn Host, step: &journal::Step) -> Outcome {
    let setting = &step.setting;
    let failed = |error: io::Error| failed(setting, &error);
    // Its number is another one's now, which is none of ours.
    let expected = step.identity.as_deref();
    if expected.is_some_and(|was| host.identity(setting).is_some_and(|is| !is_same(was, &is))) {
        return Outcome::Vanished;
    }
    let found = match host.read(setting) {
        Ok(found) if setting.same(&found, &step.before) => return Outcome::AsBefore,
        Ok(found) => found,
        Err(error) => return failed(error),
    };
    if let Err(error) = host.write(setting, setting.written(&step.before)) {
        return failed(error);
    }
    match host.read(setting) {
        Ok(now) if !setting.same(&now, &step.before) => {
            Outcome::Failed(format!("its old value was accepted, but it reads {now:?}"))
        }
        // What was left was set anew by another step.
        Ok(_) if step.left || setting.same(&found, &step.wanted) => Outcome::Restored,
        Ok(_) => Outcome::RestoredOver(found.trim().to_owned()),
        Err(error) => failed(error),
    }
}
