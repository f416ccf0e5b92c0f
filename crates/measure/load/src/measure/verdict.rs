//! Verdict on a run: whether its rate and latencies can be believed, and if not, why.
//!
//! Pure: from measurements of the generator itself. Figures per CPU-second hold in most of these cases; the verdict
//! is about wall-clock rates and latencies.

use crate::measure::backlog::Growth;
use crate::types::arrivals::Arrivals;
use crate::types::probes::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;
use stdx::escape;
use stdx::steady::unsettled;

/// The result of these checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// No reason against it was found.
    pub valid: bool,
    /// Why not to believe it.
    pub reasons: Vec<InvalidReason>,
}

/// One reason not to believe a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidReason {
    /// An identifier for programs: `client-saturated`, `client-waited`, `late`, `overloaded`, `rate-missed`,
    /// `arrivals`, `steal`, `unsteady`, `lost`, `silent`, `empty`, `failed`.
    pub what: String,
    /// A sentence with the number and the remedy.
    pub why: String,
}

/// Measurements of the generator and of its surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunEvidence {
    /// What has ended the run before its time.
    pub(crate) failure: Option<String>,
    /// By second: the share of it that the busiest client thread ran.
    pub(crate) busy: Vec<f64>,
    /// Share of the window that a client thread waited for a CPU: of the one that waited most.
    pub(crate) waited: f64,
    /// Share of the host's CPU time that other guests took.
    pub(crate) steal: f64,
    /// By second: the median latency.
    pub(crate) p50_us: Vec<f64>,
    /// Share of the requests that got lost.
    pub(crate) lost: f64,
    /// Of a closed loop: for how long a request had waited for its reply when the run ended.
    pub(crate) silence_s: f64,
    /// The longest latency.
    pub(crate) longest_s: f64,
    /// Length of the window.
    pub(crate) seconds: f64,
    /// Of an open loop.
    pub(crate) open: Option<OpenEvidence>,
}

/// Measurements of an open loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenEvidence {
    pub(crate) traffic: Traffic,
    /// Requests that the rate asked for makes in the window, and by how many a schedule of its law may be off.
    pub(crate) asked: f64,
    pub(crate) asked_within: f64,
    /// Requests that the schedule had.
    pub(crate) scheduled: u64,
    /// Of these, answered.
    pub(crate) answered: u64,
    /// Requests per second that were completed in the window.
    pub(crate) completed_per_s: f64,
    /// Requests that were left over at its end.
    pub(crate) growth: Growth,
    /// From the moment when a request could have been sent until it was: the lateness of this program.
    pub(crate) late_p99_us: f64,
    pub(crate) response_p99_us: f64,
    pub(crate) spins: bool,
}

/// A thread that is busier than this may be what limits the rate.
pub(crate) const BUSY_MAX: f64 = 0.85;
/// For this many seconds in a row: one can be an accident.
const BUSY_SECONDS: usize = 2;
/// From here on, time stolen by the hypervisor shows in every percentile of interest.
const STEAL_MAX: f64 = 0.02;
/// A closed loop makes as many requests fewer. A thread that is waked up waits for some microseconds, always.
const WAITED_MAX: f64 = 0.10;
/// Less than this is answered: what is missing are the slowest.
const ANSWERED_MIN: f64 = 0.99;
/// More that is lost hides the 99th percentile.
const LOST_MAX: f64 = 0.01;
/// Longer than a busy machine keeps a thread from running.
const SILENCE_MAX_S: f64 = 1.0;
/// Of the 99th percentile that is reported, this much may be this program's own lateness. Latencies count from the time at
/// which a request was due, so they are never shown better than they are. At random times one thread is late however well
/// it wakes up: at 2,000/s one request in twenty is due while another is being sent, which takes 20 to 50 µs where it wakes
/// up a virtual processor, an eighth of such a server's 99th percentile.
const LATE_SHARE_MAX: f64 = 0.20;
/// Standard deviations by which a random schedule may miss its rate.
const ARRIVALS_DEVIATIONS: f64 = 6.0;

impl OpenEvidence {
    /// By how many requests a schedule of this law may miss those asked for: those of several threads begin and end at
    /// places of their own.
    pub(crate) fn within(arrivals: Arrivals, asked: f64, threads: usize) -> f64 {
        ARRIVALS_DEVIATIONS * arrivals.deviation(asked) + threads as f64
    }
}

