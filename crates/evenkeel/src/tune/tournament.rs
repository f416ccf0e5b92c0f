//! `evenkeel tune tournament`: strategies in turn, each applied, loaded, measured and undone.

use std::process::ExitCode;
use std::time::Duration;

use os::signals::Signal;
use serde_json::{Value, json};
use tuner::plan::strategy::Strategy;
use tuner::report;
use tuner::verify::metric::OutputMetric;
use tuner::verify::tournament::{Preference, Standing};
use tuning::tournament::{
    Ending, MissingCapability, RefusedStrategy, Request, TournamentResult, TournamentRun, tournament,
};

use super::arguments::{HostArguments, StateDirectory, duration, strategies};
use super::terminal;
use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Exit statuses of `tournament`.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "All rounds were run, with any result."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written."),
    ("130", "It was ended by Ctrl-C (SIGINT); everything is as it was before."),
    ("143", "It was ended by another signal; everything is as it was before."),
    ("1", "Anything else: the load command failed, or its figure was not found."),
];

/// Try strategies in turn under load, and find which one is better
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// The strategies; the others are compared with `none`, or else with the first
    #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',', value_parser = strategies())]
    strategies: Vec<Strategy>,
    /// The command that puts load on the service and prints the figure
    #[arg(long, value_name = "COMMAND")]
    load: String,
    /// The place of the figure in its output: 'p99 {}', or a path in its JSON such as /latency/p99_us [default: the
    /// seconds that the command takes]
    #[arg(long, value_name = "WHERE", requires = "better")]
    metric: Option<OutputMetric>,
    /// Which figures are better: lower or higher [default: lower, for the seconds]
    #[arg(long, value_name = "WHICH", requires = "metric")]
    better: Option<Direction>,
    /// The number of runs of each strategy
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Run the command for this long before each measured run, and end it: 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,
    /// Give up when a run takes longer
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    time_limit: Duration,
    /// The seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only this network interface [default: all that are up and have a device]
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// Print JSON, with every run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateDirectory,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Direction {
    Lower,
    Higher,
}

impl Arguments {
    fn request(&self) -> Result<Request, Failure> {
        let strategies = contestants(&self.strategies)?;
        if self.host.root.is_file() {
            let hint = "--root takes a directory here".to_owned();
            return Err(Failure::usage("nothing can be applied to a saved host", Some(hint)));
        }
        Ok(Request {
            host: self.host.request(),
            strategies,
            load: self.load.clone(),
            metric: self.metric.clone(),
            better: better(self),
            rounds: self.rounds,
            warm_up: self.warm_up,
            time_limit: self.time_limit,
            seed: self.seed,
            nic: self.nic.clone(),
            state: self.state.request(),
        })
    }
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    let result = tournament(&arguments.request()?)?;
    let text = match arguments.json {
        true => json_of(arguments, &result),
        false => text_of(arguments, &result, columns),
    };
    print(text.as_bytes())?;
    match result.ended_early {
        None => Ok(ExitCode::SUCCESS),
        Some(Ending::Failed(error)) => Err(error.into()),
        Some(Ending::Signal(signal)) => {
            say(format_args!("evenkeel: tune: ended by a signal; everything is as it was before"));
            Ok(ExitCode::from(if signal == Signal::Interrupt { 130 } else { 143 }))
        }
    }
}

/// The strategies to compare: the baseline first, none twice.
fn contestants(strategies: &[Strategy]) -> Result<Vec<Strategy>, Failure> {
    let mut wanted = strategies.to_vec();
    if let Some(none) = wanted.iter().position(|strategy| *strategy == Strategy::None) {
        wanted[..=none].rotate_right(1);
    }
    let twice = wanted.iter().enumerate().find(|(place, strategy)| wanted[..*place].contains(strategy));
    match twice {
        Some((_, strategy)) => {
            Err(Failure::usage(format_args!("--strategies has {} twice", strategy.name()), None))
        }
        None if wanted.len() < 2 => {
            Err(Failure::usage("--strategies has only one", Some("compare with none: none,rps-rfs".into())))
        }
        None => Ok(wanted),
    }
}

fn better(arguments: &Arguments) -> Preference {
    match arguments.better {
        Some(Direction::Higher) => Preference::Higher,
        Some(Direction::Lower) | None => Preference::Lower,
    }
}

fn metric(arguments: &Arguments) -> String {
    arguments.metric.as_ref().map_or_else(|| "seconds".to_owned(), OutputMetric::to_string)
}

fn text_of(arguments: &Arguments, result: &TournamentResult, columns: usize) -> String {
    let better = match better(arguments) {
        Preference::Lower => "lower",
        Preference::Higher => "higher",
    };
    let (rounds, TournamentResult { refused, missing, runs, standings, .. }) = (arguments.rounds, result);
    let mut text =
        format!("{}, {better} is better; {rounds} rounds, seed {}\n\n", metric(arguments), arguments.seed);
    if standings.is_empty() {
        text += &format!("Ended after {} runs: too early for a verdict (--json has the runs).\n", runs.len());
    } else {
        text += &report::standings(standings, terminal::style(columns));
    }
    for RefusedStrategy { strategy, reason } in refused {
        text += &format!("\nNot run: {}: {reason}.\n", strategy.name());
    }
    for MissingCapability { strategy, what } in missing {
        text += &format!("\nNot done by {}: {what}.\n", strategy.name());
    }
    let limits = runs.iter().map(|run| &run.measured.limits);
    let limited: Vec<_> = limits.filter(|limits| !limits.is_empty()).collect();
    if let Some(limit) = limited.first().and_then(|limits| limits.first()) {
        let (some, all) = (limited.len(), runs.len());
        text += &format!(
            "\nIn {some} of {all} runs the host's limits were reached, so do not rely on this: {limit}.\n"
        );
    }
    text
}

fn json_of(arguments: &Arguments, result: &TournamentResult) -> String {
    let run = |TournamentRun { round, strategy, measured }: &TournamentRun| {
        json!({
            "round": round,
            "strategy": strategy.name(),
            "figure": measured.figure,
            "seconds": measured.seconds,
            "limits": measured.limits,
        })
    };
    let standing = |(name, standing): &(String, Standing)| json!({ "strategy": name, "standing": standing });
    let missing =
        |missing: &MissingCapability| json!({ "strategy": missing.strategy.name(), "what": missing.what });
    let refusal =
        |refused: &RefusedStrategy| json!({ "strategy": refused.strategy.name(), "reason": refused.reason });
    let ended_early = result.ended_early.as_ref().map(|ending| match ending {
        Ending::Signal(_) => "ended by a signal".to_owned(),
        Ending::Failed(error) => error.with_causes(),
    });
    let all = json!({
        "load": arguments.load,
        "metric": metric(arguments),
        "better": better(arguments),
        "rounds": arguments.rounds,
        "seed": arguments.seed,
        "warm_up_s": arguments.warm_up.map_or(0, |time| time.as_secs()),
        "standings": result.standings.iter().map(standing).collect::<Vec<Value>>(),
        "lacks": result.missing.iter().map(missing).collect::<Vec<Value>>(),
        "refused": result.refused.iter().map(refusal).collect::<Vec<Value>>(),
        "runs": result.runs.iter().map(run).collect::<Vec<Value>>(),
        "ended_early": ended_early,
    });
    format!("{all:#}\n")
}
