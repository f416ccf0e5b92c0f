//! `evenkeel lab history`: results of runs over time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::analyze::compare::compare;
use lab::history::{Added, History};
use lab::report;
use lab::report::series_json::HistoryReport;
use lab::run::results::Results;

use super::ending::{SYSTEM_OR_SERVER, UNSEEN, USAGE, read};
use crate::failure::{Failure, say};
use crate::terminal::output::{print, tell};

/// Exit statuses of `history`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "It was shown, and with --add the run is kept."),
    (
        "20",
        "The run cannot be kept: it is not finished, too few trials of a cell count, COMMIT is empty or has control \
         characters, or the run is in the history as another commit. Nothing of it is kept.",
    ),
    USAGE,
    SYSTEM_OR_SERVER,
    ("1", "Anything else: the history cannot be used."),
];

/// The history's place.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Store {
    /// The file of the history; it is created if it does not exist
    #[arg(long, value_name = "FILE", default_value = "lab.sqlite")]
    store: String,
}

impl Store {
    pub(super) fn open(&self) -> Result<History, Failure> {
        History::open(&self.store).map_err(failed)
    }

    /// The same, but a file must exist.
    pub(super) fn open_kept(&self) -> Result<History, Failure> {
        open_kept(&self.store)
    }
}

/// Opens the history of that name. A file must exist.
pub(super) fn open_kept(store: &str) -> Result<History, Failure> {
    History::open_kept(store).map_err(failed)
}

/// Show the results of runs over time, and keep another run
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// The directory of a run to keep first
    #[arg(long, value_name = "RUN", requires = "commit")]
    add: Option<PathBuf>,
    /// What the run measured, such as a commit
    #[arg(long, value_name = "COMMIT", requires = "add")]
    commit: Option<String>,
    /// Also write a page with a picture of each series, and where it changed permanently
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut history = arguments.store.open()?;
    let added = arguments.add.as_ref().zip(arguments.commit.as_ref());
    if let Some((run, commit)) = added {
        add(&mut history, run, commit)?;
    }
    let series = history.series().map_err(failed)?;
    if let Some(file) = &arguments.html {
        #[allow(
            clippy::disallowed_methods,
            reason = "the user has named the file, which may be a pipe or a terminal"
        )]
        std::fs::write(file, report::trend::page(&series))
            .map_err(|error| Failure::system(format!("write {}", file.display()), error))?;
    }
    let text = match arguments.json {
        true => HistoryReport::of(&series).text(),
        false => report::history(&series),
    };
    match added {
        Some(_) => tell(text.as_bytes()),
        None => print(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Keeps a run.
pub(super) fn add(history: &mut History, run: &Path, commit: &str) -> Result<Results, Failure> {
    let results = read(run)?;
    match history.add(&results, &compare(&results), commit).map_err(failed)? {
        Added::New => {}
        Added::Defined => say(format_args!(
            "{} was kept by an earlier version; what defines its trials is kept now, too",
            run.display()
        )),
        Added::Known => say(format_args!("{} is in the history already", run.display())),
    }
    Ok(results)
}

/// The failure, with a hint.
pub(super) fn failed(error: lab::history::Error) -> Failure {
    use lab::history::Error;
    // Errors of the run and its commit, not of the history.
    let is_refused = matches!(error, Error::Unfit(_) | Error::Commit(_) | Error::Kept(_));
    let (hint, failure) = (error.hint(), Failure::other(error));
    let failure = if is_refused { failure.with_status(UNSEEN) } else { failure };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
