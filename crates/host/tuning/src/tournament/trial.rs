//! One trial of a tournament: a strategy applied, loaded, measured, undone.

use std::time::Duration;

use os::DirectoryEntry;
use os::clock::{Stopwatch, unix_s};
use os::command::{CommandRunner, Ended};
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::apply::rollback::undo;
use tuner::apply::try_out;
use tuner::plan::strategy::Strategy;
use tuner::plan::{Plan, PlanRequest};
use tuner::verify::{self, Holding};
use tuner::{Capture, Root, Series};

use super::{Ending, Request, RunMeasurement};
use crate::apply::not_applied;
use crate::error::Error;
use crate::state::State;

/// Host, state and request of trials.
pub(super) struct TrialContext<'a> {
    request: &'a Request,
    root: Root,
    host: FileHost,
    state: State,
    runner: CommandRunner,
    /// How long the load takes, as its rehearsal showed.
    takes_s: Option<f64>,
}

/// A load that takes less than this share of its rehearsal's time has not done the same work, whatever its exit status: a
/// limit of events, a server that is gone. Where nothing else is asked for, the time itself is the figure.
const LASTS_MIN: f64 = 0.5;
/// A smaller difference is no sign of that.
const EARLY_MIN_S: f64 = 1.0;

impl<'a> TrialContext<'a> {
    /// Takes the lock for the whole tournament, unless another plan is unfinished.
    pub(super) fn enter(request: &'a Request, runner: CommandRunner) -> Result<TrialContext<'a>, Error> {
        let root = Root::new(&request.host.root);
        let state = request.state.enter(&root, Duration::ZERO)?;
        state.refuse_over_unfinished()?;
        let host = FileHost::new(root.clone());
        Ok(TrialContext { request, root, host, state, runner, takes_s: None })
    }

    /// The changes that the strategy would make now, or why it does not take part.
    pub(super) fn planned(&self, strategy: Strategy) -> Result<Result<Plan, String>, Error> {
        let (facts, pids) = (self.request.host.facts()?, self.request.host.named()?);
        let nic = self.request.nic.as_deref();
        let asked = PlanRequest { strategy: Some(strategy), nic, pids: &pids, ..PlanRequest::default() };
        let plan = tuner::plan::plan(&facts, &asked);
        if plan.then.is_some() {
            let reason =
                "it recreates the device's queues, which cannot be done in turn: apply and verify it";
            return Ok(Err(reason.to_owned()));
        }
        if strategy == Strategy::None || !plan.changes.is_empty() {
            return Ok(Ok(plan));
        }
        let reasons: Vec<String> =
            plan.refusals.iter().map(|refusal| format!("{}: {}", refusal.subject, refusal.reason)).collect();
        let same = || "all its settings hold already".to_owned();
        Ok(Err(if reasons.is_empty() { same() } else { reasons.join("; ") }))
    }

    /// Applies and undoes the strategy, so that refusals of the kernel are found before the first measured run. Returns
    /// the parts that failed, or why all of it failed.
    pub(super) fn rehearsed(&mut self, strategy: Strategy) -> Result<Result<Vec<String>, String>, Ending> {
        let plan = match self.planned(strategy)? {
            Ok(plan) => plan,
            Err(reason) => return Ok(Err(reason)),
        };
        if plan.changes.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let mut journal =
            self.state.journals.begin(&self.state.here, unix_s(), None).map_err(Error::other)?;
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

    /// Applies, loads, measures, undoes; undoes also after an error or a signal.
    pub(super) fn trial(&mut self, strategy: Strategy) -> Result<RunMeasurement, Ending> {
        self.runner.go_on()?;
        let plan = self
            .planned(strategy)?
            .map_err(|reason| Error::refused(format_args!("apply {} again: {reason}", strategy.name())))?;
        if plan.changes.is_empty() {
            return self.warmed_and_loaded();
        }
        let mut journal =
            self.state.journals.begin(&self.state.here, unix_s(), None).map_err(Error::other)?;
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
                let error = Error::refused(format_args!(
                    "keep {setting} at {:?} during a run: at its end it was {found:?}",
                    wanted.trim()
                ));
                let hint = "another program sets it, too; `evenkeel tune check` names those that are known";
                Err(error.with_hint(hint).into())
            }
            (run, _) => run,
        }
    }

    fn undone(&mut self, mut journal: Journal) -> Result<(), Error> {
        let undone = undo(&mut self.host, &mut journal, "the trial is over");
        if !undone.is_whole() {
            let error = format!("undo a trial: {}", undone.failures().join("; "));
            return Err(Error::refused(error).with_hint("`evenkeel tune rollback` tries again"));
        }
        // The old values of each of many trials need not be kept: they are in force again.
        let removed = DirectoryEntry::of(journal.path()).and_then(|entry| entry.remove());
        removed.map_err(|error| Error::system(format_args!("remove {}", journal.path().display()), error))
    }

    fn warmed_and_loaded(&self) -> Result<RunMeasurement, Ending> {
        if let Some(time) = self.request.warm_up
            && let Some(ended) = self.runner.run_for(&self.request.load, time)?
        {
            self.must_succeed(&ended)?;
        }
        self.loaded()
    }

    /// A run before anything is changed: whether the command works and its figure can be found, and how long it takes.
    pub(super) fn rehearse_load(&mut self) -> Result<(), Ending> {
        self.takes_s = Some(self.loaded()?.seconds);
        Ok(())
    }

    /// One run of the command.
    fn loaded(&self) -> Result<RunMeasurement, Ending> {
        let facts = self.request.host.facts()?;
        let watch = Stopwatch::start();
        let read = |at_ms| tuner::read(&self.root, &facts, at_ms).map_err(Error::other);
        let before = read(0)?;
        let ended = self.runner.run(&self.request.load, self.request.time_limit)?;
        let seconds = ended.time.as_secs_f64();
        let after = read(watch.ms().max(1))?;
        self.must_succeed(&ended)?;
        if let (Some(takes_s), Some(_)) = (self.takes_s, &self.request.metric)
            && seconds < LASTS_MIN * takes_s
            && seconds < takes_s - EARLY_MIN_S
        {
            let error = Error::refused(format_args!(
                "compare a load that ended after {seconds:.1} s with one of {takes_s:.1} s (its rehearsal): it has not done the same work"
            ));
            return Err(error.with_hint("give it a time, and no limit of requests or events").into());
        }
        let figure = match &self.request.metric {
            None => seconds,
            Some(metric) => metric.find(&ended.output).map_err(Error::other)?,
        };
        if figure <= 0.0 {
            let error = format!("compare the figure {figure}: ratios take figures above zero");
            return Err(Error::refused(error).into());
        }
        let series = Series::new(vec![before, after]).expect("one was read after the other");
        let found = verify::limits(&Capture { facts, series });
        let limits = found.into_iter().map(|finding| format!("{}: {}", finding.subject, finding.cause));
        Ok(RunMeasurement { figure, seconds, limits: limits.collect() })
    }

    fn must_succeed(&self, ended: &Ended) -> Result<(), Error> {
        if ended.status.success() {
            return Ok(());
        }
        Err(Error::refused(format_args!("run `{}`: {}", self.request.load, ended.words())))
    }
}
