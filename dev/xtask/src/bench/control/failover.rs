//! From the end of a server until its keys are answered elsewhere, as a client of a router sees it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use end_to_end::process::stop;
use rustix::process::{Pid, Signal, kill_process};

use super::figure::{ControlFigure, quantile};
use super::reply::read_reply;

/// Between two requests of the client.
const EVERY: Duration = Duration::from_micros(200);
/// mcrouter's time limit of a server, which the routers have: 1 s.
const SERVER_TIMEOUT_MS: f64 = 1000.0;
/// Errors in a row after which a router does not ask a server any more.
const TIMEOUTS_UNTIL_TKO: f64 = 3.0;

/// Kills and stops servers, and lets them come back.
pub(super) fn measure(fleet: &mut Fleet, count: usize) -> Result<Vec<ControlFigure>> {
    let (mut killed, mut hung) = (Vec::new(), Vec::new());
    for round in 0..count {
        let at = round % super::figure::SLOTS;
        killed.push(time(fleet, at, true).with_context(|| format!("kill server {}", at + 1))?);
        hung.push(time(fleet, at, false).with_context(|| format!("stop server {}", at + 1))?);
        eprintln!(
            "failover: round {}: killed {:.1} ms, hung {:.1} ms",
            round + 1,
            killed[round],
            hung[round]
        );
    }
    let history = fleet.control(&["history"]);
    let replaced = history.matches("is lost").count() as f64;
    Ok(vec![
        ControlFigure::new(
            "failover",
            "server killed → its key answered elsewhere, p50",
            quantile(&mut killed, 0.5),
            "ms",
        ),
        ControlFigure::new("failover", "the same, p99", quantile(&mut killed, 0.99), "ms").at_most(50.0),
        ControlFigure::new("failover", "server hung → the same, p99", quantile(&mut hung, 0.99), "ms")
            .at_most(TIMEOUTS_UNTIL_TKO * SERVER_TIMEOUT_MS + 10.0),
        ControlFigure::new(
            "failover",
            "servers that were back within 30 s and were replaced",
            replaced,
            "servers",
        )
        .at_most(0.0),
    ])
}

/// Milliseconds until a key of this host's server is answered without an error.
fn time(fleet: &mut Fleet, at: usize, is_killed: bool) -> Result<f64> {
    let address = fleet.hosts[at].server.address().to_string();
    let key = key_of(fleet, &address)?;
    let router = fleet.hosts[0].router.as_ref().context("the first host has a router")?;
    let mut client = router.connect()?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    ensure!(ask(&mut client, &key)?, "the key is not answered before anything happens");
    let pid = fleet.hosts[at].server.pid();
    let began = clock::now();
    if is_killed {
        fleet.hosts[at].server.kill()?
    } else {
        stop(pid)?
    }
    let mut after_ms = None;
    while after_ms.is_none() {
        ensure!(began.elapsed() < Duration::from_secs(20), "no answer for 20 s");
        if ask(&mut client, &key)? {
            after_ms = Some(began.elapsed().as_secs_f64() * 1000.0);
        }
        clock::pass(EVERY);
    }
    if is_killed {
        fleet.hosts[at].server.start_again()?;
        fleet.note_pid(at);
    } else {
        kill_process(Pid::from_raw(pid as i32).context("a process id")?, Signal::CONT)?;
    }
    wait_until_asked_again(fleet, &address)?;
    after_ms.context("it was answered")
}

/// A key whose first server is this one.
fn key_of(fleet: &Fleet, address: &str) -> Result<String> {
    for number in 0..1000 {
        let key = format!("key{number}");
        let why = fleet.control(&["why", &key, "--view", "main"]);
        let gets = why.lines().find(|line| line.trim_start().starts_with("get")).unwrap_or_default();
        if gets.split(", then ").next().is_some_and(|first| first.contains(address)) {
            return Ok(key);
        }
    }
    bail!("no key belongs to {address}")
}

/// Whether a get is answered without an error. A miss is an answer.
fn ask(client: &mut TcpStream, key: &str) -> Result<bool> {
    client.write_all(format!("get {key}\r\n").as_bytes())?;
    Ok(read_reply(client)?.ends_with(b"END\r\n"))
}

/// A router asks a server again after a probe.
fn wait_until_asked_again(fleet: &Fleet, address: &str) -> Result<()> {
    let router = fleet.hosts[0].router.as_ref().context("the first host has a router")?;
    let suspects = || -> Option<String> {
        let mut client = router.connect().ok()?;
        client.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        client.write_all(b"stats suspect_servers\r\nquit\r\n").ok()?;
        let mut answer = String::new();
        client.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    clock::wait_for(|| suspects().filter(|suspects| !suspects.contains(address)).map(drop))
        .with_context(|| format!("{address} stays suspect"))
}
