//! `evenkeel tune confirm` and `rollback`.

use std::process::ExitCode;

use tuner::Setting;
use tuner::apply::label::PlanLabel;
use tuner::apply::rollback::{LaterValues, StepOutcome};
use tuner::report::folded;
use tuning::{UndoWhich, Undoing, Undone};

use super::arguments::{Patience, Place};
use super::status::UNREAD;
use crate::failure::Failure;
use crate::terminal::output::tell;

/// The exit status of `rollback` if everything is restored, but could not be recorded in the journal.
const UNRECORDED: u8 = 19;

/// Arguments of `confirm`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConfirmArguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    patience: Patience,
    /// Only the plan that was applied with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<PlanLabel>,
}

/// Arguments of `rollback`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RollbackArguments {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    patience: Patience,
    /// All plans that are in force, not only the last one
    #[arg(long)]
    all: bool,
    /// The plan that was applied with this label, if later plans in force have other settings
    #[arg(long, value_name = "LABEL", conflicts_with = "all")]
    label: Option<PlanLabel>,
    /// Overwrite values that settings were given after the plan, by a person, a program or a driver; without it they stay
    #[arg(long)]
    force: bool,
}

/// Keeps the last plan.
pub(super) fn confirm(arguments: &ConfirmArguments) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    tuning::confirm(
        &place.root(),
        &place.state.request(),
        arguments.patience.wait,
        arguments.label.as_ref(),
    )?;
    tell(b"Confirmed: it stays until `evenkeel tune rollback` or a restart of the host.\n");
    Ok(ExitCode::SUCCESS)
}

/// Restores the old values.
pub(super) fn rollback(arguments: &RollbackArguments) -> Result<ExitCode, Failure> {
    let (place, wait) = (&arguments.place, arguments.patience.wait);
    let later = if arguments.force { LaterValues::Overwrite } else { LaterValues::Keep };
    let which = match (&arguments.label, arguments.all) {
        (Some(label), _) => UndoWhich::Labelled(label.clone()),
        (None, true) => UndoWhich::All,
        (None, false) => UndoWhich::Last,
    };
    let Undoing { plans: undone, doubts } =
        tuning::rollback(&place.root(), &place.state.request(), wait, &which, later)?;
    tell(undone.iter().map(report).collect::<String>().as_bytes());
    let failures: Vec<String> = undone.iter().flat_map(|undone| undone.failures.clone()).collect();
    if !failures.is_empty() {
        let error = anyhow::anyhow!("undo everything: {}", folded(&failures).join("; "));
        return Err(Failure::other(error).hint("remove the cause, and run it again"));
    }
    let unrecorded: Vec<String> = undone.into_iter().filter_map(|undone| undone.unrecorded).collect();
    if !unrecorded.is_empty() {
        let error = anyhow::anyhow!("record that everything is as it was before: {}", unrecorded.join("; "));
        let hint = "until it is recorded, the plan counts as in force, and `evenkeel tune watch --repair auto` would set it \
                    again: end that, remove the cause, and run this again";
        return Err(Failure::other(error).with_status(UNRECORDED).hint(hint));
    }
    if !doubts.is_empty() {
        let error = anyhow::anyhow!("undo everything: not everything can be read, as said above");
        return Err(Failure::other(error).with_status(UNREAD));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(undone: &Undone) -> String {
    let line = |(setting, outcome): &(Setting, StepOutcome)| match outcome {
        StepOutcome::AsBefore => format!("  {setting}: has its old value already"),
        StepOutcome::Restored => format!("  {setting}: restored"),
        StepOutcome::RestoredOver(found) => {
            format!(
                "  {setting}: restored to its value before the plan; it was changed to {found} after the plan"
            )
        }
        StepOutcome::KeptLater { found, before } => {
            format!(
                "  {setting}: kept at {found}, to which it was changed after the plan; before the plan it was {before}"
            )
        }
        StepOutcome::Vanished => format!("  {setting}: is not there any more"),
        StepOutcome::Failed(why) => format!("  {setting}: NOT restored: {why}"),
    };
    let mut lines: Vec<String> = undone.steps.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("  nothing was left to be undone".to_owned());
    }
    lines = folded(&lines);
    lines.extend(undone.spare.as_ref().map(|spare| {
        format!("  its journal cannot be written now, so that is recorded in {}", spare.display())
    }));
    format!("{}:\n{}\n", undone.journal.display(), lines.join("\n"))
}
