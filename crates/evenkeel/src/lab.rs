//! `evenkeel lab`: its jobs, one module each.
//!
//! Files, processes and terminals are here; what records say is decided in `lab`.

mod compare;
mod ending;
mod gate;
mod history;
mod inside;
mod report;
mod run;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

pub(crate) use compare::STATUSES as COMPARE_STATUSES;
pub(crate) use gate::STATUSES as GATE_STATUSES;
pub(crate) use history::STATUSES as HISTORY_STATUSES;
pub(crate) use report::STATUSES as REPORT_STATUSES;
pub(crate) use run::RESTORE_STATUSES;
pub(crate) use run::STATUSES as RUN_STATUSES;

/// Compare servers, settings and versions by experiment
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Carry out an experiment, or go on with it
    Run(run::Arguments),
    /// Say what a run's trials have shown
    Report(report::Arguments),
    /// Compare a run with an earlier one of the same experiment, or two commits of a history
    Compare(compare::Arguments),
    /// Show what runs have shown over time, and keep another one
    History(history::Arguments),
    /// Say whether the newest runs are worse for good, as an exit status
    Gate(gate::Arguments),
    /// Put back what a run that was killed has left
    Restore(run::RestoreArguments),
    /// Lay out the work of a subject's virtual machine, and say what its CPUs do; started in there by `run`
    #[command(hide = true)]
    Inside(inside::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The words of `lab` on the command line.
pub(crate) fn command() -> Command {
    let about = Command::new("lab").about("Experiments that survive noise: run, report, compare, history");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Does one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Job::Report(arguments) => report::run(&arguments),
        Job::Compare(arguments) => compare::run(&arguments),
        Job::History(arguments) => history::run(&arguments),
        Job::Gate(arguments) => gate::run(&arguments),
        Job::Run(arguments) => run::run(&arguments),
        Job::Restore(arguments) => run::restore(&arguments),
        Job::Inside(arguments) => inside::run(arguments),
    }
}
