//! The rate of one worker on a CPU of its own: a prediction that `evenkeel load --search` can check on the host of the costs.

use super::ceiling::WorkerQueue;
use super::demand::classes;
use super::{AdviceInputs, InputFigure, WorkloadError};

/// What one worker does when requests come at random, from many connections that do not know of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRate {
    /// Mean CPU time of a request, in µs.
    pub request_us: f64,
    /// The share of its CPU that the worker uses when one request in a hundred takes longer than the target.
    pub used: f64,
    /// Requests per second at which that is so.
    pub per_s: f64,
    /// The low and the high end within the ranges of the costs and of the stops.
    pub range: (f64, f64),
}

/// Times for which CPUs stop, seen by who watched them.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuStops {
    /// The share of the time that stops last beyond the target.
    pub beyond: InputFigure,
    /// Of stops up to the target: the sum of the squares of their lengths divided by the time in which they were seen, in µs.
    pub short_us: InputFigure,
}

impl CpuStops {
    /// What is said of them, for a host whose stops are known otherwise.
    pub fn stated(beyond: f64, short_us: f64) -> CpuStops {
        CpuStops { beyond: InputFigure::chosen(beyond), short_us: InputFigure::chosen(short_us) }
    }
}

/// Connections that a worker serves in one round: it answers none of them before it has received from all.
const ROUND_CONNECTIONS: f64 = 64.0;
/// The part of a request's time that is spent on receiving, which others in the round wait for: about a third, the rest is the answer.
/// A simulated worker with such rounds reaches a target of 1 ms at a use that is within 0.015 of the one computed here, for requests of
/// 5 to 37 µs.
const RECEIVING_SHARE: f64 = 0.35;

/// Predicts the rate at which the 99th percentile of one worker is the target of the workload, whose rates count as shares of each class.
///
/// # Errors
/// If a figure of the workload is beyond its limit.
pub fn worker_rate(inputs: &AdviceInputs, stops: &CpuStops) -> Result<WorkerRate, WorkloadError> {
    inputs.workload.check()?;
    let usual = (stops.beyond.value, stops.short_us.value);
    let rate = of(inputs, usual);
    if rate.per_s <= 0.0 {
        return Ok(rate);
    }
    // Errors of figures are independent, as in `sensitivity`.
    let mut squares = (0.0, 0.0);
    let mut add = |ends: [f64; 2]| {
        let ends = ends.map(|end| (end / rate.per_s).ln());
        squares.0 += ends[0].min(ends[1]).min(0.0).powi(2);
        squares.1 += ends[0].max(ends[1]).max(0.0).powi(2);
    };
    add([stops.beyond.low, stops.beyond.high].map(|beyond| of(inputs, (beyond, usual.1)).per_s));
    add([stops.short_us.low, stops.short_us.high].map(|short| of(inputs, (usual.0, short)).per_s));
    let count = inputs.clone().costs_and_assumptions().len();
    for index in 0..count {
        add([false, true].map(|is_high| {
            let mut changed = inputs.clone();
            let input = changed.costs_and_assumptions().swap_remove(index);
            input.figure.value = if is_high { input.figure.high } else { input.figure.low };
            of(&changed, usual).per_s
        }));
    }
    let range = (rate.per_s * (-squares.0.sqrt()).exp(), rate.per_s * squares.1.sqrt().exp());
    Ok(WorkerRate { range, ..rate })
}

