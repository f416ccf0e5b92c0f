//! `cargo xtask bench load`: what a request costs the generator, ours and others' interleaved in one run.
//!
//! Each generator sends gets to the same server, with one thread and 50 connections. Its figure is the hits that the
//! server counted by the CPU time of the generator's whole process, its start included.

mod generator;

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use stdx::prng::Prng;
use stdx::statistics::median;

use super::process::{BenchProcess, build};
use super::report::interval;
use super::store::client::StoreClient;
use generator::Generator;

/// Compare load generators by requests per client CPU-second
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// memtier_benchmark, mc-crusher or another evenkeel to compare with, told apart by the file's name; may be repeated
    #[arg(long, value_name = "PATH")]
    peer: Vec<PathBuf>,
    /// The server under load, memcached or evenkeel: the faster it is, the less the generators wait for it
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    server: PathBuf,
    /// Only workloads whose name contains one of these
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    turns: super::Turns,
}

/// The commands.
struct Workload {
    name: &'static str,
    requests: u64,
    depth: u64,
    keys_per_get: u64,
    pace: Pace,
    /// Requests, or keys of multigets, per client CPU-second that we aim at.
    goal: f64,
}

/// When it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Closed,
    Open,
    /// An open loop, in which requests wait this long for each other. Others have no slots: they run as any open
    /// loop.
    Slots(&'static str),
}

#[rustfmt::skip]
const WORKLOADS: [Workload; 6] = [
    Workload { name: "get, depth 1", requests: 500_000, depth: 1, keys_per_get: 1, pace: Pace::Closed, goal: 300e3 },
    Workload { name: "get, open loop", requests: 200_000, depth: 1, keys_per_get: 1, pace: Pace::Open, goal: 0.0 },
    // Ten requests: two slots' worth of connections are fewer than there are.
    Workload { name: "get, slots of 200 us", requests: 200_000, depth: 1, keys_per_get: 1, pace: Pace::Slots("200us"), goal: 150e3 },
    // As many as there are connections.
    Workload { name: "get, slots of 1 ms", requests: 200_000, depth: 1, keys_per_get: 1, pace: Pace::Slots("1ms"), goal: 150e3 },
    Workload { name: "get, depth 16", requests: 2_000_000, depth: 16, keys_per_get: 1, pace: Pace::Closed, goal: 1e6 },
    Workload { name: "keys, multigets of 50", requests: 60_000, depth: 1, keys_per_get: 50, pace: Pace::Closed, goal: 5e6 },
];

/// Requests per second of the open loop: what any server manages, so that the schedule decides.
const OPEN_RATE: u64 = 50_000;
const CONNECTIONS: u64 = 50;
const KEYS: u64 = 100_000;
const PORT: u16 = 21_300;

/// Runs the comparison and prints its table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |workload: &Workload| super::is_wanted(workload.name, &arguments.only);
    if !WORKLOADS.iter().any(wanted) {
        bail!("no workload matches; there are: {}", WORKLOADS.map(|workload| workload.name).join("; "));
    }
    let ours = build()?;
    println!("evenkeel: {}", ours.display());
    let server = start_server(arguments)?;
    let mut generators = vec![Generator::Evenkeel(ours)];
    generators.extend(arguments.peer.iter().map(|path| Generator::at(path)));
    for generator in &generators {
        generator.prefill(arguments)?;
    }
    let mut figures = vec![vec![Vec::new(); generators.len()]; WORKLOADS.len()];
    let mut prng = Prng::new(arguments.turns.seed);
    for round in 1..=arguments.turns.rounds {
        for (row, workload) in WORKLOADS.iter().enumerate().filter(|(_, workload)| wanted(workload)) {
            for index in super::shuffled(generators.len(), &mut prng) {
                if !generators[index].can(workload) {
                    continue;
                }
                let figure = measure(generators[index].command(arguments, workload)?)?;
                eprintln!(
                    "round {round} {:<24} {:<20} {figure:>10.0}/CPU-s",
                    workload.name,
                    generators[index].name()
                );
                figures[row][index].push(figure);
            }
        }
    }
    drop(server);
    print_table(&generators, &figures);
    Ok(())
}

fn print_table(generators: &[Generator], figures: &[Vec<Vec<f64>>]) {
    println!("per client CPU-second, median (lowest to highest); ours ÷ each within a round, median (95 %)");
    for (workload, row) in WORKLOADS.iter().zip(figures) {
        for (generator, runs) in generators.iter().zip(row).filter(|(_, runs)| !runs.is_empty()) {
            let (low, high) = runs
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(low, high), run| (low.min(*run), high.max(*run)));
            let goal = match generator {
                Generator::Evenkeel(_) if workload.goal > 0.0 => format!("  goal {:.0}", workload.goal),
                Generator::Evenkeel(_) => String::new(),
                _ => {
                    let ratios: Vec<f64> =
                        row[0].iter().zip(runs).map(|(ours, theirs)| ours / theirs).collect();
                    let (low, high) = interval(&ratios);
                    format!("  ours ÷ it {:.3} ({low:.3}–{high:.3})", median(&ratios))
                }
            };
            println!(
                "{:<24} {:<20} {:>10.0} ({low:.0} to {high:.0}){goal}",
                workload.name,
                generator.name(),
                median(runs)
            );
        }
    }
}

/// Runs a generator to its end: hits by CPU-second.
fn measure(mut command: Command) -> Result<f64> {
    let (hits, cpu_s) = (hits()?, children_cpu_s()?);
    let output = command.output().with_context(|| format!("start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((self::hits()? - hits) as f64 / (children_cpu_s()? - cpu_s))
}

/// `get_hits` of the server: keys, of multigets too.
fn hits() -> Result<u64> {
    let server = TcpStream::connect(("127.0.0.1", PORT)).context("ask the server for its stats")?;
    StoreClient::new(server)?.statistic("get_hits")
}

/// CPU time of the children that have been waited for, which the server is not.
fn children_cpu_s() -> Result<f64> {
    os::cpu_time::of_ended_children_s().context("read /proc/self/stat")
}

/// Starts the server under load.
fn start_server(arguments: &Arguments) -> Result<BenchProcess> {
    let mut words = vec!["-u", "root", "-t", "1", "-m", "256", "-l", "127.0.0.1", "-p"];
    if arguments.server.file_name().is_some_and(|name| name == "evenkeel") {
        words.insert(0, "serve");
    }
    let port = PORT.to_string();
    words.push(&port);
    let mut server = BenchProcess::start(&arguments.server, &words, Some(arguments.turns.server_cpu))?;
    server.wait_until(|| TcpStream::connect(("127.0.0.1", PORT)).is_ok())?;
    Ok(server)
}
