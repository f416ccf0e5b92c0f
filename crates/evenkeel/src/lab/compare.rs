//! `evenkeel lab compare`: one run against another, or two commits of a history.

use std::path::Path;
use std::process::ExitCode;

use lab::analyze::against::against;
use lab::history::commits;
use lab::report;

use super::ending::{SYSTEM_OR_SERVER, UNSEEN, USAGE, read};
use super::history;
use crate::failure::Failure;
use crate::terminal::output::print;

/// Exit statuses of `compare`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "They were compared, with any result."),
    (
        "20",
        "There is nothing to compare: a run has no trial yet, no run of a commit is kept, a name means several commits or \
         both names mean one, or the two have no cell in common.",
    ),
    USAGE,
    SYSTEM_OR_SERVER,
    ("1", "Anything else: a run's files or the history cannot be used."),
];

/// Compare a run with an earlier one of the same experiment, or two commits of a history
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of the earlier run; with --store a commit, or the beginning of its name
    #[arg(value_name = "OLD")]
    old: String,
    /// The directory of the later run; with --store a commit
    #[arg(value_name = "NEW")]
    new: String,
    /// Compare two commits of this history
    #[arg(long, value_name = "FILE")]
    store: Option<String>,
    /// Print JSON, with the value of every trial
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let text = match &arguments.store {
        Some(store) => of_commits(arguments, store)?,
        None => of_runs(arguments)?,
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn of_runs(arguments: &Arguments) -> Result<String, Failure> {
    let read = |run: &str| {
        let is_there = Path::new(run).exists();
        read(Path::new(run)).map_err(|failure| match is_there {
            true => failure,
            false => failure.hint("`--store FILE|URL` compares commits of a history"),
        })
    };
    let comparison = against(&read(&arguments.old)?, &read(&arguments.new)?);
    if comparison.metrics[0].standings.is_empty() {
        let hint = "two runs of one experiment have subjects and levels of the same names";
        let failure = Failure::other(anyhow::anyhow!("the two runs have no cell in common"));
        return Err(failure.with_status(UNSEEN).hint(hint));
    }
    Ok(match arguments.json {
        true => format!("{:#}\n", serde_json::json!(comparison)),
        false => report::against(&comparison),
    })
}

fn of_commits(arguments: &Arguments, store: &str) -> Result<String, Failure> {
    let series = history::open_kept(store)?.series().map_err(history::failed)?;
    let compared = commits::between(&series, &arguments.old, &arguments.new);
    let compared = compared.map_err(|error| {
        let failure = Failure::other(error).with_status(UNSEEN);
        failure.hint("`evenkeel lab history` shows what is kept, and `--add` keeps a run")
    })?;
    Ok(match arguments.json {
        true => format!("{:#}\n", serde_json::json!(compared)),
        false => compared.iter().map(report::commits).collect::<Vec<_>>().join("\n"),
    })
}
