//! Rollback and confirmation of plans.

pub(super) mod deadline;
pub(super) mod elsewhere;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use os::signals::Signals;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{self, BootAndNamespace, Journal, JournalDoubt, PlanState};
use tuner::apply::label::PlanLabel;
use tuner::apply::rollback::{Elsewhere, LaterValues, NOT_CONFIRMED, StepOutcome, check_place, undo_all};
use tuner::{Root, Setting};

use crate::error::Error;
use crate::in_force::{in_force, waits_for_confirmation};
use crate::state::StateDirectory;

/// A plan that was undone, as far as possible.
#[derive(Debug)]
pub struct Undone {
    /// Its journal.
    pub journal: PathBuf,
    /// The outcomes of its steps, the newest first.
    pub steps: Vec<(Setting, StepOutcome)>,
    /// What could not be restored, as text.
    pub failures: Vec<String>,
    /// Why the journal does not record it.
    pub unrecorded: Option<String>,
    /// The file that records it instead, for now.
    pub spare: Option<PathBuf>,
}

/// Everything that was undone.
#[derive(Debug)]
pub struct Undoing {
    /// The plans, the newest first.
    pub plans: Vec<Undone>,
    /// What cannot be read, in these journals or in others, and may still be in force.
    pub doubts: Vec<JournalDoubt>,
}

/// The plans that a rollback undoes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoWhich {
    /// The last one in force.
    Last,
    /// All that are in force.
    All,
    /// The one with this label, from below later ones that have other settings.
    Labelled(PlanLabel),
}

/// The last plan stays, if it has this label or none is asked for.
pub fn confirm(
    root: &Root,
    directory: &StateDirectory,
    wait: Duration,
    label: Option<&PlanLabel>,
) -> Result<(), Error> {
    let state = directory.enter(root, wait)?;
    let mut all = state.journals.all().map_err(Error::other)?;
    if let Some(label) = label {
        all.retain(|journal| journal.label() == Some(label));
    }
    let late = all.last().filter(|journal| journal.undone_because() == Some(NOT_CONFIRMED)).map(|journal| {
        let path = journal.path().display();
        format!("confirm a plan: it is too late, the last one was undone when its time was over ({path})")
    });
    let late = late.or_else(|| waits_elsewhere(&all, &state.here));
    let waiting = in_force(all, &state.here).into_iter().find(waits_for_confirmation);
    let Some(mut journal) = waiting else {
        let none = match label {
            Some(label) => format!("confirm the plan {label}: it is not waiting for it"),
            None => "confirm a plan: none is waiting for it".to_owned(),
        };
        let why = late.unwrap_or(none);
        return Err(Error::refused(why).with_hint("`evenkeel tune status` shows what is in force"));
    };
    journal.confirm().map_err(Error::other)
}

/// The reason why a plan that waits in another network namespace cannot be confirmed in this one.
fn waits_elsewhere(all: &[Journal], here: &BootAndNamespace) -> Option<String> {
    let refused = |journal: &Journal| match check_place(journal, here) {
        Err(why @ Elsewhere::Network(_)) => Some(format!("confirm {}: {why}", journal.path().display())),
        _ => None,
    };
    all.iter().rev().filter(|journal| waits_for_confirmation(journal)).find_map(refused)
}

/// Restores the old values of plans in force. From here on this process is not interrupted by signals.
pub fn rollback(
    root: &Root,
    directory: &StateDirectory,
    wait: Duration,
    which: &UndoWhich,
    later: LaterValues,
) -> Result<Undoing, Error> {
    // The way back may take the terminal's connection with it: what has begun is finished. Who only waits can be told to
    // end.
    let _signals = Signals::block().map_err(|error| Error::system("block signals", error))?;
    let state = directory.enter(root, wait)?;
    let all = state.journals.all().map_err(Error::other)?;
    let nothing = nothing_to_undo(&all, &state.here);
    let mut found = in_force(all, &state.here);
    if found.is_empty() && !matches!(which, UndoWhich::Labelled(_)) {
        return Err(nothing);
    }
    let mut host = FileHost::new(root.clone());
    match which {
        UndoWhich::Last => found.truncate(1),
        UndoWhich::All => {}
        UndoWhich::Labelled(label) => {
            let place = found.iter().position(|journal| journal.label() == Some(label));
            let place = place
                .ok_or_else(|| Error::refused(format_args!("undo the plan {label}: it is not in force")))?;
            check_above(&host, label, &found[..place], &found[place])?;
            found = vec![found.swap_remove(place)];
        }
    }
    let mut plans = Vec::new();
    undo_all(&mut host, &mut found, "asked", later, |journal, undone| {
        plans.push(Undone {
            journal: journal.path().to_owned(),
            steps: undone.steps.clone(),
            failures: undone.failures(),
            unrecorded: undone.unrecorded.as_ref().map(journal::Error::with_causes),
            spare: journal.spare_path(),
        });
    });
    let doubts = state.journals.read().map_err(Error::other)?.doubts(&state.here);
    Ok(Undoing { plans, doubts })
}

/// Refuses to undo a plan below later ones that have set what it has set, or what undoing it resets: they would restore its values.
fn check_above(
    host: &FileHost,
    label: &PlanLabel,
    later: &[Journal],
    journal: &Journal,
) -> Result<(), Error> {
    let settings = |journal: &Journal| {
        let steps = journal.steps().into_iter().filter(|step| !step.left && !step.undone);
        steps.map(|step| step.setting).collect::<BTreeSet<Setting>>()
    };
    let own = settings(journal);
    let touched: BTreeSet<Setting> =
        own.iter().flat_map(|setting| host.reset_by(setting)).chain(own.iter().cloned()).collect();
    for above in later {
        let path = above.path().display();
        if above.state() == PlanState::Unfinished {
            let why = format!("undo the plan {label}: a later one was interrupted ({path})");
            return Err(Error::refused(why).with_hint("`evenkeel tune rollback` undoes that one"));
        }
        if let Some(both) = settings(above).intersection(&touched).next() {
            let why = format!("undo the plan {label}: a later one concerns {both}, too ({path})");
            return Err(Error::refused(why).with_hint("`evenkeel tune rollback` undoes that one first"));
        }
    }
    Ok(())
}

fn nothing_to_undo(all: &[Journal], here: &BootAndNamespace) -> Error {
    let elsewhere = all
        .iter()
        .rev()
        .filter(|journal| journal.state() != PlanState::RolledBack)
        .find_map(|journal| check_place(journal, here).err().map(|why| (journal.path(), why)));
    match elsewhere {
        Some((path, why)) => Error::refused(format_args!("undo {}: {why}", path.display())),
        None => Error::refused("undo a plan: none is in force"),
    }
}
