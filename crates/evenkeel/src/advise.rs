//! `evenkeel advise`: capacity advice, and the catalogue of shapes that it reads.

mod ask;
mod clock;
mod costs;
mod import;
mod rate;
mod running;
mod server;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use crate::failure::Failure;

pub(crate) use ask::STATUSES;
pub(crate) use costs::STATUSES as COSTS_STATUSES;
pub(crate) use import::STATUSES as IMPORT_STATUSES;
pub(crate) use rate::STATUSES as RATE_STATUSES;

#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Make a catalogue of shapes from files of others that were fetched before
    Import(Box<import::Arguments>),
    /// Make a table of costs from runs of experiments/costs.toml
    Costs(costs::Arguments),
    /// Predict the rate at which one worker of a server on this host reaches the latency of a workload
    Rate(rate::Arguments),
}

#[derive(Clone, Debug, Args)]
struct AnswerOrJob {
    #[command(flatten)]
    ask: ask::Arguments,
    #[command(subcommand)]
    job: Option<Job>,
}

/// The command line of `advise`.
pub(crate) fn command() -> Command {
    let about =
        Command::new("advise").about("Which machines a workload needs, how many, what binds, what it costs");
    let command = AnswerOrJob::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true);
    command.args_conflicts_with_subcommands(true).subcommand_required(false)
}

/// Answers, or runs the job.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = AnswerOrJob::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    match arguments.job {
        Some(Job::Import(arguments)) => import::run(&arguments),
        Some(Job::Costs(arguments)) => costs::run(&arguments),
        Some(Job::Rate(arguments)) => rate::run(&arguments),
        None => ask::run(&arguments.ask),
    }
}
