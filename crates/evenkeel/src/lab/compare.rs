//! `evenkeel lab compare`: one run against another.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::against::against;
use lab::report;
use lab::results::Results;

use crate::failure::Failure;
use crate::verbs::print;

/// Compare a run with an earlier one of the same experiment
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of the earlier run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The directory of the later run
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print JSON, with the value of every trial
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let old = Results::read(&arguments.old).map_err(Failure::other)?;
    let new = Results::read(&arguments.new).map_err(Failure::other)?;
    let comparison = against(&old, &new);
    if comparison.metrics[0].standings.is_empty() {
        let hint = "two runs of one experiment have subjects and levels of the same names";
        return Err(Failure::usage("the two runs have no cell in common", None).hint(hint));
    }
    let text = match arguments.json {
        true => format!("{:#}\n", serde_json::json!(comparison)),
        false => report::against(&comparison),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
