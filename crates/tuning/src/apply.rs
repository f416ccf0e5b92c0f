//! Plans carried out, all of each or none, so that they can be undone.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use os::clock::{since_boot_ms, unix_s};
use os::signals::{Ignored, Signal, Signals};
use tuner::apply::expected_effect::ExpectedEffect;
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::apply::rollback;
use tuner::apply::{Applied, Failed, StepError, apply_then};
use tuner::persist::intent::Intent;
use tuner::plan::change::Stage;
use tuner::plan::{self, Plan};
use tuner::report::folded;
use tuner::{Capture, PlanRefusal, Root};

use crate::deadline::watch_over;
use crate::error::Error;
use crate::observe::{self, Host};
use crate::plan::Wanted;
use crate::progress::Notice;
use crate::saved;
use crate::state::{State, StateDirectory};

/// What to carry out, and how carefully.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the plan comes from.
    pub what: What,
    /// The host that it is for.
    pub host: Host,
    /// Undo everything unless somebody confirms it in this time.
    pub confirm_within: Option<Duration>,
    /// Measure for so many seconds before the first change, for later comparison.
    pub before_s: Option<u32>,
    /// Wait at most so long for others that change settings.
    pub wait: Duration,
    /// Where the journals are.
    pub state: StateDirectory,
}

/// Where a plan comes from.
#[derive(Clone, Debug)]
pub enum What {
    /// It is made now.
    Wanted(Wanted),
    /// It is in this file, as [`crate::plan::json`] has made it.
    Saved(PathBuf),
    /// It is planned anew from an intent in this file, which was kept over a restart.
    Intent(PathBuf),
}

/// What has come of it.
#[derive(Debug)]
pub enum Outcome {
    /// The plan has no changes.
    Nothing(Box<Plan>),
    /// They are in force.
    InForce(Box<InForce>),
}

/// A plan in force.
#[derive(Debug)]
pub struct InForce {
    /// What was planned.
    pub plan: Plan,
    /// What was planned with the new queues, when they were there.
    pub rest: Option<Plan>,
    /// What was done of both.
    pub applied: Applied,
    /// Where the old values are.
    pub journal: PathBuf,
}

/// A plan, and what it came from.
struct Planned {
    plan: Plan,
    intent: Option<Intent>,
    /// What was counted for it, if anything was.
    seen: Option<Capture>,
}

impl Request {
    /// The plan, and nothing is changed.
    pub fn dry_run(&self) -> Result<Plan, Error> {
        Ok(self.planned()?.plan)
    }

    /// Carries it out.
    pub fn carry_out(&self) -> Result<Outcome, Error> {
        let root = Root::new(&self.host.root);
        // What is undone only now is not what the plan is to begin with.
        self.state.look(&root)?.of_this_version()?;
        let planned = self.planned()?;
        if planned.plan.changes.is_empty() {
            return Ok(Outcome::Nothing(Box::new(planned.plan)));
        }
        let before = match self.before_s {
            Some(seconds) => {
                // Nobody measures in vain, and while this one only looks, nobody waits for it.
                self.enter(&root)?.refuse_over_unfinished()?;
                Some(observe::observe(&self.host, seconds)?)
            }
            None => planned.seen,
        };
        let state = self.enter(&root)?;
        state.refuse_over_unfinished()?;
        self.change(&root, &state, planned.plan, planned.intent.as_ref(), before)
            .map(|in_force| Outcome::InForce(Box::new(in_force)))
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
            What::Wanted(wanted) => {
                let (plan, seen) = wanted.plan_and_look()?;
                Planned { plan, intent: None, seen }
            }
        })
    }

    fn intended(&self, intent: &Intent) -> Result<Plan, Error> {
        let plan = intent.plan(&self.host.facts()?);
        // At boot nobody looks at what is printed on success, and half of an intent is better than none of it.
        let line = |refusal: &PlanRefusal| {
            format!("{}: not planned ({}): {}", refusal.subject, refusal.asked_by, refusal.reason)
        };
        let lines: Vec<String> = plan.refusals.iter().map(line).collect();
        folded(&lines).into_iter().for_each(|line| (self.state.notice)(&Notice::NotPlanned { line }));
        Ok(plan)
    }

    /// From the journal's beginning to the last change.
    fn change(
        &self,
        root: &Root,
        state: &State,
        plan: Plan,
        intent: Option<&Intent>,
        before: Option<Capture>,
    ) -> Result<InForce, Error> {
        // Too many of them are no reason to change nothing.
        let _ = state.journals.prune(&state.here, unix_s());
        let confirm_by_ms = self.confirm_within.map(|time| since_boot_ms() + time.as_millis() as u64);
        // From here on a signal ends nothing by half.
        let told = Told::from_now()?;
        let mut journal = state.journals.begin(&state.here, unix_s(), confirm_by_ms).map_err(Error::other)?;
        let mut host = FileHost::new(root.clone());
        if let Some(within) = self.confirm_within
            && let Err(error) = watch_over(root, &self.host.root, &journal, &self.state, within)
        {
            rollback::undo(&mut host, &mut journal, "nobody would undo it");
            return Err(error);
        }
        let mut expected = ExpectedEffect { changes: plan.changes.clone(), before };
        if let Err(error) = expected.keep(journal.path()) {
            rollback::undo(&mut host, &mut journal, "failed to keep what it promised");
            return Err(not_kept(error));
        }
        let mut rest = None;
        let then = || {
            rest = self.rest(root, &plan, intent)?;
            Ok(rest.iter().flat_map(|rest: &Plan| rest.changes.clone()).collect())
        };
        let applied =
            apply_then(&mut host, &plan.changes, &mut journal, &|| told.stop(), then).map_err(|failed| {
                let stopped = matches!(failed.error, StepError::Stopped).then(|| told.first.get()).flatten();
                match stopped {
                    Some(signal) => not_applied(failed).by_signal(signal),
                    None => not_applied(failed),
                }
            })?;
        if let Some(rest) = &rest {
            expected.changes.extend(rest.changes.iter().cloned());
            expected.keep(journal.path()).map_err(|error| {
                not_kept(error)
                    .with_hint("the plan is in force all the same; `evenkeel tune rollback` undoes it")
            })?;
        }
        Ok(InForce { plan, rest, applied, journal: Journal::path(&journal).to_owned() })
    }

    /// What can be planned only when the queues are new.
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

/// Signals that have come since it was made.
struct Told {
    signals: Signals,
    ignored: Ignored,
    first: Cell<Option<Signal>>,
}

impl Told {
    fn from_now() -> Result<Told, Error> {
        let signals = Signals::block().map_err(|error| Error::system("block signals", error))?;
        Ok(Told { signals, ignored: Ignored::now(), first: Cell::new(None) })
    }

    /// Whether there was one that counts.
    fn stop(&self) -> bool {
        if let Some(signal) = self.signals.take().filter(|signal| !self.ignored.has(*signal)) {
            self.first.set(self.first.get().or(Some(signal)));
        }
        self.first.get().is_some()
    }
}

fn not_kept(error: std::io::Error) -> Error {
    Error::system("keep what the plan promises beside its journal", error)
}

/// What to say of a plan, or of a trial, that could not be carried out.
pub(crate) fn not_applied(failed: Box<Failed>) -> Error {
    let whole = failed.undone.is_whole() && failed.undone.unrecorded.is_none();
    let error = Error::other(failed);
    if whole { error } else { error.with_hint("`evenkeel tune rollback` tries again") }
}
