//! Measurements of a run, from its workers and the edges of its window, and the verdict on them.

use super::{CpuCost, Second};
use crate::measure::backlog::Growth;
use crate::measure::tally::Tally;
use crate::measure::verdict::{OpenEvidence, RunEvidence, RunVerdict};
use crate::types::arrivals::pace::Timing;
use crate::types::error::{Error, told};
use crate::types::probes::Traffic;
use crate::workload::plan::RunPlan;
use crate::workload::recording;
use hdrhistogram::Histogram;
use os::cpu_time::{HostTime, ThreadTimes};

/// A reading of all counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    /// Of each thread.
    pub(crate) client: Vec<ThreadTimes>,
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) host: HostTime,
}

/// A run as the workers and the edges report it.
#[derive(Debug)]
pub(crate) struct RunMeasurements {
    pub(crate) engine: &'static str,
    pub(crate) tally: Tally,
    pub(crate) open: Edge,
    pub(crate) close: Edge,
    pub(crate) series: Vec<Second>,
    /// The user has ended the window before its time.
    pub(crate) has_left: bool,
    /// What has ended the run before its time.
    pub(crate) failure: Option<Error>,
    pub(crate) recorded: Option<recording::Recorded>,
    pub(crate) probes: Option<Probed>,
}

/// The results of probes.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) tally: Tally,
    /// Their thread's times in the window, and the requests completed in it.
    pub(crate) time: ThreadTimes,
    pub(crate) completed: u64,
}

/// Everything between two edges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) keys: u64,
}

impl Span {
    pub(super) fn between(open: &Edge, close: &Edge) -> Span {
        Span {
            seconds: close.at_ns.saturating_sub(open.at_ns) as f64 / 1e9,
            requests: close.requests.saturating_sub(open.requests),
            keys: close.keys.saturating_sub(open.keys),
        }
    }

    pub(super) fn cost(&self, cpu_ns: u64) -> CpuCost {
        let cpu_seconds = cpu_ns as f64 / 1e9;
        CpuCost {
            cpu_seconds,
            requests_per_cpu_second: ratio(self.requests as f64, cpu_seconds),
            keys_per_cpu_second: ratio(self.keys as f64, cpu_seconds),
        }
    }
}

/// The share of the host's time that other guests took for certain: the first tick may be nearly all of an earlier time.
/// In a quarter of a second of two CPUs, one tick is 2 %.
pub(super) fn surely_stolen(open: HostTime, close: HostTime) -> f64 {
    HostTime { steal: close.steal.saturating_sub(1), ..close }.stolen_since(open)
}

pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub(super) fn client_cost(span: &Span, open: &Edge, close: &Edge) -> CpuCost {
    let total = |edge: &Edge| edge.client.iter().map(|time| time.run_ns).sum::<u64>();
    span.cost(total(close).saturating_sub(total(open)))
}

pub(super) fn server_cost(span: &Span, open: &Edge, close: &Edge) -> Option<CpuCost> {
    Some(span.cost(close.server_cpu_ns?.saturating_sub(open.server_cpu_ns?)))
}

/// The share of the time that the busiest thread ran, and the share that the thread which waited most waited for a
/// CPU.
pub(super) fn busiest(span: &Span, open: &Edge, close: &Edge) -> (f64, f64) {
    let threads = open.client.iter().zip(&close.client).map(|(open, close)| close.since(*open));
    let most = |time_ns: fn(ThreadTimes) -> u64| {
        ratio(threads.clone().map(time_ns).max().unwrap_or(0) as f64 / 1e9, span.seconds)
    };
    (most(|time| time.run_ns), most(|time| time.wait_ns))
}

/// How much more was due and not answered at the end of the window than at its beginning.
pub(super) fn growth(tally: &Tally, scheduled: u64, seconds: f64, room: Room) -> Growth {
    let quick_s = tally.latency_ns.value_at_quantile(QUICK) as f64 / 1e9;
    Growth::of(&tally.backlog, room.usual(ratio(scheduled as f64, seconds), quick_s))
}

/// Requests that can be pending without any waiting longer than it must.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// All connections by their depth.
    pub(super) requests: usize,
    /// How long a request waits to be sent together with others.
    pub(super) slot_s: f64,
}

impl Room {
    /// Pending requests at a rate whose quick ones take this long. Requests of an overload take long because they
    /// wait for room: they do not count as usual.
    fn usual(self, rate: f64, quick_s: f64) -> f64 {
        rate * quick_s.min(self.requests as f64 / rate.max(f64::MIN_POSITIVE) + self.slot_s)
    }
}

