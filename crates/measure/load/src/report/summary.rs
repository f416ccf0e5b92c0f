//! The result of a run: a value, rendered for people and as JSON.

mod measured;
mod parts;
mod probes;
mod render;

pub(crate) use measured::{Edge, Probed, RunMeasurements};
pub(crate) use parts::{AgentSummary, CommandCount, ErrorLine};
pub use parts::{Connects, CpuCost, Handshakes, Recorded, Second, WaitsSummary};
pub(crate) use probes::Probes;
pub(crate) use probes::Probing;
#[cfg(test)]
pub(crate) use render::TOLD;

use crate::measure::failures::Failures;
use crate::measure::latency::Latency;
use crate::measure::tally::Tally;
use crate::measure::verdict::{RunEvidence, RunVerdict};
use crate::types::description::Description;
use crate::types::error::{Error, told};
use crate::types::mix::Command;
use crate::workload::plan::RunPlan;
use measured::{busiest, client_cost, ratio, server_cost, surely_stolen};
use parts::{command_counts, error_lines, unread};
use serde::{Deserialize, Serialize};

/// The result of a run. Rates and CPU-seconds are those between the two edges of the measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The version of this format: [`SCHEMA`].
    #[serde(default)]
    pub schema: u32,
    /// The request, for all machines together: every flag of the run. Defaults are filled in, except those that do
    /// not matter to this run.
    pub run: Description,
    /// `open`: latencies count from the time at which the schedule had a request to be sent. `closed`: from the time
    /// at which it was sent; they are those of a server kept busy.
    pub r#loop: String,
    /// Whether the rate and the latencies can be believed.
    pub verdict: RunVerdict,
    /// `io_uring`, `epoll` or `mmsg`.
    pub engine: String,
    /// The server's address.
    pub target: String,
    /// `tcp`, `tls`, `unix` or `udp`.
    pub transport: String,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Requests completed in the window; of an open loop, those intended in it and answered, even a little later.
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
    /// Requests given up: their connection ended, a datagram was lost, or `--timeout` was over.
    pub lost: u64,
    /// All that failed, by kind; of a closed loop also attempts to connect.
    #[serde(default)]
    pub failures: Failures,
    /// The share of requests that did not fail; `None`: there was none.
    #[serde(default)]
    pub availability: Option<f64>,
    /// Why the run ended before its time, if it did: the figures are of the time before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Datagrams that answered no request: too late, or twice.
    pub stray_datagrams: u64,

    /// Requests completed in the window per second of wall clock, whenever they were intended.
    pub requests_per_second: f64,
    /// Keys, asked for or changed, per second of wall clock.
    pub keys_per_second: f64,
    /// Latencies of requests: from intended to done in an open loop, from sent to done in a closed one.
    pub latency: Latency,
    /// For an open loop: the parts of the latency.
    pub waits: Option<WaitsSummary>,
    /// With `--kernel-timestamps`: how long the kernel held replies before this program read them, which no other
    /// latency includes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Latency>,
    /// For encrypted connections: their handshakes, over the whole run.
    pub handshakes: Option<Handshakes>,
    /// If connections came and went in the window.
    pub connects: Option<Connects>,
    /// Share of the host's CPU time in the window that other guests of the machine took.
    pub steal: f64,
    /// CPU time of the generator's threads.
    pub client: CpuCost,
    /// How much of the window the busiest of these threads ran, from 0 to 1.
    pub busiest_thread: f64,
    /// Share of the window that a thread waited for a CPU while others ran there; that of the thread which waited
    /// most.
    #[serde(default)]
    pub cpu_wait: f64,
    /// CPU time of the process given by `--server-pid`.
    pub server: Option<CpuCost>,
    /// The results of `--probes`; no other figure includes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
    /// The recording made by `--record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The window in steps of a second.
    pub series: Vec<Second>,
    /// The machines that it came from, if there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentSummary>,
}

/// The load ran, but the server did not answer as it should.
pub const WRONG_REPLIES: &str = "wrong values or error replies: see above";

/// The version of the JSON of results. A field that is added leaves it; one that goes, or comes to mean something else,
/// raises it.
pub(crate) const SCHEMA: u32 = 1;

impl Summary {
    /// Of a run that ended before anything was measured.
    pub(crate) fn failed(run: &Description, error: &Error) -> Summary {
        let verdict = RunVerdict::of(&RunEvidence { failure: Some(told(error)), ..RunEvidence::default() });
        Summary {
            schema: SCHEMA,
            run: run.clone(),
            verdict,
            failure: Some(told(error)),
            ..Summary::default()
        }
    }

