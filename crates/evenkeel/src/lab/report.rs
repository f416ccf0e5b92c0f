//! `evenkeel lab report`: what a run's trials have shown.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::compare::compare;
use lab::report;
use lab::results::Results;

use crate::failure::Failure;
use crate::verbs::print;

/// Say what a run's trials have shown
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of the run
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print JSON, with the value of every trial
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::read(&arguments.run).map_err(Failure::other)?;
    let comparison = compare(&results);
    match arguments.json {
        true => print(format!("{:#}\n", serde_json::json!(comparison)).as_bytes())?,
        false => print(report::text(&comparison).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
