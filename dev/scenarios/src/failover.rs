//! From the end of a server until its keys are answered elsewhere, as a client of a router sees it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use end_to_end::fleet::Fleet;
use end_to_end::process::stop;
use rustix::process::{Pid, Signal, kill_process};
use stdx::statistics::median;

use crate::clients::reply::read_reply;
use crate::figures::{ScenarioFigures, worst};
use crate::fleet::SLOTS;

/// Between two requests of the client.
const EVERY: Duration = Duration::from_micros(200);

/// What happens to a server.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum ServerFailure {
    /// Its process ends, and is started again
    Killed,
    /// Its process is stopped with its connections open, and goes on later
    Hung,
}

/// Takes servers away one after the other, and lets each come back.
pub(crate) fn measure(fleet: &mut Fleet, how: ServerFailure, servers: usize) -> Result<ScenarioFigures> {
    let mut times_ms = Vec::new();
    for round in 0..servers {
        let at = round % SLOTS;
        let time_ms = time_ms(fleet, at, how).with_context(|| format!("server {}", at + 1))?;
        eprintln!("failover: round {}: {time_ms:.1} ms", round + 1);
        times_ms.push(time_ms);
    }
    // All were back within 30 s.
    let replaced = fleet.control(&["history"]).matches("is lost").count() as f64;
    Ok(vec![("median_ms", median(&times_ms)), ("worst_ms", worst(&times_ms)), ("replaced_servers", replaced)])
}

/// Milliseconds until a key of this host's server is answered without an error.
fn time_ms(fleet: &mut Fleet, at: usize, how: ServerFailure) -> Result<f64> {
    let address = fleet.hosts[at].server.address().to_string();
    let key = key_of(fleet, &address)?;
    let router = fleet.hosts[0].router.as_ref().context("the first host has a router")?;
    let mut client = router.connect()?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    ensure!(ask(&mut client, &key)?, "the key is not answered before anything happens");
    let pid = fleet.hosts[at].server.pid();
    let began = clock::now();
    match how {
        ServerFailure::Killed => fleet.hosts[at].server.kill()?,
        ServerFailure::Hung => stop(pid)?,
    }
    let mut after_ms = None;
    while after_ms.is_none() {
        ensure!(began.elapsed() < Duration::from_secs(20), "no answer for 20 s");
        if ask(&mut client, &key)? {
            after_ms = Some(began.elapsed().as_secs_f64() * 1000.0);
        }
        clock::pass(EVERY);
    }
    match how {
        ServerFailure::Killed => {
            fleet.hosts[at].server.start_again()?;
            fleet.note_pid(at);
        }
        ServerFailure::Hung => {
            kill_process(Pid::from_raw(pid as i32).context("a process id")?, Signal::CONT)?
        }
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
