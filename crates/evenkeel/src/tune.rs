//! `evenkeel tune`: its jobs, one module each.
//!
//! Arguments become requests to `tuning`, and their outcomes become text or JSON; `tuning` and `tuner` do the work and
//! decide what it means.

mod apply;
mod arguments;
mod check;
mod explain;
mod messages;
mod persist;
mod plan;
mod rollback;
mod status;
mod terminal;
mod top;
mod tournament;
mod verify;
mod watch;
mod watch_over;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;
use os::signals::survive_file_size_limit;

pub(crate) use check::STATUSES;
pub(crate) use terminal::paint;
pub(crate) use tournament::STATUSES as TOURNAMENT_STATUSES;
pub(crate) use verify::STATUSES as VERIFY_STATUSES;
pub(crate) use watch::STATUSES as WATCH_STATUSES;

/// Find what limits this host, fix it, prove it, undo it
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Find what limits this host, with the evidence
    Check(check::Arguments),
    /// Explain a rule, or list all rules
    Explain(explain::Arguments),
    /// Show where packets and interrupts are handled, live
    Top(top::Arguments),
    /// Show what would be changed, and why
    Plan(plan::Arguments),
    /// Carry out a plan, all of it or none
    Apply(apply::Arguments),
    /// Keep the last plan
    Confirm(rollback::ConfirmArguments),
    /// Undo the last plan
    #[command(
        after_help = "Ends with 18 if everything is restored that can be read, but a journal has lines that cannot: settings \
                      that they name may still be changed. Ends with 19 if everything is restored, but that could be \
                      recorded neither in the journal nor in /run: run it again then."
    )]
    Rollback(rollback::RollbackArguments),
    /// Keep a plan over a restart, by the system's own means, or remove it again
    Persist(persist::Arguments),
    /// Show what is in force and what persists, and what no longer holds
    #[command(
        after_help = "Ends with 13 if a value is no longer what it was set to, a file no longer as it was written, or a \
                      plan that nobody confirmed still in force in another network namespace. Ends with 18 if a journal \
                      cannot be read in full, or is of another version: more may be in force than is said."
    )]
    Status(status::Arguments),
    /// Check whether the plans in force have the expected effects
    Verify(verify::Arguments),
    /// Try strategies in turn under load, and find which one is better
    Tournament(tournament::Arguments),
    /// Detect settings that have drifted, report why, and repair them if requested
    Watch(watch::WatchArguments),
    /// Undo a plan that is not confirmed; started by `apply --confirm-within`
    #[command(hide = true)]
    WatchOver(watch_over::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The command line of `tune`.
pub(crate) fn command() -> Command {
    let about = Command::new("tune").about("Find what the host limits, change it, and go back");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Runs one of the jobs.
pub(crate) fn run(matches: &ArgMatches, columns: usize) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    survive_file_size_limit();
    match arguments.job {
        Job::Check(arguments) => check::run(&arguments, columns),
        Job::Explain(arguments) => explain::run(&arguments, columns),
        Job::Top(arguments) => top::run(&arguments),
        Job::Plan(arguments) => plan::run(&arguments),
        Job::Apply(arguments) => apply::run(&arguments),
        Job::Confirm(arguments) => rollback::confirm(&arguments),
        Job::Persist(arguments) => persist::run(&arguments),
        Job::Rollback(arguments) => rollback::rollback(&arguments),
        Job::Status(arguments) => status::run(&arguments),
        Job::Verify(arguments) => verify::run(&arguments, columns),
        Job::Tournament(arguments) => tournament::run(&arguments, columns),
        Job::Watch(arguments) => watch::run(&arguments),
        Job::WatchOver(arguments) => watch_over::run(&arguments),
    }
}
