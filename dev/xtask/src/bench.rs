//! `cargo xtask bench serve`: ours, its peers and the null server, interleaved in one run.
//!
//! All subjects run at the same time, pinned to one core, and only the one under load does anything; the load
//! generator has another core. In every round each workload visits every subject, in a new random order, so
//! that whatever the machine does to one it does to all. The figure is requests (or keys) per server
//! CPU-second, and the verdict is the median over rounds of the ratio to the first peer in the same round, with its
//! 95 % interval.

pub(crate) mod control;
pub(crate) mod deploy;
pub(crate) mod flash;
pub(crate) mod hostile;
pub(crate) mod load;
pub(crate) mod network;
mod process;
mod report;
pub(crate) mod route;
pub(crate) mod store;
mod subject;
pub(crate) mod up;
mod workload;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use stdx::prng::Prng;

use report::BenchReport;
use subject::{BenchSubject, Subjects};
use workload::{BenchWorkload, WORKLOADS};

/// Compare servers by requests per server CPU-second
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Server to compare with; memcached, pogocache and another evenkeel are known by their file names. The first is
    /// the base of the ratios [default: the memcached in PATH, good for a smoke run only]
    #[arg(long, value_name = "PATH")]
    peer: Vec<PathBuf>,
    #[command(flatten)]
    turns: Turns,
    /// Only this way to drive sockets, for an evenkeel among the peers, too: uring or epoll [default: both, and uring
    /// for peers]
    #[arg(long, value_name = "DRIVER", value_parser = DRIVERS)]
    driver: Option<String>,
    /// Only workloads whose name contains one of these
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Only subjects whose name contains this (the base always runs)
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Length of each measurement
    #[arg(long, default_value_t = 1500, value_name = "MS")]
    window_ms: u64,
    /// Write every single figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The ways to drive sockets, the faster one first.
const DRIVERS: [&str; 2] = ["uring", "epoll"];

/// How often what is compared has its turn, in which order, and where it runs.
#[derive(Clone, Debug, clap::Args)]
struct Turns {
    /// Rounds; the verdict is the median over them
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// CPU of the server
    #[arg(long, default_value_t = 0, value_name = "CPU")]
    server_cpu: usize,
    /// CPU of the load generator
    #[arg(long, default_value_t = 1, value_name = "CPU")]
    load_cpu: usize,
    /// Seed of the order in a round
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Runs the comparison and prints its table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("evenkeel: {}", process::build()?.display());
    let workloads: Vec<&BenchWorkload> =
        WORKLOADS.iter().filter(|workload| is_wanted(workload.name, &arguments.only)).collect();
    if workloads.is_empty() {
        let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        bail!("no workload matches; there are: {}", names.join(", "));
    }
    let mut report = BenchReport::default();
    let mut prng = Prng::new(arguments.turns.seed);
    for round in 1..=arguments.turns.rounds {
        for group in workload::groups(&workloads) {
            run_group(arguments, round, &group, &mut prng, &mut report)?;
        }
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        let json = serde_json::to_vec_pretty(&report.trials)?;
        std::fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Whether a name contains one of the texts, if there are any.
fn is_wanted(name: &str, texts: &[String]) -> bool {
    texts.is_empty() || texts.iter().any(|text| name.contains(text.as_str()))
}

/// One round of workloads that share their data: starts and fills the subjects, then visits all.
fn run_group(
    arguments: &Arguments,
    round: usize,
    group: &[&BenchWorkload],
    prng: &mut Prng,
    report: &mut BenchReport,
) -> Result<()> {
    let wanted = |name: &str| arguments.subject.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut subjects = Subjects::start(arguments, group[0])?;
    subjects.retain(|index, subject| index == 0 || wanted(&subject.name));
    for subject in subjects.iter() {
        subject.prefill(arguments, group[0])?;
    }
    for workload in group {
        for index in shuffled(subjects.len(), prng) {
            let subject: &BenchSubject = &subjects[index];
            if !subject.can(workload) {
                continue;
            }
            let figures = subject.measure(arguments, workload)?;
            eprintln!(
                "round {round} {:<22} {:<14} {:>10.0}/CPU-s  p50 {:>6.1} µs",
                workload.name, subject.name, figures.per_server_cpu_s, figures.p50_us
            );
            report.add(workload.name, &subject.name, round, figures);
        }
    }
    Ok(())
}

/// The numbers below `len` in random order (Fisher and Yates).
fn shuffled(len: usize, prng: &mut Prng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, prng.below(last as u64 + 1) as usize);
    }
    order
}
