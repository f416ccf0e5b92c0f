//! Plans carried out, all of each or none, so that they can be undone.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use os::clock::{since_boot_ms, unix_s};
use os::signals::{Ignored, Signal, Signals};
use tuner::apply::expected_effect::ExpectedEffect;
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::apply::label::PlanLabel;
use tuner::apply::rollback;
use tuner::apply::{Applied, Failed, StepError, apply_then};
use tuner::persist::intent::Intent;
use tuner::plan::change::Stage;
use tuner::plan::{self, Plan};
use tuner::report::folded;
use tuner::{Capture, PlanRefusal, Root};

use crate::error::Error;
use crate::observe::{self, ObservedHost};
use crate::plan::PlanInput;
use crate::progress::JobNotice;
use crate::rollback::deadline::watch_over;
use crate::saved;
use crate::state::{State, StateDirectory};

/// The plan to carry out, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The source of the plan.
    pub what: What,
    /// The host of the plan.
    pub host: ObservedHost,
    /// Undo everything unless the plan is confirmed within this time.
    pub confirm_within: Option<Duration>,
    /// By which the plan is found again.
    pub label: Option<PlanLabel>,
    /// Measure for this many seconds before the first change, for later comparison.
    pub before_s: Option<u32>,
    /// Wait at most this long for other processes that change settings.
    pub wait: Duration,
    /// The directory of the journals.
    pub state: StateDirectory,
}

/// The source of a plan.
#[derive(Clone, Debug)]
pub enum What {
    /// A request: the plan is made now.
    Requested(PlanInput),
    /// A file with a plan from [`crate::plan::json`].
    Saved(PathBuf),
    /// A file with an intent that was kept over a restart: the plan is made again.
    Intent(PathBuf),
}

/// The outcome of a request.
#[derive(Debug)]
pub enum ApplyOutcome {
    /// The plan has no changes.
    Nothing(Box<Plan>),
    /// They are in force.
    InForce(Box<InForce>),
}

/// A plan in force.
#[derive(Debug)]
pub struct InForce {
    /// The first part of the plan.
    pub plan: Plan,
    /// The second part, planned when the new queues existed.
    pub rest: Option<Plan>,
    /// The changes of both that were made.
    pub applied: Applied,
    /// The journal with the old values.
    pub journal: PathBuf,
}

/// A plan, and its basis.
struct Planned {
    plan: Plan,
    intent: Option<Intent>,
    /// The counters that it is based on, if any were read.
    seen: Option<Capture>,
}

impl Request {
    /// Makes the plan, and changes nothing.
    pub fn dry_run(&self) -> Result<Plan, Error> {
        Ok(self.planned()?.plan)
    }

    /// Carries it out.
    pub fn carry_out(&self) -> Result<ApplyOutcome, Error> {
        let root = Root::new(&self.host.root);
        // What is undone only now is not what the plan is to begin with.
        self.state.look(&root)?.of_this_version()?;
        let planned = self.planned()?;
        if planned.plan.changes.is_empty() {
            return Ok(ApplyOutcome::Nothing(Box::new(planned.plan)));
        }
        let before = match self.before_s {
            Some(seconds) => {
                // Check for an unfinished plan before the measurement, and do not hold the lock during it.
                self.enter(&root)?.refuse_over_unfinished()?;
                Some(observe::observe(&self.host, seconds)?)
            }
            None => planned.seen,
        };
        let state = self.enter(&root)?;
        state.refuse_over_unfinished()?;
        self.change(&root, &state, planned.plan, planned.intent.as_ref(), before)
            .map(|in_force| ApplyOutcome::InForce(Box::new(in_force)))
    }

    fn enter(&self, root: &Root) -> Result<State, Error> {
        self.state.enter(root, self.wait)
    }

    fn planned(&self) -> Result<Planned, Error> {
        Ok(match &self.what {
            What::Saved(path) => {
                let plan = saved::plan(path, &Root::new(&self.host.root))?;
                Planned { plan, intent: None, seen: None }
            }
            What::Intent(path) => {
                let intent = saved::intent(path)?;
                Planned { plan: self.intended(&intent)?, intent: Some(intent), seen: None }
            }
            What::Requested(wanted) => {
                let (plan, seen) = wanted.plan_and_look()?;
                Planned { plan, intent: None, seen }
            }
        })
    }

