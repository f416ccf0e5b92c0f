//! The member of etcd that leads is killed: the time until an operator's decision is written again.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use serde_json::{Value, json};

use stdx::statistics::median;

use crate::clients::operator::Operator;
use crate::figures::{ScenarioFigures, worst};

/// Kills leaders, so many one after the other.
pub(crate) fn measure(fleet: &mut Fleet, kills: usize) -> Result<ScenarioFigures> {
    let operator = Operator::of(fleet)?;
    let write = || -> Result<()> {
        let freeze = json!({"scope": "host/h1", "why": "measured"});
        operator.post("/v1/freeze", &freeze).and_then(|_| operator.post("/v1/thaw", &freeze)).map(drop)
    };
    let mut times_s = Vec::new();
    for kill in 1..=kills {
        clock::wait_for(|| write().ok()).context("before the kill")?;
        let leader = clock::wait_for(|| leader(fleet)).context("no member leads")?;
        fleet.etcd[leader] = None;
        let began = clock::now();
        let written = clock::wait_for(|| write().ok());
        written.with_context(|| format!("nothing is decided: {}", fleet.status()))?;
        times_s.push(began.elapsed().as_secs_f64());
        eprintln!("leader: kill {kill}: {:.2} s", times_s.last().copied().unwrap_or_default());
        fleet.start_etcd();
        // One that has not caught up would leave a single voter at the next kill.
        let know = |fleet: &Fleet| {
            let mut all = fleet.etcd_addresses().into_iter();
            all.all(|address| status(&address).is_some_and(|status| status["leader"].is_string()))
        };
        clock::wait_for(|| know(fleet).then_some(())).context("not all members know a leader")?;
    }
    Ok(vec![("decided_median_s", median(&times_s)), ("decided_worst_s", worst(&times_s))])
}

/// The member that leads.
fn leader(fleet: &Fleet) -> Option<usize> {
    fleet.etcd_addresses().iter().position(|address| {
        status(address).is_some_and(|status| {
            status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
        })
    })
}

fn status(address: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address.strip_prefix("http://")?).ok()?;
    stream.set_read_timeout(Some(clock::PATIENCE)).ok()?;
    let request = "POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}