impl RunVerdict {
    pub(crate) fn of(evidence: &RunEvidence) -> RunVerdict {
        let reasons: Vec<InvalidReason> = [failed, saturated, waited, stolen, unsteady, lost, silent]
            .into_iter()
            .map(|look| look(evidence))
            .chain(
                evidence
                    .open
                    .iter()
                    .flat_map(|open| [arrivals(open), overloaded(open), missed(open), late(open)]),
            )
            .flatten()
            .collect();
        RunVerdict { valid: reasons.is_empty(), reasons }
    }
}

impl fmt::Display for RunVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.valid {
            return writeln!(f, "VALID");
        }
        // Agents give reasons, too.
        self.reasons.iter().try_for_each(|InvalidReason { what, why }| {
            writeln!(f, "INVALID ({}): {}", escape::line(what), escape::line(why))
        })
    }
}

fn reason(what: &str, why: String) -> Option<InvalidReason> {
    Some(InvalidReason { what: what.to_owned(), why })
}

/// What was measured until then is of another load than the requested one.
fn failed(evidence: &RunEvidence) -> Option<InvalidReason> {
    let failure = evidence.failure.as_ref()?;
    reason("failed", format!("the run ended before its time: failed to {failure}"))
}

fn saturated(evidence: &RunEvidence) -> Option<InvalidReason> {
    // A thread that spins is always busy; its lateness shows whether it keeps up.
    if evidence.open.is_some_and(|open| open.spins) {
        return None;
    }
    let seconds = BUSY_SECONDS.min(evidence.busy.len()).max(1);
    let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let busiest = evidence.busy.windows(seconds).map(least).fold(0.0, f64::max);
    if busiest <= BUSY_MAX {
        return None;
    }
    reason(
        "client-saturated",
        format!(
            "a client thread ran {:.0} % of {seconds} s: rate and latency may be the client's (figures per CPU-second hold); use more --threads",
            busiest * 100.0
        ),
    )
}

/// A thread that waits for a CPU is not busy, and neither sends nor reads.
fn waited(evidence: &RunEvidence) -> Option<InvalidReason> {
    if evidence.waited <= WAITED_MAX {
        return None;
    }
    reason(
        "client-waited",
        format!(
            "a client thread waited for a CPU for {:.0} % of the window: rate and latency depend on what ran there \
             (figures per CPU-second hold); free a CPU for it (--cpu)",
            evidence.waited * 100.0
        ),
    )
}

fn stolen(evidence: &RunEvidence) -> Option<InvalidReason> {
    if evidence.steal <= STEAL_MAX {
        return None;
    }
    reason(
        "steal",
        format!("other guests of this machine took {:.1} % of its CPU time", evidence.steal * 100.0),
    )
}

/// If more than half has to be cut, the run has no steady part that is longer than its beginning.
fn unsteady(evidence: &RunEvidence) -> Option<InvalidReason> {
    let series = &evidence.p50_us;
    let cut = unsettled(series)?;
    reason(
        "unsteady",
        format!(
            "the median latency has not settled: the first {cut} of {} s differ from the rest; use a longer --warm-up",
            series.len()
        ),
    )
}

fn lost(evidence: &RunEvidence) -> Option<InvalidReason> {
    if evidence.lost <= LOST_MAX {
        return None;
    }
    reason(
        "lost",
        format!(
            "{:.1} % of the requests got no reply, so the longest latencies are missing",
            evidence.lost * 100.0
        ),
    )
}

/// A closed loop sends no more to a server that does not answer: a stall shows only in the requests that are pending
/// at the end.
fn silent(evidence: &RunEvidence) -> Option<InvalidReason> {
    let RunEvidence { silence_s, longest_s, seconds, .. } = *evidence;
    if silence_s <= longest_s || silence_s <= SILENCE_MAX_S.min(seconds / 2.0) {
        return None;
    }
    reason(
        "silent",
        format!(
            "at the end a request had waited for {silence_s:.1} s, longer than any answered one, so the longest \
             latencies are missing"
        ),
    )
}

