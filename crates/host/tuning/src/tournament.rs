//! Tournaments: strategies in turn, each applied, loaded, measured and undone.

mod trial;

use std::time::Duration;

use os::clock::Stopwatch;
use os::command::{CommandRunner, Interruption};
use os::signals::Signal;
use stdx::statistics::rounds_min;
use tuner::plan::strategy::Strategy;
use tuner::verify::metric::OutputMetric;
use tuner::verify::tournament::{Preference, Standing, order, standings};

use crate::error::Error;
use crate::observe::ObservedHost;
use crate::progress::{JobNotice, JobProgress};
use crate::state::StateDirectory;
use trial::TrialContext;

/// The strategies, and how they are measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// A directory with its /proc and /sys.
    pub host: ObservedHost,
    /// At least two, none of them twice; the others are compared with the first.
    pub strategies: Vec<Strategy>,
    /// The command that puts load on the service and prints the figure.
    pub load: String,
    /// The place of the figure in its output; without, the figure is the duration of the command in seconds.
    pub metric: Option<OutputMetric>,
    /// Which figures are better.
    pub better: Preference,
    /// The number of runs of each strategy.
    pub rounds: u32,
    /// Run the command for this long before each measured run.
    pub warm_up: Option<Duration>,
    /// Give up when a run takes longer.
    pub time_limit: Duration,
    /// The seed of the random order.
    pub seed: u64,
    /// Only this network interface.
    pub nic: Option<String>,
    /// The directory of the journals.
    pub state: StateDirectory,
}

