//! `evenkeel lab gate`: an exit status that stops a regression, for continuous integration.

use std::fmt::Display;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use lab::analyze::compare::compare;
use lab::history::gate::{Suspicion, suspicions};
use lab::history::{Entry, entries};
use lab::report;

use super::ending::{SYSTEM_OR_SERVER, UNSEEN, USAGE, read};
use super::history::{Store, add, failed};
use crate::failure::Failure;
use crate::terminal::output::tell;

/// Exit statuses of `gate`.
pub(crate) const STATUSES: [(&str, &str); 7] = [
    ("0", "Nothing became worse lately, as far as this number of runs can show, or no rerun confirmed it."),
    ("18", "Something became worse, and a rerun confirms it."),
    ("19", "Something seems to have become worse, and there was no rerun to confirm it."),
    (
        "20",
        "There is nothing to judge: no run is kept; RUN or the rerun is not finished, or has too few trials that count; \
         COMMIT is empty or has control characters, or RUN is in the history as another commit; or the rerun is in the \
         history already, or did not begin after the run that seems worse.",
    ),
    USAGE,
    SYSTEM_OR_SERVER,
    ("1", "Anything else: the rerun failed, or the history cannot be used."),
];

const REGRESSION: u8 = 18;
const SUSPECTED: u8 = 19;

/// Judge whether the newest runs are permanently worse, as an exit status
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// The directory of a run to keep first
    #[arg(value_name = "RUN", requires = "commit")]
    run: Option<PathBuf>,
    /// What the run measured, such as a commit
    #[arg(long, value_name = "COMMIT", requires = "run")]
    commit: Option<String>,
    /// If something seems worse: a command that repeats the experiment, into the directory {run}
    #[arg(long, value_name = "COMMAND", conflicts_with = "confirm_run")]
    confirm: Option<String>,
    /// The same, if it was repeated already: the directory of that run
    #[arg(long, value_name = "RUN")]
    confirm_run: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (mut history, added) = match arguments.run.as_ref().zip(arguments.commit.as_ref()) {
        Some((run, commit)) => {
            let mut history = arguments.store.open()?;
            let added = add(&mut history, run, commit)?;
            (history, Some(added))
        }
        None => (arguments.store.open_kept()?, None),
    };
    let mut series = history.series().map_err(failed)?;
    // Results of other experiments and machines do not concern this run.
    let added = added.map(|run| (run.machine().to_owned(), entries(&run, &compare(&run))));
    series.retain(|series| added.as_ref().is_none_or(|(machine, run)| series.is_of(machine, run)));
    if series.is_empty() {
        let nothing = anyhow::anyhow!("judge the history: no run is kept in it");
        return Err(Failure::other(nothing).with_status(UNSEEN));
    }
    let suspicions = suspicions(&series);
    if suspicions.is_empty() {
        tell(report::nothing_worse(&series).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let rerun = rerun(arguments, &suspicions)?;
    let answer = |suspicion: &Suspicion| {
        let (machine, rerun) = rerun.as_ref()?;
        suspicion.is_confirmed_by(machine, rerun)
    };
    let answers: Vec<Option<bool>> = suspicions.iter().map(answer).collect();
    for (suspicion, answer) in suspicions.iter().zip(&answers) {
        tell(report::suspicion(suspicion, *answer).as_bytes());
        match history.profiles(&suspicion.series) {
            Ok(profiles) => tell(report::grown_functions(suspicion, &profiles).as_bytes()),
            // The verdict and the status stay, without the functions.
            Err(error) => {
                let _ = failed(error).report(Some("lab"));
            }
        }
    }
    let status = if answers.contains(&Some(true)) {
        REGRESSION
    } else if answers.contains(&None) {
        SUSPECTED
    } else {
        0
    };
    Ok(ExitCode::from(status))
}

/// The machine of a rerun, and its results.
type Rerun = (String, Vec<Entry>);

/// Repeats the experiment, if the arguments tell how.
fn rerun(arguments: &Arguments, suspicions: &[Suspicion]) -> Result<Option<Rerun>, Failure> {
    let believed = |run: &Path| {
        let results = read(run)?;
        let refused = |error: &dyn Display, hint| {
            let failure = Failure::other(anyhow::anyhow!("believe the rerun {}: {error}", run.display()));
            failure.with_status(UNSEEN).hint(hint)
        };
        results.whole().map_err(|error| refused(&error, error.hint()))?;
        let (machine, shown) = (results.machine().to_owned(), entries(&results, &compare(&results)));
        let hint = "`evenkeel lab run FILE --out RUN` carries the experiment out once more";
        for suspicion in suspicions {
            let is_rerun = suspicion.is_rerun(&machine, &shown, results.began_unix_s());
            is_rerun.map_err(|error| refused(&error, hint))?;
        }
        Ok(Some((machine, shown)))
    };
    if let Some(run) = &arguments.confirm_run {
        return believed(run);
    }
    let Some(command) = &arguments.confirm else { return Ok(None) };
    let scratch = Scratch::new()?;
    let run = scratch.path.join("run");
    let line = command.replace("{run}", &run.display().to_string());
    let status = Command::new("sh").arg("-c").arg(&line).status();
    let status = status.map_err(|error| Failure::system("run sh", error))?;
    if !status.success() {
        return Err(Failure::other(anyhow::anyhow!(
            "carry the experiment out once more: `{line}` ended with {status}"
        )));
    }
    believed(&run)
        .map_err(|failure| failure.hint("the command of --confirm has to leave a run in the directory {run}"))
}

/// A new directory with an unpredictable name, removed with its contents.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let mut name = [0; 8];
        rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::system("draw a name", error))?;
        let name = format!("evenkeel-lab-rerun-{:016x}", u64::from_ne_bytes(name));
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::system(format!("create {}", path.display()), error))?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed, nothing more can be done.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
