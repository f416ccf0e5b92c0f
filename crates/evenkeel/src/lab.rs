//! `evenkeel lab`: its jobs, one module each.
//!
//! Files, processes and terminals are here; what records say is decided in `lab`.

mod report;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

/// What can be done with experiments.
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Say what a run's trials have shown
    Report(report::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The words of `lab` on the command line.
pub(crate) fn command() -> Command {
    let about = Command::new("lab").about("Experiments that survive noise: compare, report");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Does one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Job::Report(arguments) => report::run(&arguments),
    }
}
