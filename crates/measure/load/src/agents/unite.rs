//! Results of several agents, combined into one.
//!
//! Counts and rates are added, histograms too; percentiles are taken from the sums. One INVALID agent makes the whole
//! INVALID, and so does one that was lost, whose seconds until then are all that is known of it.

use super::talk::End;
use crate::measure::failures::Failures;
use crate::measure::seconds::Seconds;
use crate::measure::verdict::{InvalidReason, RunVerdict};
use crate::report::summary::{AgentSummary, CpuCost, Second, Summary};
use crate::types::error::{Error, told};

/// The whole result, from each agent's name, the error of its clock, and its last message; and why others were lost.
pub(super) fn unite(parts: Vec<(String, u64, End)>, lost: &[Error], seconds: &Seconds) -> Summary {
    let agents = parts.iter().map(|(name, clock_error_ns, End { summary, .. })| AgentSummary {
        name: name.clone(),
        valid: summary.verdict.valid,
        requests_per_second: summary.requests_per_second,
        p99_us: summary.latency.p99_us,
        busiest_thread: summary.busiest_thread,
        clock_error_us: *clock_error_ns as f64 / 1e3,
    });
    let agents = agents.collect();
    let verdict = verdict(&parts, lost);
    let failed =
        |(name, _, end): &(String, u64, End)| Some(format!("{name}: {}", end.summary.failure.as_ref()?));
    let failure = lost.first().map(told).or_else(|| parts.iter().find_map(failed));
    let mut ends = parts.into_iter().map(|(_, _, end)| end);
    let End { summary: mut whole, mut tally } = ends.next().expect("an agent at least");
    for end in ends {
        tally.add(&end.tally);
        add(&mut whole, end.summary);
    }
    for (number, second) in whole.series.iter_mut().enumerate() {
        second.count(seconds.of(number as u64));
    }
    Summary { verdict, agents, failure, ..whole.counting(&tally) }
}

fn verdict(parts: &[(String, u64, End)], lost: &[Error]) -> RunVerdict {
    let of = |(name, _, end): &(String, u64, End)| {
        let reasons = end.summary.verdict.reasons.clone();
        let name = name.clone();
        reasons
            .into_iter()
            .map(move |InvalidReason { what, why }| InvalidReason { what, why: format!("{name}: {why}") })
    };
    let lost_ones = lost.iter().map(|error| InvalidReason {
        what: String::from("failed"),
        why: format!("the load was smaller than asked for: failed to {}", told(error)),
    });
    let reasons = lost_ones.chain(parts.iter().flat_map(of)).collect();
    let valid = lost.is_empty() && parts.iter().all(|(_, _, end)| end.summary.verdict.valid);
    RunVerdict { valid, reasons }
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
        failures: Failures::default(),
        availability: None,
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
