//! What a run measured: a value, rendered for people and as JSON.

mod probes;
mod render;

pub use probes::Probes;
pub(crate) use render::grouped;

use crate::arguments::Arguments;
use crate::cpu_time::HostTime;
use crate::error::Error;
use crate::mix::Command;
use crate::plan::{Plan, Timing, Who};
use crate::recording;
use crate::seconds::Interval;
use crate::tally::Tally;
use crate::verdict::{Evidence, OpenEvidence, Verdict};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The result of a run. Rates and CPU-seconds are those between the two edges of the measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// `open`: latencies count from the time at which the schedule wanted a request to be sent. `closed`: from the time
    /// at which it was; they are those of a server kept busy.
    pub r#loop: String,
    /// Whether to believe the rate and the latencies.
    pub verdict: Verdict,
    /// Of an open loop: requests per second asked for.
    pub rate: Option<f64>,
    /// The trace that was replayed, and how fast.
    #[serde(default)]
    pub trace: Option<String>,
    /// Of an open loop: the law of its arrivals.
    pub arrivals: Option<String>,
    /// `io_uring`, `epoll` or `mmsg`.
    pub engine: String,
    /// The server's address.
    pub target: String,
    /// `tcp`, `tls`, `unix` or `udp`.
    pub transport: String,
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
    /// The built-in workload that says what follows, unless a flag does.
    #[serde(default)]
    pub workload: Option<String>,
    /// The commands and their shares.
    #[serde(default)]
    pub mix: String,
    /// Keys per get.
    pub multiget: usize,
    /// Distinct keys.
    pub keyspace: u64,
    /// Bytes per key, as given.
    pub key_size: String,
    /// Bytes per value, as given.
    pub value_size: String,
    /// Times to live in seconds, as given.
    #[serde(default)]
    pub ttl: String,
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
    /// By command, those that were sent.
    #[serde(default)]
    pub commands: Vec<CommandCount>,
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
    /// Sets of missed items, which no other count includes; always 0 without `--backfill`.
    #[serde(default)]
    pub refills: u64,
    /// Sets that the server declined without an error.
    pub not_stored: u64,
    /// Values that were not their key's own; always 0 without verification.
    pub wrong_values: u64,
    /// Error lines received.
    pub errors: u64,
    /// Which ones, the most frequent first.
    pub error_lines: Vec<ErrorLine>,
    /// Requests that nobody waits for any longer: a datagram of theirs or of their reply has got lost.
    pub lost: u64,
    /// Datagrams that answered nothing: they came too late, or twice.
    pub stray_datagrams: u64,

    /// Requests per second of wall clock.
    pub requests_per_second: f64,
    /// Keys, asked for or changed, per second of wall clock.
    pub keys_per_second: f64,
    /// Latencies of requests: from intended to done in an open loop, from sent to done in a closed one.
    pub latency: Latency,
    /// Of an open loop: where the latency went.
    pub waits: Option<WaitsSummary>,
    /// Of encrypted connections: how they agreed on it, over the whole run.
    pub handshakes: Option<Handshakes>,
    /// If connections came and went in the window.
    pub connects: Option<Connects>,
    /// Share of the host's CPU time in the window that other guests of the machine took.
    pub steal: f64,
    /// What the threads of the generator used.
    pub client: CpuCost,
    /// How much of the window the busiest of these threads ran, from 0 to 1.
    pub busiest_thread: f64,
    /// What the process given by `--server-pid` used.
    pub server: Option<CpuCost>,
    /// What `--probes` found; no other figure includes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
    /// What `--record` has kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The window in steps of a second.
    pub series: Vec<Second>,
    /// The machines that it came from, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentSummary>,
}

/// What one of several machines did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentSummary {
    /// As given in `--agents`.
    pub name: String,
    /// Its own verdict.
    pub valid: bool,
    /// Its part of the rate.
    pub requests_per_second: f64,
    /// Of its own requests.
    pub p99_us: f64,
    /// How much of the window its busiest thread ran, from 0 to 1.
    pub busiest_thread: f64,
    /// By how much its clock, and so its beginning, may have been off.
    pub clock_error_us: f64,
}