/// Nine of ten requests take longer than this quantile, be the server overloaded or not.
const QUICK: f64 = 0.1;

impl RunMeasurements {
    /// What lies between the edges. A schedule whose last request is answered ends before its window does.
    pub(super) fn span(&self, plan: &RunPlan) -> Span {
        let span = Span::between(&self.open, &self.close);
        let is_scheduled = matches!(plan.pace.map(|pace| pace.timing), Some(Timing::Law(..)));
        match plan.duration {
            Some(duration) if is_scheduled && plan.requests.is_none() && !self.has_left => {
                Span { seconds: span.seconds.max(duration.as_secs_f64()), ..span }
            }
            _ => span,
        }
    }

    pub(super) fn verdict(&self, plan: &RunPlan, span: &Span, steal: f64) -> RunVerdict {
        let busy = |second: &Second| (second.seconds > SHORT_S).then_some(second.busiest_thread);
        let open = plan.pace.zip(self.tally.waits.as_ref()).map(|(pace, waits)| {
            let answered = self.tally.requests();
            let scheduled = answered + self.tally.failures.without_reply();
            let us = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1e3;
            let (asked, asked_within) = match (plan.requests, pace.timing) {
                // The exact time at which the user ended a schedule is not known.
                _ if self.has_left => (scheduled as f64, 0.0),
                (Some(requests), _) => (requests as f64, 0.0),
                (None, Timing::Law(rate, arrivals)) => {
                    // The measuring thread may have seen the window end late, or, when the last request had its
                    // reply, early.
                    let seconds = plan.duration.map_or(span.seconds, |duration| duration.as_secs_f64());
                    let asked = rate / plan.part.of as f64 * seconds;
                    (asked, OpenEvidence::within(arrivals, asked, plan.run.threads))
                }
                (None, Timing::Trace) => (scheduled as f64, 0.0),
            };
            OpenEvidence {
                traffic: Traffic::Load,
                asked,
                asked_within,
                scheduled,
                answered,
                completed_per_s: ratio(span.requests as f64, span.seconds),
                growth: growth(
                    &self.tally,
                    scheduled,
                    span.seconds,
                    Room {
                        requests: plan.connections * plan.run.depth,
                        slot_s: pace.sleep.slot_ns() as f64 / 1e9,
                    },
                ),
                late_p99_us: us(&waits.late_ns),
                response_p99_us: us(&self.tally.latency_ns),
                spins: pace.sleep.is_spin(),
            }
        });
        let lost = self.tally.failures.lost();
        let whole = self.series.iter().filter(|second| second.seconds > SHORT_S);
        RunVerdict::of(&RunEvidence {
            busy: self.series.iter().filter_map(busy).collect(),
            waited: busiest(span, &self.open, &self.close).1,
            steal,
            failure: self.failure.as_ref().map(told),
            lost: ratio(lost as f64, (lost + self.tally.requests()) as f64),
            p50_us: whole.filter_map(|second| Some(second.latency?.p50_us)).collect(),
            silence_s: self.tally.silence_ns as f64 / 1e9,
            longest_s: self.tally.latency_ns.max() as f64 / 1e9,
            seconds: span.seconds,
            open,
        })
    }
}

/// A last step of the window that is shorter says nothing about a thread: its CPU time is known to some milliseconds.
const SHORT_S: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_tick_may_have_been_stolen_before() {
        let (open, at) = (HostTime { total: 1000, steal: 50 }, |total, steal| HostTime { total, steal });
        assert_eq!(at(1050, 51).stolen_since(open), 0.02);
        assert_eq!((surely_stolen(open, at(1050, 51)), surely_stolen(open, at(1050, 50))), (0.0, 0.0));
        assert_eq!(surely_stolen(open, at(1100, 53)), 0.02);
    }

    #[test]
    fn a_backlog_that_has_been_there_all_the_time_is_usual_only_as_far_as_there_is_room() {
        let usual = |requests, slot_s, quick_s| Room { requests, slot_s }.usual(50_000.0, quick_s).round();
        // A server that is far away.
        assert_eq!(usual(1_000, 0.0, 0.010), 500.0);
        // One that is half a second behind.
        assert_eq!(usual(100, 0.0, 0.5), 100.0);
        assert_eq!(usual(100, 0.001, 0.5), 150.0);
        assert_eq!(Room { requests: 5, slot_s: 0.0 }.usual(0.0, 0.0), 0.0);
    }
}