    pub(crate) fn new(plan: &RunPlan, measured: RunMeasurements) -> Summary {
        let span = measured.span(plan);
        let steal = measured.close.host.stolen_since(measured.open.host);
        let surely = surely_stolen(measured.open.host, measured.close.host);
        let verdict = measured.verdict(plan, &span, surely);
        let probes = measured.probes.as_ref().and_then(|probed| probed.figures(plan, span.seconds, surely));
        let RunMeasurements { engine, tally, open, close, series, failure, recorded, .. } = measured;
        let (busiest_thread, cpu_wait) = busiest(&span, &open, &close);
        let summary = Summary {
            schema: SCHEMA,
            failure: failure.as_ref().map(told),
            run: plan.run.clone(),
            r#loop: String::from(if plan.pace.is_some() { "open" } else { "closed" }),
            verdict,
            engine: engine.to_owned(),
            target: plan.target.to_string(),
            transport: plan.transport().to_owned(),
            seconds: span.seconds,
            requests_per_second: ratio(span.requests as f64, span.seconds),
            keys_per_second: ratio(span.keys as f64, span.seconds),
            steal,
            client: client_cost(&span, &open, &close),
            busiest_thread,
            cpu_wait,
            server: server_cost(&span, &open, &close),
            probes,
            recorded: plan.run.record.as_ref().zip(recorded).map(|(file, recorded)| Recorded {
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
            lost: tally.failures.lost(),
            failures: tally.failures,
            availability: tally.failures.availability(tally.requests()),
            stray_datagrams: tally.strays,
            error_lines: error_lines(tally),
            latency: Latency::or_zero(&tally.latency_ns),
            waits: WaitsSummary::of(tally),
            unread: unread(tally),
            connects: tally.churn.as_ref().map(|churn| Connects {
                opened: churn.took_ns.len(),
                refused: churn.refused,
                timed_out: churn.timed_out,
                closed_by_server: churn.closed,
                broken: churn.broken,
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

    /// With the results of probes that ran on another machine than the load's.
    pub(crate) fn with_probing(mut self, probing: Probing) -> Summary {
        for (at, second) in self.series.iter_mut().enumerate() {
            second.probes = probing.seconds.of(at as u64).and_then(|stats| stats.latency);
        }
        Summary { probes: probing.figures, ..self }
    }

    /// With the server's CPU time in the window.
    pub(crate) fn with_server(self, cpu_ns: u64) -> Summary {
        let of = |per_second: f64| ratio(per_second * self.seconds, cpu_ns as f64 / 1e9);
        let server = CpuCost {
            cpu_seconds: cpu_ns as f64 / 1e9,
            requests_per_cpu_second: of(self.requests_per_second),
            keys_per_cpu_second: of(self.keys_per_second),
        };
        Summary { server: Some(server), ..self }
    }

    /// Threads that generated load, on all machines.
    pub(crate) fn threads(&self) -> usize {
        self.run.threads * self.agents.len().max(1)
    }

    /// Whether every request was answered as by a healthy server: no error line, no wrong value, no connection that ended
    /// with requests on their way. Datagrams may get lost.
    pub fn is_clean(&self) -> bool {
        self.errors == 0
            && (self.requests > 0 || self.failures.total() == 0)
            && self.failure.is_none()
            && self.failures.broken() == 0
            && self.wrong_values == 0
            && self.not_stored == 0
            && self.probes.as_ref().is_none_or(Probes::is_clean)
    }

    /// What was not as with a healthy server, if it was not: the gravest of it, for the last line of an output that shows all.
    pub fn complaint(&self) -> Option<String> {
        let probes_broken = self.probes.as_ref().map_or(0, |probes| probes.failures.broken());
        match &self.failure {
            _ if self.is_clean() => None,
            Some(failure) => Some(failure.clone()),
            None if self.errors + self.wrong_values + self.not_stored == 0
                && (self.failures.broken() + probes_broken > 0 || self.requests == 0) =>
            {
                Some(String::from("requests had no reply, or connections failed: see above"))
            }
            None => Some(String::from(WRONG_REPLIES)),
        }
    }

    /// Whether it and its probes can be believed.
    pub fn is_valid(&self) -> bool {
        self.verdict.valid && self.probes.as_ref().is_none_or(|probes| probes.verdict.valid)
    }

    /// Whether a recording, if there is one, has every request.
    pub fn is_recorded_whole(&self) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.left_out == 0)
    }
}
