//! `evenkeel tune tournament`: strategies in turns, each applied, loaded, measured and undone.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use stdx::statistics::rounds_min;
use tuner::apply::host::FileHost;
use tuner::apply::rollback::undo;
use tuner::apply::try_out;
use tuner::plan::strategy::Strategy;
use tuner::plan::{Asked, Plan};
use tuner::report;
use tuner::verify::metric::Metric;
use tuner::verify::tournament::{Better, Standing, order, standings};
use tuner::verify::{self, Holding};
use tuner::{Capture, Root, Series};

use super::apply::{duration, not_applied, refuse_over_unfinished};
use super::load::{Ended, Halt, Runner};
use super::observe::{self, Clock, Host};
use super::state::{State, StateDirectory, seconds_since_1970};
use super::{look, plan};
use crate::failure::{Failure, say};
use crate::output::print;
use os::signals::Signal;

/// What `tournament` ends with.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "All rounds were run, whatever they showed."),
    ("64", "The command line is wrong."),
    ("71", "The system refused: a file cannot be read or written."),
    ("130", "It was ended by Ctrl-C (SIGINT); everything is as it was before."),
    ("143", "It was ended by another signal; everything is as it was before."),
    ("1", "Anything else: the load command failed, or its figure was not found."),
];

/// Try strategies in turns under load, and say which one is better
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    host: Host,
    /// The strategies; the others are compared with `none`, or else with the first
    #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',', value_parser = plan::strategy)]
    strategies: Vec<Strategy>,
    /// The command that puts load on the service and prints the figure
    #[arg(long, value_name = "COMMAND")]
    load: String,
    /// Where its output has the figure: 'p99 {}', or a place in its JSON such as /latency/p99_us [default: the seconds
    /// that the command takes]
    #[arg(long, value_name = "WHERE", requires = "better")]
    metric: Option<Metric>,
    /// Which figures are good: lower or higher [default: lower, for the seconds]
    #[arg(long, value_name = "WHICH", requires = "metric")]
    better: Option<Direction>,
    /// How many times each strategy has its turn
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Run the command for so long before each measured run, and end it: 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,
    /// Give up when a run takes longer
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    time_limit: Duration,
    /// Start of the random numbers that choose the order
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

/// One measured run.
struct Run {
    figure: f64,
    seconds: f64,
    /// What no setting changes, and what makes the figure doubtful.
    limits: Vec<String>,
}

/// A part of a strategy that the host cannot do, and why.
struct MissingCapability {
    strategy: Strategy,
    what: String,
}

/// Field, refusals and runs of a tournament.
#[derive(Default)]
struct TournamentResult {
    /// Who takes part, the baseline first.
    field: Vec<Strategy>,
    refused: Vec<Refused>,
    missing: Vec<MissingCapability>,
    /// In the order in which they were run, with their round.
    runs: Vec<(u32, Strategy, Run)>,
}

/// A strategy that does not take part, and why.
struct Refused {
    strategy: Strategy,
    reason: String,
}

/// Host, state and arguments of a trial.
struct TrialContext<'a> {
    arguments: &'a Arguments,
    root: Root,
    host: FileHost,
    state: State,
    runner: Runner,
}

pub(super) fn run(arguments: &Arguments, columns: usize) -> Result<ExitCode, Failure> {
    let wanted = contestants(&arguments.strategies)?;
    let runner = Runner::new()?;
    let mut context = TrialContext::enter(arguments, runner)?;
    let mut result = TournamentResult::default();
    let halt = context.run(wanted, &mut result).err();
    observe::progress("");
    if result.runs.is_empty()
        && let Some(Halt::Failed(failure)) = halt
    {
        return Err(failure);
    }
    let standings = match halt {
        None => compared(&result, arguments),
        // Who stops because of what was seen so far, has seen too little.
        Some(_) => Vec::new(),
    };
    let text = match arguments.json {
        true => json_of(arguments, &result, &standings, halt.as_ref()),
        false => text_of(arguments, &result, &standings, columns),
    };
    print(text.as_bytes())?;
    match halt {
        None => Ok(ExitCode::SUCCESS),
        Some(Halt::Failed(failure)) => Err(failure),
        Some(Halt::Signal(signal)) => {
            say(format_args!("evenkeel: tune: ended by a signal; everything is as it was before"));
            Ok(ExitCode::from(if signal == Signal::Interrupt { 130 } else { 143 }))
        }
    }
}

