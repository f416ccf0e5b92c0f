//! `evenkeel lab`: its jobs, one module each.
//!
//! Files, processes and terminals are here; the crate `lab` decides what records show.

mod compare;
mod ending;
mod gate;
mod history;
mod inside;
mod null;
mod report;
mod run;
mod weeks;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

pub(crate) use compare::STATUSES as COMPARE_STATUSES;
pub(crate) use gate::STATUSES as GATE_STATUSES;
pub(crate) use history::STATUSES as HISTORY_STATUSES;
pub(crate) use null::STATUSES as NULL_STATUSES;
pub(crate) use report::STATUSES as REPORT_STATUSES;
pub(crate) use run::RESTORE_STATUSES;
pub(crate) use run::STATUSES as RUN_STATUSES;
pub(crate) use weeks::STATUSES as WEEKS_STATUSES;

/// Compare servers, settings and versions by experiment
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Carry out an experiment, or continue it
    Run(run::Arguments),
    /// Report what a run's trials have shown
    Report(report::Arguments),
    /// Compare a run with an earlier one of the same experiment, or two commits of a history
    Compare(compare::Arguments),
    /// Show the results of runs over time, and keep another run
    History(history::Arguments),
    /// Judge whether the newest runs are permanently worse, as an exit status
    Gate(gate::Arguments),
    /// Show figures of a running service before and after its roll-outs, week over week
    Weeks(weeks::Arguments),
    /// Undo the changes of a run that was killed
    Restore(run::RestoreArguments),
    /// Serve without work, as the floor for servers and proxies
    Null(null::Arguments),
    /// Apply a strategy in a subject's virtual machine, and sample its CPUs; started there by `run`
    #[command(hide = true)]
    Inside(inside::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The command line of `lab`.
pub(crate) fn command() -> Command {
    let about = Command::new("lab").about("Experiments that survive noise: run, report, compare, history");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Runs one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Job::Report(arguments) => report::run(&arguments),
        Job::Compare(arguments) => compare::run(&arguments),
        Job::History(arguments) => history::run(&arguments),
        Job::Gate(arguments) => gate::run(&arguments),
        Job::Weeks(arguments) => weeks::run(&arguments),
        Job::Run(arguments) => run::run(&arguments),
        Job::Restore(arguments) => run::restore(&arguments),
        Job::Null(arguments) => null::run(&arguments),
        Job::Inside(arguments) => inside::run(arguments),
    }
}
