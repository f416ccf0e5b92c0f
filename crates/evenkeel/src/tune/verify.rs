//! `evenkeel tune verify`: the plans in force compared with their expected effects, on three levels: values, counters,
//! and the service under load.

use std::process::ExitCode;

use tuner::report;
use tuner::verify::metric::OutputMetric;
use tuner::verify::verification::VerificationOutcome;
use tuning::verify::{Request, Verified, verify};

use super::arguments::{HostArguments, StateDirectory};
use super::status::{DRIFTED, UNREAD};
use super::terminal;
use crate::failure::Failure;
use crate::terminal::output::print;

/// Exit statuses of `verify`.
pub(crate) const STATUSES: [(&str, &str); 10] = [
    ("0", "Values hold, nothing contradicts, and something was measured to be as expected."),
    ("13", "A value is no longer what it was set to."),
    ("14", "A figure did not move as expected."),
    ("15", "An objective was missed."),
    ("16", "Nothing is shown: no load, nothing measured before, or limits of the host came and went."),
    ("17", "No plan is in force."),
    ("18", "As 0 or 17, but a journal cannot be read in full: more may be in force."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written."),
    ("1", "Anything else."),
];

const NOT_MOVED: u8 = 14;
const MISSED: u8 = 15;
const NOTHING_SHOWN: u8 = 16;
const NOTHING_IN_FORCE: u8 = 17;

/// Check whether the plans in force have the expected effects
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// How long to read counters, in seconds, while there is load
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Run this command meanwhile; it must end with status 0
    #[arg(long, value_name = "COMMAND")]
    objective: Option<String>,
    /// The place of the figure for --at-most and --at-least in the command's output: 'p99 {}', or a path in its JSON
    /// such as /latency/p99_us
    #[arg(long, value_name = "WHERE", requires = "objective")]
    metric: Option<OutputMetric>,
    /// The figure may not be larger
    #[arg(long, value_name = "FIGURE", requires = "metric")]
    at_most: Option<f64>,
    /// The figure may not be smaller
    #[arg(long, value_name = "FIGURE", requires = "metric")]
    at_least: Option<f64>,
    /// Query this memcached or Evenkeel before and after: it must be reachable, serve, and turn no client away
    #[arg(long, value_name = "HOST:PORT")]
    memcached: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateDirectory,
}

impl Arguments {
    fn request(&self) -> Request {
        let Arguments { host, seconds, objective, metric, at_most, at_least, memcached, json: _, state } =
            self.clone();
        let (host, state) = (host.request(), state.request());
        Request { host, seconds, objective, metric, at_most, at_least, memcached, state }
    }
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    if arguments.metric.is_some() && arguments.at_most.is_none() && arguments.at_least.is_none() {
        let hint = "--at-most or --at-least says which figures are good".to_owned();
        return Err(Failure::usage("--metric alone demands nothing", Some(hint)));
    }
    let Verified { verification, is_in_doubt } = verify(&arguments.request())?;
    let Some(verification) = verification else {
        let nothing = match (arguments.json, is_in_doubt) {
            (true, false) => "{\"outcome\":\"nothing_in_force\"}\n",
            (true, true) => "{\"outcome\":\"journal_unread\"}\n",
            (false, false) => "No plan is in force.\n",
            (false, true) => "No plan that can be read is in force.\n",
        };
        print(nothing.as_bytes())?;
        return Ok(ExitCode::from(if is_in_doubt { UNREAD } else { NOTHING_IN_FORCE }));
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&verification).map_err(Failure::other)? + "\n",
        false => report::verification(&verification, terminal::style(columns)),
    };
    print(text.as_bytes())?;
    Ok(match verification.outcome {
        VerificationOutcome::Verified if is_in_doubt => ExitCode::from(UNREAD),
        outcome => status(outcome),
    })
}

fn status(outcome: VerificationOutcome) -> ExitCode {
    match outcome {
        VerificationOutcome::Verified => ExitCode::SUCCESS,
        VerificationOutcome::NotHeld => ExitCode::from(DRIFTED),
        VerificationOutcome::NotMoved => ExitCode::from(NOT_MOVED),
        VerificationOutcome::ObjectiveMissed => ExitCode::from(MISSED),
        VerificationOutcome::NothingShown => ExitCode::from(NOTHING_SHOWN),
    }
}
