//! Loops as a whole, against a simulated server, in simulated time: what they report is held to theory.

use super::*;
use crate::engine::GATHER_TIME;
use crate::engine::outbox::Outbox;
use crate::measure::backlog::Growth;
use crate::measure::failures::Failures;
use crate::measure::seconds::SecondCounts;
use crate::pacing::schedule::Schedule;
use crate::run::shared::Start;
use crate::run::silence::{SECONDS_MAX, Silence};
use crate::types::arrivals::Arrivals;
use crate::types::arrivals::pace::Sleep;
use crate::types::description::Description;
use crate::types::part::Part;
use crate::types::part::Share;
use crate::workload::plan::RunPlan;
use crate::workload::recording::Recording;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A server that answers in order, `service_ns` each, and does nothing in the first `stall_ns` of each second; the
/// clock moves when the worker waits.
struct Simulated {
    now_ns: u64,
    service_ns: u64,
    stall_ns: u64,
    /// When the server has done everything that it has got.
    idle_ns: u64,
    /// Replies on their way: when they arrive, and where.
    replies: VecDeque<(u64, usize)>,
    /// The worker is suspended for this long, soon after it has begun.
    suspended_ns: u64,
    /// A wait ends this much later than it should.
    late_ns: u64,
    waits: u64,
    news: Vec<ConnectionEvent>,
    /// The first request is never answered.
    hangs: bool,
}

/// What a turn costs the worker.
const TURN_NS: u64 = 2_000;

impl Simulated {
    fn new(service_ns: u64, stall_ns: u64) -> Simulated {
        let replies = VecDeque::new();
        Simulated {
            now_ns: SECOND,
            service_ns,
            stall_ns,
            idle_ns: 0,
            replies,
            suspended_ns: 0,
            late_ns: 0,
            waits: 0,
            news: Vec::new(),
            hangs: false,
        }
    }

    fn answer(&mut self, connection: usize) {
        if std::mem::take(&mut self.hangs) {
            return;
        }
        let mut start = self.idle_ns.max(self.now_ns);
        let into = start % SECOND;
        if into < self.stall_ns {
            start += self.stall_ns - into;
        }
        self.idle_ns = start + self.service_ns;
        self.replies.push_back((self.idle_ns, connection));
    }
}

impl Engine for Simulated {
    const NAME: &'static str = "simulated";

    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error> {
        for (connection, bytes) in outbox.parcels() {
            bytes.iter().filter(|byte| **byte == b'\n').for_each(|_| self.answer(connection));
        }
        self.now_ns += TURN_NS;
        let until = self.now_ns + wait.at_most.as_nanos() as u64;
        let reply = self.replies.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        if until.min(reply) > self.now_ns {
            self.now_ns = until.min(reply) + self.late_ns;
            self.waits += 1;
        }
        if self.now_ns > SECOND + 200 * MS {
            self.now_ns += std::mem::take(&mut self.suspended_ns);
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some((_, connection)) = self.replies.pop_front_if(|(at_ns, _)| *at_ns <= self.now_ns) {
            each(connection, b"END\r\n", None)?;
        }
        Ok(())
    }

    fn reopen(&mut self, connection: usize) -> Result<(), Error> {
        self.news.push(ConnectionEvent::Opened { connection, took_ns: 1000 });
        Ok(())
    }

    fn close(&mut self, connection: usize) {
        self.replies.retain(|(_, other)| *other != connection);
    }

    fn events(&mut self, each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        self.news.drain(..).for_each(each);
        Ok(())
    }
}

/// What 20 seconds of gets come to; `rate` of an open loop.
fn run(server: Simulated, rate: Option<(f64, Arrivals)>, connections: usize, depth: usize) -> Tally {
    run_with(server, rate, connections, depth, &mut |_, _| {}).expect("a server that answers")
}

fn run_with(
    server: Simulated,
    rate: Option<(f64, Arrivals)>,
    connections: usize,
    depth: usize,
    on_second: OnSecond<'_>,
) -> Result<Tally, Error> {
    let sleep = Sleep::Spin(Duration::ZERO);
    try_sleeping(server, rate, (connections, depth), sleep, on_second).map(|(tally, _)| tally)
}

fn try_sleeping(
    server: Simulated,
    rate: Option<(f64, Arrivals)>,
    (connections, depth): (usize, usize),
    sleep: Sleep,
    on_second: OnSecond<'_>,
) -> Result<(Tally, Simulated), Error> {
    let plan = RunPlan::new(&Description::default(), Part::WHOLE).expect("defaults");
    let window_ns = SECOND..21 * SECOND;
    let shared = RunState::new(1, Phase::WarmUp);
    shared.begin(Start { at_ns: SECOND, window_ns: window_ns.clone() });
    shared.open(SECOND);
    let feed = match rate {
        None => Feed::closed(connections),
        Some((rate, arrivals)) => {
            let schedule = Schedule::new(arrivals, rate, Share { index: 0, threads: 1 }, 1);
            Feed::open(schedule.during(SECOND, window_ns.clone(), u64::MAX), connections, sleep)
        }
    };
    let mut worker = worker(server, &plan, feed, (connections, depth), &shared);
    worker.requests_max = rate.is_none().then_some(200_000);
    let silence = rate.is_none().then(|| Silence::new(SECOND));
    let standing = WorkerState::new(connections, window_ns, (rate.is_some(), false), silence);
    let WorkerEnd { tally, engine, error, .. } = worker.run(standing, on_second);
    error.map_or(Ok((tally, engine)), Err)
}

/// A worker that runs until the window closes.
fn worker<'r>(
    engine: Simulated,
    plan: &'r RunPlan,
    feed: Feed,
    (connections, depth): (usize, usize),
    shared: &'r RunState,
) -> LoadWorker<'r, Simulated> {
    LoadWorker {
        engine,
        links: Links::new(connections),
        timeout_ns: None,
        fail_fast: false,
        composer: Composer::mix(plan, 1, 0, None),
        feed,
        items: &plan.items,
        depth,
        verify: false,
        backfill: false,
        gather: 1,
        gather_time: GATHER_TIME,
        requests_max: None,
        churn: None,
        shared,
        slot: &shared.workers[0],
    }
}

