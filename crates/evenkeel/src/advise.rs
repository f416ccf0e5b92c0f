//! `evenkeel advise`: capacity advice, and the catalogue of shapes that it reads.

mod import;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

pub(crate) use import::STATUSES as IMPORT_STATUSES;

#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Make a catalogue of shapes from files of others that were fetched before
    Import(import::Arguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

/// The command line of `advise`.
pub(crate) fn command() -> Command {
    let about = Command::new("advise").about("Capacity advice: shapes of hosts");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Runs one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Job::Import(arguments) => import::run(&arguments),
    }
}