/// How often a command was carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandCount {
    /// Its name in the text protocol.
    pub command: String,
    /// Requests.
    pub requests: u64,
    /// Of these, those that the server declined because the item was there (add) or was not (delete, incr, …).
    pub declined: u64,
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
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
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

/// Where the time of an open loop's requests went, and which requests are missing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WaitsSummary {
    /// From intended to sent: waiting for a connection with room, and for this program.
    pub slip: Latency,
    /// Of that, from the moment when it could have been sent: this program's own lateness.
    pub late: Latency,
    /// From sent to done.
    pub service: Latency,
    /// Requests of the window that were sent and not answered 2 s after it.
    pub unanswered: u64,
    /// Requests of the window that the schedule had and that were never sent.
    pub unsent: u64,
}

/// Connections that came and went.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Connects {
    /// How many were opened.
    pub opened: u64,
    /// How many were refused, and tried again.
    pub refused: u64,
    /// How many were not answered within 5 s, and tried again.
    pub timed_out: u64,
    /// How many the server closed.
    pub closed_by_server: u64,
    /// How long it took to open those that were opened, without their encryption.
    pub latency: Latency,
}

/// How connections agreed on their encryption.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Handshakes {
    /// How many there were.
    pub count: u64,
    /// How many of them went on with an earlier session.
    pub resumed: u64,
    /// From the first bytes to send until both sides had their keys.
    pub latency: Latency,
}

/// A recording of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// The file.
    pub file: String,
    /// Lines in it: keys asked for or changed in the window, and missed ones that were stored.
    pub requests: u64,
    /// Those that are not in it, because the disk was slower than the load.
    pub left_out: u64,
    /// Where in the window the file ends, if any are left out: it holds all that came before.
    pub ends_after_seconds: Option<f64>,
}

/// CPU time, and what it bought.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
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
    /// How much of it the busiest thread of the generator ran, from 0 to 1.
    pub busiest_thread: f64,
    /// Latencies of the requests that were done in it; `None`: none was.
    pub latency: Option<Latency>,
    /// The same of probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Latency>,
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
    pub(crate) host: HostTime,
}

/// A run as the workers and the edges tell it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    pub(crate) tally: Tally,
    pub(crate) open: Edge,
    pub(crate) close: Edge,
    pub(crate) series: Vec<Second>,
    /// Somebody has ended the window before its time.
    pub(crate) has_left: bool,
    pub(crate) recorded: Option<recording::Recorded>,
    pub(crate) probes: Option<Probed>,
}

/// What probes found.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) tally: Tally,
    /// CPU time of their thread in the window.
    pub(crate) cpu_ns: u64,
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
            busiest_thread: busiest(&span, open, close),
            latency: None,
            probes: None,
        }
    }

    /// For somebody who watches; `latest` is of the last second that is complete.
    pub(crate) fn line(&self, latest: Option<&Interval>) -> String {
        let rate = format!("{:.0} requests/s", self.requests_per_second);
        match latest.and_then(|interval| interval.latency) {
            Some(Latency { p50_us, p99_us, .. }) => format!("{rate}, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs"),
            None => rate,
        }
    }
}

/// The share of the time that the busiest thread ran.
fn busiest(span: &Span, open: &Edge, close: &Edge) -> f64 {
    let threads = open.client_cpu_ns.iter().zip(&close.client_cpu_ns);
    let busiest_ns = threads.map(|(open, close)| close.saturating_sub(*open)).max().unwrap_or(0);
    ratio(busiest_ns as f64 / 1e9, span.seconds)
}

impl Latency {
    /// `None`: nothing was recorded.
    pub(crate) fn of(histogram_ns: &Histogram<u64>) -> Option<Latency> {
        (!histogram_ns.is_empty()).then(|| Latency::or_zero(histogram_ns))
    }

    pub(crate) fn or_zero(histogram_ns: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let percentile = |share| us(histogram_ns.value_at_quantile(share));
        Latency {
            p50_us: percentile(0.5),
            p90_us: percentile(0.9),
            p99_us: percentile(0.99),
            p999_us: percentile(0.999),
            max_us: us(histogram_ns.max()),
            mean_us: histogram_ns.mean() / 1e3,
        }
    }
}

