//! Results of several agents, combined into one.
//!
//! Counts and rates are added, histograms too; percentiles are taken from the sums. One INVALID agent makes the whole
//! INVALID.

use super::talk::End;
use crate::measure::latency::Latency;
use crate::measure::seconds::SecondStats;
use crate::measure::seconds::Whole;
use crate::measure::verdict::{InvalidReason, RunVerdict};
use crate::report::summary::{AgentSummary, CpuCost, Second, Summary};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Latencies by second of all agents.
pub(super) struct Seconds {
    /// How many agents there are.
    agents: usize,
    /// For each, the second that it reports next.
    next: Vec<u64>,
    /// Agents that have ended, by the second that they would have reported next.
    ended: Vec<u64>,
    /// Seconds that an agent has still to report.
    sums: BTreeMap<u64, Sum>,
    whole: BTreeMap<u64, SecondStats>,
    /// Whole seconds that `take` has not returned yet.
    fresh: Vec<Whole>,
}

/// One agent's second, or what several agents reported for the same second.
#[derive(Clone, Debug)]
pub(super) struct SecondReport {
    pub(super) latency_ns: Histogram<u64>,
    pub(super) slip_ns: Option<Histogram<u64>>,
    pub(super) errors: u64,
}

#[derive(Debug)]
struct Sum {
    agents: usize,
    told: SecondReport,
}

impl SecondReport {
    fn add(&mut self, other: &SecondReport) {
        self.latency_ns.add(&other.latency_ns).expect(ONE_SHAPE);
        if let Some((slip_ns, other)) = self.slip_ns.as_mut().zip(other.slip_ns.as_ref()) {
            slip_ns.add(other).expect(ONE_SHAPE);
        }
        self.errors += other.errors;
    }
}

const ONE_SHAPE: &str = "histograms of one shape";

impl Seconds {
    pub(super) fn new(agents: usize) -> Seconds {
        let (sums, whole) = (BTreeMap::new(), BTreeMap::new());
        Seconds { agents, next: vec![0; agents], ended: Vec::new(), sums, whole, fresh: Vec::new() }
    }

    /// One agent's second.
    pub(super) fn add(&mut self, agent: usize, second: u64, told: SecondReport) {
        match self.sums.entry(second) {
            Entry::Vacant(free) => drop(free.insert(Sum { agents: 1, told })),
            Entry::Occupied(mut sum) => {
                sum.get_mut().agents += 1;
                sum.get_mut().told.add(&told);
            }
        }
        self.next[agent] = second.saturating_add(1);
        self.settle();
        if self.sums.len() > PENDING_MAX {
            self.sums.pop_first();
        }
    }

    /// An agent has ended: seconds that it has not reported are those of the others.
    pub(super) fn end(&mut self, agent: usize) {
        self.ended.push(self.next[agent]);
        self.settle();
    }

    /// Adds the reports of all agents that load the server in that second.
    fn settle(&mut self) {
        let (all, ended) = (self.agents, &self.ended);
        let is_whole =
            |second: u64, agents: usize| agents + ended.iter().filter(|next| **next <= second).count() == all;
        for (second, Sum { told, .. }) in
            self.sums.extract_if(.., |second, sum| is_whole(*second, sum.agents))
        {
            let SecondReport { latency_ns, slip_ns, errors } = told;
            let slip = slip_ns.as_ref().and_then(Latency::of);
            let interval = SecondStats { second, latency: Latency::of(&latency_ns), slip, errors };
            self.whole.insert(second, interval);
            self.fresh.push(Whole { interval, latency_ns, slip_ns });
        }
    }

    /// The seconds that have become whole since the last call.
    pub(super) fn take(&mut self) -> Vec<Whole> {
        std::mem::take(&mut self.fresh)
    }
}

/// An agent that is behind by more than this loses its part of the seconds between, not of the run.
const PENDING_MAX: usize = 64;

/// The whole result, from each agent's name, the error of its clock, and its last message.
pub(super) fn unite(parts: Vec<(String, u64, End)>, seconds: &Seconds) -> Summary {
    let agents = parts.iter().map(|(name, clock_error_ns, End { summary, .. })| AgentSummary {
        name: name.clone(),
        valid: summary.verdict.valid,
        requests_per_second: summary.requests_per_second,
        p99_us: summary.latency.p99_us,
        busiest_thread: summary.busiest_thread,
        clock_error_us: *clock_error_ns as f64 / 1e3,
    });
    let agents = agents.collect();
    let verdict = verdict(&parts);
    let mut ends = parts.into_iter().map(|(_, _, end)| end);
    let End { summary: mut whole, mut tally } = ends.next().expect("an agent at least");
    for end in ends {
        tally.add(&end.tally);
        add(&mut whole, end.summary);
    }
    for (number, second) in whole.series.iter_mut().enumerate() {
        second.latency = seconds.whole.get(&(number as u64)).and_then(|interval| interval.latency);
    }
    Summary { verdict, agents, ..whole.counting(&tally) }
}

fn verdict(parts: &[(String, u64, End)]) -> RunVerdict {
    let of = |(name, _, end): &(String, u64, End)| {
        let reasons = end.summary.verdict.reasons.clone();
        let name = name.clone();
        reasons
            .into_iter()
            .map(move |InvalidReason { what, why }| InvalidReason { what, why: format!("{name}: {why}") })
    };
    let reasons: Vec<InvalidReason> = parts.iter().flat_map(of).collect();
    RunVerdict { valid: parts.iter().all(|(_, _, end)| end.summary.verdict.valid), reasons }
}

/// Everything but the verdict and the tally's figures.
fn add(whole: &mut Summary, part: Summary) {
    whole.seconds = whole.seconds.max(part.seconds);
    whole.requests_per_second += part.requests_per_second;
    whole.keys_per_second += part.keys_per_second;
    whole.steal = whole.steal.max(part.steal);
    whole.client = cost(whole.client, part.client);
    whole.busiest_thread = whole.busiest_thread.max(part.busiest_thread);
    whole.cpu_wait = whole.cpu_wait.max(part.cpu_wait);
    let mut series = part.series.into_iter();
    for (second, other) in whole.series.iter_mut().zip(series.by_ref()) {
        *second = both(second, &other);
    }
    whole.series.extend(series);
}

/// A second of two agents together, without latencies.
pub(super) fn both(one: &Second, other: &Second) -> Second {
    Second {
        seconds: one.seconds.max(other.seconds),
        requests_per_second: one.requests_per_second + other.requests_per_second,
        client: cost(one.client, other.client),
        server: None,
        busiest_thread: one.busiest_thread.max(other.busiest_thread),
        cpu_wait: one.cpu_wait.max(other.cpu_wait),
        latency: None,
        probes: None,
    }
}

/// CPU time, and requests per CPU-second, together.
fn cost(one: CpuCost, other: CpuCost) -> CpuCost {
    let cpu_seconds = one.cpu_seconds + other.cpu_seconds;
    let mean = |of: fn(&CpuCost) -> f64| {
        let bought = of(&one) * one.cpu_seconds + of(&other) * other.cpu_seconds;
        if cpu_seconds > 0.0 { bought / cpu_seconds } else { 0.0 }
    };
    CpuCost {
        cpu_seconds,
        requests_per_cpu_second: mean(|cost| cost.requests_per_cpu_second),
        keys_per_cpu_second: mean(|cost| cost.keys_per_cpu_second),
    }
}

#[cfg(test)]
mod tests;
