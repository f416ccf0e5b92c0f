//! `evenkeel lab report`: results of a run's trials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::analyze::compare::compare;
use lab::analyze::comparison::Comparison;
use lab::report::{self, page};
use lab::run::results::Results;

use super::ending::{SYSTEM, USAGE, read};
use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Exit statuses of `report`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "It was reported, with any result."),
    ("20", "There is nothing to report: no trial has ended yet."),
    USAGE,
    SYSTEM,
    ("1", "Anything else: a file of the run is not what was written."),
];

/// Report what a run's trials have shown
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of the run
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print JSON, with the value of every trial, and write no page unless --html is given
    #[arg(long)]
    json: bool,
    /// Where to write the page [default: RUN/report.html; each picture goes to `pictures` next to it]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = read(&arguments.run)?;
    let comparison = compare(&results);
    if arguments.json {
        print(format!("{:#}\n", serde_json::json!(comparison)).as_bytes())?;
    } else {
        print(report::text(&comparison).as_bytes())?;
    }
    if !arguments.json || arguments.html.is_some() {
        let file = arguments.html.clone().unwrap_or_else(|| arguments.run.join("report.html"));
        write(&file, &results, &comparison)?;
        say(format_args!("with pictures: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page, and each picture to a file of its own.
fn write(file: &Path, results: &Results, comparison: &Comparison) -> Result<(), Failure> {
    let pictures = page::pictures(results, comparison);
    #[allow(
        clippy::disallowed_methods,
        reason = "the user has named the file, which may be a pipe or a terminal"
    )]
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| Failure::system(format!("write {}", path.display()), error))
    };
    let directory = file.with_file_name("pictures");
    fs::create_dir_all(&directory)
        .map_err(|error| Failure::system(format!("make {}", directory.display()), error))?;
    for picture in &pictures {
        write(&directory.join(format!("{}.svg", picture.name)), &picture.svg)?;
    }
    write(file, &page::page(results, comparison, &pictures))
}
