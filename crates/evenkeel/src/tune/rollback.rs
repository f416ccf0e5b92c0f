//! `evenkeel tune confirm`, `rollback` and `status`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use tuner::apply::host::{FileHost, Host};
use tuner::apply::journal::{self, Holder, Journal, Place, Record, State};
use tuner::apply::rollback::{Elsewhere, NOT_CONFIRMED, Outcome, RolledBack, check_place, undo_all};
use tuner::report::folded;
use os::CpuSet;
use tuner::Root;

use super::state::{Patience, StateDirectory, kept_aside, milliseconds_since_boot};
use super::{elsewhere, persist};
use crate::failure::Failure;
use crate::output::{print, tell};
use os::signals::Signals;

/// What `status` ends with when a value is no longer what it was set to.
pub(super) const DRIFTED: u8 = 13;

/// What `rollback` ends with when everything is restored, and the journal could not take it.
const UNRECORDED: u8 = 19;

/// Where the journals are, and of which host.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) state: StateDirectory,
    /// The directory with the host's /proc and /sys
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) root: PathBuf,
}

/// Which plan to confirm.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConfirmArguments {
    #[command(flatten)]
    place: Arguments,
    #[command(flatten)]
    patience: Patience,
}

/// Which plans to undo.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RollbackArguments {
    #[command(flatten)]
    place: Arguments,
    #[command(flatten)]
    patience: Patience,
    /// All plans that are in force, not only the last one
    #[arg(long)]
    all: bool,
}

/// The last plan stays.
pub(super) fn confirm(arguments: &ConfirmArguments) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    let root = Root::new(&place.root);
    let state = place.state.enter(&root, arguments.patience.wait)?;
    let all = state.journals.all().map_err(Failure::other)?;
    let late = all.last().filter(|journal| journal.undone_because() == Some(NOT_CONFIRMED)).map(|journal| {
        let path = journal.path().display();
        anyhow::anyhow!(
            "confirm a plan: it is too late, the last one was undone when its time was over ({path})"
        )
    });
    let late = late.or_else(|| waits_elsewhere(&all, &state.here));
    let Some(mut journal) = in_force((all, state.here.clone())).into_iter().find(is_waiting) else {
        let none = || anyhow::anyhow!("confirm a plan: none is waiting for it");
        return Err(
            Failure::other(late.unwrap_or_else(none)).hint("`evenkeel tune status` shows what is in force")
        );
    };
    journal.append(Record::Confirmed).map_err(Failure::other)?;
    drop(state);
    tell(b"Confirmed: it stays until `evenkeel tune rollback` or a restart of the host.\n");
    Ok(ExitCode::SUCCESS)
}

fn is_waiting(journal: &Journal) -> bool {
    journal.state() == State::Applied && journal.confirm_by_ms().is_some()
}

/// Why a plan that waits in another network namespace cannot be confirmed in this one.
fn waits_elsewhere(all: &[Journal], here: &Place) -> Option<anyhow::Error> {
    let refused = |journal: &Journal| match check_place(journal, here) {
        Err(why @ Elsewhere::Network(_)) => {
            Some(anyhow::anyhow!("confirm {}: {why}", journal.path().display()))
        }
        _ => None,
    };
    all.iter().rev().filter(|journal| is_waiting(journal)).find_map(refused)
}

