//! `cargo xtask bench store`: what the memory is worth, ours and a peer's side by side over loopback.
//!
//! Items per byte, resident memory compared with its limit, misses on generated traces, how fast memory follows
//! a new mix of sizes, and whether the growing index can be felt. All but the last are counts, not times,
//! and so exact on a busy machine, too. The client is this module's own: text protocol, pipelined, the same
//! requests to both servers, and every value that comes back is compared with what was stored.

pub(crate) mod client;
mod content;
mod density;
mod growth;
mod laws;
mod memory_limit;
mod misses;
mod report;
mod server;
mod shift;
mod trace;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use report::{Row, StoreReport};
use server::{ServerKind, Subjects};

/// Compare what servers do with their memory
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Server to compare with; takes memcached's flags, or is another evenkeel by its file name [default: the memcached
    /// in PATH]
    #[arg(long, value_name = "PATH", default_value = "memcached", hide_default_value = true)]
    peer: PathBuf,
    /// Measure this evenkeel instead of building one
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
    /// Only these parts, separated by commas: density, memory-limit, misses, shift, growth
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<String>,
    /// Only traces whose name contains this
    #[arg(long, value_name = "TEXT")]
    trace: Option<String>,
    /// Seed of sizes and traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A name and what measures it.
type Part = (&'static str, fn(&Subjects, &Arguments) -> Result<Vec<Row>>);

/// The parts, in the order of the table.
const PARTS: [Part; 5] = [
    ("density", |subjects, _| density::measure(subjects)),
    ("memory-limit", |subjects, arguments| memory_limit::measure(subjects, arguments.seed)),
    ("misses", |subjects, arguments| misses::measure(subjects, arguments.seed, arguments.trace.as_deref())),
    ("shift", |subjects, _| shift::measure(subjects)),
    ("growth", |subjects, arguments| growth::measure(subjects, arguments.seed)),
];

/// Runs the parts and prints their table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for only in &arguments.only {
        if !PARTS.iter().any(|(name, _)| name == only) {
            let names: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
            bail!("no part is called {only}; there are: {}", names.join(", "));
        }
    }
    let path = arguments.evenkeel.clone().map_or_else(super::process::build, Ok)?;
    println!("evenkeel: {}", path.display());
    let ours = ServerKind { name: "evenkeel".into(), path, verb: &["serve"] };
    let name = arguments.peer.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let verb: &[&str] = if name.contains("evenkeel") { &["serve"] } else { &[] };
    let name = if verb.is_empty() { name } else { format!("peer {name}") };
    let subjects = Subjects { ours, peer: ServerKind { name, path: arguments.peer.clone(), verb } };
    let mut report = StoreReport { peer: subjects.peer.name.clone(), rows: Vec::new() };
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    for (name, measure) in PARTS.iter().filter(|(name, _)| wanted(name)) {
        let rows = measure(&subjects, arguments).with_context(|| format!("measure {name}"))?;
        report.rows.extend(rows);
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
