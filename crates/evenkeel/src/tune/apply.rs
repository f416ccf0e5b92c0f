//! `evenkeel tune apply`: carry out a plan, all of it or none, so that it can be undone.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tuner::apply::expected_effect::ExpectedEffect;
use tuner::apply::host::FileHost;
use tuner::apply::journal::Journal;
use tuner::apply::obstacle::Obstacle;
use tuner::apply::rollback;
use tuner::apply::saved::{Origin, Saved};
use tuner::apply::{Applied, Failed, StepError, apply_then};
use tuner::persist::intent::Intent;
use tuner::plan::change::Stage;
use tuner::plan::{self, Plan};
use tuner::report::folded;
use tuner::{Refusal, Root, Setting};

use super::deadline::watch_over;
use super::load::ignored;
use super::observe::{self, Host};
use super::persist;
use super::plan::{Wanted, shown};
use super::state::{Patience, State, StateDirectory, milliseconds_since_boot, seconds_since_1970};
use crate::failure::{Failure, say};
use crate::output::{print, tell};
use os::signals::Signals;

/// Carry out a plan, all of it or none
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// A plan that `plan --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "live", "irq_cpus", "cpus", "accept_risk"])]
    plan: Option<PathBuf>,
    /// What `persist` has left to be planned anew at boot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "plan", "irq_cpus", "cpus", "accept_risk"])]
    intent: Option<PathBuf>,
    /// Print the plan, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Undo everything unless `evenkeel tune confirm` comes in this time: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    confirm_within: Option<Duration>,
    /// Measure for so long before the first change, so that `evenkeel tune verify` can say what has moved since
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    before: Option<u32>,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    state: StateDirectory,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let root = Root::new(&arguments.wanted.host.root);
    if !arguments.dry_run {
        // What is undone only now is not what the plan is to begin with.
        arguments.state.look(&root)?;
    }
    let mut kept = None;
    let (plan, seen) = match (&arguments.plan, &arguments.intent) {
        (Some(path), _) => (saved(path, &root)?, None),
        (None, Some(path)) => {
            let intent = kept.insert(persist::intent(path)?);
            (intended(intent, &arguments.wanted.host)?, None)
        }
        (None, None) => arguments.wanted.plan_and_look()?,
    };
    if arguments.dry_run || plan.changes.is_empty() {
        print(shown(&plan).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let enter = || arguments.state.enter(&root, arguments.patience.wait);
    let before = match arguments.before {
        Some(seconds) => {
            // Nobody measures in vain, and while this one only looks, nobody waits for it.
            refuse_over_unfinished(&enter()?)?;
            Some(observe::observe(&arguments.wanted.host, seconds)?)
        }
        None => seen,
    };
    let state = enter()?;
    refuse_over_unfinished(&state)?;
    // Too many of them are no reason to change nothing.
    let _ = state.journals.prune(&state.here, seconds_since_1970());
    let confirm_by_ms =
        arguments.confirm_within.map(|time| milliseconds_since_boot() + time.as_millis() as u64);
    // From here on a signal ends nothing by half.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let ignored = ignored();
    let mut journal =
        state.journals.begin(&state.here, seconds_since_1970(), confirm_by_ms).map_err(Failure::other)?;
    if let Some(within) = arguments.confirm_within {
        let watched = watch_over(&root, &arguments.wanted.host.root, &journal, &arguments.state, within);
        if let Err(failure) = watched {
            rollback::undo(&mut FileHost::new(root), &mut journal, "nobody would undo it");
            return Err(failure);
        }
    }
    let mut host = FileHost::new(root.clone());
    let mut expected = ExpectedEffect { changes: plan.changes.clone(), before };
    if let Err(error) = expected.keep(journal.path()) {
        rollback::undo(&mut host, &mut journal, "failed to keep what it promised");
        return Err(Failure::system("keep what the plan promises beside its journal", error));
    }
    let renews = plan.changes.iter().any(|change| change.stage == Stage::Queues);
    let mut rest = None;
    let then = || {
        let look = |pids: &[u32]| tuner::probe(&root, pids);
        rest = match (&plan.then, &kept) {
            (Some(intent), _) => Some(plan::rest(&look(&intent.pids)?, intent)),
            (None, Some(intent)) if renews => Some(intent.rest(&look(&arguments.wanted.host.pids)?)),
            _ => None,
        };
        Ok(rest.iter().flat_map(|rest| rest.changes.clone()).collect())
    };
    let told = Cell::new(None);
    let stop = || {
        // One that this process was told to ignore (nohup) comes all the same once it is blocked.
        if let Some(signal) = signals.take().filter(|signal| ignored >> (signal.number() - 1) & 1 == 0) {
            told.set(told.get().or(Some(signal)));
        }
        told.get().is_some()
    };
    let applied = apply_then(&mut host, &plan.changes, &mut journal, &stop, then).map_err(|failed| {
        let stopped = matches!(failed.error, StepError::Stopped).then(|| told.get()).flatten();
        let failure = not_applied(failed);
        match stopped {
            Some(signal) => failure.with_status(signal.status()),
            None => failure,
        }
    })?;
    if let Some(rest) = &rest {
        expected.changes.extend(rest.changes.iter().cloned());
        expected.keep(journal.path()).map_err(|error| {
            Failure::system("keep what the plan promises beside its journal", error)
                .hint("the plan is in force all the same; `evenkeel tune rollback` undoes it")
        })?;
    }
    // A reader that takes nothing holds up nobody's way back.
    drop(state);
    tell(report(&plan, rest.as_ref(), &applied, &journal, arguments.confirm_within).as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// A plan in a file, if it was made here and is one of ours.
pub(super) fn saved(path: &Path, root: &Root) -> Result<Plan, Failure> {
    let what = || format!("read the plan {}", path.display());
    let hint = "`evenkeel tune plan --json` makes one, for this host as it is now";
    let text = std::fs::read(path).map_err(|error| Failure::system(what(), error))?;
    let saved: Saved = serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", what()), Some(hint.to_owned())))?;
    saved.check(&Origin::of(root).map_err(Failure::other)?).map_err(|refused| {
        Failure::other(anyhow::anyhow!("carry out the plan {}: {refused}", path.display())).hint(hint)
    })?;
    Ok(saved.plan)
}

fn intended(intent: &Intent, host: &Host) -> Result<Plan, Failure> {
    let plan = intent.plan(&host.facts()?);
    // At boot nobody looks at what is printed on success, and half of an intent is better than none of it.
    let line = |refusal: &Refusal| {
        format!("{}: not planned ({}): {}", refusal.subject, refusal.asked_by, refusal.reason)
    };
    let lines: Vec<String> = plan.refusals.iter().map(line).collect();
    folded(&lines).iter().for_each(|line| say(format_args!("evenkeel: tune: {line}")));
    Ok(plan)
}

/// What to say of a plan, or of a trial, that could not be carried out.
pub(super) fn not_applied(failed: Box<Failed>) -> Failure {
    let whole = failed.undone.is_whole() && failed.undone.unrecorded.is_none();
    let failure = Failure::other(failed);
    if whole { failure } else { failure.hint("`evenkeel tune rollback` tries again") }
}

/// What a plan that is not finished has set would be taken for what was so before.
pub(super) fn refuse_over_unfinished(state: &State) -> Result<(), Failure> {
    let all = state.journals.all().map_err(Failure::other)?;
    match Obstacle::find(&all, &state.here) {
        None => Ok(()),
        Some(obstacle) => {
            Err(Failure::other(anyhow::anyhow!("apply a plan: {obstacle}")).hint(obstacle.remedy()))
        }
    }
}

fn report(
    plan: &Plan,
    rest: Option<&Plan>,
    applied: &Applied,
    journal: &Journal,
    confirm_within: Option<Duration>,
) -> String {
    let count = plan.changes.len() + rest.map_or(0, |rest| rest.changes.len());
    let mut lines = vec![format!("{} of {count} changes are in force.", applied.done.len())];
    if let Some(rest) = rest {
        lines.push(format!("{} of them were planned with the new queues.", rest.changes.len()));
    }
    lines.extend(rest.iter().flat_map(|rest| &rest.refusals).map(|refusal| {
        format!("Not planned ({}): {}: {}.", refusal.asked_by, refusal.subject, refusal.reason)
    }));
    lines.extend(applied.left.iter().map(|(setting, why)| format!("Left as it was: {setting}: {why}.")));
    lines.extend(applied.pending.iter().map(|irq| {
        format!("Interrupt {irq} moves when it comes the next time; `evenkeel tune status` shows it.")
    }));
    let told = |setting: &Setting| matches!(setting, Setting::Irqbalance { .. });
    if applied.done.iter().any(told) {
        lines.push(
            "irqbalance leaves these interrupts alone from its next round on, in about 10 s; `evenkeel tune status` \
             shows after that whether they stayed."
                .to_owned(),
        );
    }
    let advice = plan.advice.iter().chain(rest.iter().flat_map(|rest| &rest.advice));
    lines.extend(advice.map(|advice| format!("To do by hand: {advice}.")));
    let service_cpus = rest.and_then(|rest| rest.service_cpus.as_ref()).or(plan.service_cpus.as_ref());
    lines.extend(service_cpus.map(|left| format!("{left}.")));
    lines.push(format!("The old values are in {}.", journal.path().display()));
    lines.push(match confirm_within {
        Some(time) => {
            format!("In {} s everything is undone, unless you run `evenkeel tune confirm`.", time.as_secs())
        }
        None => "`evenkeel tune rollback` undoes it.".to_owned(),
    });
    folded(&lines).join("\n") + "\n"
}

/// `30s`, `5m` or `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    time(text).ok().filter(|time| !time.is_zero()).ok_or_else(|| TIME_EXPECTED.to_owned())
}

/// The same, or none at all: `0s`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || TIME_EXPECTED.to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let count: u32 = digits.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

const TIME_EXPECTED: &str = "expected a time such as 30s, 5m or 1h";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("30s", Some(30)), ("5m", Some(300)), ("1h", Some(3600))] {
            assert_eq!(duration(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in ["", "5", "m", "0s", "-1s", "5 m", "5ms"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(time("0s"), Ok(Duration::ZERO));
    }
}
