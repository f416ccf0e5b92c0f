//! Latency of plain gets beside full TLS handshakes, by the server's own histograms.
//!
//! The worker has the server's CPU alone. The threads that do handshakes, their clients and the load share the load's CPU,
//! which makes the load less even: its requests come in larger batches, and wait for each other. So they are compared with
//! a run in which a second server, on the load's CPU, has the same handshakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use rustls::ClientConfig;

use super::endpoint::ServerTimes;
use super::handshake::{converse, newest, session};
use super::row::Service;
use super::server::{Certificate, NetworkServer, Program, Start};
use super::{Arguments, number};

/// Handshakes in a second.
const HANDSHAKES_PER_S: u32 = 500;

/// Clients that make them: one alone would be late while it waits for the end of a handshake.
const CLIENTS: u32 = 4;

/// Fewer than so many of the asked handshakes are not the load that is asked for.
const SHARE_MIN: f64 = 0.95;

/// Connections of the load.
const LOAD: [&str; 2] = ["--connections", "50"];

/// A second server on the load's CPU, with ports before those of the measured ones.
const TWIN_PORTS: u16 = 3000;

/// The 99th percentile of wait and service with handshakes here, divided by that with the same handshakes elsewhere.
pub(super) fn p99_ratio(
    arguments: &Arguments,
    server: &NetworkServer,
    certificate: &Certificate,
) -> Result<f64> {
    place_threads(server, arguments.turns.server_cpu, arguments.turns.load_cpu)?;
    let start = Start { service: Service::Watched, room: TWIN_ROOM, port: server.port - TWIN_PORTS };
    let twin = NetworkServer::start(&Program::Evenkeel, start, &arguments.turns, certificate)?;
    let twin = twin.context("a second server")?;
    place_threads(&twin, arguments.turns.load_cpu, arguments.turns.load_cpu)?;
    let words = [&LOAD[..], &["--warm-up", "300ms", "--duration", "1500ms"]].concat();
    let capacity = server.load(&words, certificate)?;
    let rate = (number(&capacity, "/server/keys_per_cpu_second")? / 2.0).round();
    let config = newest(&certificate.chain())?;
    let beside = |port| p99_beside(arguments, server, certificate, rate, &config, port);
    let none = p99_us(arguments, server, certificate, rate)?;
    let elsewhere = beside(twin.tls_port())?;
    let here = beside(server.tls_port())?;
    let shown = |(wait, service): (u64, u64)| format!("{wait} + {service} µs");
    eprintln!(
        "  p99 of wait + service at {rate} gets/s: {}; with {HANDSHAKES_PER_S} handshakes/s elsewhere {}, here {}",
        shown(none),
        shown(elsewhere),
        shown(here)
    );
    Ok((here.0 + here.1) as f64 / (elsewhere.0 + elsewhere.1) as f64)
}

/// Connections of the twin.
const TWIN_ROOM: u32 = 1000;

/// Wait and service of the gets of one load, while a server at `port` has handshakes.
fn p99_beside(
    arguments: &Arguments,
    server: &NetworkServer,
    certificate: &Certificate,
    rate: f64,
    config: &Arc<ClientConfig>,
    port: u16,
) -> Result<(u64, u64)> {
    let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let (times, made_per_s) = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| shake_hands(port, config, &stop, &made))).collect();
        let began = clock::now();
        let times = {
            let _stops = StopsAtEnd(&stop);
            p99_us(arguments, server, certificate, rate)
        };
        let made_per_s = made.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        let ended = clients.into_iter().try_for_each(|client| client.join().expect("no panic"));
        ended.and(times).map(|times| (times, made_per_s))
    })?;
    let asked = f64::from(HANDSHAKES_PER_S);
    ensure!(made_per_s >= asked * SHARE_MIN, "only {made_per_s:.0} handshakes a second");
    Ok(times)
}

/// Ends the clients also after a panic, so that nobody waits for them for ever.
struct StopsAtEnd<'s>(&'s AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Wait and service of the gets of one load.
fn p99_us(
    arguments: &Arguments,
    server: &NetworkServer,
    certificate: &Certificate,
    rate: f64,
) -> Result<(u64, u64)> {
    let before = ServerTimes::read(server.metrics_port())?;
    let (rate, window) = (rate.to_string(), format!("{}ms", arguments.window_ms * 2));
    let words = [&LOAD[..], &["--rate", &rate, "--duration", &window]].concat();
    server.load(&words, certificate)?;
    ServerTimes::read(server.metrics_port())?.p99_us_since(&before)
}

/// Moves the worker to one CPU, and all other threads of a server to another.
fn place_threads(server: &NetworkServer, worker_cpu: usize, other_cpu: usize) -> Result<()> {
    let mut moved = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/task", server.id()))? {
        let directory = entry?.path();
        let name = std::fs::read_to_string(directory.join("comm"))?;
        let thread = directory.file_name().and_then(|name| name.to_str()?.parse().ok());
        let thread = thread.and_then(Pid::from_raw).context("a thread has a number")?;
        let is_worker = name.starts_with("worker-");
        let mut cpu = CpuSet::new();
        cpu.set(if is_worker { worker_cpu } else { other_cpu });
        sched_setaffinity(Some(thread), &cpu).with_context(|| format!("move {}", name.trim()))?;
        moved += usize::from(is_worker);
    }
    ensure!(moved == 1, "the server has {moved} workers");
    Ok(())
}

/// Opens connections at a steady rate. A command that is no get keeps them out of the gets' times.
fn shake_hands(port: u16, config: &Arc<ClientConfig>, stop: &AtomicBool, made: &AtomicU64) -> Result<()> {
    let pause = Duration::from_secs(1) * CLIENTS / HANDSHAKES_PER_S;
    let mut due = clock::now();
    while !stop.load(Ordering::Relaxed) {
        let mut stream = session(port, config)?;
        converse(&mut stream, b"mn\r\n", b"MN\r\n")?;
        made.fetch_add(1, Ordering::Relaxed);
        due += pause;
        clock::pass_until(due);
    }
    Ok(())
}