/// The baseline first, nobody twice.
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

impl<'a> TrialContext<'a> {
    fn enter(arguments: &'a Arguments, runner: Runner) -> Result<TrialContext<'a>, Failure> {
        if arguments.host.root.is_file() {
            let hint = "--root takes a directory here".to_owned();
            return Err(Failure::usage("nothing can be applied to a saved host", Some(hint)));
        }
        let root = Root::new(&arguments.host.root);
        let state = arguments.state.enter(&root, Duration::ZERO)?;
        refuse_over_unfinished(&state)?;
        let host = FileHost::new(root.clone());
        Ok(TrialContext { arguments, root, host, state, runner })
    }

    /// The whole tournament: who takes part, then every round.
    fn run(&mut self, wanted: Vec<Strategy>, result: &mut TournamentResult) -> Result<(), Halt> {
        let baseline = wanted[0];
        for strategy in wanted {
            match self.planned(strategy)? {
                Ok(_) => result.field.push(strategy),
                Err(reason) => result.refused.push(Refused { strategy, reason }),
            }
        }
        enough(baseline, result)?;
        // Whether the command works and its figure can be found is known before anything is changed.
        observe::progress("rehearsing the load");
        self.loaded()?;
        for strategy in std::mem::take(&mut result.field) {
            observe::progress(&format!("rehearsing {}", strategy.name()));
            match self.rehearsed(strategy)? {
                Ok(missing) => {
                    result.field.push(strategy);
                    result
                        .missing
                        .extend(missing.into_iter().map(|what| MissingCapability { strategy, what }));
                }
                Err(reason) => result.refused.push(Refused { strategy, reason }),
            }
        }
        enough(baseline, result)?;
        let TournamentResult { field, runs, .. } = result;
        let least = rounds_min(field.len() - 1);
        if self.arguments.rounds < least {
            say(format_args!(
                "evenkeel: tune: with fewer than {least} rounds no difference can be shown, however large"
            ));
        }
        let clock = Clock::start();
        let all = self.arguments.rounds as usize * field.len();
        for (round, places) in
            order(field.len(), self.arguments.rounds, self.arguments.seed).iter().enumerate()
        {
            for place in places {
                let strategy = field[*place];
                let left = match runs.len() {
                    0 => String::new(),
                    done => {
                        let seconds = clock.passed().as_secs_f64() / done as f64 * (all - done) as f64;
                        format!(", about {:.0} s left", seconds)
                    }
                };
                let (number, rounds) = (round + 1, self.arguments.rounds);
                let name = strategy.name();
                observe::progress(&format!(
                    "round {number} of {rounds}: {name}, run {} of {all}{left}",
                    runs.len() + 1
                ));
                let run = self.trial(strategy)?;
                runs.push((number as u32, strategy, run));
            }
        }
        Ok(())
    }

    /// What the strategy would change now, or why it does not take part.
    fn planned(&self, strategy: Strategy) -> Result<Result<Plan, String>, Failure> {
        let (facts, pids) = (self.arguments.host.facts()?, self.arguments.host.named()?);
        let nic = self.arguments.nic.as_deref();
        let asked = Asked { strategy: Some(strategy), nic, pids: &pids, ..Asked::default() };
        let plan = tuner::plan::plan(&facts, &asked);
        if plan.then.is_some() {
            let reason =
                "it makes the device's queues anew, which is no matter of turns: apply and verify it";
            return Ok(Err(reason.to_owned()));
        }
        if strategy == Strategy::None || !plan.changes.is_empty() {
            return Ok(Ok(plan));
        }
        let reasons: Vec<String> =
            plan.refusals.iter().map(|refusal| format!("{}: {}", refusal.subject, refusal.reason)).collect();
        let same = || "everything that it asks for is so already".to_owned();
        Ok(Err(if reasons.is_empty() { same() } else { reasons.join("; ") }))
    }

    /// Applied and undone, so that refusals of the kernel are known before the first measured run: what it could not do, or
    /// why it could do nothing.
    fn rehearsed(&mut self, strategy: Strategy) -> Result<Result<Vec<String>, String>, Halt> {
        let plan = match self.planned(strategy)? {
            Ok(plan) => plan,
            Err(reason) => return Ok(Err(reason)),
        };
        if plan.changes.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let mut journal = self
            .state
            .journals
            .begin(&self.state.here, seconds_since_1970(), None)
            .map_err(Failure::other)?;
        match try_out(&mut self.host, &plan.changes, &mut journal) {
            Ok(applied) => {
                self.undone(journal)?;
                let refused =
                    plan.refusals.iter().map(|refusal| format!("{}: {}", refusal.subject, refusal.reason));
                let left = applied.left.iter().map(|(setting, why)| format!("{setting}: {why}"));
                Ok(Ok(refused.chain(left).collect()))
            }
            Err(failed) if failed.undone.is_whole() => Ok(Err(failed.error.to_string())),
            Err(failed) => Err(not_applied(failed).into()),
        }
    }

    /// Applies, loads, measures, undoes; undoes also if something comes in between.
    fn trial(&mut self, strategy: Strategy) -> Result<Run, Halt> {
        self.runner.go_on()?;
        let plan = self
            .planned(strategy)?
            .map_err(|reason| Failure::other(anyhow::anyhow!("apply {} again: {reason}", strategy.name())))?;
        if plan.changes.is_empty() {
            return self.warmed_and_loaded();
        }
        let mut journal = self
            .state
            .journals
            .begin(&self.state.here, seconds_since_1970(), None)
            .map_err(Failure::other)?;
        try_out(&mut self.host, &plan.changes, &mut journal).map_err(not_applied)?;
        let run = self.warmed_and_loaded();
        let moved = journal.steps().into_iter().filter(|step| !step.left).find_map(|step| {
            match verify::holding(&self.host, &step, None) {
                Holding::No { found } => Some((step.setting, step.wanted, found)),
                Holding::Yes | Holding::Pending => None,
            }
        });
        self.undone(journal)?;
        match (run, moved) {
            (Ok(_), Some((setting, wanted, found))) => {
                let error = anyhow::anyhow!(
                    "keep {setting} at {:?} during a run: at its end it was {found:?}",
                    wanted.trim()
                );
                let hint = "another program sets it, too; `evenkeel tune check` names those that are known";
                Err(Failure::other(error).hint(hint).into())
            }
            (run, _) => run,
        }
    }

    fn undone(&mut self, mut journal: tuner::apply::journal::Journal) -> Result<(), Failure> {
        let undone = undo(&mut self.host, &mut journal, "the trial is over");
        if !undone.is_whole() {
            let error = anyhow::anyhow!("undo a trial: {}", undone.failures().join("; "));
            return Err(Failure::other(error).hint("`evenkeel tune rollback` tries again"));
        }
        // Of many trials nobody wants to keep the old values, which are in force again.
        std::fs::remove_file(journal.path())
            .map_err(|error| Failure::system(format_args!("remove {}", journal.path().display()), error))
    }

    fn warmed_and_loaded(&self) -> Result<Run, Halt> {
        if let Some(time) = self.arguments.warm_up
            && let Some(ended) = self.runner.run_for(&self.arguments.load, time)?
        {
            self.must_succeed(&ended)?;
        }
        self.loaded()
    }

    /// One run of the command.
    fn loaded(&self) -> Result<Run, Halt> {
        let facts = self.arguments.host.facts()?;
        let clock = Clock::start();
        let read = |at_ms| tuner::read(&self.root, &facts, at_ms).map_err(Failure::other);
        let before = read(0)?;
        let ended = self.runner.run(&self.arguments.load, self.arguments.time_limit)?;
        let seconds = ended.time.as_secs_f64();
        let after = read(clock.ms().max(1))?;
        self.must_succeed(&ended)?;
        let figure = match &self.arguments.metric {
            None => seconds,
            Some(metric) => metric.find(&ended.output).map_err(Failure::other)?,
        };
        if figure <= 0.0 {
            let error = anyhow::anyhow!("compare the figure {figure}: ratios take figures above zero");
            return Err(Failure::other(error).into());
        }
        let series = Series::new(vec![before, after]).expect("one was read after the other");
        let found = verify::limits(&Capture { facts, series });
        let limits = found.into_iter().map(|finding| format!("{}: {}", finding.subject, finding.cause));
        Ok(Run { figure, seconds, limits: limits.collect() })
    }

    fn must_succeed(&self, ended: &Ended) -> Result<(), Failure> {
        if ended.status.success() {
            return Ok(());
        }
        let error = anyhow::anyhow!("run `{}`: {}", self.arguments.load, ended.words());
        Err(Failure::other(error))
    }
}

/// Whether there is something to compare.
fn enough(baseline: Strategy, result: &TournamentResult) -> Result<(), Failure> {
    if result.field.len() >= 2 && result.field[0] == baseline {
        return Ok(());
    }
    let reason = |refused: &Refused| format!("{}: {}", refused.strategy.name(), refused.reason);
    let reasons: Vec<String> = result.refused.iter().map(reason).collect();
    let error = anyhow::anyhow!("compare strategies: too few take part ({})", reasons.join("; "));
    Err(Failure::other(error).hint("`evenkeel tune plan --strategy NAME` says what one would do"))
}

/// The standings of the field, over all rounds.
fn compared(result: &TournamentResult, arguments: &Arguments) -> Vec<(String, Standing)> {
    let TournamentResult { field, runs, .. } = result;
    let figures_of = |strategy: &Strategy| -> Vec<f64> {
        // Runs are in the order of their rounds.
        runs.iter().filter(|(_, other, _)| other == strategy).map(|(.., run)| run.figure).collect()
    };
    let figures: Vec<Vec<f64>> = field.iter().map(figures_of).collect();
    let names = field.iter().map(|strategy| strategy.name().to_owned());
    names.zip(standings(&figures, better(arguments))).collect()
}

fn better(arguments: &Arguments) -> Better {
    match arguments.better {
        Some(Direction::Higher) => Better::Higher,
        Some(Direction::Lower) | None => Better::Lower,
    }
}

fn metric(arguments: &Arguments) -> String {
    arguments.metric.as_ref().map_or_else(|| "seconds".to_owned(), Metric::to_string)
}

fn text_of(
    arguments: &Arguments,
    result: &TournamentResult,
    standings: &[(String, Standing)],
    columns: usize,
) -> String {
    let better = match better(arguments) {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let (rounds, TournamentResult { refused, missing, runs, .. }) = (arguments.rounds, result);
    let mut text =
        format!("{}, {better} is better; {rounds} rounds, seed {}\n\n", metric(arguments), arguments.seed);
    if standings.is_empty() {
        text += &format!("Ended after {} runs: too early for a verdict (--json has the runs).\n", runs.len());
    } else {
        text += &report::standings(standings, look::at(columns));
    }
    for Refused { strategy, reason } in refused {
        text += &format!("\nNot run: {}: {reason}.\n", strategy.name());
    }
    for MissingCapability { strategy, what } in missing {
        text += &format!("\nNot done by {}: {what}.\n", strategy.name());
    }
    let limited: Vec<&Run> = runs.iter().map(|(.., run)| run).filter(|run| !run.limits.is_empty()).collect();
    if let Some(limit) = limited.first().and_then(|run| run.limits.first()) {
        let (some, all) = (limited.len(), runs.len());
        text += &format!(
            "\nIn {some} of {all} runs the host's limits were reached, so do not rely on this: {limit}.\n"
        );
    }
    text
}

fn json_of(
    arguments: &Arguments,
    result: &TournamentResult,
    standings: &[(String, Standing)],
    halt: Option<&Halt>,
) -> String {
    let run = |(round, strategy, run): &(u32, Strategy, Run)| {
        json!({
            "round": round,
            "strategy": strategy.name(),
            "figure": run.figure,
            "seconds": run.seconds,
            "limits": run.limits,
        })
    };
    let standing = |(name, standing): &(String, Standing)| json!({ "strategy": name, "standing": standing });
    let missing =
        |missing: &MissingCapability| json!({ "strategy": missing.strategy.name(), "what": missing.what });
    let refusal =
        |refused: &Refused| json!({ "strategy": refused.strategy.name(), "reason": refused.reason });
    let ended_early = halt.map(|halt| match halt {
        Halt::Signal(_) => "ended by a signal".to_owned(),
        Halt::Failed(failure) => failure.to_string(),
    });
    let all = json!({
        "load": arguments.load,
        "metric": metric(arguments),
        "better": better(arguments),
        "rounds": arguments.rounds,
        "seed": arguments.seed,
        "warm_up_s": arguments.warm_up.map_or(0, |time| time.as_secs()),
        "standings": standings.iter().map(standing).collect::<Vec<Value>>(),
        "lacks": result.missing.iter().map(missing).collect::<Vec<Value>>(),
        "refused": result.refused.iter().map(refusal).collect::<Vec<Value>>(),
        "runs": result.runs.iter().map(run).collect::<Vec<Value>>(),
        "ended_early": ended_early,
    });
    format!("{all:#}\n")
}
