//! `cargo xtask bench load`: what a request costs the generator, ours and memtier_benchmark's interleaved in one run.
//!
//! Each generator sends a fixed number of gets to the same memcached, with one thread and 50 connections, and its figure
//! is requests (or keys) by the CPU time of its whole process, its start included. Both check that replies are hits.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use stdx::prng::Prng;
use stdx::statistics::median;

use super::subject::release;

/// Compare load generators by requests per client CPU-second
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// memtier_benchmark to compare with; may be repeated
    #[arg(long, value_name = "PATH")]
    peer: Vec<PathBuf>,
    /// The server under load
    #[arg(long, value_name = "PATH", default_value = "memcached")]
    server: PathBuf,
    /// Rounds; the figure is the median over them
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// CPU of the server
    #[arg(long, default_value_t = 0, value_name = "CPU")]
    server_cpu: usize,
    /// CPU of the generators
    #[arg(long, default_value_t = 1, value_name = "CPU")]
    load_cpu: usize,
    /// Seed of the order of the generators
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What is sent.
struct Workload {
    name: &'static str,
    requests: u64,
    depth: u64,
    keys_per_get: u64,
    /// Requests, or keys of multigets, per client CPU-second that we want to reach.
    goal: f64,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "get, depth 1", requests: 500_000, depth: 1, keys_per_get: 1, goal: 300e3 },
    Workload { name: "get, depth 1, open loop", requests: 200_000, depth: 1, keys_per_get: 1, goal: 0.0 },
    Workload { name: "get, depth 16", requests: 2_000_000, depth: 16, keys_per_get: 1, goal: 1e6 },
    Workload { name: "keys, multigets of 50", requests: 60_000, depth: 1, keys_per_get: 50, goal: 5e6 },
];

/// Requests per second of the open loop: what any server manages, so that the schedule decides.
const OPEN_RATE: u64 = 50_000;
const CONNECTIONS: u64 = 50;
const KEYS: u64 = 100_000;
const PORT: u16 = 21_300;
/// A server that does not listen after so many looks will not.
const LOOKS_MAX: u32 = 200;

