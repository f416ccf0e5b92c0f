//! `evenkeel lab run` and `restore`: trials, and the clean-up after those that were killed.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;

use lab::Halt;
use lab::experiment::Measure;
use lab::experiment::adapted::Adaptation;
use lab::record::TrialRecord;
use lab::record::quantity::number;
use lab::report::kind;
use lab::run::{RunOutcome, RunProgress, RunRequest};

use super::ending::{SYSTEM, USAGE};
use crate::failure::{Failure, say};
use crate::terminal::output::tell;
use os::signals::{Signal, Signals};
use stdx::escape;

/// Exit statuses of `run`.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "All trials have their records, with any result."),
    ("64", "The command line or the experiment's file is wrong."),
    SYSTEM,
    ("130", "It was ended by Ctrl-C (SIGINT); the host is as it was before, and the same command continues."),
    ("143", "It was ended by another signal; the host is as it was before, and the same command continues."),
    ("1", "Anything else: a subject does not start, its load fails, a setting cannot be made."),
];

/// Exit statuses of `restore`.
pub(crate) const RESTORE_STATUSES: [(&str, &str); 4] = [
    ("0", "Nothing is left of any run."),
    USAGE,
    SYSTEM,
    ("1", "Something is left; the same command tries again."),
];

/// The experiment, and its directories.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The experiment
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The directory for its records; a run that is there already is continued [default: FILE, but with .run]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Start the subject NAME with COMMAND instead, or add it to the others (repeatable)
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = pair)]
    peers: Vec<(String, String)>,
    /// Use the program at PATH for the subject NAME, whose commands have {program} (repeatable)
    #[arg(long = "program", value_name = "NAME=PATH", value_parser = pair)]
    programs: Vec<(String, String)>,
    /// Only this level (LEVEL or FACTOR=LEVEL) or subject, and what it is compared with (repeatable)
    #[arg(long, value_name = "LEVEL")]
    only: Vec<String>,
    /// The number of rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Seconds of load in each trial, the warm-up among them
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    #[command(flatten)]
    state: State,
}

/// A duration that is not nothing.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds above 0, such as 60 or 0.5".to_owned())
}

/// A name, and what belongs to it.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=TEXT, with something on both sides".to_owned()),
    }
}

/// The directory of the journals.
#[derive(Clone, Debug, clap::Args)]
struct State {
    /// The directory of the journals, which hold what is to be undone [default: /var/lib/evenkeel, or else
    /// .local/state/evenkeel of the home directory]
    #[arg(long = "state", value_name = "DIR")]
    path: Option<PathBuf>,
}

/// The journals of the runs to clean up after.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RestoreArguments {
    #[command(flatten)]
    state: State,
}

