//! `evenkeel tune`: its jobs, one module each.
//!
//! Clocks, files and terminals are here; what they mean is decided in `tuner`.

mod check;
mod explain;
mod look;
mod observe;
mod top;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

pub(crate) use check::STATUSES;

/// What can be done about a host.
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Find what holds this host back, with the evidence
    Check(check::Arguments),
    /// Say what a rule looks for, or list all rules
    Explain(explain::Arguments),
    /// Show where packets and interrupts are handled, live
    Top(top::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The words of `tune` on the command line.
pub(crate) fn command() -> Command {
    let about = Command::new("tune").about("Find what the host limits");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Does one of the jobs.
pub(crate) fn run(matches: &ArgMatches, columns: usize) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Job::Check(arguments) => check::run(&arguments, columns),
        Job::Explain(arguments) => explain::run(&arguments, columns),
        Job::Top(arguments) => top::run(&arguments),
    }
}
