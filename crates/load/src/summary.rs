//! What a run measured: a value, rendered for people and as JSON.

mod render;

use crate::arguments::Arguments;
use crate::error::Error;
use crate::plan::Plan;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The result of a run. Rates and CPU-seconds are those between the two edges of the measured window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Always `closed`: latencies are those of a server kept busy.
    pub r#loop: String,
    /// `io_uring` or `epoll`.
    pub engine: String,
    /// The server's address.
    pub target: String,
    /// `text` or `meta`.
    pub protocol: String,
    /// Connections over all threads.
    pub connections: usize,
    /// Requests on their way per connection.
    pub depth: usize,
    /// Threads that generated load.
    pub threads: usize,
    /// Share of gets asked for.
    pub get_share: f64,
    /// Keys per get.
    pub multiget: usize,
    /// Distinct keys.
    pub keyspace: u64,
    /// Bytes per key, as given.
    pub key_size: String,
    /// Bytes per value, as given.
    pub value_size: String,
    /// The law of popularity, as given.
    pub popularity: String,
    /// The seed.
    pub seed: u64,
    /// Whether values were compared.
    pub verified: bool,

    /// Length of the window in seconds.
    pub seconds: f64,
    /// Requests completed in the window.
    pub requests: u64,
    /// Of these, gets.
    pub gets: u64,
    /// Of these, sets.
    pub sets: u64,
    /// Keys asked for by gets.
    pub keys_asked: u64,
    /// Values received.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Sets that the server declined without an error.
    pub not_stored: u64,
    /// Values that were not their key's own; always 0 without verification.
    pub wrong_values: u64,
    /// Error lines received.
    pub errors: u64,
    /// Which ones, the most frequent first.
    pub error_lines: Vec<ErrorLine>,

    /// Requests per second of wall clock.
    pub requests_per_second: f64,
    /// Keys, asked for or stored, per second of wall clock.
    pub keys_per_second: f64,
    /// Latencies of requests.
    pub latency: Latency,
    /// What the threads of the generator used.
    pub client: CpuCost,
    /// How much of the window the busiest of these threads ran, from 0 to 1.
    pub busiest_thread: f64,
    /// What the process given by `--server-pid` used.
    pub server: Option<CpuCost>,
    /// The window in steps of a second.
    pub series: Vec<Second>,
}

/// An error line and how often it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorLine {
    /// The line, made printable.
    pub line: String,
    /// How often.
    pub times: u64,
}

/// Percentiles in microseconds; how they are taken is said in the crate's documentation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_us: f64,
    /// 90 % are below.
    pub p90_us: f64,
    /// 99 % are below.
    pub p99_us: f64,
    /// 99.9 % are below.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

/// CPU time, and what it bought.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CpuCost {
    /// CPU-seconds within the window, user and kernel.
    pub cpu_seconds: f64,
    /// Requests per CPU-second.
    pub requests_per_cpu_second: f64,
    /// Keys per CPU-second.
    pub keys_per_cpu_second: f64,
}

/// One step of the window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Second {
    /// Its length.
    pub seconds: f64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// What the generator's threads used.
    pub client: CpuCost,
    /// What the server used.
    pub server: Option<CpuCost>,
}

/// A reading of all counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    /// Of each thread.
    pub(crate) client_cpu_ns: Vec<u64>,
    pub(crate) server_cpu_ns: Option<u64>,
}

/// A run as the workers and the edges tell it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    pub(crate) tally: Tally,
    pub(crate) open: Edge,
    pub(crate) close: Edge,
    pub(crate) series: Vec<Second>,
}

/// Everything between two edges.
#[derive(Clone, Copy, Debug)]
struct Span {
    seconds: f64,
    requests: u64,
    keys: u64,
}

impl Span {
    fn between(open: &Edge, close: &Edge) -> Span {
        Span {
            seconds: close.at_ns.saturating_sub(open.at_ns) as f64 / 1e9,
            requests: close.requests.saturating_sub(open.requests),
            keys: close.keys.saturating_sub(open.keys),
        }
    }