/// As on a busy machine, where the thread starts late.
#[test]
fn a_worker_that_starts_after_the_window_has_opened_records_its_requests() {
    let plan = RunPlan::new(&Description::default(), Part::WHOLE).expect("defaults");
    let path = std::env::temp_dir().join(format!("evenkeel-late-worker-{}", std::process::id()));
    let (recording, mut recorders) = Recording::start(&path, 1).expect("a file");
    let shared = RunState::new(1, Phase::WarmUp);
    shared.open(SECOND);
    let mut worker = worker(Simulated::new(2_000, 0), &plan, Feed::closed(1), (1, 1), &shared);
    worker.composer.recorder = recorders.pop();
    worker.requests_max = Some(100);
    let standing = WorkerState::new(1, SECOND..21 * SECOND, (false, false), None);
    assert!(worker.run(standing, &mut |_, _| {}).error.is_none(), "a server that answers");
    let recorded = recording.join().and_then(|notes| notes.write(&plan.items)).expect("a disk");
    std::fs::remove_file(path).expect("a recording");
    assert!(recorded.requests >= 100, "{recorded:?}");
}

fn quantile_ms(tally: &Tally, share: f64) -> f64 {
    tally.latency_ns.value_at_quantile(share) as f64 / MS as f64
}

/// A stall of 100 ms each second, 10,000 requests per second: a request that arrives at `t` in the stall waits `100 - t` ms, and
/// then for those before. So the share of requests that take longer than `x` ms is `(100 - x) / 1000`, and those that
/// wait for the queue to be worked off (2 µs each) make it a little more.
#[track_caller]
fn check_stall(arrivals: Arrivals, connections: usize, depth: usize) {
    let tally = run(Simulated::new(2_000, 100 * MS), Some((10_000.0, arrivals)), connections, depth);
    let asked: f64 = 200_000.0;
    let requests = tally.requests() as f64;
    assert!((requests - asked).abs() < 4.0 * asked.sqrt(), "{requests} of {asked}");
    assert_eq!(tally.failures, Failures::default());
    for (share, theory_ms) in [(0.95, 50.0), (0.99, 90.0), (0.999, 99.0)] {
        let found_ms = quantile_ms(&tally, share);
        assert!((found_ms / theory_ms - 1.0).abs() < 0.04, "{share}: {found_ms} of {theory_ms} ms");
    }
    let late = &tally.waits.as_ref().expect("an open loop").late_ns;
    assert!(late.value_at_quantile(0.99) <= 3 * TURN_NS, "the server was late, not this program");
}