/// The old values again.
pub(super) fn rollback(arguments: &RollbackArguments) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    let root = Root::new(&place.root);
    // The way back may take the terminal's connection with it: what has begun is finished. Who only waits can be told to
    // end.
    let _signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let state = place.state.enter(&root, arguments.patience.wait)?;
    let all = state.journals.all().map_err(Failure::other)?;
    let nothing = nothing_to_undo(&all, &state.here);
    let mut found = in_force((all, state.here.clone()));
    if found.is_empty() {
        return Err(nothing);
    }
    found.truncate(if arguments.all { found.len() } else { 1 });
    let (mut failures, mut unrecorded, mut said) = (Vec::new(), Vec::new(), String::new());
    undo_all(&mut FileHost::new(root), &mut found, "asked", |journal, undone| {
        said += &report(journal, undone);
        failures.extend(undone.failures());
        unrecorded.extend(undone.unrecorded.as_ref().map(journal::Error::with_causes));
    });
    // Only now: a reader that takes nothing holds up no way back, nor anybody else's.
    drop(state);
    tell(said.as_bytes());
    if !failures.is_empty() {
        let error = anyhow::anyhow!("undo everything: {}", folded(&failures).join("; "));
        return Err(Failure::other(error).hint("mend what is in the way, and run it again"));
    }
    if !unrecorded.is_empty() {
        let error = anyhow::anyhow!("record that everything is as it was before: {}", unrecorded.join("; "));
        let hint = "until it is recorded the plan passes for one in force, and `evenkeel tune watch --repair auto` would set \
                    it again: end that, mend what is in the way, and run this again";
        return Err(Failure::other(error).with_status(UNRECORDED).hint(hint));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is in force and what persists, and whether both still hold.
pub(super) fn status(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let root = Root::new(&arguments.root);
    let (all, here) = arguments.state.look(&root)?;
    let overdue = elsewhere::overdue(&all, &here, &root, &arguments.state.path);
    let found = in_force((all, here));
    let holder = arguments.state.journals().holder();
    // A manifest that is damaged hides no plan.
    let (persists, is_whole) = persist::status(&root)
        .unwrap_or_else(|failure| (format!("What persists cannot be told: failed to {failure}.\n"), false));
    let host = FileHost::new(root);
    let mut seen = BTreeSet::new();
    let (mut text, mut drifted) = (String::new(), 0);
    if found.is_empty() {
        text += "Nothing is in force.\n";
    }
    for journal in &found {
        text += &format!("{}: {}\n", journal.path().display(), state(journal, holder.as_ref()));
        let (mut lines, mut as_before) = (Vec::new(), 0);
        for step in journal.steps().iter().filter(|step| !step.left && !step.undone) {
            // A later plan has set it since.
            if !seen.insert(step.setting.clone()) {
                continue;
            }
            let wanted = step.wanted.trim();
            let found = match host.read(&step.setting) {
                Ok(found) if step.setting.same(&found, wanted) => {
                    format!("holds{}", comes_to(&host, &step.setting, wanted))
                }
                Ok(found) => {
                    as_before += usize::from(step.setting.same(&found, &step.before));
                    format!("DRIFTED: it reads {:?}", found.trim())
                }
                Err(error) => format!("DRIFTED: it cannot be read: {error}"),
            };
            drifted += u32::from(!found.starts_with("holds"));
            lines.push(format!("  {} = {wanted}: {found}", step.setting));
        }
        // What a rollback could not record looks like this, and so does a device that was reset.
        if !lines.is_empty() && as_before == lines.len() {
            text += "  Everything reads as before the plan; if it was undone, `evenkeel tune rollback` records that.\n";
        }
        text.extend(folded(&lines).iter().map(|line| format!("{line}\n")));
    }
    text.extend(folded(&overdue).iter().map(|line| format!("{line}\n")));
    text += &persists;
    print(text.as_bytes())?;
    Ok(if drifted == 0 && is_whole && overdue.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DRIFTED)
    })
}

/// Where an interrupt came the last time, if it has to move yet. Whether it does, a single look cannot tell.
fn comes_to(host: &FileHost, setting: &tuner::Setting, wanted: &str) -> String {
    let taken = setting.irq().and_then(|irq| host.interrupt(irq).ok());
    match (taken, CpuSet::parse_mask(wanted)) {
        (Some((_, cpus)), Ok(wanted)) if !cpus.without(&wanted).is_empty() => {
            format!(
                "; it came to CPUs {cpus} the last time, and moves when it comes again (`watch` sees whether it does)"
            )
        }
        _ => String::new(),
    }
}

pub(super) fn here(arguments: &Arguments) -> Result<Place, Failure> {
    Place::of(&Root::new(&arguments.root)).map_err(Failure::other)
}

/// The journals that are not undone and belong to this place, the newest first.
pub(super) fn in_force((all, here): (Vec<Journal>, Place)) -> Vec<Journal> {
    let is_in_force =
        |journal: &Journal| journal.state() != State::RolledBack && check_place(journal, &here).is_ok();
    all.into_iter().rev().filter(is_in_force).collect()
}

fn nothing_to_undo(all: &[Journal], here: &Place) -> Failure {
    let elsewhere = all
        .iter()
        .rev()
        .filter(|journal| journal.state() != State::RolledBack)
        .find_map(|journal| check_place(journal, here).err().map(|why| (journal.path(), why)));
    Failure::other(match elsewhere {
        Some((path, why)) => anyhow::anyhow!("undo {}: {why}", path.display()),
        None => anyhow::anyhow!("undo a plan: none is in force"),
    })
}

fn state(journal: &Journal, holder: Option<&Holder>) -> String {
    match (journal.state(), journal.confirm_by_ms(), holder) {
        (State::Unfinished, _, Some(holder)) => format!("not finished; at work is {holder}"),
        (State::Unfinished, _, None) => "interrupted; `evenkeel tune rollback` undoes it".to_owned(),
        (State::Applied, Some(end), _) => {
            let left = end.saturating_sub(milliseconds_since_boot()) / 1000;
            format!("in force, undone in {left} s unless `evenkeel tune confirm` comes")
        }
        (State::Applied | State::Confirmed, ..) => "in force".to_owned(),
        (State::RolledBack, ..) => "undone".to_owned(),
    }
}

fn report(journal: &Journal, undone: &RolledBack) -> String {
    let line = |(setting, outcome): &(tuner::Setting, Outcome)| match outcome {
        Outcome::AsBefore => format!("  {setting}: has its old value already"),
        Outcome::Restored => format!("  {setting}: restored"),
        Outcome::RestoredOver(found) => {
            format!("  {setting}: restored; somebody else had set it to {found:?}")
        }
        Outcome::Vanished => format!("  {setting}: is not there any more"),
        Outcome::Failed(why) => format!("  {setting}: NOT restored: {why}"),
    };
    let mut lines: Vec<String> = undone.steps.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("  nothing was left to be undone".to_owned());
    }
    lines = folded(&lines);
    lines.extend(kept_aside(journal).map(|aside| format!("  {aside}")));
    format!("{}:\n{}\n", journal.path().display(), lines.join("\n"))
}
