//! `control tune apply` and what becomes of it: status, halt, resume, undo, history.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fleet::figures::shadow::ShadowGate;
use os::clock::pause;
use serde_json::{Map, Value, json};

use super::{Asked, WishArguments, question};
use crate::control::ask::{Place, read};
use crate::control::change::Change;
use crate::failure::Failure;

/// Interval of looks at a change that is followed.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `apply`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    wish: WishArguments,
    /// What hosts have planned for this question within the last hour
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["hosts", "profile", "strategy"])]
    id: Option<String>,
    /// Wait at most so many seconds for the plans; hosts that have not answered by then are left out
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=600))]
    wait: u64,
    /// A figure that shall become better, and not only not worse
    #[arg(long, value_name = "FIGURE", value_enum)]
    promise: Vec<Figure>,
    #[command(flatten)]
    terms: TermsArguments,
}

/// On which terms a change is made, whatever it does to hosts.
#[derive(Clone, Debug, Args)]
pub(crate) struct TermsArguments {
    /// A kind of hosts that cannot be judged is changed all the same; `all` for each of them
    #[arg(long, value_name = "KIND")]
    accept: Vec<String>,
    /// What happens when it is halted by a signal; without it, as the policy says
    #[arg(long, value_name = "WHAT", value_enum)]
    on_halt: Option<OnHalt>,
    /// Another value for a setting of the waves than the policy has, such as look_ms=60000 or shares=[1,10]
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// A query of Prometheus, such as 'histogram_quantile(…) < 0.005': missed three times in a row, it halts the change
    #[arg(long, value_name = "QUERY")]
    objective: Option<String>,
    /// A condition by a shadow, such as 'shadow:web->new,samples=100000': it begins only if that is fulfilled, and halts when it is missed
    #[arg(long, value_name = "GATE")]
    gate: Option<ShadowGate>,
    /// With --apply: say where it is until it is over, or waits for a person. The exit status is 1 unless it is done
    #[arg(long, requires = "apply")]
    follow: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// A figure of hosts.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Figure {
    /// Requests per second of the servers' CPU time
    #[value(name = "requests_per_cpu_s")]
    RequestsPerCpuS,
    /// The 99th percentile of the time for a reply
    P99,
    /// The share of time that threads wait for a CPU
    #[value(name = "scheduling_wait")]
    SchedulingWait,
}

/// What happens when a change is halted by a signal.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnHalt {
    /// All hosts go back
    Undo,
    /// Hosts keep what they have
    Keep,
}