fn arrivals(open: &OpenEvidence) -> Option<InvalidReason> {
    let missing = (open.scheduled as f64 - open.asked).abs();
    if missing <= open.asked_within + 1.0 {
        return None;
    }
    reason(
        "arrivals",
        format!("the schedule had {} requests, the rate asked for gives {:.0}", open.scheduled, open.asked),
    )
}

fn missed(open: &OpenEvidence) -> Option<InvalidReason> {
    if open.scheduled == 0 {
        return reason(
            "empty",
            String::from("no request was due in the window; use a longer --duration, or a shorter --warm-up"),
        );
    }
    let share = open.answered as f64 / open.scheduled as f64;
    if share >= ANSWERED_MIN {
        return None;
    }
    reason(
        "rate-missed",
        format!(
            "{:.1} % of the requests were not answered in time, so the longest latencies are missing; {}",
            (1.0 - share) * 100.0,
            slower(open.traffic)
        ),
    )
}

/// Requests answered after the window do not show that the rate can be sustained.
fn overloaded(open: &OpenEvidence) -> Option<InvalidReason> {
    let OpenEvidence { growth, scheduled, completed_per_s, .. } = *open;
    if !growth.is_overload(scheduled) {
        return None;
    }
    reason(
        "overloaded",
        format!(
            "{completed_per_s:.0} requests/s were completed, fewer than were asked for: the backlog grew by {:.0} requests, \
             {:.1} % of all, and latencies with it; {}",
            growth.requests,
            growth.requests / scheduled.max(1) as f64 * 100.0,
            slower(open.traffic)
        ),
    )
}

fn slower(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Load => "lower --rate, or use more --connections or --depth",
        Traffic::Probes => "lower --probe-rate, or use more --probes",
    }
}

