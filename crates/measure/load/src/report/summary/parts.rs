//! The parts of a summary.

use super::measured::{Edge, Span, busiest, client_cost, ratio, server_cost};
use crate::measure::failures::Failures;
use crate::measure::latency::Latency;
use crate::measure::seconds::SecondStats;
use crate::measure::tally::Tally;
use crate::types::mix::Command;
use serde::{Deserialize, Serialize};

/// The part of one of several machines.
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

/// The parts of an open-loop request's latency, and the requests that are missing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct WaitsSummary {
    /// From intended to sent: waiting for a connection with room, and for this program.
    pub slip: Latency,
    /// Of that, from the moment when it could have been sent: the lateness of this program.
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
    /// How many ended otherwise: reset, or given up after a timeout or a malformed reply.
    #[serde(default)]
    pub broken: u64,
    /// How long it took to open those that were opened, without their encryption.
    pub latency: Latency,
}

/// TLS handshakes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Handshakes {
    /// How many there were.
    pub count: u64,
    /// How many of them resumed an earlier session.
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

/// CPU time, and requests and keys per CPU-second.
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
    /// CPU-seconds of the generator's threads.
    pub client: CpuCost,
    /// CPU-seconds of the server.
    pub server: Option<CpuCost>,
    /// How much of it the busiest thread of the generator ran, from 0 to 1.
    pub busiest_thread: f64,
    /// How much of it the generator's thread which waited most waited for a CPU.
    #[serde(default)]
    pub cpu_wait: f64,
    /// Latencies of its requests, whenever their replies came: of an open loop those that were due in it, of a closed one
    /// those that were done in it; `None`: none was answered.
    pub latency: Option<Latency>,
    /// Those of its requests that failed.
    #[serde(default)]
    pub failures: Failures,
    /// The share of its requests that did not fail; `None`: it has none.
    #[serde(default)]
    pub availability: Option<f64>,
    /// The same of probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Latency>,
}

impl Second {
    pub(crate) fn between(open: &Edge, close: &Edge) -> Second {
        let span = Span::between(open, close);
        let (busiest_thread, cpu_wait) = busiest(&span, open, close);
        Second {
            seconds: span.seconds,
            requests_per_second: ratio(span.requests as f64, span.seconds),
            client: client_cost(&span, open, close),
            server: server_cost(&span, open, close),
            busiest_thread,
            cpu_wait,
            latency: None,
            failures: Failures::default(),
            availability: None,
            probes: None,
        }
    }

    /// With the requests that belong to it, if they are known.
    pub(crate) fn count(&mut self, stats: Option<&SecondStats>) {
        let Some(SecondStats { latency, answered, failures, .. }) = stats else { return };
        (self.latency, self.failures) = (*latency, *failures);
        self.availability = failures.availability(*answered);
    }

    /// For the live view; `latest` is of the last second that is complete.
    pub(crate) fn line(&self, latest: Option<&SecondStats>) -> String {
        let failed = latest.map_or(0, |interval| interval.failures.total());
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let rate = format!("{:.0} requests/s{failed}", self.requests_per_second);
        match latest.and_then(|interval| interval.latency) {
            Some(Latency { p50_us, p99_us, .. }) => format!("{rate}, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs"),
            None => rate,
        }
    }
}

pub(super) fn command_counts(tally: &Tally) -> Vec<CommandCount> {
    let count = |command: Command| CommandCount {
        command: command.name().to_owned(),
        requests: tally.done[command as usize],
        declined: tally.declined[command as usize],
    };
    Command::ALL.into_iter().map(count).filter(|count| count.requests > 0).collect()
}

/// The most frequent first.
pub(super) fn error_lines(tally: &Tally) -> Vec<ErrorLine> {
    let mut lines: Vec<_> =
        tally.error_lines.iter().map(|(line, &times)| ErrorLine { line: line.clone(), times }).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.times));
    lines
}

impl WaitsSummary {
    pub(super) fn of(tally: &Tally) -> Option<WaitsSummary> {
        let waits = tally.waits.as_ref()?;
        Some(WaitsSummary {
            slip: Latency::or_zero(&waits.slip_ns),
            late: Latency::or_zero(&waits.late_ns),
            service: Latency::or_zero(&waits.service_ns),
            unanswered: tally.failures.unanswered,
            unsent: tally.failures.unsent,
        })
    }
}

/// How long the kernel held replies before they were read, if it reports that.
pub(super) fn unread(tally: &Tally) -> Option<Latency> {
    Some(Latency::or_zero(&tally.unread.as_ref()?.waited_ns))
}
