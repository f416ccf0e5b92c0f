//! `cargo xtask bench network`: UDP, TLS, binary packets, handshakes, crowded hosts, storms, metrics, idle connections.
//!
//! Only one server runs at a time: each is started for its turn, so that memory and CPU time are its own. In every round
//! each row visits memcached, ours and, where it makes sense, a server that does nothing over our own `net`, in a new random
//! order. The figure is mostly requests per server CPU-second, of all of the server's threads; the verdict is about the
//! median over rounds of the ratio within a round.

mod beside_handshakes;
mod endpoint;
pub(super) mod handshake;
mod idle;
mod report;
mod row;
mod scrape;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use stdx::prng::Prng;

use super::{Turns, is_wanted, shuffled};
use report::{Measurement, NetworkReport};
use row::{NetworkRow, ROWS, Work};
use server::{Certificate, NetworkServer, Program, Start};

/// Compare what the network costs: UDP, TLS, handshakes, crowded hosts
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// memcached to compare with, built with TLS
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    peer: PathBuf,
    #[command(flatten)]
    turns: Turns,
    /// Only rows whose name contains one of these
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Length of each measurement
    #[arg(long, default_value_t = 1500, value_name = "MS")]
    window_ms: u64,
    /// Connections of the storm; the server needs twice as many open files (`ulimit -Hn`)
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    storm: u32,
    /// Write every single figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The first port; each start has the next one, so that none waits for connections of the one before.
const PORT: u16 = 21_400;

/// Length of the window in which a storm begins after 3 s.
const STORM_WINDOW: &str = "8s";

/// Connections that a server has room for: the idle ones, and some more.
const ROOM: u32 = 6000;

/// Room beyond a storm's connections, of which the old ones may still count when the new ones arrive.
const STORM_SPARE: u32 = 100;

/// Runs the comparison and prints its table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let rows: Vec<&NetworkRow> = ROWS.iter().filter(|row| is_wanted(row.name, &arguments.only)).collect();
    if rows.is_empty() {
        bail!("no row matches; there are: {}", ROWS.each_ref().map(|row| row.name).join(", "));
    }
    println!("{}", server::build(&arguments.peer)?);
    // The clients of handshakes are threads of this process.
    let mut load_cpu = CpuSet::new();
    load_cpu.set(arguments.turns.load_cpu);
    sched_setaffinity(None, &load_cpu).context("move to the load's CPU (--load-cpu)")?;
    let certificate = Certificate::make()?;
    let programs = [Program::Memcached(arguments.peer.clone()), Program::Evenkeel, Program::Null];
    let (mut report, mut prng, mut port) = (NetworkReport::default(), Prng::new(arguments.turns.seed), PORT);
    for round in 1..=arguments.turns.rounds {
        for row in &rows {
            for index in shuffled(programs.len(), &mut prng) {
                let program = &programs[index];
                port += 1;
                let outcome = measure(arguments, row, program, &certificate, port);
                // A server that cannot do this work leaves the row without its figure.
                let figure = outcome.unwrap_or_else(|error| {
                    eprintln!("round {round} {:<16} {:<10} {error:#}", row.name, program.name());
                    None
                });
                let Some(figure) = figure else { continue };
                let unit = row.work.unit();
                eprintln!("round {round} {:<16} {:<10} {figure:>12.2} {unit}", row.name, program.name());
                let subject = program.name();
                report.measurements.push(Measurement { row: row.name, unit, subject, round, figure });
            }
        }
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        let json = serde_json::to_vec_pretty(&report.measurements)?;
        std::fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Starts a server and measures it; `None` where there is nothing to compare.
fn measure(
    arguments: &Arguments,
    row: &NetworkRow,
    program: &Program,
    certificate: &Certificate,
    port: u16,
) -> Result<Option<f64>> {
    // The null server speaks lines only.
    let is_lines = matches!(row.work, Work::Requests(words) if !words.contains(&"binary"));
    if *program == Program::Null && !is_lines {
        return Ok(None);
    }
    let room = match row.work {
        Work::Storm => 2 * arguments.storm + STORM_SPARE,
        Work::Scrape => scrape::CONNECTIONS_MAX + STORM_SPARE,
        _ => ROOM,
    };
    let start = Start { service: row.service, room, port };
    let Some(server) = NetworkServer::start(program, start, &arguments.turns, certificate)? else {
        return Ok(None);
    };
    let window = Duration::from_millis(arguments.window_ms);
    if matches!(row.work, Work::Requests(_) | Work::Latency(_) | Work::Storm | Work::BesideHandshakes)
        && *program != Program::Null
    {
        server.prefill(row.service, certificate)?;
    }
    let load = |words: &[&str], duration: &str| {
        server.load(&[words, &["--warm-up", "300ms", "--duration", duration]].concat(), certificate)
    };
    let window_text = format!("{}ms", arguments.window_ms);
    match row.work {
        Work::Requests(words) => number(&load(words, &window_text)?, "/server/keys_per_cpu_second").map(Some),
        Work::Latency(words) => number(&load(words, &window_text)?, "/latency/p99_us").map(Some),
        Work::Handshakes { version, resumed } => {
            handshake::cpu_us(&server, &certificate.chain(), (version, resumed), window)
        }
        Work::Storm => {
            let count = arguments.storm.to_string();
            let words = ["--connections", &count, "--storm", &format!("{count}@3s")];
            storm(&load(&words, STORM_WINDOW)?).map(Some)
        }
        Work::Scrape => scrape::median_ms(&server).map(Some),
        Work::BesideHandshakes => beside_handshakes::p99_ratio(arguments, &server, certificate).map(Some),
        Work::Idle => idle::bytes_each(&server, row.service, &certificate.chain()).map(Some),
    }
}

/// The 99th percentile of opening a connection, in milliseconds; without bound if any was refused or not answered.
fn storm(result: &Value) -> Result<f64> {
    let counted = |name: &str| number(result, &format!("/connects/{name}"));
    let [opened, refused, timed_out] = ["opened", "refused", "timed_out"].map(counted);
    let (opened, refused, timed_out) = (opened?, refused?, timed_out?);
    eprintln!("  storm: {opened} opened, {refused} refused, {timed_out} unanswered");
    let p99_us = number(result, "/connects/latency/p99_us")?;
    Ok(if refused + timed_out > 0.0 { f64::INFINITY } else { p99_us / 1000.0 })
}

fn number(result: &Value, pointer: &str) -> Result<f64> {
    result.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in the result"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use row::Service;

    #[test]
    fn services_with_tls_are_loaded_with_tls() {
        for row in &ROWS {
            let (Work::Requests(words) | Work::Latency(words)) = row.work else { continue };
            assert_eq!(words.contains(&"--tls"), row.service == Service::Tls, "{}", row.name);
        }
    }
}
