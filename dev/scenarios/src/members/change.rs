//! A change of all hosts, which goes through the large fleet while its controllers are measured.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use serde_json::json;

use crate::clients::operator::Operator;

/// Until all hosts have answered with a plan.
const PLANNED_WITHIN: Duration = Duration::from_secs(120);
/// Times of the waves in milliseconds: shorter than the usual ones, so that something happens in the minutes that are measured.
const LOOK_MS: u64 = 45_000;
const ZONE_MS: u64 = 10_000;

/// Has all hosts plan, and begins what they have planned. Returns the number of the change.
pub(super) fn begin(fleet: &Fleet, hosts: usize) -> Result<u64> {
    let operator = Operator::of(fleet)?;
    let asked = operator.post("/v1/tune/ask", &json!({"hosts": "all", "profile": "memcached"}))?;
    let id = asked.json["id"].as_str().context("a question has a name")?.to_owned();
    let began = clock::now();
    while operator.get(&format!("/v1/tune/ask?id={id}"))?.json["waiting"] != json!(0) {
        ensure!(began.elapsed() < PLANNED_WITHIN, "not all hosts have planned");
        clock::pass(Duration::from_secs(1));
    }
    let settings =
        json!({"baseline_ms": LOOK_MS, "look_ms": LOOK_MS, "turn_ms": LOOK_MS, "zone_ms": ZONE_MS});
    let mut wanted = json!({"id": id, "settings": settings});
    let shown = operator.post("/v1/tune/apply", &wanted)?;
    wanted["plan"] = shown.json["plan"].clone();
    wanted["why"] = json!("measured");
    let begun = operator.post("/v1/tune/apply", &wanted)?;
    let number = begun.json["number"].as_u64().context("a change has a number")?;
    let found = begun.json["hosts"].as_u64().context("a change has hosts")?;
    ensure!(found == hosts as u64, "the change has {found} of {hosts} hosts");
    eprintln!(
        "members: change {number} of {hosts} hosts has begun after {:.0} s",
        began.elapsed().as_secs_f64()
    );
    Ok(number)
}

/// Where it is, in a word.
pub(super) fn state(fleet: &Fleet, number: u64) -> Result<String> {
    let document = Operator::of(fleet)?.get(&format!("/v1/changes?number={number}"))?;
    Ok(document.json["state"].as_str().context("a change has a state")?.to_owned())
}
