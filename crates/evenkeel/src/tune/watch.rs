//! `evenkeel tune watch`: settings that drift, detected, reported and, if requested, repaired.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use os::clock::unix_s;
use tuner::watch::{NewsLine, Watch, prometheus, watching};
use tuning::watch::{Complaint, Request, WatchMessage, watch};

use super::arguments::{Place, duration};
use super::check::replace;
use crate::failure::Failure;
use crate::terminal::log;
use crate::terminal::output::tell;

/// Exit statuses of `watch`.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "It was ended by SIGTERM or SIGINT."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a journal cannot be read."),
    ("1", "Anything else."),
];

/// Detect settings that have drifted, and report why
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "SIGHUP makes it check at once; SIGTERM and SIGINT end it with status 0. Nothing is undone \
                        when it ends."
)]
pub(super) struct WatchArguments {
    /// What to do about a drifted setting
    #[arg(long, value_name = "POLICY", default_value = "never")]
    repair: Repair,
    /// Check at least this often: 1s, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    every: Duration,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
    /// Write metrics for node_exporter's textfile collector after each check (a name that ends in .prom)
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Repair {
    /// Only report it
    Never,
    /// Set it again, unless a user or program chose its present value or keeps changing it
    Auto,
}

pub(super) fn run(arguments: &WatchArguments) -> Result<ExitCode, Failure> {
    let request = Request {
        root: arguments.place.root.clone(),
        repair: arguments.repair == Repair::Auto,
        every: arguments.every,
        state: arguments.place.state.request(),
        complain,
    };
    match watch(&request, &mut |said, watch| show(arguments, said, watch))? {}
}

/// Prints the events and writes the metrics. A full disk must not end the watch.
fn show(arguments: &WatchArguments, said: &[WatchMessage], watch: &Watch) {
    let text: String = said.iter().map(|said| line(said, arguments.json)).collect();
    tell(text.as_bytes());
    if let Some(path) = &arguments.prometheus
        && let Err(failure) = replace(path, &prometheus(watch, unix_s()))
    {
        log::warning("tune watch", failure);
    }
}

fn line(said: &WatchMessage, json: bool) -> String {
    match said {
        WatchMessage::Watching { unix_s, settings } => watching(*unix_s, *settings, json),
        WatchMessage::News { unix_s, news, failure } => {
            let line = NewsLine { unix_s: *unix_s, news, failure: failure.as_deref() };
            (if json { line.json() } else { line.text() }) + "\n"
        }
    }
}

fn complain(complaint: &Complaint) {
    log::warning("tune watch", complaint);
}
