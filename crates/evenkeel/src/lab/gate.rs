//! `evenkeel lab gate`: an exit status for those who must not let a regression pass.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use lab::compare::{Comparison, compare};
use lab::gate::{Suspicion, suspicions};
use lab::report;
use lab::results::Results;

use super::history::{Store, add, failed};
use crate::failure::Failure;
use crate::verbs::print;

/// What `gate` ends with.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "Nothing became worse lately, or a rerun did not confirm it."),
    ("18", "Something became worse, and a rerun confirms it."),
    ("19", "Something seems to have become worse, and no rerun was there to confirm it."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written, a server not reached."),
    ("1", "Anything else: the rerun failed, or the history cannot be used."),
];

const REGRESSION: u8 = 18;
const SUSPECTED: u8 = 19;

/// Say whether the newest runs are worse for good, as an exit status
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    store: Store,
    /// The directory of a run to keep first
    #[arg(value_name = "RUN", requires = "commit")]
    run: Option<PathBuf>,
    /// What was measured by it, such as a commit
    #[arg(long, value_name = "COMMIT", requires = "run")]
    commit: Option<String>,
    /// If something seems worse: a command that carries the experiment out once more, to the directory {run}
    #[arg(long, value_name = "COMMAND", conflicts_with = "confirm_run")]
    confirm: Option<String>,
    /// The same, if it was carried out once more already: its directory
    #[arg(long, value_name = "RUN")]
    confirm_run: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut history = arguments.store.open()?;
    if let Some((run, commit)) = arguments.run.as_ref().zip(arguments.commit.as_ref()) {
        add(&mut history, run, commit)?;
    }
    let suspicions = suspicions(&history.series().map_err(failed)?);
    if suspicions.is_empty() {
        print(b"Nothing became worse lately.\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let rerun = rerun(arguments)?;
    let answers: Vec<Option<bool>> = suspicions.iter().map(|it| confirmation(it, rerun.as_ref())).collect();
    for (suspicion, answer) in suspicions.iter().zip(&answers) {
        print(report::suspicion(suspicion, *answer).as_bytes())?;
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

fn confirmation(suspicion: &Suspicion, rerun: Option<&Comparison>) -> Option<bool> {
    suspicion.is_confirmed_by(rerun?)
}

/// Carries the experiment out once more, if it is said how.
fn rerun(arguments: &Arguments) -> Result<Option<Comparison>, Failure> {
    let read = |run: &Path| Results::read(run).map(|it| Some(compare(&it))).map_err(Failure::other);
    if let Some(run) = &arguments.confirm_run {
        return read(run);
    }
    let Some(command) = &arguments.confirm else { return Ok(None) };
    let run = std::env::temp_dir().join(format!("evenkeel-lab-rerun-{}", std::process::id()));
    let line = command.replace("{run}", &run.display().to_string());
    let status = Command::new("sh").arg("-c").arg(&line).status();
    let status = status.map_err(|error| Failure::system("run sh", error))?;
    if !status.success() {
        return Err(Failure::other(anyhow::anyhow!(
            "carry the experiment out once more: `{line}` ended with {status}"
        )));
    }
    let comparison = read(&run).map_err(|failure| {
        failure.hint("the command of --confirm has to leave a run in the directory {run}")
    });
    // It may lie elsewhere, if the command has said so: then there is nothing to remove.
    let _ = std::fs::remove_dir_all(&run);
    comparison
}
