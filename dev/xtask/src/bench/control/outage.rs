//! All members of etcd end, and come back after a while: what users of the cache see of it.

use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use serde_json::json;

use super::figure::{ControlFigure, ROUTERS};
use super::operator::Operator;
use super::traffic::Traffic;

/// Decisions are made again after this.
const DECIDES_WITHIN_S: f64 = 30.0;

/// Ends etcd for so many seconds.
pub(super) fn measure(fleet: &mut Fleet, away_s: u64) -> Result<Vec<ControlFigure>> {
    let routes = |fleet: &Fleet| -> Vec<Vec<u8>> {
        let files = (1..=ROUTERS).map(|number| std::fs::read(fleet.path(&format!("route{number}"))));
        files.map(Result::unwrap_or_default).collect()
    };
    let traffic = Traffic::begin(fleet)?;
    let before = routes(fleet);
    eprintln!("outage: etcd is away for {away_s} s");
    fleet.kill_etcd();
    let began = clock::now();
    let mut changed = 0;
    while began.elapsed() < Duration::from_secs(away_s) {
        clock::pass(Duration::from_secs(1));
        changed += usize::from(routes(fleet) != before);
    }
    let [answered, errors, lost] = traffic.sum(0..ROUTERS).map(|count| count as f64);
    fleet.start_etcd();
    let began = clock::now();
    let operator = Operator::of(fleet)?;
    let member = fleet.member_of("web/s0");
    let change = json!({"requests": [{"replace": {"member": member}}]});
    let decided = clock::wait_for(|| {
        let body = operator.planned(&change).ok()?;
        operator.post("/v1/apply", &body).ok().map(|_| began.elapsed().as_secs_f64())
    });
    let decided_s = decided.with_context(|| format!("nothing is decided: {}", fleet.status()))?;
    let target = fleet.generation().context("a generation")?;
    fleet.until(|fleet| fleet.has_loaded(target));
    let row = |name: String, value: f64, unit| ControlFigure::new("outage", name, value, unit);
    Ok(vec![
        row(format!("requests answered while etcd was away for {away_s} s"), answered, "requests"),
        row("requests without an answer, or with an error".to_owned(), errors + lost, "requests")
            .at_most(0.0),
        row("seconds in which a router had other routes".to_owned(), changed as f64, "s").at_most(0.0),
        row("etcd is started → a change is decided".to_owned(), decided_s, "s").at_most(DECIDES_WITHIN_S),
    ])
}
