//! `control tune`: what the tuner finds on the hosts of a fleet, what it would change, and changes by canaries and waves.

pub(super) mod changes;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use os::clock::{Stopwatch, pause};
use serde_json::{Value, json};

use super::ask::{Place, escaped};
use crate::failure::Failure;

/// Interval of looks whether hosts have answered.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `tune`.
#[derive(Clone, Debug, Args)]
pub(super) struct TuneArguments {
    #[command(subcommand)]
    job: TuneJob,
}

#[derive(Clone, Debug, Subcommand)]
enum TuneJob {
    /// Show what limits the hosts: a row for each kind of host, finding and change, with how many hosts have it
    Check(CheckArguments),
    /// Have the hosts plan, and show groups of hosts with equal plans; nothing is changed
    Plan(PlanArguments),
    /// Have the hosts plan, and carry that out by canaries and waves; without --apply, show how that would go
    Apply(Box<changes::ApplyArguments>),
    /// Show where a change is: its wave, what it waits for, what its looks have found, and hosts that are left out
    Status(changes::StatusArguments),
    /// Let no further host get a change; those that have it keep it
    Halt(changes::SteerArguments),
    /// Let a change that was halted go on, with what has halted it
    Resume(changes::SteerArguments),
    /// Take a change back, on the hosts that were changed last first; also one that is done
    Undo(changes::SteerArguments),
    /// List the last changes, the newest first
    History(changes::HistoryArguments),
}

#[derive(Clone, Debug, Args)]
struct CheckArguments {
    /// Which hosts: all, or host=, zone=, cluster= and class= with names between commas, such as cluster=web,zone=a,b
    #[arg(long, value_name = "SCOPE", default_value = "all")]
    hosts: String,
    /// Have them look again, and wait for it. Without it, what they found within the last hour is shown
    #[arg(long)]
    now: bool,
    /// With --now: wait at most so many seconds, and show then what there is
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    #[command(flatten)]
    place: Place,
}

/// What hosts are to plan, where no question with their plans is named.
#[derive(Clone, Debug, Args)]
struct WishArguments {
    /// Which hosts: all, or host=, zone=, cluster= and class= with names between commas, such as cluster=web,zone=a,b
    #[arg(long, value_name = "SCOPE", required_unless_present = "id")]
    hosts: Option<String>,
    /// The needs of a kind of service, as `evenkeel tune plan` has it
    #[arg(long, value_name = "NAME", required_unless_present_any = ["strategy", "id"], conflicts_with = "strategy")]
    profile: Option<String>,
    /// A strategy, as `evenkeel tune plan` has it
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
}

impl WishArguments {
    /// As controllers are asked.
    fn json(&self) -> Value {
        json!({"hosts": self.hosts, "profile": self.profile, "strategy": self.strategy})
    }
}

#[derive(Clone, Debug, Args)]
struct PlanArguments {
    #[command(flatten)]
    wish: WishArguments,
    /// Show what hosts have planned for this question within the last hour
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["hosts", "profile", "strategy"])]
    id: Option<String>,
    /// Wait at most so many seconds, and show then what there is
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    #[command(flatten)]
    place: Place,
}

/// Runs one of the jobs.
pub(super) fn run(arguments: &TuneArguments) -> Result<ExitCode, Failure> {
    match &arguments.job {
        TuneJob::Check(job) => check(job),
        TuneJob::Plan(job) => plan(job),
        TuneJob::Apply(job) => changes::apply(job),
        TuneJob::Status(job) => changes::status(job),
        TuneJob::Halt(job) => changes::steer(job, "halt"),
        TuneJob::Resume(job) => changes::steer(job, "resume"),
        TuneJob::Undo(job) => changes::steer(job, "undo"),
        TuneJob::History(job) => changes::history(job),
    }
}

fn check(job: &CheckArguments) -> Result<ExitCode, Failure> {
    let place = &job.place;
    if job.now {
        let body = json!({"hosts": job.hosts, "check": true});
        if let Asked::Refused(code) = ask(place, &body, job.wait)? {
            return Ok(code);
        }
    }
    let path = format!("/v1/tune/check?hosts={}", escaped(&job.hosts));
    place.show(&place.ask(|client, within| client.get(&path, within))?)
}

fn plan(job: &PlanArguments) -> Result<ExitCode, Failure> {
    let place = &job.place;
    let id = match question(place, job.id.as_ref(), &job.wish.json(), job.wait)? {
        Asked::Answered(id) => id,
        Asked::Refused(code) => return Ok(code),
    };
    let path = format!("/v1/tune/plan?id={}", escaped(&id));
    place.show(&place.ask(|client, within| client.get(&path, within))?)
}

/// What has come of a question.
enum Asked {
    /// Hosts have answered, or the time is over.
    Answered(String),
    /// The controller says no, which was shown.
    Refused(ExitCode),
}

/// The question with this name; without one, hosts are asked for a wish.
fn question(place: &Place, id: Option<&String>, wish: &Value, wait_s: u64) -> Result<Asked, Failure> {
    id.map_or_else(|| ask(place, wish, wait_s), |id| Ok(Asked::Answered(id.clone())))
}

/// Asks hosts, and waits until none is waited for or the time is over.
fn ask(place: &Place, body: &Value, wait_s: u64) -> Result<Asked, Failure> {
    let asked = place.ask(|client, within| client.post("/v1/tune/ask", body, within))?;
    let Some(id) = asked.json.get("id").and_then(Value::as_str).filter(|_| asked.is_ok()) else {
        return place.show(&asked).map(Asked::Refused);
    };
    let (path, watch) = (format!("/v1/tune/ask?id={}", escaped(id)), Stopwatch::start());
    let mut said = String::new();
    loop {
        let answer = place.ask(|client, within| client.get(&path, within))?;
        // Another controller may have been asked, which is told of the question within a moment.
        let is_known = answer.is_ok();
        let waiting = answer.json.get("waiting").and_then(Value::as_u64);
        let is_over = watch.passed() >= Duration::from_secs(wait_s);
        let text = answer.json.get("text").and_then(Value::as_str).unwrap_or_default();
        if is_known && text != said {
            progress(text, waiting == Some(0) || is_over);
            text.clone_into(&mut said);
        }
        match waiting {
            Some(0) if is_known => return Ok(Asked::Answered(id.to_owned())),
            _ if is_over && is_known => return Ok(Asked::Answered(id.to_owned())),
            _ if is_over => return place.show(&answer).map(Asked::Refused),
            _ => pause(LOOK_EVERY),
        }
    }
}

/// Says on standard error how far it is: on a terminal in one line that is written over, otherwise in lines.
fn progress(text: &str, is_last: bool) {
    let mut stream = io::stderr().lock();
    let text = text.trim_end();
    // Whoever has closed standard error does not want it.
    let _ = match stream.is_terminal() {
        true => write!(stream, "\r\x1b[K{text}{}", if is_last { "\n" } else { "" }),
        false => writeln!(stream, "{text}"),
    };
    let _ = stream.flush();
}