impl Measured {
    fn verdict(&self, plan: &Plan, span: &Span, steal: f64) -> Verdict {
        let busy = |second: &Second| (second.seconds > SHORT_S).then_some(second.busiest_thread);
        let open = plan.pace.zip(self.tally.waits.as_ref()).map(|(pace, waits)| {
            let answered = self.tally.requests();
            let scheduled = answered + self.tally.lost + self.tally.unanswered + self.tally.unsent;
            let us = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1e3;
            OpenEvidence {
                who: Who::Load,
                asked: match (plan.requests.filter(|_| !self.has_left), pace.timing) {
                    (Some(requests), _) => requests as f64,
                    (None, Timing::Law(rate, _)) => rate * span.seconds,
                    (None, Timing::Trace) => scheduled as f64,
                },
                scheduled,
                answered,
                late_p99_us: us(&waits.late_ns),
                response_p99_us: us(&self.tally.latency_ns),
                spins: !pace.spin.is_zero(),
            }
        });
        Verdict::of(&Evidence {
            busy: self.series.iter().filter_map(busy).collect(),
            steal,
            lost: ratio(self.tally.lost as f64, (self.tally.lost + self.tally.requests()) as f64),
            p50_us: self.series.iter().filter_map(|second| Some(second.latency?.p50_us)).collect(),
            silence_s: self.tally.silence_ns as f64 / 1e9,
            longest_s: self.tally.latency_ns.max() as f64 / 1e9,
            seconds: span.seconds,
            open,
        })
    }
}

/// A last step of the window that is shorter says nothing about a thread: its CPU time is known to some milliseconds.
const SHORT_S: f64 = 0.2;

fn command_counts(tally: &Tally) -> Vec<CommandCount> {
    let count = |command: Command| CommandCount {
        command: command.name().to_owned(),
        requests: tally.done[command as usize],
        declined: tally.declined[command as usize],
    };
    Command::ALL.into_iter().map(count).filter(|count| count.requests > 0).collect()
}

/// The most frequent first.
fn error_lines(tally: &Tally) -> Vec<ErrorLine> {
    let mut lines: Vec<_> =
        tally.error_lines.iter().map(|(line, &times)| ErrorLine { line: line.clone(), times }).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.times));
    lines
}

impl WaitsSummary {
    fn of(tally: &Tally) -> Option<WaitsSummary> {
        let waits = tally.waits.as_ref()?;
        Some(WaitsSummary {
            slip: Latency::or_zero(&waits.slip_ns),
            late: Latency::or_zero(&waits.late_ns),
            service: Latency::or_zero(&waits.service_ns),
            unanswered: tally.unanswered,
            unsent: tally.unsent,
        })
    }
}

