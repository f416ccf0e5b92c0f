//! `evenkeel tune status`: plans in force and files that persist, and whether both still hold.

mod json;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use tuner::persist::store::{self, FileState};
use tuner::report::folded;
use tuning::status::{Overdue, PlanPhase, PlanStatus, SettingState, SettingStatus, TuneStatus, status};

use super::arguments::Place;
use crate::failure::Failure;
use crate::process::parent;
use crate::terminal::output::print;

/// The exit status of `status` if a value is no longer what it was set to.
pub(super) const DRIFTED: u8 = 13;

/// What `status`, `verify` and `rollback` end with when a journal cannot be read in full, so that more may be changed than
/// they know.
pub(super) const UNREAD: u8 = 18;

/// Show what is in force and what persists, and what no longer holds
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    parent::follow()?;
    let place = &arguments.place;
    let status = status(&place.root(), &place.state.request())?;
    let text = match arguments.json {
        true => format!("{:#}\n", json::status(&status)),
        false => text(&status, &place.state.path),
    };
    print(text.as_bytes())?;
    Ok(match status.is_whole() {
        _ if !status.doubts.is_empty() => ExitCode::from(UNREAD),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DRIFTED),
    })
}

fn text(status: &TuneStatus, state: &Path) -> String {
    let mut text = String::new();
    match (status.plans.is_empty(), status.doubts.is_empty()) {
        (true, true) => text += "Nothing is in force.\n",
        (true, false) => text += "Nothing that can be read is in force.\n",
        (false, _) => {}
    }
    for plan in &status.plans {
        let label = plan.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
        let _ = writeln!(text, "{}{label}: {}", plan.journal.display(), phase(plan));
        if plan.is_as_before() {
            text += "  Everything reads as before the plan; if it was undone, `evenkeel tune rollback` records that.\n";
        }
        let lines: Vec<String> = plan.settings.iter().map(value).collect();
        text.extend(folded(&lines).iter().map(|line| format!("{line}\n")));
    }
    text.extend(status.doubts.iter().map(|doubt| format!("UNREAD: {doubt}\n")));
    let overdue: Vec<String> = status.overdue.iter().map(|plan| overdue(plan, state)).collect();
    text.extend(folded(&overdue).iter().map(|line| format!("{line}\n")));
    match &status.persists {
        Ok(status) => text += &persists(status),
        Err(error) => {
            let _ = writeln!(text, "What persists is unknown: failed to {}.", error.with_causes());
        }
    }
    text
}

fn phase(plan: &PlanStatus) -> String {
    match &plan.phase {
        PlanPhase::AtWork(holder) => format!("not finished; at work is {holder}"),
        PlanPhase::Interrupted => "interrupted; `evenkeel tune rollback` undoes it".to_owned(),
        PlanPhase::Waiting { left_s } => {
            format!("in force, undone in {left_s} s unless `evenkeel tune confirm` comes")
        }
        PlanPhase::InForce => "in force".to_owned(),
        PlanPhase::Undone => "undone".to_owned(),
    }
}

fn value(value: &SettingStatus) -> String {
    let found = match &value.found {
        SettingState::Holds { came_to: None } => "holds".to_owned(),
        SettingState::Holds { came_to: Some(cpus) } => format!(
            "holds; CPUs {cpus} handled it the last time, and it moves when it occurs again (`watch` checks that)"
        ),
        SettingState::Drifted { reads, .. } => format!("DRIFTED: it reads {reads:?}"),
        SettingState::Unreadable(error) => format!("DRIFTED: it cannot be read: {error}"),
    };
    format!("  {} = {}: {found}", value.setting, value.wanted)
}

/// A plan that should have been undone by now, in another network namespace.
fn overdue(plan: &Overdue, state: &Path) -> String {
    let verb = format!("evenkeel tune status --state {}", state.display());
    let remedy = match &plan.way {
        Some(way) => format!("`{way} {verb}` undoes it there"),
        None => "no process is found in it; if it is gone, its interfaces are gone, too: restore by hand what else the journal \
                 names, and remove the journal"
            .to_owned(),
    };
    format!(
        "{}: OVERDUE in the network namespace {}: nobody has confirmed it; {remedy}",
        plan.journal.display(),
        plan.network
    )
}

fn persists(status: &store::Status) -> String {
    if status.files.is_empty() {
        return "Nothing persists.\n".to_owned();
    }
    let mut text = "Persists:\n".to_owned();
    if status.interrupted {
        text += "  INTERRUPTED while it was written; `evenkeel tune persist`, with or without --remove, puts it right\n";
    }
    for (file, condition) in &status.files {
        let condition = match condition {
            FileState::AsWritten => "as it was written",
            FileState::Edited => "EDITED since it was written",
            FileState::Missing => "MISSING",
        };
        let _ = writeln!(text, "  {}: {condition}", file.path);
    }
    text
}
