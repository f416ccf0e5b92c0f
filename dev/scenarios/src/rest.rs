//! A fleet at rest: writes to etcd, memory and CPU of controllers and agents.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use end_to_end::process::cpu_time;

use crate::figures::{ScenarioFigures, worst};

/// Looks on for a while.
pub(crate) fn measure(fleet: &Fleet, seconds: u64) -> Result<ScenarioFigures> {
    fleet.until(|fleet| fleet.status().contains("all routers have it"));
    eprintln!("rest: nothing happens for {seconds} s");
    let etcd = fleet.etcd_addresses().first().context("etcd")?.replace("http://", "");
    let agent = fleet.hosts[0].agent.as_ref().context("an agent")?.pid();
    let pid = |number| fleet.controller_pid(number).context("a controller");
    let controllers = (1..=3).map(pid).collect::<Result<Vec<u32>>>()?;
    let cpu = || -> Result<(Duration, Duration)> {
        let all: Result<Duration> = controllers.iter().map(|pid| cpu_time(*pid)).sum();
        Ok((all?, cpu_time(agent)?))
    };
    let (revision, before) = (revision(&etcd)?, cpu()?);
    let began = clock::now();
    clock::pass(Duration::from_secs(seconds));
    let (writes, after) = (self::revision(&etcd)?.saturating_sub(revision), cpu()?);
    let passed_s = began.elapsed().as_secs_f64();
    let percent = |before: Duration, after: Duration| (after - before).as_secs_f64() * 100.0 / passed_s;
    let memory = controllers.iter().map(|pid| anonymous_mb(*pid)).collect::<Result<Vec<f64>>>()?;
    Ok(vec![
        ("etcd_writes_per_second", writes as f64 / passed_s),
        ("agent_anonymous_mb", anonymous_mb(agent)?),
        ("agent_cpu_percent", percent(before.1, after.1)),
        // The mean of three.
        ("controller_cpu_percent", percent(before.0, after.0) / 3.0),
        ("controller_anonymous_mb", worst(&memory)),
    ])
}

/// Writes so far: each makes a revision.
fn revision(etcd: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(etcd)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let body = "{\"key\":\"AA==\"}";
    write!(
        stream,
        "POST /v3/kv/range HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let after = answer.split_once("\"revision\":\"").context("a revision")?.1;
    Ok(after.split_once('"').context("a revision")?.0.parse()?)
}

/// Memory of a process that no file has.
pub(crate) fn anonymous_mb(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("smaps_rollup of proc(5)")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kilobytes * 1024.0 / 1e6)
}

/// Memory of a process with its files, now and at most.
pub(crate) fn resident_mb(pid: u32) -> Result<(f64, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("status of proc(5)")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}
