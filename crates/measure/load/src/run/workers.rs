//! Threads of a run, for its load and its probes: each opens its connections, waits for the beginning, and works.

use super::Runner;
use crate::engine::epoll::Epoll;
use crate::engine::tls::Encrypted;
use crate::engine::udp::{Patience, Udp};
use crate::engine::uring::UringEngine;
use crate::engine::{Engine, GATHER_TIME, failed_to_start};
use crate::measure::seconds::SecondCounts;
use crate::measure::tally::Tally;
use crate::pacing::churn::Churn;
use crate::pacing::feed::Feed;
use crate::pacing::schedule::Schedule;
use crate::run::affinity::pin;
use crate::run::shared::{Phase, RunState, Start};
use crate::run::silence::Silence;
use crate::run::worker::{Links, LoadWorker, WorkerEnd, WorkerState};
use crate::types::arrivals::Arrivals;
use crate::types::arrivals::pace::{OpenLoopPace, Timing};
use crate::types::churn::{ChurnPlan, Storm};
use crate::types::clock::now_ns;
use crate::types::description::EngineChoice;
use crate::types::error::Error;
use crate::types::part::Share;
use crate::types::probes::Traffic;
use crate::workload::compose::Composer;
use crate::workload::trace::Reader;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// The task of a worker thread.
pub(super) struct Task<'a> {
    pub(super) traffic: Traffic,
    /// The state shared with threads of its kind, and its place in there.
    pub(super) shared: &'a RunState,
    pub(super) slot: usize,
    pub(super) composer: Composer<'a>,
    /// Of an open loop.
    pub(super) pace: Option<OpenLoopPace>,
    /// Its part of the rate, and where its random times begin.
    pub(super) share: Share,
    pub(super) seed: u64,
    /// Its number among all threads.
    pub(super) index: usize,
    pub(super) connections: usize,
    pub(super) depth: usize,
    pub(super) verify: bool,
    pub(super) backfill: bool,
    pub(super) requests_max: Option<u64>,
    /// How often a datagram without a reply is sent again.
    pub(super) repeats: u32,
    /// If connections come and go.
    pub(super) churn: Option<ChurnPlan>,
    /// Nothing but replies ends the run.
    pub(super) is_endless: bool,
}

/// A worker's reports.
pub(super) enum Report {
    /// Its connections are open.
    Ready,
    /// The requests of a second of the window. A worker, by its place among those of its kind, reports all of them.
    Second(Traffic, usize, u64, Box<SecondCounts>),
    /// It has ended, with these counts, or before it had any.
    End(Traffic, usize, Box<Result<Worked, Error>>),
}

/// What a worker leaves.
pub(super) struct Worked {
    pub(super) engine: &'static str,
    pub(super) tally: Tally,
    /// Why it ended before its time, if it did.
    pub(super) error: Option<Error>,
}