    fn intended(&self, intent: &Intent) -> Result<Plan, Error> {
        let plan = intent.plan(&self.host.facts()?);
        // At boot, output on success is not read, and a part of an intent is better than nothing.
        let line = |refusal: &PlanRefusal| {
            format!("{}: not planned ({}): {}", refusal.subject, refusal.asked_by, refusal.reason)
        };
        let lines: Vec<String> = plan.refusals.iter().map(line).collect();
        folded(&lines).into_iter().for_each(|line| (self.state.notice)(&JobNotice::NotPlanned { line }));
        Ok(plan)
    }

    /// Applies a plan, from the start of the journal to the last change.
    fn change(
        &self,
        root: &Root,
        state: &State,
        plan: Plan,
        intent: Option<&Intent>,
        before: Option<Capture>,
    ) -> Result<InForce, Error> {
        // Failing to remove old journals must not prevent the plan.
        let _ = state.journals.prune(&state.here, unix_s());
        let confirm_by_ms = self.confirm_within.map(|time| since_boot_ms() + time.as_millis() as u64);
        // From here on, a signal does not interrupt a change.
        let signals = PendingSignals::from_now()?;
        let label = self.label.clone();
        let mut journal = state
            .journals
            .begin_labelled(&state.here, unix_s(), confirm_by_ms, label)
            .map_err(Error::other)?;
        let mut host = FileHost::new(root.clone());
        if let Some(within) = self.confirm_within
            && let Err(error) = watch_over(root, &self.host.root, &journal, &self.state, within)
        {
            rollback::undo(&mut host, &mut journal, "no process would undo it");
            return Err(error);
        }
        let mut expected = ExpectedEffect { changes: plan.changes.clone(), before };
        if let Err(error) = expected.keep(journal.path()) {
            rollback::undo(&mut host, &mut journal, "failed to record its expected effects");
            return Err(not_kept(error));
        }
        let mut rest = None;
        let then = || {
            rest = self.rest(root, &plan, intent)?;
            Ok(rest.iter().flat_map(|rest: &Plan| rest.changes.clone()).collect())
        };
        let applied = apply_then(&mut host, &plan.changes, &mut journal, &|| signals.stop(), then).map_err(
            |failed| {
                let stopped =
                    matches!(failed.error, StepError::Stopped).then(|| signals.first.get()).flatten();
                match stopped {
                    Some(signal) => not_applied(failed).by_signal(signal),
                    None => not_applied(failed),
                }
            },
        )?;
        if let Some(rest) = &rest {
            expected.changes.extend(rest.changes.iter().cloned());
            expected.keep(journal.path()).map_err(|error| {
                not_kept(error)
                    .with_hint("the plan is in force all the same; `evenkeel tune rollback` undoes it")
            })?;
        }
        Ok(InForce { plan, rest, applied, journal: Journal::path(&journal).to_owned() })
    }

    /// Plans the rest, which needs the new queues.
    fn rest(
        &self,
        root: &Root,
        plan: &Plan,
        intent: Option<&Intent>,
    ) -> Result<Option<Plan>, tuner::observe::root::Error> {
        let look = |pids: &[u32]| tuner::probe(root, pids);
        let renews = plan.changes.iter().any(|change| change.stage == Stage::Queues);
        Ok(match (&plan.then, intent) {
            (Some(intent), _) => Some(plan::rest(&look(&intent.pids)?, intent)),
            (None, Some(intent)) if renews => Some(intent.rest(&look(&self.host.pids)?)),
            _ => None,
        })
    }
}

/// Signals that have arrived since its creation.
struct PendingSignals {
    signals: Signals,
    ignored: Ignored,
    first: Cell<Option<Signal>>,
}

impl PendingSignals {
    fn from_now() -> Result<PendingSignals, Error> {
        let signals = Signals::block().map_err(|error| Error::system("block signals", error))?;
        Ok(PendingSignals { signals, ignored: Ignored::now(), first: Cell::new(None) })
    }

    /// Whether one arrived that is not ignored.
    fn stop(&self) -> bool {
        if let Some(signal) = self.signals.take().filter(|signal| !self.ignored.has(*signal)) {
            self.first.set(self.first.get().or(Some(signal)));
        }
        self.first.get().is_some()
    }
}

fn not_kept(error: std::io::Error) -> Error {
    Error::system("record the expected effects beside the journal", error)
}

/// The error of a plan, or of a trial, that could not be carried out.
pub(crate) fn not_applied(failed: Box<Failed>) -> Error {
    let whole = failed.undone.is_whole() && failed.undone.unrecorded.is_none();
    let error = Error::other(failed);
    if whole { error } else { error.with_hint("`evenkeel tune rollback` tries again") }
}
