//! All members of etcd end, and come back after a while: what users of the cache see of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use serde_json::json;

use crate::clients::operator::Operator;
use crate::clients::traffic::{FleetTraffic, RequestCounts};
use crate::figures::ScenarioFigures;
use crate::fleet::ROUTERS;

/// Ends etcd for so many seconds.
pub(crate) fn measure(fleet: &mut Fleet, away_s: u64) -> Result<ScenarioFigures> {
    let routes = |fleet: &Fleet| -> Vec<Vec<u8>> {
        let files = (1..=ROUTERS).map(|number| std::fs::read(fleet.path(&format!("route{number}"))));
        files.map(Result::unwrap_or_default).collect()
    };
    let traffic = FleetTraffic::begin(fleet)?;
    let before = routes(fleet);
    eprintln!("outage: etcd is away for {away_s} s");
    fleet.kill_etcd();
    let began = clock::now();
    let mut changed = 0;
    while began.elapsed() < Duration::from_secs(away_s) {
        clock::pass(Duration::from_secs(1));
        changed += usize::from(routes(fleet) != before);
    }
    let has_answered = |counts: &Arc<RequestCounts>| counts.answered.load(Ordering::Relaxed) > away_s;
    ensure!(traffic.counts.iter().all(has_answered), "a router has answered hardly anything");
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
    Ok(vec![
        ("answered_requests", answered),
        // Without an answer, or with an error.
        ("failed_requests", errors + lost),
        ("other_routes_s", changed as f64),
        ("decided_s", decided_s),
    ])
}
