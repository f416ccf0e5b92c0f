//! Jobs that change something: planned, shown, and with `--apply` carried out.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::ask::Place;
use super::file::read_file;
use crate::failure::Failure;

/// Longest policy in bytes that is read from a file.
const POLICY_LEN_MAX: u64 = 8 * 1024 * 1024;

/// What all changes have.
#[derive(Clone, Debug, Args)]
pub(super) struct Change {
    /// Carry it out. Without it, the plan is shown
    #[arg(long, requires = "why")]
    apply: bool,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Change {
    /// Whether it is carried out.
    pub(super) fn is_applied(&self) -> bool {
        self.apply
    }

    /// The reason.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Whether a controller is asked, by a job that can do without one as long as it changes nothing.
    pub(super) fn asks_controller(&self) -> bool {
        self.apply || self.place.is_given()
    }
}

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub(super) struct PlanArguments {
    /// A policy that would be in force instead of the present one
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Without phases, also where clusters get other numbers of slots: keys that move are cold, and may be old when they move back
    #[arg(long, requires = "policy")]
    now: bool,
    #[command(flatten)]
    change: Change,
}

/// Arguments of `replace`.
#[derive(Clone, Debug, Args)]
pub(super) struct ReplaceArguments {
    /// The member that leaves its slot
    member: String,
    /// The member that takes it; without it, the best spare
    #[arg(long, value_name = "MEMBER")]
    by: Option<String>,
    /// At once, even if the member lives: what is deleted or set until all routers know of it may be lost. Without it, a member
    /// that lives leaves its slot by the phases of a drain
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    change: Change,
}

/// Arguments of `drain`.
#[derive(Clone, Debug, Args)]
pub(super) struct DrainArguments {
    /// The member that leaves its slot
    member: String,
    /// The member that takes it; without it, the best spare
    #[arg(long, value_name = "MEMBER", conflicts_with = "cancel")]
    to: Option<String>,
    /// Seconds in which the new member is warmed up from the old one at most, once all routers read it; it ends before if the new one
    /// has the hit ratio of its peers
    #[arg(long, value_name = "SECONDS", default_value_t = 600, conflicts_with = "cancel")]
    warm_up_s: u32,
    /// Give the drain up: the member gets its slot back
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    change: Change,
}

/// Arguments of `scale`.
#[derive(Clone, Debug, Args)]
pub(super) struct ScaleArguments {
    /// The cluster
    cluster: String,
    /// How many slots it is to have
    #[arg(value_name = "SLOTS", required_unless_present = "cancel", conflicts_with = "cancel")]
    slots: Option<usize>,
    /// Seconds in which the new owners of keys are warmed up from the old ones, once all routers read them; without it, as the policy
    /// says. It ends before if added members have the hit ratio of the others
    #[arg(long, value_name = "SECONDS", conflicts_with = "cancel")]
    warm_up_s: Option<u32>,
    /// At once: keys that move are cold, what is deleted or set until all routers know of it may be lost, and keys that move back may be
    /// found with old values
    #[arg(long, conflicts_with_all = ["cancel", "warm_up_s"])]
    now: bool,
    /// Give the resize up: the cluster has the slots again that it had
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    change: Change,
}

/// Arguments of `rollback`.
#[derive(Clone, Debug, Args)]
pub(super) struct RollbackArguments {
    /// The generation whose content is to be in force again
    generation: u64,
    #[command(flatten)]
    change: Change,
}

/// Arguments of `freeze`.
#[derive(Clone, Debug, Args)]
pub(super) struct FreezeArguments {
    /// `fleet`, `cluster/NAME` or `zone/NAME`, where nothing changes any more; `member/ID` or `host/ID`, which take no slot any
    /// more (quarantine)
    scope: String,
    /// The reason, for everybody who asks
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `thaw`.
#[derive(Clone, Debug, Args)]
pub(super) struct ThawArguments {
    /// The scope, as `freeze` takes it
    scope: String,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `rollout`.
#[derive(Clone, Debug, Args)]
pub(super) struct RolloutArguments {
    /// What becomes of the generation that is on its way
    act: RolloutAct,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: Place,
}

/// What a person wants of a rollout.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RolloutAct {
    /// It goes on, without the routers that have halted it
    Resume,
    /// It goes on, and its waves wait for no time
    Hurry,
    /// No further router gets it
    Halt,
    /// Routers get the routes that they had before, with the members that slots have now
    Abandon,
}

/// Plans for a policy, or for what the fleet needs now.
pub(super) fn plan(job: &PlanArguments) -> Result<ExitCode, Failure> {
    let policy = job.policy.as_ref().map(|path| read_file(path, POLICY_LEN_MAX));
    let field = if job.now { "policy_at_once" } else { "policy" };
    change(&job.change, json!({field: policy.transpose()?}))
}

/// Replaces a member in its slot.
pub(super) fn replace(job: &ReplaceArguments) -> Result<ExitCode, Failure> {
    let wish = json!({"member": job.member, "by": job.by, "now": job.now});
    change(&job.change, json!({"requests": [{"replace": wish}]}))
}

/// Moves the slot of a member, or gives that up.
pub(super) fn drain(job: &DrainArguments) -> Result<ExitCode, Failure> {
    let body = match job.cancel {
        true => json!({"cancel_drain": job.member}),
        false => json!({"drain": {"member": job.member, "to": job.to, "warm_up_s": job.warm_up_s}}),
    };
    change(&job.change, body)
}

/// Gives a cluster another number of slots, or gives that up.
pub(super) fn scale(job: &ScaleArguments) -> Result<ExitCode, Failure> {
    let body = match job.cancel {
        true => json!({"cancel_scale": job.cluster}),
        false => json!({"scale": {
            "cluster": job.cluster, "slots": job.slots, "warm_up_s": job.warm_up_s, "now": job.now,
        }}),
    };
    change(&job.change, body)
}

/// Goes back to the content of an earlier generation.
pub(super) fn rollback(job: &RollbackArguments) -> Result<ExitCode, Failure> {
    change(&job.change, json!({"rollback": job.generation}))
}

/// Freezes a scope.
pub(super) fn freeze(job: &FreezeArguments) -> Result<ExitCode, Failure> {
    let body = json!({"scope": job.scope, "why": job.why});
    job.place.show(&job.place.ask(|client, within| client.post("/v1/freeze", &body, within))?)
}

/// Thaws a scope.
pub(super) fn thaw(job: &ThawArguments) -> Result<ExitCode, Failure> {
    let body = json!({"scope": job.scope, "why": job.why});
    job.place.show(&job.place.ask(|client, within| client.post("/v1/thaw", &body, within))?)
}

/// Halts a rollout, lets it go on, or gives it up.
pub(super) fn rollout(job: &RolloutArguments) -> Result<ExitCode, Failure> {
    let act = match job.act {
        RolloutAct::Resume => "resume",
        RolloutAct::Hurry => "hurry",
        RolloutAct::Halt => "halt",
        RolloutAct::Abandon => "abandon",
    };
    let body = json!({"act": act, "why": job.why});
    job.place.show(&job.place.ask(|client, within| client.post("/v1/rollout", &body, within))?)
}

/// Shows the plan of a change; with `--apply`, carries out that plan and no other.
pub(super) fn change(change: &Change, mut body: Value) -> Result<ExitCode, Failure> {
    let place = &change.place;
    let planned = place.ask(|client, within| client.post("/v1/plan", &body, within))?;
    let plan = planned.json.get("plan").cloned();
    let Some(plan) = plan.filter(|_| change.apply && planned.is_ok()) else { return place.show(&planned) };
    if !place.json {
        place.show(&planned)?;
    }
    // Without a plan there is nothing to do, which has been shown.
    if plan.is_null() {
        return if place.json { place.show(&planned) } else { Ok(ExitCode::SUCCESS) };
    }
    body["plan"] = plan;
    body["why"] = json!(change.why);
    place.show(&place.ask(|client, within| client.post("/v1/apply", &body, within))?)
}