/// Arguments of `status`.
#[derive(Clone, Debug, Args)]
pub(super) struct StatusArguments {
    /// The number of a change; without it, the newest one
    number: Option<u64>,
    /// Say where it is until it is over
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `halt`, `resume` and `undo`.
#[derive(Clone, Debug, Args)]
pub(super) struct SteerArguments {
    /// The number of the change
    number: u64,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `history`.
#[derive(Clone, Debug, Args)]
pub(super) struct HistoryArguments {
    #[command(flatten)]
    place: Place,
}

/// `NAME=VALUE`, where the value is JSON, or a word.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((name.to_owned(), value))
}

/// Shows the change that would be made of what hosts plan; with `--apply`, begins it.
pub(super) fn apply(job: &ApplyArguments) -> Result<ExitCode, Failure> {
    let promised: Vec<String> = job.promise.iter().map(|figure| word(*figure)).collect();
    begin((job.id.as_ref(), &job.wish.json(), job.wait), promised, &job.terms)
}

/// Shows the change that would be made of the plans for a question, or for a wish that hosts are asked for first; with `--apply`, begins it.
pub(crate) fn begin(
    (id, wish, wait): (Option<&String>, &Value, u64),
    promised: Vec<String>,
    terms: &TermsArguments,
) -> Result<ExitCode, Failure> {
    let place = &terms.change.place;
    let id = match question(place, id, wish, wait)? {
        Asked::Answered(id) => id,
        Asked::Refused(code) => return Ok(code),
    };
    let mut settings: Map<String, Value> = terms.set.iter().cloned().collect();
    if let Some(on_halt) = terms.on_halt {
        settings.insert("on_halt".to_owned(), json!(word(on_halt)));
    }
    let mut body = json!({
        "id": id, "settings": settings, "promised": promised, "accept": terms.accept, "objective": terms.objective,
    });
    // Controllers of an older version know no gates.
    if let Some(gate) = &terms.gate {
        body["gate"] = json!(gate);
    }
    let shown = place.ask(|client, within| client.post("/v1/tune/apply", &body, within))?;
    let plan = shown.json.get("plan").filter(|plan| plan.is_string()).cloned();
    if !terms.change.is_applied() {
        return place.show(&shown);
    }
    let Some(plan) = plan.filter(|_| shown.is_ok()) else {
        place.show(&shown)?;
        let refused = shown.json.get("refused").and_then(Value::as_str).unwrap_or("no reason is known");
        return Err(Failure::other(anyhow::anyhow!("begin the change: {refused}")));
    };
    if !place.json {
        place.show(&shown)?;
    }
    body["plan"] = plan;
    body["why"] = json!(terms.change.why());
    let begun = place.ask(|client, within| client.post("/v1/tune/apply", &body, within))?;
    let code = place.show(&begun)?;
    match begun.json.get("number").and_then(Value::as_u64).filter(|_| terms.follow) {
        Some(number) => {
            follow(place, number).map(|end| if end.is_done { end.code } else { ExitCode::FAILURE })
        }
        None => Ok(code),
    }
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Shows where a change is.
pub(super) fn status(job: &StatusArguments) -> Result<ExitCode, Failure> {
    let number = match job.number {
        Some(number) => number,
        None => {
            let all = job.place.ask(|client, within| client.get("/v1/changes", within))?;
            let newest = all.json.get("changes").and_then(|changes| changes.get(0)?.get("number")?.as_u64());
            match newest.filter(|_| all.is_ok()) {
                Some(number) => number,
                None => return job.place.show(&all),
            }
        }
    };
    match job.follow {
        true => follow(&job.place, number).map(|end| end.code),
        false => read(&job.place, &path_of(number)),
    }
}

fn path_of(number: u64) -> String {
    format!("/v1/changes?number={number}")
}

/// How a change that was followed has ended.
struct FollowedEnd {
    code: ExitCode,
    is_done: bool,
}

/// Says where a change is whenever that is another thing, until it is over or waits for a person.
fn follow(place: &Place, number: u64) -> Result<FollowedEnd, Failure> {
    let mut said = String::new();
    loop {
        let answer = place.ask(|client, within| client.get(&path_of(number), within))?;
        let state = answer.json.get("state").and_then(Value::as_str).unwrap_or_default();
        if !answer.is_ok() || matches!(state, "halted" | "done" | "undone") {
            return Ok(FollowedEnd { code: place.show(&answer)?, is_done: state == "done" });
        }
        let line = line_of(&answer.json);
        if line != said {
            // A person who has closed standard error does not want it.
            let _ = writeln!(io::stderr(), "{line}");
            said = line;
        }
        pause(FOLLOW_EVERY);
    }
}

fn line_of(status: &Value) -> String {
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let count = |name: &str| status["counts"][name].as_u64().unwrap_or_default();
    let (state, wave, waits_for) = (text("state"), text("wave"), text("waits_for"));
    let wave = if wave.is_empty() { String::new() } else { format!(": {wave}; {waits_for}") };
    let (changed, told, all) =
        (count("changed"), count("told"), status["hosts"].as_u64().unwrap_or_default());
    format!("change {} {state}{wave}; {changed} of {all} hosts changed, {told} told", status["number"])
}

/// Has a controller halt, resume or undo a change.
pub(super) fn steer(job: &SteerArguments, act: &str) -> Result<ExitCode, Failure> {
    let body = json!({"number": job.number, "act": act, "why": job.why});
    job.place.show(&job.place.ask(|client, within| client.post("/v1/changes", &body, within))?)
}

/// Lists the last changes.
pub(super) fn history(job: &HistoryArguments) -> Result<ExitCode, Failure> {
    read(&job.place, "/v1/changes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, Value), &str>) {
        let expected = expected.map(|(name, value)| (name.to_owned(), value)).map_err(str::to_owned);
        assert_eq!(setting(text), expected);
    }

    #[test]
    fn a_setting_is_json_or_a_word() {
        check("look_ms=1000", Ok(("look_ms", json!(1000))));
        check("shares=[1,10]", Ok(("shares", json!([1, 10]))));
        check("on_halt=keep", Ok(("on_halt", json!("keep"))));
        check("margins={\"p99\":5}", Ok(("margins", json!({"p99": 5}))));
        check("look_ms", Err("expected NAME=VALUE"));
    }
}