/// One measured run.
#[derive(Clone, Debug)]
pub struct TournamentRun {
    /// From 1.
    pub round: u32,
    /// The strategy that was applied.
    pub strategy: Strategy,
    /// Its results.
    pub measured: RunMeasurement,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct RunMeasurement {
    /// The figure by which strategies are compared.
    pub figure: f64,
    /// How long the command took.
    pub seconds: f64,
    /// Limits of the host that no setting changes, and that make the figure doubtful.
    pub limits: Vec<String>,
}

/// A part of a strategy that the host does not support, and why.
#[derive(Clone, Debug)]
pub struct MissingCapability {
    /// The strategy.
    pub strategy: Strategy,
    /// The missing part, and why.
    pub what: String,
}

/// A strategy that does not take part, and why.
#[derive(Clone, Debug)]
pub struct RefusedStrategy {
    /// The strategy.
    pub strategy: Strategy,
    /// The reason.
    pub reason: String,
}

/// The result of a tournament: strategies, refusals, runs and standings.
#[derive(Debug, Default)]
pub struct TournamentResult {
    /// The strategies that take part, the baseline first.
    pub field: Vec<Strategy>,
    /// The strategies that do not.
    pub refused: Vec<RefusedStrategy>,
    /// Parts of the strategies that this host does not support.
    pub missing: Vec<MissingCapability>,
    /// The runs in their order.
    pub runs: Vec<TournamentRun>,
    /// Standings by name; empty if it ended early.
    pub standings: Vec<(String, Standing)>,
    /// Why it ended early, if it did. In any case everything is as it was before, unless the error reports otherwise.
    pub ended_early: Option<Ending>,
}

/// Why a tournament ended early.
#[derive(Debug)]
pub enum Ending {
    /// It was ended by this signal.
    Signal(Signal),
    /// It failed.
    Failed(Error),
}

impl From<Error> for Ending {
    fn from(error: Error) -> Ending {
        Ending::Failed(error)
    }
}

impl From<Interruption> for Ending {
    fn from(interruption: Interruption) -> Ending {
        match interruption {
            Interruption::Signal(signal) => Ending::Signal(signal),
            Interruption::Failed(error) => {
                let is_slow = matches!(error, os::command::Error::TooLong { .. });
                let error = Error::from(error);
                Ending::Failed(if is_slow { error.with_hint("--time-limit gives it longer") } else { error })
            }
        }
    }
}

/// Runs all rounds. Fails only if not a single run was completed.
pub fn tournament(request: &Request) -> Result<TournamentResult, Error> {
    let runner = CommandRunner::new()?;
    let mut context = TrialContext::enter(request, runner)?;
    let mut result = TournamentResult::default();
    let ending = all_rounds(request, &mut context, &mut result).err();
    (request.host.progress)(&JobProgress::Over);
    match ending {
        Some(Ending::Failed(error)) if result.runs.is_empty() => return Err(error),
        None => result.standings = compared(&result, request.better),
        // No verdict from an incomplete tournament: stopping because of intermediate results would bias it.
        Some(_) => {}
    }
    result.ended_early = ending;
    Ok(result)
}

/// Determines the strategies that take part, then runs every round.
fn all_rounds(
    request: &Request,
    context: &mut TrialContext,
    result: &mut TournamentResult,
) -> Result<(), Ending> {
    for strategy in &request.strategies {
        match context.planned(*strategy)? {
            Ok(_) => result.field.push(*strategy),
            Err(reason) => result.refused.push(RefusedStrategy { strategy: *strategy, reason }),
        }
    }
    enough(request, result)?;
    let progress = request.host.progress;
    progress(&JobProgress::RehearsingLoad);
    context.rehearse_load()?;
    for strategy in std::mem::take(&mut result.field) {
        progress(&JobProgress::Rehearsing(strategy));
        match context.rehearsed(strategy)? {
            Ok(missing) => {
                result.field.push(strategy);
                let missing = missing.into_iter().map(|what| MissingCapability { strategy, what });
                result.missing.extend(missing);
            }
            Err(reason) => result.refused.push(RefusedStrategy { strategy, reason }),
        }
    }
    enough(request, result)?;
    let TournamentResult { field, runs, .. } = result;
    let least = rounds_min(field.len() - 1);
    if request.rounds < least {
        (request.state.notice)(&JobNotice::TooFewRounds { least });
    }
    let watch = Stopwatch::start();
    let all = request.rounds as usize * field.len();
    for (round, places) in (1..).zip(order(field.len(), request.rounds, request.seed)) {
        for place in places {
            let strategy = field[place];
            let done = runs.len();
            let left_s = (done > 0).then(|| watch.passed().as_secs_f64() / done as f64 * (all - done) as f64);
            let (run, rounds) = (done + 1, request.rounds);
            progress(&JobProgress::Running { round, rounds, strategy, run, runs: all, left_s });
            runs.push(TournamentRun { round, strategy, measured: context.trial(strategy)? });
        }
    }
    Ok(())
}

/// An error unless there are strategies to compare.
fn enough(request: &Request, result: &TournamentResult) -> Result<(), Error> {
    if result.field.len() >= 2 && result.field[0] == request.strategies[0] {
        return Ok(());
    }
    let reason = |refused: &RefusedStrategy| format!("{}: {}", refused.strategy.name(), refused.reason);
    let reasons: Vec<String> = result.refused.iter().map(reason).collect();
    let error = format!("compare strategies: too few take part ({})", reasons.join("; "));
    Err(Error::refused(error).with_hint("`evenkeel tune plan --strategy NAME` shows what one would do"))
}

/// The standings of the field, over all rounds.
fn compared(result: &TournamentResult, better: Preference) -> Vec<(String, Standing)> {
    let figures_of = |strategy: &Strategy| -> Vec<f64> {
        // Runs are in the order of their rounds.
        let own = result.runs.iter().filter(|run| run.strategy == *strategy);
        own.map(|run| run.measured.figure).collect()
    };
    let figures: Vec<Vec<f64>> = result.field.iter().map(figures_of).collect();
    let names = result.field.iter().map(|strategy| strategy.name().to_owned());
    names.zip(standings(&figures, better)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(round: u32, strategy: Strategy, figure: f64) -> TournamentRun {
        TournamentRun {
            round,
            strategy,
            measured: RunMeasurement { figure, seconds: 1.0, limits: Vec::new() },
        }
    }

    #[test]
    fn standings_do_not_depend_on_the_order_of_runs() {
        let runs = (1..=8).flat_map(|round| {
            let (none, xps) = (run(round, Strategy::None, 10.0), run(round, Strategy::Xps, 5.0));
            if round % 2 == 0 { [none, xps] } else { [xps, none] }
        });
        let result = TournamentResult {
            field: vec![Strategy::None, Strategy::Xps],
            runs: runs.collect(),
            ..TournamentResult::default()
        };
        let standings = compared(&result, Preference::Lower);
        let medians: Vec<_> = standings.iter().map(|(name, it)| (name.as_str(), it.median)).collect();
        assert_eq!(medians, [("none", 10.0), ("xps", 5.0)]);
    }

    #[test]
    fn a_run_that_takes_too_long_has_a_hint_about_the_time_limit() {
        let slow = os::command::Error::TooLong { line: "x".into(), time_max: Duration::from_secs(7) };
        let Ending::Failed(error) = Ending::from(Interruption::from(slow)) else { panic!("no signal came") };
        assert_eq!(error.with_causes(), "run `x`: it has not ended within 7 s");
        assert_eq!(error.hint(), Some("--time-limit gives it longer"));
    }
}
