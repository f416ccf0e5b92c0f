//! `evenkeel tune verify`: whether the plans in force do what they promised, on three levels: values, counters, and what
//! the service does under load.

use std::process::ExitCode;

use tuner::apply::expected_effect::ExpectedEffect;
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::report;
use tuner::verify;
use tuner::verify::metric::Metric;
use tuner::verify::verification::{Objective, Outcome, Value, Verification};
use tuner::{Finding, Root};

use super::load::{self, Load};
use super::observe::{self, Host};
use super::rollback::{self, DRIFTED};
use super::state::StateDirectory;
use super::{look, memcached};
use crate::failure::Failure;
use crate::output::print;

/// What `verify` ends with.
pub(crate) const STATUSES: [(&str, &str); 9] = [
    ("0", "Values hold, nothing contradicts, and something was measured to be as expected."),
    ("13", "A value is no longer what it was set to."),
    ("14", "A figure did not move as expected."),
    ("15", "An objective was missed."),
    ("16", "Nothing is shown: no load, nothing measured before, or limits of the host came and went."),
    ("17", "No plan is in force."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written."),
    ("1", "Anything else."),
];

const NOT_MOVED: u8 = 14;
const MISSED: u8 = 15;
const NOTHING_SHOWN: u8 = 16;
const NOTHING_IN_FORCE: u8 = 17;

/// Say whether the plans in force do what they promised
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: Host,
    /// How long to read counters, while there is load
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Run this command meanwhile; it has to end with status 0
    #[arg(long, value_name = "COMMAND")]
    objective: Option<String>,
    /// Where the objective's output has the figure that --at-most or --at-least is about: 'p99 {}', or a place in its
    /// JSON such as /latency/p99_us
    #[arg(long, value_name = "WHERE", requires = "objective")]
    metric: Option<Metric>,
    /// The figure may not be larger
    #[arg(long, value_name = "FIGURE", requires = "metric")]
    at_most: Option<f64>,
    /// The figure may not be smaller
    #[arg(long, value_name = "FIGURE", requires = "metric")]
    at_least: Option<f64>,
    /// Ask this memcached or Evenkeel before and after: it has to be there, to serve, and to turn nobody away
    #[arg(long, value_name = "HOST:PORT")]
    memcached: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateDirectory,
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    if arguments.metric.is_some() && arguments.at_most.is_none() && arguments.at_least.is_none() {
        let hint = "--at-most or --at-least says which figures are good".to_owned();
        return Err(Failure::usage("--metric alone demands nothing", Some(hint)));
    }
    let root = Root::new(&arguments.host.root);
    let found = rollback::in_force(arguments.state.look(&root)?);
    let Some(newest) = found.first() else {
        let nothing =
            if arguments.json { "{\"outcome\":\"nothing_in_force\"}\n" } else { "No plan is in force.\n" };
        print(nothing.as_bytes())?;
        return Ok(ExitCode::from(NOTHING_IN_FORCE));
    };
    let expected = ExpectedEffect::of(newest.path()).map_err(|error| {
        Failure::system(format_args!("read what {} promised", newest.path().display()), error)
    })?;
    let verification = verified(arguments, &FileHost::new(root), &found, expected.as_ref())?;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&verification).map_err(Failure::other)? + "\n",
        false => report::verification(&verification, look::at(columns)),
    };
    print(text.as_bytes())?;
    Ok(status(verification.outcome))
}

fn status(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Verified => ExitCode::SUCCESS,
        Outcome::NotHeld => ExitCode::from(DRIFTED),
        Outcome::NotMoved => ExitCode::from(NOT_MOVED),
        Outcome::ObjectiveMissed => ExitCode::from(MISSED),
        Outcome::NothingShown => ExitCode::from(NOTHING_SHOWN),
    }
}

fn verified(
    arguments: &Arguments,
    host: &FileHost,
    newest_first: &[Journal],
    expected: Option<&ExpectedEffect>,
) -> Result<Verification, Failure> {
    let steps = verify::in_force(newest_first.iter().map(Journal::steps));
    let before = expected.and_then(|expected| expected.before.as_ref());
    let mut looked_at = arguments.host.clone();
    // What was a service before is one now, also if it was named then.
    let services = before.iter().flat_map(|capture| &capture.facts.services);
    looked_at.pids.extend(services.map(|service| service.pid));
    looked_at.pids.sort_unstable();
    looked_at.pids.dedup();

    let came = verify::interrupts(host, &steps);
    let asked: Vec<_> = arguments.memcached.iter().map(|server| memcached::stats(server)).collect();
    let load = arguments.objective.as_deref().map(load::beside).transpose()?;
    let now = match observe::observe(&looked_at, arguments.seconds) {
        Ok(now) => now,
        Err(failure) => {
            load.into_iter().for_each(Load::end);
            return Err(failure);
        }
    };
    let mut objectives = Vec::new();
    for (server, asked) in arguments.memcached.iter().zip(asked) {
        let again = memcached::stats(server);
        objectives.push(memcached::objective(server, asked, again, now.series.window_s()));
    }
    if let (Some(load), Some(line)) = (load, &arguments.objective) {
        objectives.push(commanded(arguments, line, load)?);
    }

    let value = |step: &tuner::apply::journal::Step| Value {
        setting: step.setting.to_string(),
        wanted: step.wanted.clone(),
        holding: verify::holding(host, step, step.setting.irq().and_then(|irq| came.get(&irq).copied())),
    };
    let changes = expected.map(|expected| expected.changes.as_slice()).unwrap_or_default();
    let mut limits = verify::limits(&now);
    let then = before.map(verify::limits).unwrap_or_default().into_iter();
    limits
        .extend(then.map(|finding| Finding { subject: format!("{} (before)", finding.subject), ..finding }));
    Ok(Verification::conclude(
        steps.iter().map(value).collect(),
        verify::signals(changes, before, &now),
        objectives,
        limits,
        before.is_some(),
        now.series.window_s(),
    ))
}

/// The command's status, and its figure if one was asked for.
fn commanded(arguments: &Arguments, line: &str, load: Load) -> Result<Objective, Failure> {
    let ended = load.ended()?;
    let objective = |seen: String, held| Objective { what: line.to_owned(), seen, held: Some(held) };
    if !ended.status.success() {
        return Ok(objective(ended.words(), false));
    }
    let Some(metric) = &arguments.metric else { return Ok(objective(ended.words(), true)) };
    let figure = match metric.find(&ended.output) {
        Ok(figure) => figure,
        Err(error) => return Ok(objective(format!("failed to {error}"), false)),
    };
    let (least, most) = (arguments.at_least, arguments.at_most);
    let held = least.is_none_or(|least| figure >= least) && most.is_none_or(|most| figure <= most);
    let bounds: Vec<String> =
        [least.map(|least| format!("at least {least}")), most.map(|most| format!("at most {most}"))]
            .into_iter()
            .flatten()
            .collect();
    Ok(objective(format!("{metric} is {figure}, to be {}", bounds.join(" and ")), held))
}