/// Runs the comparison and prints its table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::subject::build()?;
    let server = Server::start(arguments)?;
    let mut generators = vec![Generator::Evenkeel(release("evenkeel"))];
    generators.extend(arguments.peer.iter().cloned().map(Generator::Memtier));
    for generator in &generators {
        generator.prefill(arguments)?;
    }
    let mut figures = vec![vec![Vec::new(); generators.len()]; WORKLOADS.len()];
    let mut prng = Prng::new(arguments.seed);
    for round in 1..=arguments.rounds {
        for (row, workload) in WORKLOADS.iter().enumerate() {
            for index in super::shuffled(generators.len(), &mut prng) {
                if !generators[index].can(workload) {
                    continue;
                }
                let figure = measure(generators[index].command(arguments, workload))?.rate(workload);
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
    println!("per client CPU-second, median (lowest to highest)");
    for (workload, row) in WORKLOADS.iter().zip(figures) {
        for (generator, runs) in generators.iter().zip(row).filter(|(_, runs)| !runs.is_empty()) {
            let (low, high) = runs
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(low, high), run| (low.min(*run), high.max(*run)));
            let goal = match generator {
                Generator::Evenkeel(_) if workload.goal > 0.0 => format!("  goal {:.0}", workload.goal),
                _ => String::new(),
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

/// CPU time of a child that has ended.
struct Cost(f64);

impl Cost {
    fn rate(&self, workload: &Workload) -> f64 {
        (workload.requests * workload.keys_per_get) as f64 / self.0
    }
}

/// Runs a generator to its end.
fn measure(mut command: Command) -> Result<Cost> {
    let before = children_cpu_s()?;
    let output = command.output().with_context(|| format!("start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Cost(children_cpu_s()? - before))
}

/// User and system time of the children that have been waited for, which the server is not: fields 16 and 17 of
/// /proc/self/stat, in ticks of 10 ms.
fn children_cpu_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: Vec<u64> = fields.skip(13).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / 100.0)
}

enum Generator {
    Evenkeel(PathBuf),
    Memtier(PathBuf),
}

impl Generator {
    fn name(&self) -> &'static str {
        match self {
            Generator::Evenkeel(_) => "evenkeel load",
            Generator::Memtier(_) => "memtier_benchmark",
        }
    }

    /// memtier_benchmark takes `--multi-key-get`, but asks memcached for one key at a time all the same.
    fn can(&self, workload: &Workload) -> bool {
        matches!(self, Generator::Evenkeel(_)) || workload.keys_per_get == 1
    }

    /// Each has keys of its own.
    fn prefill(&self, arguments: &Arguments) -> Result<()> {
        let mut command = match self {
            Generator::Evenkeel(path) => ours(arguments, path, &["--prefill", "--requests", "1"]),
            Generator::Memtier(path) => {
                let each = (KEYS / CONNECTIONS).to_string();
                memtier(arguments, path, &["--ratio", "1:0", "--key-pattern", "P:P", "-n", &each])
            }
        };
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("prefill")?;
        ensure!(status.success(), "{} did not store its keys", self.name());
        Ok(())
    }

    fn command(&self, arguments: &Arguments, workload: &Workload) -> Command {
        let is_open = workload.name.ends_with("open loop");
        let (depth, keys) = (workload.depth.to_string(), workload.keys_per_get.to_string());
        let mut command = match self {
            Generator::Evenkeel(path) => {
                let requests = workload.requests.to_string();
                ours(arguments, path, &["--requests", &requests, "--depth", &depth, "--multiget", &keys])
            }
            Generator::Memtier(path) => {
                let each = (workload.requests / CONNECTIONS).to_string();
                memtier(
                    arguments,
                    path,
                    &["--ratio", "0:1", "--key-pattern", "R:R", "-n", &each, "--pipeline", &depth],
                )
            }
        };
        if is_open {
            match self {
                Generator::Evenkeel(_) => command.args(["--rate", &OPEN_RATE.to_string()]),
                Generator::Memtier(_) => {
                    command.args(["--rate-limiting", &(OPEN_RATE / CONNECTIONS).to_string()])
                }
            };
        }
        command
    }
}

fn pinned(arguments: &Arguments, path: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &arguments.load_cpu.to_string()]).arg(path);
    command
}

fn ours(arguments: &Arguments, path: &Path, rest: &[&str]) -> Command {
    let mut command = pinned(arguments, path);
    command.args([
        "load",
        "--port",
        &PORT.to_string(),
        "--connections",
        &CONNECTIONS.to_string(),
        "--warm-up",
        "0",
    ]);
    command.args(["--keys", &KEYS.to_string()]).args(rest);
    command
}

fn memtier(arguments: &Arguments, path: &Path, rest: &[&str]) -> Command {
    let mut command = pinned(arguments, path);
    command.args([
        "-s",
        "127.0.0.1",
        "-p",
        &PORT.to_string(),
        "-P",
        "memcache_text",
        "-t",
        "1",
        "--hide-histogram",
    ]);
    command
        .args(["-c", &CONNECTIONS.to_string(), "-d", "100", "--key-maximum", &KEYS.to_string()])
        .args(rest);
    command
}

/// The memcached under load, ended when dropped.
struct Server(Child);

impl Server {
    fn start(arguments: &Arguments) -> Result<Server> {
        let child = Command::new("taskset")
            .args(["-c", &arguments.server_cpu.to_string()])
            .arg(&arguments.server)
            .args(["-u", "root", "-t", "1", "-m", "256", "-l", "127.0.0.1", "-p", &PORT.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", arguments.server.display()))?;
        let server = Server(child);
        for _ in 0..LOOKS_MAX {
            if std::net::TcpStream::connect(("127.0.0.1", PORT)).is_ok() {
                return Ok(server);
            }
            clock::pass(std::time::Duration::from_millis(20));
        }
        bail!("{} does not listen on port {PORT}", arguments.server.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