impl State {
    /// Root's directory is that of `evenkeel tune`.
    fn path(&self) -> PathBuf {
        let home = || match rustix::process::geteuid().is_root() {
            true => None,
            false => std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state/evenkeel")),
        };
        self.path.clone().or_else(home).unwrap_or_else(|| "/var/lib/evenkeel".into())
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let what = || format!("read the experiment {}", arguments.file.display());
    let text = std::fs::read_to_string(&arguments.file).map_err(|error| Failure::system(what(), error))?;
    let directory = arguments.out.clone().unwrap_or_else(|| arguments.file.with_extension("run"));
    // From now on, signals do not end this process: it needs time to restore everything.
    let (halt, signal) = (Halt::default(), Arc::new(OnceLock::new()));
    listen(halt.clone(), Arc::clone(&signal))?;
    let Arguments { peers, programs, only, rounds, seconds, .. } = arguments.clone();
    let adaptation = Adaptation { peers, programs, only, rounds, seconds };
    let asked = RunRequest { text, adaptation, directory: directory.clone(), state: arguments.state.path() };
    let outcome = lab::run::run(&asked, &halt, &mut show_progress);
    let _ = write!(io::stderr(), "{}", erase());
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(lab::Error::Halted) => {
            say(format_args!(
                "evenkeel: lab: ended by a signal; the host is as it was, and the same command continues"
            ));
            return Ok(ExitCode::from(if signal.get() == Some(&Signal::Interrupt) { 130 } else { 143 }));
        }
        Err(error @ (lab::Error::Experiment(_) | lab::Error::Unknown(_))) => {
            return Err(Failure::usage(format_args!("{}: {error}", arguments.file.display()), None));
        }
        Err(error) => return Err(Failure::other(error)),
    };
    tell(summary(&outcome, &directory).as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn summary(outcome: &RunOutcome, directory: &Path) -> String {
    let RunOutcome { trials, new, doubtful, lost, turns } = *outcome;
    let lost = match lost {
        0 => String::new(),
        lost => format!("{lost} of {turns} turns have no trial that counts\n"),
    };
    format!("{trials} trials in {} ({new} new, {doubtful} doubtful)\n{lost}", directory.display())
}

pub(super) fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Failure> {
    let (restored, is_all) = lab::run::restore(&arguments.state.path(), true);
    let text = match (restored.as_slice(), &is_all) {
        ([], Ok(())) => "Nothing is left of any run.\n".to_owned(),
        (lines, _) => lines.iter().map(|line| format!("{line}\n")).collect(),
    };
    tell(text.as_bytes());
    is_all.map_err(Failure::other)?;
    Ok(ExitCode::SUCCESS)
}

/// Sets `halt` when a signal arrives, and stores the signal in `first`.
fn listen(halt: Halt, first: Arc<OnceLock<Signal>>) -> Result<(), Failure> {
    let failed = |error| Failure::system("block signals", error);
    let signals = Signals::block().map_err(failed)?;
    let answer = move || {
        // A second one changes nothing: everything is being restored.
        let _ = first.set(signals.wait());
        halt.set();
    };
    thread::Builder::new().name("signals".into()).spawn(answer).map(drop).map_err(failed)
}

/// The sequence that erases the line of the running trial from the terminal.
fn erase() -> &'static str {
    if io::stderr().is_terminal() { "\r\x1b[K" } else { "" }
}

/// Writes a line for each trial to standard error; on a terminal also one for the running trial.
fn show_progress(progress: RunProgress) {
    let (mut out, erase) = (io::stderr(), erase());
    let text = match progress {
        RunProgress::Restored(lines) => {
            lines.iter().map(|line| format!("left by a run that was killed: {line}\n")).collect()
        }
        RunProgress::LeftOut(subjects) => subjects.iter().map(|it| format!("left out: {it}\n")).collect(),
        RunProgress::Planned(plan, rounds) => format!("{}\n", plan.sentence(rounds)),
        RunProgress::Busy(busy) => format!("warning: {busy}\n"),
        RunProgress::Begins { cell, number, of, repeat, left_s } if !erase.is_empty() => {
            let left = left_s.map_or(String::new(), |left_s| format!(", about {left_s:.0} s left"));
            format!("trial {number} of {of}: {cell}{}{left}", repeated(repeat))
        }
        RunProgress::Begins { .. } => return,
        RunProgress::Sampled(profile) => match &profile.why_not {
            None => format!("{}: {} samples for its profile\n", profile.cell, profile.samples()),
            Some(why) => format!("{}: no profile: {why}\n", profile.cell),
        },
        RunProgress::Ended { number, of, left_s, record, measure } => {
            let (place, round, cell) = (record.place, record.round + 1, record.cell());
            // In a word: the record and the report have the sentences.
            let doubts: Vec<&str> = record.doubts.iter().map(|doubt| kind(doubt)).collect();
            let doubts =
                if doubts.is_empty() { String::new() } else { format!(" DOUBTFUL ({})", doubts.join(", ")) };
            let (repeat, figures) = (repeated(record.repeat), figures(record, measure));
            let left = if number < of { format!(", about {left_s:.0} s left") } else { String::new() };
            format!("{place:04} round {round} {cell}{repeat}:{doubts}{figures} ({number} of {of}{left})\n")
        }
    };
    // Progress only informs somebody who waits: the run does not depend on it. A subject's last output can be anything.
    let _ = write!(out, "{erase}{}", escape::lines(&text)).and_then(|()| out.flush());
}

/// A remark on a repeated trial.
fn repeated(repeat: u32) -> String {
    if repeat == 0 { String::new() } else { format!(", repeat {repeat}") }
}

/// The primary figure of a trial, so that somebody who watches sees early if something is wrong.
fn figures(record: &TrialRecord, measure: &Measure) -> String {
    let shown = std::iter::once(&measure.primary).chain(&measure.also);
    let figure =
        |name: &String| record.metrics.get(name).map(|figure| format!(" {name} {}", number(*figure)));
    shown.filter_map(figure).collect()
}
