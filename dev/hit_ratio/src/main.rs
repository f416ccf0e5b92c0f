//! Misses of servers on traces, beside published policies in the same bytes.
//!
//! ```text
//! cargo run --release -p hit_ratio -- --traces FOLDER \
//!     --server "evenkeel=target/release/evenkeel serve -t 2 -u $USER" --server "memcached=memcached -t 2 -u $USER"
//! ```
//!
//! Each trace is replayed against a new process of each server, by a client that stores what it misses. The policies then
//! have as many bytes of keys and values as the first server had at the end. Traces are not part of this project: where
//! public ones are, `docs/serve/performance.md` says. Without `--traces`, two small ones of our own making.

mod lists;
mod picture;
mod policies;
mod policy;
mod replay;
mod trace;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::policy::PublishedPolicy;
use crate::replay::{Replayed, ReplayedServer};
use crate::trace::{ItemTrace, made};

/// Misses of servers on traces, beside published policies in the same bytes
#[derive(Parser)]
struct Arguments {
    /// Folder with traces, *.bin (oracleGeneral) or *.csv (object,bytes)
    #[arg(long)]
    traces: Option<PathBuf>,
    /// A server as NAME=COMMAND; the first one is what all others are compared with
    #[arg(long = "server", required = true)]
    servers: Vec<ReplayedServer>,
    /// Memory limits in megabytes, for all traces; or TRACE=LIMIT[,LIMIT] for one
    #[arg(long, default_value = "16,64")]
    megabytes: Vec<String>,
    /// Requests of each trace, at most
    #[arg(long, default_value_t = usize::MAX)]
    requests: usize,
    /// Leave the policies out
    #[arg(long)]
    servers_only: bool,
    /// Write a picture of the means
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Misses of one server or policy in one row of the table, as shares of requests and of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    objects: f64,
    bytes: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let traces = traces(&arguments)?;
    let policies = if arguments.servers_only { &[][..] } else { &policies::ALL[..] };
    let names: Vec<&str> = arguments
        .servers
        .iter()
        .map(|server| &*server.name)
        .chain(policies.iter().map(|(name, _)| *name))
        .collect();
    println!(
        "{:<14} {:>5} {:>6} {}",
        "trace",
        "-m",
        "stored",
        columns(names.iter().map(|name| (*name).to_owned()))
    );
    let mut rows: Vec<Vec<Share>> = Vec::new();
    for (name, trace) in &traces {
        let all_bytes: u64 = trace.requests.iter().map(|request| request.bytes).sum();
        let share = |replayed: Replayed| Share {
            objects: replayed.misses as f64 / trace.requests.len() as f64,
            bytes: replayed.missed_bytes as f64 / all_bytes as f64,
        };
        for megabytes in limits(&arguments.megabytes, name)? {
            let replayed: Vec<Replayed> = arguments
                .servers
                .iter()
                .map(|server| server.replay(trace, megabytes))
                .collect::<Result<_>>()?;
            let room = replayed[0].stored_bytes;
            let simulated = policies.iter().map(|(_, make)| simulate(&mut *make(trace.items, room), trace));
            let row: Vec<Share> = replayed.iter().copied().chain(simulated).map(share).collect();
            let stored = replayed.iter().map(|of| of.stored_bytes as f64 / (megabytes << 20) as f64);
            println!(
                "{name:<14} {megabytes:>5} {:>6.2} {}   stored {}",
                room as f64 / (megabytes << 20) as f64,
                columns(row.iter().map(|share| format!("{:.4}", share.objects))),
                stored.map(|share| format!("{share:.2} ")).collect::<String>(),
            );
            rows.push(row);
        }
    }
    ensure!(!rows.is_empty(), "there are no traces: expected files *.bin or *.csv");
    let mean = |number: usize, of: fn(&Share) -> f64| {
        let sum: f64 = rows.iter().map(|row| (of(&row[0]) / of(&row[number])).ln()).sum();
        (sum / rows.len() as f64).exp()
    };
    let objects: Vec<f64> = (0..names.len()).map(|number| mean(number, |share| share.objects)).collect();
    let bytes = (0..names.len()).map(|number| mean(number, |share| share.bytes));
    let worst = (0..names.len())
        .map(|number| rows.iter().map(|row| row[0].objects / row[number].objects).fold(0.0, f64::max));
    let line = |title: &str, values: &mut dyn Iterator<Item = f64>| {
        println!("{title:<27} {}", columns(values.map(|value| format!("{value:.3}"))));
    };
    println!("misses of {} divided by those of each, geometric mean of {} rows:", names[0], rows.len());
    line("  objects", &mut objects.iter().copied());
    line("  bytes", &mut bytes.into_iter());
    line("  objects, worst row", &mut worst.into_iter());
    if let Some(path) = &arguments.svg {
        let bars: Vec<(&str, f64)> = names.iter().copied().zip(objects).collect();
        std::fs::write(path, picture::bars(names[0], &bars))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn simulate(policy: &mut dyn PublishedPolicy, trace: &ItemTrace) -> Replayed {
    let mut replayed = Replayed::default();
    for request in trace.requests.iter().filter(|request| !policy.get(request)) {
        replayed.misses += 1;
        replayed.missed_bytes += request.bytes;
    }
    replayed
}

fn columns(values: impl Iterator<Item = String>) -> String {
    values.map(|value| format!("{value:>10}")).collect()
}

fn traces(arguments: &Arguments) -> Result<Vec<(String, ItemTrace)>> {
    let Some(folder) = &arguments.traces else {
        let requests = arguments.requests.min(MADE_REQUESTS);
        return Ok(vec![
            ("equal-sizes".into(), made::equal_sizes(requests)),
            ("mixed-sizes".into(), made::mixed_sizes(requests)),
        ]);
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("read {}", folder.display()))?;
    paths.sort();
    let is_trace = |path: &&PathBuf| path.extension().is_some_and(|end| end == "bin" || end == "csv");
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, ItemTrace::read(path, arguments.requests)?))
    };
    paths.iter().filter(is_trace).map(read).collect()
}

/// Requests of a trace of our own making.
const MADE_REQUESTS: usize = 300_000;

/// The limits for one trace: those with its name, or else those without one.
fn limits(given: &[String], trace: &str) -> Result<Vec<u64>> {
    let own = given.iter().filter_map(|text| text.strip_prefix(trace)?.strip_prefix('='));
    let others = given.iter().filter(|text| !text.contains('=')).map(String::as_str);
    let own: Vec<&str> = own.collect();
    let texts: Vec<&str> = if own.is_empty() { others.collect() } else { own };
    let numbers = texts.iter().flat_map(|text| text.split(','));
    numbers.map(|text| text.parse().with_context(|| format!("expected megabytes, found {text:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_may_have_limits_of_its_own() {
        let given = ["16,64", "cdn=64,200", "loop=64"].map(String::from);
        assert_eq!(limits(&given, "w106").unwrap(), [16, 64]);
        assert_eq!(limits(&given, "cdn").unwrap(), [64, 200]);
        assert_eq!(limits(&given, "loop").unwrap(), [64]);
        assert!(limits(&["many".into()], "w106").is_err());
    }
}
