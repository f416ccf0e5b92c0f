//! `evenkeel tune check`: findings about a host that is observed for some seconds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use os::clock::unix_s;
use tuner::{Capture, Finding, Severity, judge, report};
use tuning::observe::observe_with;

use super::arguments::HostArguments;
use super::terminal;
use crate::failure::Failure;
use crate::process::parent;
use crate::terminal::output::print;

/// Exit statuses of `check`.
pub(crate) const STATUSES: [(&str, &str); 7] = [
    ("0", "Nothing as severe as --fail-on was found, or --fail-on was not given."),
    ("10", "With --fail-on: the most severe finding is a note."),
    ("11", "With --fail-on: the most severe finding is a warning."),
    ("12", "With --fail-on: the most severe finding is critical."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written."),
    ("1", "Anything else."),
];

/// Find what limits this host, with the evidence
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// How long to read counters, in seconds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Exit with 10, 11 or 12 if the most severe finding is a note, a warning or critical, and at least this severe
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Level>,
    /// Query this memcached or Evenkeel at each reading for clients that it turned away; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    memcached: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Save what was read to a file, which --root accepts
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the findings as metrics for node_exporter's textfile collector (a name that ends in .prom)
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Note,
    Warning,
    Critical,
}

impl From<Level> for Severity {
    fn from(level: Level) -> Severity {
        match level {
            Level::Note => Severity::Note,
            Level::Warning => Severity::Warning,
            Level::Critical => Severity::Critical,
        }
    }
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    parent::follow()?;
    let capture = observe_with(&arguments.host.request(), arguments.seconds, &arguments.memcached)?;
    if let Some(path) = &arguments.save {
        replace(path, &capture.json())?;
    }
    let Capture { facts, series } = &capture;
    let findings = judge(facts, series);
    if let Some(path) = &arguments.prometheus {
        replace(path, &report::prometheus(series, &findings, unix_s()))?;
    }
    let text = match arguments.json {
        true => report::json(facts, series, &findings),
        false => report::diagnosis(facts, series, &findings, terminal::style(columns)),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::from(status(&findings, arguments.fail_on.map(Severity::from))))
}

/// The exit status, by [`STATUSES`].
fn status(findings: &[Finding], fail_on: Option<Severity>) -> u8 {
    let worst = findings.iter().map(|finding| finding.severity).max();
    match (worst, fail_on) {
        (Some(worst), Some(fail_on)) if worst >= fail_on => match worst {
            Severity::Note => 10,
            Severity::Warning => 11,
            Severity::Critical => 12,
        },
        _ => 0,
    }
}

/// Writes a file of results atomically.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    os::file::replace(path, text)
        .map_err(|error| Failure::system(format_args!("write {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_worst_finding() {
        let finding = |severity| Finding {
            rule: String::new(),
            severity,
            subject: String::new(),
            cause: String::new(),
            effect: String::new(),
            verdict: tuner::RemedyStatus::Fixable,
            evidence: Vec::new(),
            alike: Vec::new(),
            consequences: Vec::new(),
        };
        let findings = [finding(Severity::Note), finding(Severity::Warning)];
        assert_eq!(status(&findings, None), 0);
        assert_eq!(status(&findings, Some(Severity::Critical)), 0);
        assert_eq!(status(&findings, Some(Severity::Warning)), 11);
        assert_eq!(status(&findings, Some(Severity::Note)), 11);
        assert_eq!(status(&findings[..1], Some(Severity::Note)), 10);
        assert_eq!(status(&[], Some(Severity::Note)), 0);
    }
}