#[test]
fn a_stall_costs_what_theory_says_whatever_the_connections() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        check_stall(arrivals, 50, 1);
        check_stall(arrivals, 1, 1);
        check_stall(arrivals, 50, 64);
    }
}

#[test]
fn a_closed_loop_does_not_see_the_stall() {
    let tally = run(Simulated::new(2_000, 100 * MS), None, 50, 1);
    assert!(quantile_ms(&tally, 0.99) < 1.0, "{}", quantile_ms(&tally, 0.99));
}

#[test]
fn what_a_slow_server_leaves_undone_is_counted() {
    // It manages half of the rate.
    let tally = run(Simulated::new(200_000, 0), Some((10_000.0, Arrivals::Constant)), 10, 1);
    let total = tally.requests() + tally.failures.total();
    assert_eq!(total, 200_000, "{tally:?}");
    // An answered request has waited in the schedule, up to the end.
    assert!(quantile_ms(&tally, 0.5) > 1000.0);
}

#[test]
fn a_server_that_is_a_little_too_slow_is_found_out_though_it_answers_all() {
    let growth = |service_ns, stall_ns, rate: f64, arrivals| {
        let tally = run(Simulated::new(service_ns, stall_ns), Some((rate, arrivals)), 50, 4);
        assert_eq!(tally.failures.total(), 0, "there is time for all");
        let usual = rate * tally.latency_ns.value_at_quantile(0.1) as f64 / 1e9;
        (Growth::of(&tally.backlog, usual), tally.requests())
    };
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        // It manages 10,000 a second.
        let (found, scheduled) = growth(100_000, 0, 10_400.0, arrivals);
        assert!(found.is_overload(scheduled) && found.is_steady, "{found:?}");
        // Of 400 more a second, in 20 s.
        assert!((found.requests - 8_000.0).abs() < 2_500.0, "{found:?}");
        for (service_ns, stall_ns) in [(100_000, 0), (2_000, 100 * MS)] {
            let (found, scheduled) = growth(service_ns, stall_ns, 8_000.0, arrivals);
            assert!(!found.is_overload(scheduled), "{found:?}");
        }
    }
}

/// A thread that wakes up 60 µs late, a server that takes 20 µs, 2,000 requests a second.
fn late(sleep: Sleep) -> (Tally, Simulated) {
    let server = Simulated { late_ns: 60_000, ..Simulated::new(20_000, 0) };
    let rate = Some((2_000.0, Arrivals::Poisson));
    try_sleeping(server, rate, (50, 1), sleep, &mut |_, _| {}).expect("a server that answers")
}

#[test]
fn a_thread_that_has_learnt_how_late_it_wakes_up_is_not_late() {
    let late_us = |sleep| {
        let (tally, _) = late(sleep);
        tally.waits.expect("an open loop").late_ns.value_at_quantile(0.9) / 1000
    };
    assert!((59..70).contains(&late_us(Sleep::Spin(Duration::ZERO))));
    // What comes while it wakes up from another request's sleep is late: one in eight, of a Poisson process.
    assert!(late_us(Sleep::Learned) < 10, "{}", late_us(Sleep::Learned));
}

#[test]
fn requests_of_a_slot_are_sent_together_and_count_from_when_they_were_due() {
    let slot = Duration::from_millis(2);
    let ((alone, every), (together, slots)) = (late(Sleep::Spin(Duration::ZERO)), late(Sleep::Slot(slot)));
    assert_eq!(alone.requests(), together.requests());
    let waits = together.waits.as_ref().expect("an open loop");
    let ms = |share| waits.slip_ns.value_at_quantile(share) as f64 / MS as f64;
    // A slot begins with its first request and has four more on average, which come at any time of it.
    assert!(
        (0.8..1.2).contains(&(ms(0.5) / 1.0)) && (1.9..2.1).contains(&ms(0.95)),
        "{} {}",
        ms(0.5),
        ms(0.95)
    );
    assert!(quantile_ms(&together, 0.5) > ms(0.5), "what they have waited is in their latency");
    assert!(waits.late_ns.value_at_quantile(0.99) <= 3 * TURN_NS, "waiting for others is not being late");
    assert!(slots.waits < every.waits, "{} {}", slots.waits, every.waits);
}

