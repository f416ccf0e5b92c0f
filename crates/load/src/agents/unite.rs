//! One result out of what several agents measured.
//!
//! Counts and rates are added, histograms too; percentiles are taken from the sums. One INVALID agent makes the whole
//! INVALID.

use super::talk::{End, Packed, PackedWaits};
use crate::error::Error;
use crate::summary::{AgentSummary, CpuCost, Latency, Second, Summary, WaitsSummary};
use crate::verdict::{Reason, Verdict};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Latencies by second of all agents.
pub(super) struct Seconds {
    agents: usize,
    /// How many agents have reported it, and the sum.
    sums: BTreeMap<u64, (usize, Histogram<u64>)>,
    /// Of those that all have reported.
    whole: BTreeMap<u64, Option<Latency>>,
}

impl Seconds {
    pub(super) fn new(agents: usize) -> Seconds {
        Seconds { agents, sums: BTreeMap::new(), whole: BTreeMap::new() }
    }

    /// One agent's second.
    pub(super) fn add(&mut self, second: u64, latency_ns: &Histogram<u64>) -> Result<(), String> {
        let agents = match self.sums.get_mut(&second) {
            Some((agents, sum)) => {
                sum.add(latency_ns).map_err(|error| error.to_string())?;
                *agents += 1;
                *agents
            }
            None => {
                self.sums.insert(second, (1, latency_ns.clone()));
                1
            }
        };
        if agents == self.agents
            && let Some((_, sum)) = self.sums.remove(&second)
        {
            self.whole.insert(second, Latency::of(&sum));
        }
        if self.sums.len() > PENDING_MAX {
            self.sums.pop_first();
        }
        Ok(())
    }

    pub(super) fn latest(&self) -> Option<Latency> {
        self.whole.last_key_value().and_then(|(_, latency)| *latency)
    }
}

/// An agent that is behind by more than this loses its part of the seconds between, not of the run.
const PENDING_MAX: usize = 64;

/// The whole, from each agent's name, the error of its clock, and its end.
pub(super) fn unite(parts: Vec<(String, u64, End)>, seconds: &Seconds) -> Result<Summary, Error> {
    let sum = |of: &dyn Fn(&End) -> Option<&Packed>| -> Result<Option<Histogram<u64>>, Error> {
        let mut sum: Option<Histogram<u64>> = None;
        for (name, _, end) in &parts {
            let Some(packed) = of(end) else { return Ok(None) };
            let broken = |why: String| Error::Agent { name: name.clone(), why };
            let histogram = packed.open().map_err(broken)?;
            match &mut sum {
                Some(sum) => sum.add(&histogram).map_err(|error| broken(error.to_string()))?,
                None => sum = Some(histogram),
            }
        }
        Ok(sum)
    };
    let latency = sum(&|end| Some(&end.latency))?;
    let wait = |of: fn(&PackedWaits) -> &Packed| sum(&|end| end.waits.as_ref().map(of));
    let slip = wait(|waits| &waits.slip)?;
    let late = wait(|waits| &waits.late)?;
    let service = wait(|waits| &waits.service)?;
    let handshakes = sum(&|end| end.handshakes.as_ref())?;
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
    let mut summaries = parts.iter().map(|(_, _, end)| end.summary.clone());
    let mut whole = summaries.next().expect("an agent at least");
    summaries.for_each(|summary| add(&mut whole, summary));
    if let Some(latency) = latency {
        whole.latency = Latency::or_zero(&latency);
    }
    if let (Some(waits), Some(slip), Some(late), Some(service)) = (&mut whole.waits, slip, late, service) {
        let of = Latency::or_zero;
        *waits = WaitsSummary { slip: of(&slip), late: of(&late), service: of(&service), ..*waits };
    }
    if let (Some(all), Some(handshakes)) = (&mut whole.handshakes, handshakes) {
        all.latency = Latency::or_zero(&handshakes);
    }
    for (number, second) in whole.series.iter_mut().enumerate() {
        second.latency = seconds.whole.get(&(number as u64)).copied().flatten();
    }
    Ok(Summary { verdict, agents, ..whole })
}

fn verdict(parts: &[(String, u64, End)]) -> Verdict {
    let of = |(name, _, end): &(String, u64, End)| {
        let reasons = end.summary.verdict.reasons.clone();
        let name = name.clone();
        reasons.into_iter().map(move |Reason { what, why }| Reason { what, why: format!("{name}: {why}") })
    };
    let reasons: Vec<Reason> = parts.iter().flat_map(of).collect();
    Verdict { valid: parts.iter().all(|(_, _, end)| end.summary.verdict.valid), reasons }
}

/// Everything but percentiles and the verdict.
fn add(whole: &mut Summary, part: Summary) {
    whole.rate = whole.rate.zip(part.rate).map(|(a, b)| a + b);
    whole.connections += part.connections;
    whole.threads += part.threads;
    whole.seconds = whole.seconds.max(part.seconds);
    whole.requests += part.requests;
    for command in part.commands {
        match whole.commands.iter_mut().find(|found| found.command == command.command) {
            Some(found) => {
                found.requests += command.requests;
                found.declined += command.declined;
            }
            None => whole.commands.push(command),
        }
    }
    whole.gets += part.gets;
    whole.sets += part.sets;
    whole.keys_asked += part.keys_asked;
    whole.hits += part.hits;
    whole.misses += part.misses;
    whole.not_stored += part.not_stored;
    whole.wrong_values += part.wrong_values;
    whole.errors += part.errors;
    for error in part.error_lines {
        match whole.error_lines.iter_mut().find(|found| found.line == error.line) {
            Some(found) => found.times += error.times,
            None => whole.error_lines.push(error),
        }
    }
    whole.error_lines.sort_by_key(|line| std::cmp::Reverse(line.times));
    whole.lost += part.lost;
    whole.stray_datagrams += part.stray_datagrams;
    whole.requests_per_second += part.requests_per_second;
    whole.keys_per_second += part.keys_per_second;
    if let (Some(waits), Some(others)) = (&mut whole.waits, part.waits) {
        waits.unanswered += others.unanswered;
        waits.unsent += others.unsent;
    }
    if let (Some(handshakes), Some(others)) = (&mut whole.handshakes, part.handshakes) {
        handshakes.count += others.count;
        handshakes.resumed += others.resumed;
    }
    whole.steal = whole.steal.max(part.steal);
    whole.client = cost(whole.client, part.client);
    whole.busiest_thread = whole.busiest_thread.max(part.busiest_thread);
    let mut series = part.series.into_iter();
    for (second, other) in whole.series.iter_mut().zip(series.by_ref()) {
        *second = Second {
            seconds: second.seconds.max(other.seconds),
            requests_per_second: second.requests_per_second + other.requests_per_second,
            client: cost(second.client, other.client),
            server: None,
            busiest_thread: second.busiest_thread.max(other.busiest_thread),
            latency: None,
        };
    }
    whole.series.extend(series);
}

/// CPU time, and what it bought, together.
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
