//! `evenkeel tune apply`: carry out a plan, all of it or none, so that it can be undone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tuner::Setting;
use tuner::apply::label::PlanLabel;
use tuner::report::folded;
use tuning::apply::{ApplyOutcome, InForce, Request, What};

use super::arguments::{Patience, PlanArguments, StateDirectory, duration};
use super::messages;
use super::plan::shown;
use crate::failure::Failure;
use crate::terminal::output::{print, tell};

/// Carry out a plan, all of it or none
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: PlanArguments,
    /// A plan that `plan --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "live", "irq_cpus", "cpus", "accept_risk"])]
    plan: Option<PathBuf>,
    /// An intent of `persist`, which is planned anew at boot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "profile", "nic", "plan", "irq_cpus", "cpus", "accept_risk"])]
    intent: Option<PathBuf>,
    /// Print the plan, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Undo everything unless `evenkeel tune confirm` is run within this time: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    confirm_within: Option<Duration>,
    /// Name the plan, so that `confirm --label` and `rollback --label` find this one and no other
    #[arg(long, value_name = "LABEL")]
    label: Option<PlanLabel>,
    /// Measure for this many seconds before the first change, so that `evenkeel tune verify` can compare
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    before: Option<u32>,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    state: StateDirectory,
}

impl Arguments {
    fn request(&self) -> Result<Request, Failure> {
        let what = match (&self.plan, &self.intent) {
            (Some(path), _) => What::Saved(path.clone()),
            (None, Some(path)) => What::Intent(path.clone()),
            (None, None) => What::Requested(self.wanted.request()?),
        };
        Ok(Request {
            what,
            host: self.wanted.host.request(),
            confirm_within: self.confirm_within,
            label: self.label.clone(),
            before_s: self.before,
            wait: self.patience.wait,
            state: self.state.request(),
        })
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let request = arguments.request()?;
    let outcome = match arguments.dry_run {
        true => ApplyOutcome::Nothing(Box::new(request.dry_run()?)),
        false => {
            // It may be a minute until the next line.
            let measured_s = arguments.before.unwrap_or(0) + arguments.wanted.measured_s().unwrap_or(0);
            if measured_s > 0 && arguments.plan.is_none() && arguments.intent.is_none() {
                messages::say_line(&format!("measuring for {measured_s} s before the first change"));
            }
            request.carry_out()?
        }
    };
    match outcome {
        ApplyOutcome::Nothing(plan) => print(shown(&plan).as_bytes())?,
        ApplyOutcome::InForce(in_force) => tell(report(&in_force, arguments.confirm_within).as_bytes()),
    }
    Ok(ExitCode::SUCCESS)
}

/// `1 of 2 changes is in force.`
fn in_force_line(done: usize, count: usize) -> String {
    let noun = if count == 1 { "change" } else { "changes" };
    let verb = if done == 1 || count == 1 { "is" } else { "are" };
    format!("{done} of {count} {noun} {verb} in force.")
}

fn report(in_force: &InForce, confirm_within: Option<Duration>) -> String {
    let InForce { plan, rest, applied, journal } = in_force;
    let rest = rest.as_ref();
    let count = plan.changes.len() + rest.map_or(0, |rest| rest.changes.len());
    let mut lines = vec![in_force_line(applied.done.len(), count)];
    if let Some(rest) = rest {
        let were = if rest.changes.len() == 1 { "was" } else { "were" };
        lines.push(format!("{} of them {were} planned with the new queues.", rest.changes.len()));
    }
    lines.extend(rest.iter().flat_map(|rest| &rest.refusals).map(|refusal| {
        format!("Not planned ({}): {}: {}.", refusal.asked_by, refusal.subject, refusal.reason)
    }));
    lines.extend(applied.left.iter().map(|(setting, why)| format!("Left as it was: {setting}: {why}.")));
    lines.extend(applied.pending.iter().map(|irq| {
        format!("Interrupt {irq} moves when it occurs the next time; `evenkeel tune status` shows it.")
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
    lines.push(format!("The old values are in {}.", journal.display()));
    lines.push(match confirm_within {
        Some(time) => {
            format!("In {} s everything is undone, unless you run `evenkeel tune confirm`.", time.as_secs())
        }
        None => "`evenkeel tune rollback` undoes it.".to_owned(),
    });
    folded(&lines).join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::in_force_line;

    #[test]
    fn one_change_is_and_several_are() {
        let lines = [(1, 1), (0, 1), (1, 2), (2, 2), (0, 3)].map(|(done, count)| in_force_line(done, count));
        let wanted = [
            "1 of 1 change is in force.",
            "0 of 1 change is in force.",
            "1 of 2 changes is in force.",
            "2 of 2 changes are in force.",
            "0 of 3 changes are in force.",
        ];
        assert_eq!(lines, wanted);
    }
}