impl Runner<'_> {
    /// Runs `tasks` on threads while `conduct` follows their reports; when it returns, they stop.
    pub(super) fn with_workers<T>(
        &self,
        tasks: Vec<Task<'_>>,
        reader: Option<Reader>,
        conduct: impl FnOnce(&Receiver<Report>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let (sender, reports) = channel();
            let shared: Vec<&RunState> = tasks.iter().map(|task| task.shared).collect();
            for task in tasks {
                let (traffic, slot, name) = (task.traffic, task.slot, task.name());
                let sender = sender.clone();
                thread::Builder::new().name(name).spawn_scoped(scope, move || {
                    let end = self.work(task, &sender);
                    // The receiver is gone when another worker failed first.
                    let _ = sender.send(Report::End(traffic, slot, Box::new(end)));
                })?;
            }
            if let Some(mut reader) = reader {
                let sender = sender.clone();
                thread::Builder::new().name(String::from("load-trace")).spawn_scoped(scope, move || {
                    if let Err(error) = reader.run() {
                        // The reader still holds the queues: no worker has taken this for the end of the trace.
                        let _ = sender.send(Report::End(Traffic::Load, 0, Box::new(Err(error))));
                    }
                    drop(reader);
                })?;
            }
            drop(sender);
            let result = conduct(&reports);
            shared.iter().for_each(|shared| shared.stop());
            result
        })
    }

    fn work(&self, task: Task<'_>, reports: &Sender<Report>) -> Result<Worked, Error> {
        if let Some(cpus) = &self.plan.run.cpu {
            pin(cpus.of(task.index))?;
        }
        if task.pace.is_some() {
            // By default the kernel may wake a thread 50 µs late. Where it refuses, the verdict includes the
            // lateness.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        task.shared.workers[task.slot].thread.store(thread, Ordering::Relaxed);
        if self.plan.run.udp {
            let sockets = self.plan.target.datagrams(task.connections)?;
            let patience = Patience { timeout: self.plan.run.udp_timeout.0, repeats: task.repeats };
            let engine = Udp::new(sockets, task.depth, patience)?;
            let task = Task { connections: task.connections * task.depth, depth: 1, ..task };
            return self.drive(engine, task, reports);
        }
        let sockets = self.plan.target.connect(task.connections)?;
        let target = || Some(self.plan.target.clone());
        let sockets = match self.plan.run.engine {
            EngineChoice::Epoll => sockets,
            _ if task.churn.is_some() => sockets,
            choice => match UringEngine::new(sockets, target(), self.plan.stamped) {
                Ok(engine) => return self.encrypt(engine, task, reports),
                Err((sockets, _)) if choice == EngineChoice::Auto && !self.plan.stamped => sockets,
                Err((_, error)) => return Err(failed_to_start(UringEngine::NAME, error)),
            },
        };
        self.encrypt(Epoll::new(sockets, target())?, task, reports)
    }

    /// Wraps the engine where the plan needs it: otherwise it is driven as it is.
    fn encrypt<E: Engine>(
        &self,
        engine: E,
        task: Task<'_>,
        reports: &Sender<Report>,
    ) -> Result<Worked, Error> {
        let Some(tls) = &self.plan.tls else { return self.drive(engine, task, reports) };
        let parties = (0..task.connections).map(|_| tls.party()).collect();
        self.drive(Encrypted::new(engine, parties)?, task, reports)
    }

    fn drive<E: Engine>(
        &self,
        engine: E,
        mut task: Task<'_>,
        reports: &Sender<Report>,
    ) -> Result<Worked, Error> {
        let (plan, shared, traffic) = (self.plan, task.shared, task.traffic);
        let slot = &shared.workers[task.slot];
        if let Some(replay) = task.composer.trace() {
            replay.prepare();
        }
        // The receiver is gone when another worker failed first.
        let _ = reports.send(Report::Ready);
        let Some(start) = shared.start() else {
            return Ok(Worked { engine: E::NAME, tally: Tally::new(), error: None });
        };
        let window_ns = start.window_ns.clone();
        let is_scheduled = task.has_schedule() && task.requests_max.is_none() && plan.duration.is_some();
        let (gather, gather_time) = self.gather(&task);
        let timeout_ns = plan.run.timeout.map(|timeout| timeout.0.as_nanos() as u64);
        let is_open = task.pace.is_some();
        let silence = task.is_endless.then(|| Silence::new(now_ns()));
        let standing = WorkerState::new(
            task.connections,
            window_ns.clone(),
            (is_open, is_open && plan.run.live),
            silence,
        );
        let worker = LoadWorker {
            engine,
            feed: task.feed(&start).patient_for(timeout_ns),
            churn: self.churn(&task, &start),
            links: Links::new(task.connections),
            timeout_ns,
            fail_fast: plan.run.fail_fast,
            // The schedule of an open loop ends it, so that the last requests are waited for.
            requests_max: task.requests_max.filter(|_| !task.has_schedule()),
            composer: task.composer,
            items: &plan.items,
            depth: task.depth,
            verify: task.verify,
            backfill: task.backfill,
            gather,
            gather_time,
            shared,
            slot,
        };
        let mut tell = |second: u64, counts: SecondCounts| {
            let _ = reports.send(Report::Second(traffic, task.slot, second, Box::new(counts)));
        };
        let WorkerEnd { tally, told, error, .. } = worker.run(standing, &mut tell);
        // The last request of a schedule comes before the end of the window: there is nothing more to do in it.
        if is_scheduled && error.is_none() && (shared.phase() == Phase::Measure || now_ns() >= window_ns.end)
        {
            (told..=tally.slots.last()).for_each(|second| tell(second, SecondCounts::default()));
        }
        slot.end();
        Ok(Worked { engine: E::NAME, tally, error })
    }
}