    fn cost(&self, cpu_ns: u64) -> CpuCost {
        let cpu_seconds = cpu_ns as f64 / 1e9;
        CpuCost {
            cpu_seconds,
            requests_per_cpu_second: ratio(self.requests as f64, cpu_seconds),
            keys_per_cpu_second: ratio(self.keys as f64, cpu_seconds),
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn client_cost(span: &Span, open: &Edge, close: &Edge) -> CpuCost {
    let total = |edge: &Edge| edge.client_cpu_ns.iter().sum::<u64>();
    span.cost(total(close).saturating_sub(total(open)))
}

fn server_cost(span: &Span, open: &Edge, close: &Edge) -> Option<CpuCost> {
    Some(span.cost(close.server_cpu_ns?.saturating_sub(open.server_cpu_ns?)))
}

impl Second {
    pub(crate) fn between(open: &Edge, close: &Edge) -> Second {
        let span = Span::between(open, close);
        Second {
            seconds: span.seconds,
            requests_per_second: ratio(span.requests as f64, span.seconds),
            client: client_cost(&span, open, close),
            server: server_cost(&span, open, close),
        }
    }
}

impl Summary {
    pub(crate) fn new(arguments: &Arguments, plan: &Plan, measured: Measured) -> Summary {
        let Measured { engine, tally, open, close, series } = measured;
        let span = Span::between(&open, &close);
        let threads = open.client_cpu_ns.iter().zip(&close.client_cpu_ns);
        let busiest_ns = threads.map(|(open, close)| close.saturating_sub(*open)).max().unwrap_or(0);
        let us = |ns: u64| ns as f64 / 1e3;
        let percentile = |share| us(tally.latency_ns.value_at_quantile(share));
        let mut error_lines: Vec<_> =
            tally.error_lines.iter().map(|(line, &times)| ErrorLine { line: line.clone(), times }).collect();
        error_lines.sort_by_key(|line| std::cmp::Reverse(line.times));
        Summary {
            r#loop: String::from("closed"),
            engine: engine.to_owned(),
            target: plan.target.to_string(),
            protocol: plan.protocol.to_string(),
            connections: plan.connections,
            depth: plan.depth,
            threads: plan.threads,
            get_share: plan.gets,
            multiget: plan.multiget,
            keyspace: plan.items.count,
            key_size: arguments.key_size.to_string(),
            value_size: arguments.value_size.to_string(),
            popularity: arguments.popularity.to_string(),
            seed: arguments.seed,
            verified: plan.verify,
            seconds: span.seconds,
            requests: tally.requests(),
            gets: tally.gets,
            sets: tally.sets,
            keys_asked: tally.keys_asked,
            hits: tally.hits,
            misses: tally.misses,
            not_stored: tally.not_stored,
            wrong_values: tally.wrong,
            errors: tally.errors,
            error_lines,
            requests_per_second: ratio(span.requests as f64, span.seconds),
            keys_per_second: ratio(span.keys as f64, span.seconds),
            latency: Latency {
                p50_us: percentile(0.5),
                p90_us: percentile(0.9),
                p99_us: percentile(0.99),
                p999_us: percentile(0.999),
                max_us: us(tally.latency_ns.max()),
                mean_us: tally.latency_ns.mean() / 1e3,
            },
            client: client_cost(&span, &open, &close),
            busiest_thread: ratio(busiest_ns as f64 / 1e9, span.seconds),
            server: server_cost(&span, &open, &close),
            series,
        }
    }

    /// Whether every reply was what a healthy server sends: no error line, no wrong value.
    pub fn is_clean(&self) -> bool {
        self.errors == 0 && self.wrong_values == 0 && self.not_stored == 0
    }

    /// Writes the summary to `path` as JSON.
    pub(crate) fn write_json(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::Json { path: path.to_path_buf(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        fs::write(path, text).map_err(failed)
    }
}