fn late(open: &OpenEvidence) -> Option<InvalidReason> {
    if open.late_p99_us <= LATE_SHARE_MAX * open.response_p99_us {
        return None;
    }
    let remedy = match (open.traffic, open.spins) {
        (Traffic::Load, true) => "use more --threads, or free CPUs for them",
        (Traffic::Load, false) => "use --spin, --slot or more --threads",
        (Traffic::Probes, true) => "free a CPU for them",
        (Traffic::Probes, false) => "use --spin, or free a CPU for them",
    };
    reason(
        "late",
        format!(
            "the client itself sent one in a hundred requests {:.0} µs late or more, of a p99 of {:.0} µs; {remedy}",
            open.late_p99_us, open.response_p99_us
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: OpenEvidence = OpenEvidence {
        traffic: Traffic::Load,
        asked: 10_000.0,
        asked_within: 600.0,
        scheduled: 10_050,
        answered: 10_050,
        completed_per_s: 10_000.0,
        growth: Growth { requests: 0.0, is_steady: false },
        late_p99_us: 10.0,
        response_p99_us: 500.0,
        spins: false,
    };

    #[track_caller]
    fn check(evidence: &RunEvidence, wanted: &[&str]) {
        let verdict = RunVerdict::of(evidence);
        let found: Vec<_> = verdict.reasons.iter().map(|reason| reason.what.as_str()).collect();
        assert_eq!(found, wanted, "{verdict}");
        assert_eq!(verdict.valid, wanted.is_empty());
    }

    fn open(open: OpenEvidence) -> RunEvidence {
        RunEvidence { open: Some(open), ..RunEvidence::default() }
    }

    #[test]
    fn nothing_against_it_is_valid() {
        check(&RunEvidence::default(), &[]);
        check(&open(OPEN), &[]);
        assert_eq!(RunVerdict::of(&open(OPEN)).to_string(), "VALID\n");
    }

    #[test]
    fn a_thread_that_is_busy_for_two_seconds_is_the_limit() {
        let busy = |busy: &[f64]| RunEvidence { busy: busy.to_vec(), ..RunEvidence::default() };
        check(&busy(&[0.2, 0.9, 0.2, 0.9]), &[]);
        check(&busy(&[0.2, 0.9, 0.9, 0.2]), &["client-saturated"]);
        check(&busy(&[0.9]), &["client-saturated"]);
        let spinning = RunEvidence { open: Some(OpenEvidence { spins: true, ..OPEN }), ..busy(&[1.0, 1.0]) };
        check(&spinning, &[]);
    }

    #[test]
    fn a_schedule_that_was_not_kept_is_invalid() {
        check(&open(OpenEvidence { answered: 9_940, ..OPEN }), &["rate-missed"]);
        check(&open(OpenEvidence { scheduled: 12_000, answered: 12_000, ..OPEN }), &["arrivals"]);
        // All were answered, but many after the window.
        let left = |requests| OpenEvidence { growth: Growth { requests, is_steady: false }, ..OPEN };
        check(&open(left(100.0)), &[]);
        check(&open(left(120.0)), &["overloaded"]);
        check(
            &open(OpenEvidence { growth: Growth { requests: 40.0, is_steady: true }, ..OPEN }),
            &["overloaded"],
        );
        // As it must not be: of a law that varies less, and of one that varies more.
        let of = |arrivals| {
            let asked_within = OpenEvidence::within(arrivals, 10_000.0, 4);
            open(OpenEvidence { asked_within, scheduled: 10_700, answered: 10_700, ..OPEN })
        };
        check(&of(Arrivals::Poisson), &["arrivals"]);
        check(&of(Arrivals::Pareto(0.49)), &[]);
        let constant = |scheduled| OpenEvidence {
            asked_within: OpenEvidence::within(Arrivals::Constant, 10_000.0, 4),
            scheduled,
            answered: scheduled,
            ..OPEN
        };
        check(&open(constant(10_004)), &[]);
        check(&open(constant(10_050)), &["arrivals"]);
        let none = OpenEvidence { asked: 0.5, scheduled: 0, answered: 0, ..OPEN };
        check(&open(none), &["empty"]);
        check(&open(OpenEvidence { late_p99_us: 101.0, ..OPEN }), &["late"]);
        check(&open(OpenEvidence { late_p99_us: 99.0, ..OPEN }), &[]);
        check(&open(OpenEvidence { late_p99_us: 101.0, response_p99_us: 90_000.0, ..OPEN }), &[]);
    }

    #[test]
    fn a_closed_loop_that_hangs_in_the_end_has_not_seen_its_slowest() {
        let hangs = |silence_s, longest_s, seconds| RunEvidence {
            silence_s,
            longest_s,
            seconds,
            ..RunEvidence::default()
        };
        check(&hangs(1.1, 0.002, 10.0), &["silent"]);
        check(&hangs(0.9, 0.002, 10.0), &[]);
        check(&hangs(3.0, 3.1, 10.0), &[]);
        check(&hangs(0.3, 0.0, 0.5), &["silent"]);
    }

    #[test]
    fn a_client_that_waits_for_a_cpu_measures_its_neighbours() {
        check(&RunEvidence { waited: 0.09, ..RunEvidence::default() }, &[]);
        check(&RunEvidence { waited: 0.65, ..RunEvidence::default() }, &["client-waited"]);
        check(&RunEvidence { waited: 0.65, busy: vec![0.3; 5], ..open(OPEN) }, &["client-waited"]);
    }

    #[test]
    fn a_hundredth_that_is_lost_hides_the_slowest() {
        check(&RunEvidence { lost: 0.011, ..RunEvidence::default() }, &["lost"]);
        check(&RunEvidence { lost: 0.009, ..RunEvidence::default() }, &[]);
    }

    #[test]
    fn stolen_time_is_nobodys_latency() {
        check(&RunEvidence { steal: 0.03, ..RunEvidence::default() }, &["steal"]);
        check(&RunEvidence { steal: 0.01, ..RunEvidence::default() }, &[]);
    }

    #[test]
    fn a_run_that_settles_late_is_unsteady() {
        let series = |p50_us: Vec<f64>| RunEvidence { p50_us, ..RunEvidence::default() };
        let noise = |n: u64| (stdx::prng::mix(n) % 10) as f64;
        check(&series((0..30).map(|n| 100.0 + noise(n)).collect()), &[]);
        check(&series((0..30).map(|n| if n < 5 { 500.0 } else { 100.0 } + noise(n)).collect()), &[]);
        check(
            &series((0..30).map(|n| if n < 20 { 500.0 } else { 100.0 } + noise(n)).collect()),
            &["unsteady"],
        );
        // As long as a run is by default.
        check(&series((0..10).map(|n| 1000.0 - 100.0 * n as f64).collect()), &["unsteady"]);
    }
}