fn of(inputs: &AdviceInputs, (stopped, short_us): (f64, f64)) -> WorkerRate {
    let classes = classes(inputs);
    let requests: f64 = classes.iter().map(|class| class.per_s).sum();
    let mean =
        |of: fn(f64) -> f64| classes.iter().map(|class| class.per_s * of(class.us)).sum::<f64>() / requests;
    let request_us = mean(|us| us);
    // Requests of one class take the same time, and stops lengthen some of them (Hopp and Spearman, Factory Physics: a server that fails
    // now and then). With the time r of a stop and their number λ in a µs, the squares of all times grow by λ r² for each µs of work.
    let of_stops = short_us / request_us;
    let variation = mean(|us| us * us) / (request_us * request_us) - 1.0 + of_stops;
    let queue = WorkerQueue { request_us, burst: inputs.workload.pipeline.value, variation, stopped };
    let target_us = inputs.workload.p99_ms.value * 1e3;
    // Where the target is near, a round is what has come within it; half of it has come later, on average.
    let round_us = (ROUND_CONNECTIONS * request_us).min(target_us);
    let wait_us = target_us - request_us - round_us / 2.0 * RECEIVING_SHARE;
    let used = queue.use_max(wait_us);
    let per_s = used * 1e6 / request_us;
    WorkerRate { request_us, used, per_s, range: (per_s, per_s) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::inputs;
    use super::*;

    fn none() -> CpuStops {
        CpuStops::stated(0.0, 0.0)
    }

    /// A get takes 10 µs here, so one CPU serves 100,000 a second at most; a target of 100 ms leaves it nearly all of them.
    #[test]
    fn a_relaxed_target_leaves_the_whole_cpu() {
        let relaxed = inputs(|workload| workload.p99_ms = InputFigure::chosen(100.0));
        let rate = worker_rate(&relaxed, &none()).expect("a workload");
        assert_eq!(rate.request_us, 10.0);
        assert!((99_000.0..100_000.0).contains(&rate.per_s), "{rate:?}");
        let strict = inputs(|workload| workload.p99_ms = InputFigure::chosen(1.0));
        let strict = worker_rate(&strict, &none()).expect("a workload");
        assert!((96_000.0..98_000.0).contains(&strict.per_s), "{strict:?}");
    }

    /// Rates count as shares of the classes.
    #[test]
    fn twice_the_requests_of_a_workload_change_nothing() {
        let of = |times: f64| {
            let inputs = inputs(|workload| {
                workload.get = InputFigure::chosen(900.0 * times);
                workload.set = InputFigure::chosen(100.0 * times);
            });
            worker_rate(&inputs, &none()).expect("a workload").per_s
        };
        assert!((of(1.0) / of(2.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_range_is_that_of_costs_and_stops() {
        let mut inputs = inputs(|_| ());
        let beyond = InputFigure::measured(0.004, 0.002, 0.012, "a test");
        let stopped = CpuStops { beyond, ..none() };
        let rate = worker_rate(&inputs, &stopped).expect("a workload");
        assert!((0.55..0.6).contains(&rate.used), "{rate:?}");
        assert_eq!(rate.range.0, 0.0, "at the high end of the stops nothing is left");
        let only_stops = rate.range.1;
        inputs.costs.get_us = InputFigure::measured(10.0, 8.0, 12.0, "a test");
        let rate = worker_rate(&inputs, &stopped).expect("a workload");
        assert!(rate.range.1 > only_stops && rate.range.1 > rate.per_s * 1.2, "{rate:?}");
        let none_left = worker_rate(&inputs, &CpuStops::stated(0.02, 0.0)).expect("a workload");
        assert_eq!(none_left.range, (0.0, 0.0));
    }

    /// Requests of 10 µs, and a stop of 500 µs a hundred times a second: the simulated queue reaches a wait of a millisecond for one request
    /// in a hundred at nearly the same use.
    #[test]
    fn short_stops_cost_as_much_as_in_a_simulated_queue() {
        const STOPS: (f64, f64) = (10_000.0, 500.0);
        let stops = CpuStops::stated(0.0, STOPS.1 * STOPS.1 / STOPS.0);
        let strict = inputs(|workload| workload.p99_ms = InputFigure::chosen(1.0));
        let rate = worker_rate(&strict, &stops).expect("a workload");
        let late = |used: f64| {
            let mut random = stdx::prng::Prng::new(3);
            let (mut now, mut free, mut late, mut next_stop) = (0.0_f64, 0.0_f64, 0_u32, 0.0_f64);
            const REQUESTS: u32 = 1_000_000;
            for _ in 0..REQUESTS {
                now -= (1.0 - random.unit()).ln() * 10.0 / used;
                while next_stop <= now {
                    free = free.max(next_stop) + STOPS.1;
                    next_stop -= (1.0 - random.unit()).ln() * STOPS.0;
                }
                free = free.max(now) + 10.0;
                late += u32::from(free - now > 1_000.0);
            }
            f64::from(late) / f64::from(REQUESTS)
        };
        // The time of a worker's interrupts is its own CPU time, and counts as its use; in the simulation it is not.
        let used = rate.used * (1.0 - STOPS.1 / STOPS.0);
        assert!(late(used * 0.92) < 0.01, "{} at {used}", late(used * 0.92));
        assert!(late(used * 1.08) > 0.01, "{} at {used}", late(used * 1.08));
    }
}
