//! `evenkeel tune apply`: carry out a plan, all of it or none, so that it can be undone.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use tuner::apply::{Applied, Failed, apply_then};
use tuner::change::Stage;
use tuner::host::FileHost;
use tuner::journal::{Journal, Journals, Place};
use tuner::obstacle::Obstacle;
use tuner::persist::intent::Intent;
use tuner::plan::{self, Plan};
use tuner::promise::Promise;
use tuner::rollback;
use tuner::{Root, Setting};

use super::observe::{self, Host};
use super::persist;
use super::plan::{Wanted, shown};
use crate::failure::Failure;
use crate::verbs::print;

/// Where the journals are.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StateDirectory {
    /// Where the journals are: what was changed, and what it was before
    #[arg(long = "state", value_name = "DIR", default_value = "/var/lib/evenkeel/tune")]
    pub(super) path: PathBuf,
}

/// Carry out a plan, all of it or none
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// A plan that `plan --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "live", "irq_cpus", "cpus"])]
    plan: Option<PathBuf>,
    /// What `persist` has left to be planned anew at boot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "plan", "irq_cpus", "cpus"])]
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
    state: StateDirectory,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut kept = None;
    let (plan, seen) = match (&arguments.plan, &arguments.intent) {
        (Some(path), _) => (saved(path)?, None),
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
    let root = Root::new(&arguments.wanted.host.root);
    let journals = Journals::new(&arguments.state.path);
    let _lock = journals.lock(false).map_err(Failure::other)?;
    let here = Place::of(&root).map_err(Failure::other)?;
    refuse_over_unfinished(&journals, &here)?;
    let before = match arguments.before {
        Some(seconds) => Some(observe::observe(&arguments.wanted.host, seconds)?),
        None => seen,
    };
    let confirm_by_ms =
        arguments.confirm_within.map(|time| milliseconds_since_boot() + time.as_millis() as u64);
    let mut journal = journals.begin(&here, seconds_since_1970(), confirm_by_ms).map_err(Failure::other)?;
    if confirm_by_ms.is_some() {
        watch_over(&root, &arguments.wanted.host.root, &journal, &arguments.state.path)?;
    }
    let mut host = FileHost::new(root.clone());
    let mut promise = Promise { changes: plan.changes.clone(), before };
    if let Err(error) = promise.keep(journal.path()) {
        rollback::undo(&mut host, &mut journal, "failed to keep what it promised").map_err(Failure::other)?;
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
    let applied = apply_then(&mut host, &plan.changes, &mut journal, then).map_err(not_applied)?;
    if let Some(rest) = &rest {
        promise.changes.extend(rest.changes.iter().cloned());
        promise.keep(journal.path()).map_err(|error| {
            Failure::system("keep what the plan promises beside its journal", error)
                .hint("the plan is in force all the same; `evenkeel tune rollback` undoes it")
        })?;
    }
    print(report(&plan, rest.as_ref(), &applied, &journal, arguments.confirm_within).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn saved(path: &Path) -> Result<Plan, Failure> {
    let what = || format!("read the plan {}", path.display());
    let text = std::fs::read(path).map_err(|error| Failure::system(what(), error))?;
    serde_json::from_slice(&text).map_err(|error| Failure::usage(format_args!("{}: {error}", what()), None))
}

fn intended(intent: &Intent, host: &Host) -> Result<Plan, Failure> {
    let plan = intent.plan(&host.facts()?);
    // At boot nobody looks at what is printed on success, and half of an intent is better than none of it.
    for refusal in &plan.refusals {
        eprintln!(
            "evenkeel: tune: {}: not planned ({}): {}",
            refusal.subject, refusal.asked_by, refusal.reason
        );
    }
    Ok(plan)
}

/// What to say of a plan, or of a trial, that could not be carried out.
pub(super) fn not_applied(failed: Box<Failed>) -> Failure {
    let whole = failed.undone.as_ref().is_ok_and(|undone| undone.is_whole());
    let failure = Failure::other(failed);
    if whole { failure } else { failure.hint("`evenkeel tune rollback` tries again") }
}

/// What a plan that is not finished has set would be taken for what was so before.
pub(super) fn refuse_over_unfinished(journals: &Journals, here: &Place) -> Result<(), Failure> {
    let all = journals.all().map_err(Failure::other)?;
    match Obstacle::find(&all, here) {
        None => Ok(()),
        Some(obstacle) => {
            Err(Failure::other(anyhow::anyhow!("apply a plan: {obstacle}")).hint(obstacle.remedy()))
        }
    }
}

/// Starts a process of its own that undoes the plan if nobody confirms it. It starts before the first change, so that
/// a plan that cuts this one off is undone, too.
fn watch_over(root: &Root, given: &Path, journal: &Journal, state: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::system("start the process that would undo it", error);
    let program =
        if root.is_live() { "/proc/self/exe".into() } else { std::env::current_exe().map_err(failed)? };
    let absolute = |path: &Path| std::path::absolute(path).map_err(failed);
    Command::new(program)
        .args(["tune", "watch-over", "--root"])
        .arg(absolute(given)?)
        .arg("--state")
        .arg(absolute(state)?)
        .arg(absolute(journal.path())?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok(())
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
    lines.join("\n") + "\n"
}

/// `30s`, `5m` or `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 30s, 5m or 1h".to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let count: u32 = digits.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

/// Of the clock that goes on while the host sleeps, and that nobody sets.
pub(super) fn milliseconds_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[expect(clippy::disallowed_methods, reason = "the command line reads the clock")]
pub(super) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

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
    }
}