impl Runner<'_> {
    /// How the connections of a task come and go, if they do.
    fn churn(&self, task: &Task<'_>, start: &Start) -> Option<Churn> {
        let ChurnPlan { after, rate, storm } = task.churn?;
        let mut churn = Churn::new(task.connections);
        churn.after = after.unwrap_or(u64::MAX);
        churn.schedule = rate.map(|rate| {
            let seed = stdx::prng::mix(task.seed ^ CHURN_SALT);
            let schedule = Schedule::new(Arrivals::Poisson, rate, task.share, seed);
            schedule.during(start.at_ns, start.window_ns.clone(), u64::MAX)
        });
        churn.storm = storm.map(|Storm { connections, at }| {
            let storm_ns = start.window_ns.start + at.0.as_nanos() as u64;
            (storm_ns, self.plan.share(connections as u64, task.index) as usize)
        });
        Some(churn)
    }

    /// For how many connections' replies a turn waits, and how long.
    ///
    /// A turn that waited for more connections than there are would always wait its full time. In an open loop replies
    /// may only wait where they have their times from the kernel.
    fn gather(&self, task: &Task<'_>) -> (usize, Duration) {
        let may_gather = task.pace.is_none() || self.plan.stamped;
        let slot_time = task.pace.map(|pace| pace.sleep.slot_ns()).filter(|slot_ns| *slot_ns > 0);
        match slot_time {
            // As long as there are connections to send on, the end of the slot is soon enough.
            Some(slot_ns) => (task.connections, Duration::from_nanos(slot_ns)),
            None if may_gather => (self.plan.run.gather.clamp(1, task.connections.div_ceil(4)), GATHER_TIME),
            None => (1, GATHER_TIME),
        }
    }
}

impl Task<'_> {
    /// Whether its requests have times by a law.
    fn has_schedule(&self) -> bool {
        matches!(self.pace, Some(OpenLoopPace { timing: Timing::Law(..), .. }))
    }

    /// When its requests are sent.
    fn feed(&self, start: &Start) -> Feed {
        let Start { at_ns, window_ns } = start;
        match self.pace {
            None => Feed::closed(self.connections),
            Some(OpenLoopPace { timing: Timing::Trace, sleep }) => {
                Feed::trace(*at_ns, window_ns.clone(), self.connections, sleep)
            }
            Some(OpenLoopPace { timing: Timing::Law(rate, arrivals), sleep }) => {
                let schedule = Schedule::new(arrivals, rate, self.share, self.seed);
                let most = self.requests_max.unwrap_or(u64::MAX);
                Feed::open(schedule.during(*at_ns, window_ns.clone(), most), self.connections, sleep)
            }
        }
    }

    fn name(&self) -> String {
        match self.traffic {
            Traffic::Load => format!("load-{}", self.index),
            Traffic::Probes => String::from("load-probes"),
        }
    }
}

/// A seed of its own, so that connections do not come and go in step with requests.
const CHURN_SALT: u64 = 0x6368_7572_6e00_0000;