impl Summary {
    pub(crate) fn new(arguments: &Arguments, plan: &Plan, measured: Measured) -> Summary {
        let span = Span::between(&measured.open, &measured.close);
        let HostTime { total, steal } = measured.close.host;
        let before = measured.open.host;
        let steal =
            ratio(steal.saturating_sub(before.steal) as f64, total.saturating_sub(before.total) as f64);
        let verdict = measured.verdict(plan, &span, steal);
        let probes = measured.probes(plan, &span, steal);
        let Measured { engine, tally, open, close, series, recorded, .. } = measured;
        // What an open loop has answered was intended in the window, even if it was done a little later.
        let law = plan.pace.and_then(|pace| match pace.timing {
            Timing::Law(rate, arrivals) => Some((rate, arrivals)),
            Timing::Trace => None,
        });
        let (requests, keys) = match plan.pace {
            Some(_) => (tally.requests(), tally.keys()),
            None => (span.requests, span.keys),
        };
        let summary = Summary {
            r#loop: String::from(if plan.pace.is_some() { "open" } else { "closed" }),
            verdict,
            rate: law.map(|(rate, _)| rate),
            arrivals: law.map(|(_, arrivals)| arrivals.to_string()),
            trace: plan
                .trace
                .as_ref()
                .map(|trace| format!("{} at speed {}", trace.path.display(), trace.speed)),
            engine: engine.to_owned(),
            target: plan.target.to_string(),
            transport: plan.transport().to_owned(),
            protocol: plan.protocol.to_string(),
            connections: plan.connections,
            depth: plan.depth,
            threads: plan.threads,
            get_share: plan.asked.mix.share(Command::is_get),
            workload: arguments.workload.map(|workload| workload.to_string()),
            mix: plan.asked.mix.to_string(),
            multiget: plan.multiget,
            keyspace: plan.items.count,
            key_size: plan.asked.key_size.to_string(),
            value_size: plan.asked.value_size.to_string(),
            ttl: plan.asked.ttl.to_string(),
            popularity: plan.asked.popularity.to_string(),
            seed: arguments.seed,
            verified: plan.verify,
            seconds: span.seconds,
            requests_per_second: ratio(requests as f64, span.seconds),
            keys_per_second: ratio(keys as f64, span.seconds),
            steal,
            client: client_cost(&span, &open, &close),
            busiest_thread: busiest(&span, &open, &close),
            server: server_cost(&span, &open, &close),
            probes,
            recorded: arguments.record.as_ref().zip(recorded).map(|(file, recorded)| Recorded {
                file: file.display().to_string(),
                requests: recorded.requests,
                left_out: recorded.left_out,
                ends_after_seconds: (recorded.left_out > 0).then_some(recorded.until_ns as f64 / 1e9),
            }),
            series,
            ..Summary::default()
        };
        summary.counting(&tally)
    }

    /// With these counts and latencies.
    pub(crate) fn counting(self, tally: &Tally) -> Summary {
        Summary {
            requests: tally.requests(),
            commands: command_counts(tally),
            gets: tally.gets(),
            sets: tally.done[Command::Set as usize],
            keys_asked: tally.keys_asked,
            hits: tally.hits,
            misses: tally.misses,
            refills: tally.refills,
            not_stored: tally.not_stored(),
            wrong_values: tally.wrong,
            errors: tally.errors,
            lost: tally.lost,
            stray_datagrams: tally.strays,
            error_lines: error_lines(tally),
            latency: Latency::or_zero(&tally.latency_ns),
            waits: WaitsSummary::of(tally),
            connects: tally.churn.as_ref().map(|churn| Connects {
                opened: churn.took_ns.len(),
                refused: churn.refused,
                timed_out: churn.timed_out,
                closed_by_server: churn.closed,
                latency: Latency::or_zero(&churn.took_ns),
            }),
            handshakes: tally.handshakes.as_ref().map(|handshakes| Handshakes {
                count: handshakes.took_ns.len(),
                resumed: handshakes.resumed,
                latency: Latency::or_zero(&handshakes.took_ns),
            }),
            ..self
        }
    }

    /// With what the server used in the window.
    pub(crate) fn with_server(self, cpu_ns: u64) -> Summary {
        let of = |per_second: f64| ratio(per_second * self.seconds, cpu_ns as f64 / 1e9);
        let server = CpuCost {
            cpu_seconds: cpu_ns as f64 / 1e9,
            requests_per_cpu_second: of(self.requests_per_second),
            keys_per_cpu_second: of(self.keys_per_second),
        };
        Summary { server: Some(server), ..self }
    }

    /// Whether every reply was what a healthy server sends: no error line, no wrong value.
    pub fn is_clean(&self) -> bool {
        self.errors == 0
            && self.wrong_values == 0
            && self.not_stored == 0
            && self.probes.as_ref().is_none_or(Probes::is_clean)
    }

    /// Whether a recording, if there is one, has every request.
    pub fn is_recorded_whole(&self) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.left_out == 0)
    }
}

/// Says before a run that its result could not be written after it; what is there is left alone.
pub(crate) fn check_json(path: Option<&PathBuf>) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|source| Error::Output { path: path.clone(), source })
}

/// Writes a result to `path` as JSON.
pub(crate) fn write_json(result: &impl Serialize, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Output { path: path.to_path_buf(), source };
    let mut text = serde_json::to_string_pretty(result).map_err(|error| failed(error.into()))?;
    text.push('\n');
    fs::write(path, text).map_err(failed)
}
