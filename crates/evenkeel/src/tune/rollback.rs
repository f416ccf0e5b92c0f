//! `evenkeel tune confirm`, `rollback` and `status`, and the process that undoes what nobody confirms.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tuner::host::{FileHost, Host};
use tuner::journal::{Journal, Journals, Place, State};
use tuner::rollback::{Outcome, RolledBack, check_place, undo};
use tuner::{CpuSet, Root};

use super::apply::{StateDirectory, milliseconds_since_boot};
use super::observe::pause;
use super::persist;
use crate::failure::Failure;
use crate::verbs::print;

/// What `status` ends with when a value is no longer what it was set to.
pub(super) const DRIFTED: u8 = 13;

/// How long the watching process sleeps at most: it notices a confirmation that late, which nobody waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the journals are, and of which host.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) state: StateDirectory,
    /// The directory with the host's /proc and /sys
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) root: PathBuf,
}

/// Which plans to undo.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RollbackArguments {
    #[command(flatten)]
    place: Arguments,
    /// All plans that are in force, not only the last one
    #[arg(long)]
    all: bool,
}

/// What to watch over.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WatchArguments {
    #[command(flatten)]
    place: Arguments,
    /// The journal
    journal: PathBuf,
}

/// The last plan stays.
pub(super) fn confirm(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let journals = Journals::new(&arguments.state.path);
    let _lock = journals.lock(true).map_err(Failure::other)?;
    let waiting = |journal: &Journal| journal.state() == State::Applied && journal.confirm_by_ms().is_some();
    let Some(mut journal) = in_force(&journals, &here(arguments)?)?.into_iter().find(waiting) else {
        return Err(Failure::other(anyhow::anyhow!("confirm a plan: none is waiting for it"))
            .hint("`evenkeel tune status` shows what is in force"));
    };
    journal.append(tuner::journal::Record::Confirmed).map_err(Failure::other)?;
    print(b"Confirmed: it stays until `evenkeel tune rollback` or a restart of the host.\n")?;
    Ok(ExitCode::SUCCESS)
}

/// The old values again.
pub(super) fn rollback(arguments: &RollbackArguments) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    let journals = Journals::new(&place.state.path);
    let _lock = journals.lock(true).map_err(Failure::other)?;
    let here = here(place)?;
    let mut found = in_force(&journals, &here)?;
    if found.is_empty() {
        return Err(nothing_to_undo(&journals, &here)?);
    }
    found.truncate(if arguments.all { found.len() } else { 1 });
    let mut host = FileHost::new(Root::new(&place.root));
    let mut failures = Vec::new();
    for mut journal in found {
        let undone = undo(&mut host, &mut journal, "asked").map_err(Failure::other)?;
        print(report(&journal, &undone).as_bytes())?;
        failures.extend(undone.failures());
    }
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let error = anyhow::anyhow!("undo everything: {}", failures.join("; "));
    Err(Failure::other(error).hint("mend what is in the way, and run it again"))
}

/// What is in force and what persists, and whether both still hold.
pub(super) fn status(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let found = in_force(&Journals::new(&arguments.state.path), &here(arguments)?)?;
    let root = Root::new(&arguments.root);
    let (persists, is_whole) = persist::status(&root)?;
    let host = FileHost::new(root);
    let mut seen = BTreeSet::new();
    let (mut text, mut drifted) = (String::new(), 0);
    if found.is_empty() {
        text += "Nothing is in force.\n";
    }
    for journal in &found {
        text += &format!("{}: {}\n", journal.path().display(), state(journal));
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
                Ok(found) => format!("DRIFTED: it reads {:?}", found.trim()),
                Err(error) => format!("DRIFTED: it cannot be read: {error}"),
            };
            drifted += u32::from(!found.starts_with("holds"));
            text += &format!("  {} = {wanted}: {found}\n", step.setting);
        }
    }
    text += &persists;
    print(text.as_bytes())?;
    Ok(if drifted == 0 && is_whole { ExitCode::SUCCESS } else { ExitCode::from(DRIFTED) })
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

/// Waits until a plan is confirmed or undone; undoes it when its time is over. Knows nothing but the journal.
pub(super) fn watch_over(arguments: &WatchArguments) -> Result<ExitCode, Failure> {
    // Whoever started this may go, and the terminal with them. It leads no group, so this cannot fail.
    let _ = rustix::process::setsid();
    let place = &arguments.place;
    let open = || Journal::open(&arguments.journal).map_err(Failure::other);
    loop {
        let Some(journal) = open()? else { return Ok(ExitCode::SUCCESS) };
        let (Some(end), State::Applied | State::Unfinished) = (journal.confirm_by_ms(), journal.state())
        else {
            return Ok(ExitCode::SUCCESS);
        };
        let left = Duration::from_millis(end.saturating_sub(milliseconds_since_boot()));
        if left.is_zero() {
            break;
        }
        pause(left.min(LOOK_EVERY));
    }
    let _lock = Journals::new(&place.state.path).lock(true).map_err(Failure::other)?;
    // Under the lock nobody confirms it any more: look again.
    let Some(mut journal) = open()? else { return Ok(ExitCode::SUCCESS) };
    if journal.state() != State::Confirmed && check_place(&journal, &here(place)?).is_ok() {
        let mut host = FileHost::new(Root::new(&place.root));
        undo(&mut host, &mut journal, "not confirmed in time").map_err(Failure::other)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn here(arguments: &Arguments) -> Result<Place, Failure> {
    Place::of(&Root::new(&arguments.root)).map_err(Failure::other)
}

/// The journals that are not undone and belong to this place, the newest first.
pub(super) fn in_force(journals: &Journals, here: &Place) -> Result<Vec<Journal>, Failure> {
    let all = journals.all().map_err(Failure::other)?.into_iter().rev();
    Ok(all
        .filter(|journal| journal.state() != State::RolledBack && check_place(journal, here).is_ok())
        .collect())
}

fn nothing_to_undo(journals: &Journals, here: &Place) -> Result<Failure, Failure> {
    let all = journals.all().map_err(Failure::other)?;
    let elsewhere = all
        .iter()
        .rev()
        .filter(|journal| journal.state() != State::RolledBack)
        .find_map(|journal| check_place(journal, here).err().map(|why| (journal.path(), why)));
    Ok(Failure::other(match elsewhere {
        Some((path, why)) => anyhow::anyhow!("undo {}: {why}", path.display()),
        None => anyhow::anyhow!("undo a plan: none is in force"),
    }))
}

fn state(journal: &Journal) -> String {
    match (journal.state(), journal.confirm_by_ms()) {
        (State::Unfinished, _) => "interrupted; `evenkeel tune rollback` undoes it".to_owned(),
        (State::Applied, Some(end)) => {
            let left = end.saturating_sub(milliseconds_since_boot()) / 1000;
            format!("in force, undone in {left} s unless `evenkeel tune confirm` comes")
        }
        (State::Applied | State::Confirmed, _) => "in force".to_owned(),
        (State::RolledBack, _) => "undone".to_owned(),
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
    let mut lines: Vec<String> = undone.0.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("  nothing was left to be undone".to_owned());
    }
    format!("{}:\n{}\n", journal.path().display(), lines.join("\n"))
}
