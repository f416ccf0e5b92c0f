//! Results of probes, apart from the load.

use super::measured::{Probed, Room, growth, ratio};
use super::parts::{error_lines, unread};
use super::{ErrorLine, WaitsSummary};
use crate::measure::failures::Failures;
use crate::measure::latency::Latency;
use crate::measure::seconds::Seconds;
use crate::measure::verdict::{OpenEvidence, RunEvidence, RunVerdict};
use crate::report::figures::{grouped, percentiles};
use crate::types::arrivals::Arrivals;
use crate::types::probes::Traffic;
use crate::workload::plan::RunPlan;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The server's latency for a few connections that asked it little, in an open loop, while the load kept it busy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probes {
    /// Whether their latencies can be believed.
    pub verdict: RunVerdict,
    /// How many connections they have, each with at most one request on its way.
    pub connections: usize,
    /// Requests per second asked for.
    pub rate: f64,
    /// Requests of the window that were answered.
    pub requests: u64,
    /// Requests per second that were completed in the window.
    pub requests_per_second: f64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Requests given up.
    pub lost: u64,
    /// All that failed, by kind.
    #[serde(default)]
    pub failures: Failures,
    /// The share of requests that did not fail.
    #[serde(default)]
    pub availability: Option<f64>,
    /// Values that were not their key's own; always 0 without verification.
    pub wrong_values: u64,
    /// Error lines received.
    pub errors: u64,
    /// Which ones, the most frequent first.
    pub error_lines: Vec<ErrorLine>,
    /// From intended to done.
    pub latency: Latency,
    /// The parts of the latency.
    pub waits: WaitsSummary,
    /// With `--kernel-timestamps`: how long the kernel held replies before this program read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Latency>,
    /// How much of the window their thread ran, from 0 to 1.
    pub busy: f64,
}

/// The results of probes that ran on another machine than the load's.
pub(crate) struct Probing {
    pub(crate) figures: Option<Probes>,
    pub(crate) seconds: Seconds,
}

impl Probed {
    /// The result, for a window of this many seconds in which other guests of the machine took a share of its time.
    pub(crate) fn figures(&self, plan: &RunPlan, seconds: f64, steal: f64) -> Option<Probes> {
        let (asked, tally) = (plan.probes?, &self.tally);
        // They end with the load, or by their schedule, however late the end is noticed.
        let scheduled_s = plan.duration.map_or(seconds, |duration| duration.as_secs_f64().min(seconds));
        let scheduled = asked.rate * scheduled_s;
        let (latency, waits) = (Latency::or_zero(&tally.latency_ns), WaitsSummary::of(tally)?);
        let answered = tally.requests();
        let due = answered + tally.failures.without_reply();
        let lost = tally.failures.lost();
        let completed_per_s = ratio(self.completed as f64, scheduled_s.max(seconds));
        let verdict = RunVerdict::of(&RunEvidence {
            steal,
            waited: ratio(self.time.wait_ns as f64 / 1e9, seconds),
            lost: ratio(lost as f64, (lost + answered) as f64),
            open: Some(OpenEvidence {
                traffic: Traffic::Probes,
                asked: scheduled,
                asked_within: OpenEvidence::within(Arrivals::Poisson, scheduled, 1),
                scheduled: due,
                answered,
                completed_per_s,
                growth: growth(tally, due, scheduled_s, Room { requests: asked.connections, slot_s: 0.0 }),
                late_p99_us: waits.late.p99_us,
                response_p99_us: latency.p99_us,
                spins: plan.sleep.is_spin(),
            }),
            ..RunEvidence::default()
        });
        Some(Probes {
            verdict,
            connections: asked.connections,
            rate: asked.rate,
            requests: answered,
            requests_per_second: completed_per_s,
            misses: tally.misses,
            lost,
            failures: tally.failures,
            availability: tally.failures.availability(answered),
            wrong_values: tally.wrong,
            errors: tally.errors,
            error_lines: error_lines(tally),
            latency,
            waits,
            unread: unread(tally),
            busy: ratio(self.time.run_ns as f64 / 1e9, seconds),
        })
    }
}

impl Probes {
    pub(super) fn is_clean(&self) -> bool {
        self.errors == 0 && self.wrong_values == 0 && self.failures.broken() == 0
    }
}

impl fmt::Display for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {:<10}{} requests/s asked of {} connection{}, {} answered, {} misses, thread ran {:.0} %",
            "probes",
            grouped(self.rate),
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            grouped(self.requests as f64),
            grouped(self.misses as f64),
            self.busy * 100.0
        )?;
        percentiles(f, "  latency", &self.latency)?;
        percentiles(f, "  service", &self.waits.service)?;
        percentiles(f, "  slip", &self.waits.slip)?;
        percentiles(f, "  late", &self.waits.late)?;
        self.unread.iter().try_for_each(|unread| percentiles(f, "  unread", unread))?;
        for (what, times) in [
            ("unanswered", self.waits.unanswered),
            ("never sent", self.waits.unsent),
            ("lost", self.lost),
            ("wrong values", self.wrong_values),
            ("errors", self.errors),
        ] {
            if times > 0 {
                writeln!(f, "    {:<13}{}", what, grouped(times as f64))?;
            }
        }
        for error in &self.error_lines {
            writeln!(f, "  {:>12}× {}", grouped(error.times as f64), error.line)?;
        }
        self.verdict.to_string().lines().try_for_each(|line| writeln!(f, "    {line}"))
    }
}