#[test]
fn a_lone_request_takes_its_service_and_a_turn() {
    let tally = run(Simulated::new(50_000, 0), Some((100.0, Arrivals::Constant)), 4, 1);
    assert_eq!(tally.requests(), 2000);
    let p50_us = quantile_ms(&tally, 0.5) * 1000.0;
    assert!((50.0..58.0).contains(&p50_us), "{p50_us}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let silent = Simulated::new(24 * 3600 * SECOND, 0);
    let error = run_with(silent, None, 3, 2, &mut |_, _| {}).expect_err("nobody answers");
    assert!(matches!(error, Error::Silence { seconds: SECONDS_MAX }), "{error}");
}

#[test]
fn a_worker_that_was_suspended_tells_of_each_second_of_the_window() {
    let server = Simulated { suspended_ns: 3600 * SECOND, ..Simulated::new(2_000, 0) };
    let mut told = Vec::new();
    let mut tell =
        |second, counts: SecondCounts| told.push((second, counts.latency_ns.map_or(0, |all| all.len())));
    let tally = run_with(server, None, 50, 1, &mut tell).expect("a server that answers");
    assert!(tally.requests() >= 200_000);
    // What it did when it had woken up, long after the window, is in the last second.
    assert_eq!(told.iter().map(|(second, _)| *second).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert_eq!(told.iter().map(|(_, requests)| requests).sum::<u64>(), tally.requests());
}

/// A server that stops for the last 800 ms of every second, which 10,000 requests a second are sent to, until after the
/// window: each is in the second in which it was due, and those of the end are not missing.
#[test]
fn every_request_of_an_open_loop_is_in_the_second_in_which_it_was_due() {
    let server = Simulated::new(2_000, 800 * MS);
    let mut told = Vec::new();
    let tally = run_with(server, Some((10_000.0, Arrivals::Constant)), 50, 1, &mut |second, counts| {
        let latency_ns = counts.latency_ns.expect("10,000 requests");
        told.push((second, latency_ns.len(), latency_ns.value_at_quantile(0.5) / MS));
    });
    let tally = tally.expect("a server that answers");
    assert_eq!(told.len(), 20, "{told:?}");
    for (second, requests, p50_ms) in &told {
        assert!((9_999..=10_001).contains(requests) && (280..=330).contains(p50_ms), "{second}: {told:?}");
    }
    assert_eq!(told.iter().map(|(_, requests, _)| requests).sum::<u64>(), tally.requests());
    assert_eq!(tally.latency_ns.len(), tally.requests());
}

#[test]
fn a_connection_that_hangs_keeps_no_second_from_being_known() {
    // One request is never answered: its connection hangs.
    let server = Simulated { hangs: true, ..Simulated::new(2_000, 0) };
    let plan = RunPlan::new(&Description::default(), Part::WHOLE).expect("defaults");
    let shared = RunState::new(1, Phase::WarmUp);
    shared.open(SECOND);
    let window_ns = SECOND..101 * SECOND;
    let schedule = Schedule::new(Arrivals::Constant, 100.0, Share { index: 0, threads: 1 }, 1);
    let schedule = schedule.during(SECOND, window_ns.clone(), u64::MAX);
    let feed = Feed::open(schedule, 2, Sleep::Spin(Duration::ZERO));
    let worker = worker(server, &plan, feed, (2, 1), &shared);
    let standing = WorkerState::new(2, window_ns, (true, false), None);
    let mut told = Vec::new();
    let ended = worker.run(standing, &mut |second, counts| {
        told.push((second, counts.latency_ns.map_or(0, |all| all.len()), counts.failures.unanswered));
        if second == 5 {
            shared.stop();
        }
    });
    assert_eq!(told[..6], [(0, 99, 0), (1, 100, 0), (2, 100, 0), (3, 100, 0), (4, 100, 0), (5, 100, 0)]);
    // It is counted in the oldest second that was not told of; one more was on its way when the run ended.
    assert_eq!((told[6].0, told[6].2), (6, 1), "{told:?}");
    assert!((1..=2).contains(&ended.tally.failures.unanswered), "{told:?}");
}
