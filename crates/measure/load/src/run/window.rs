//! Warm-up and the measured window.

use super::Runner;
use super::gathered::All;
use super::workers::{Report, Task};
use crate::report::follower::Follower;
use crate::report::summary::{Edge, Probed, RunMeasurements, Second};
use crate::run::shared::{Phase, RunState, Start, WorkerSlot};
use crate::types::clock::now_ns;
use crate::types::description::server_processes::ServerProcesses;
use crate::types::error::Error;
use crate::types::probes::Traffic;
use crate::workload::compose::Composer;
use crate::workload::recording::Recording;
use crate::workload::replay::Replay;
use crate::workload::trace::{ROUNDS_AHEAD, Reader};
use os::cpu_time;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

impl Runner<'_> {
    /// Warm-up and window.
    pub(super) fn measure(&self, follower: &mut dyn Follower) -> Result<RunMeasurements, Error> {
        let plan = self.plan;
        let (reader, replays) = match &plan.trace {
            None => (None, Vec::new()),
            Some(trace) => {
                let (senders, rounds): (Vec<_>, Vec<_>) =
                    (0..plan.run.threads).map(|_| sync_channel(ROUNDS_AHEAD)).unzip();
                (
                    Some(Reader::open(trace, plan.part, senders)?),
                    rounds.into_iter().map(Replay::new).collect(),
                )
            }
        };
        let (recording, recorders) = match &plan.run.record {
            None => (None, Vec::new()),
            Some(path) => {
                let (recording, recorders) = Recording::start(path, plan.run.threads)?;
                (Some(recording), recorders)
            }
        };
        let shared = RunState::new(plan.run.threads, Phase::WarmUp);
        let probes = plan.probes.map(|_| RunState::new(1, Phase::WarmUp));
        let (mut replays, mut recorders) = (replays.into_iter(), recorders.into_iter());
        let tasks = (0..plan.run.threads).map(|index| {
            let composer = match replays.next() {
                Some(replay) => Composer::replay(plan, replay),
                None => Composer::mix(plan, plan.run.seed, plan.thread(index).index, recorders.next()),
            };
            self.load(&shared, composer, index)
        });
        let probe = plan.probes.zip(probes.as_ref()).map(|(asked, shared)| self.probes(asked, shared));
        let tasks = tasks.chain(probe).collect();
        let measured = self
            .with_workers(tasks, reader, |reports| self.conduct(&shared, probes.as_ref(), reports, follower));
        let Some(recording) = recording else { return measured };
        // If the disk has failed, this was the reason why the workers have.
        let notes = recording.join()?;
        let measured = measured?;
        let recorded = Some(notes.write(&plan.items)?);
        Ok(RunMeasurements { recorded, ..measured })
    }

    /// The task of a thread of the load.
    fn load<'a>(&'a self, shared: &'a RunState, composer: Composer<'a>, index: usize) -> Task<'a> {
        let plan = self.plan;
        Task {
            traffic: Traffic::Load,
            shared,
            slot: index,
            composer,
            pace: plan.pace,
            share: plan.thread(index),
            seed: plan.run.seed,
            index,
            connections: plan.share(plan.connections as u64, index) as usize,
            depth: plan.run.depth,
            verify: plan.run.verify,
            backfill: plan.run.backfill,
            requests_max: plan.requests.map(|total| plan.share(total, index)),
            repeats: 0,
            churn: plan.churn,
            is_endless: plan.duration.is_none(),
        }
    }

    /// From the beginning until all threads have ended.
    fn conduct(
        &self,
        shared: &RunState,
        probes: Option<&RunState>,
        reports: &Receiver<Report>,
        follower: &mut dyn Follower,
    ) -> Result<RunMeasurements, Error> {
        let plan = self.plan;
        let mut all = All::new(plan.run.threads, usize::from(probes.is_some()));
        all.wait_ready(reports)?;
        let at_ns = follower.ready(BEGIN_AFTER_NS)?;
        let window_ns = plan.window_ns(at_ns);
        let open_ns = window_ns.start;
        for shared in std::iter::once(shared).chain(probes) {
            shared.begin(Start { at_ns, window_ns: window_ns.clone() });
        }
        if self.rest(&mut all, reports, open_ns, follower)? == Rest::Left {
            return Err(Error::Left);
        }
        all.checked()?;
        let mut open = self.edge(shared)?;
        if plan.pace.is_none() {
            // A closed loop's workers count from 0 when they see the window open.
            open = Edge { requests: 0, keys: 0, ..open };
        }
        let done = |probes: &RunState| (probes.workers[0].time(), probes.total().0);
        let probes_before = probes.map(done).unwrap_or_default();
        for shared in std::iter::once(shared).chain(probes) {
            shared.open(open.at_ns);
        }
        let Watched { close, mut series, has_left } =
            self.watch(shared, &mut all, reports, &open, follower)?;
        let probes_after = probes.map(done).unwrap_or_default();
        probes.inspect(|probes| probes.drain());
        self.drain(shared, probes, &mut all, reports, close.at_ns)?;
        // A schedule whose last request is answered ends before its window does.
        let seconds = match plan.duration {
            Some(duration) if !has_left && plan.requests.is_none() && plan.trace.is_none() => {
                duration.as_secs_f64()
            }
            _ => close.at_ns.saturating_sub(open.at_ns) as f64 / 1e9,
        };
        follower.closed(all.load.seconds.take(), seconds)?;
        for (number, second) in &mut series {
            second.count(all.load.seconds.of(*number));
            second.probes = all.probes.seconds.of(*number).and_then(|stats| stats.latency);
        }
        let series = series.into_iter().map(|(_, second)| second).collect();
        if all.load.tally.requests() == 0 {
            // Nothing is worth a result.
            all.checked()?;
        }
        let All { load, probes: probed, failure, .. } = all;
        let probes = probes.map(|_| Probed {
            tally: probed.tally,
            time: probes_after.0.since(probes_before.0),
            completed: probes_after.1.saturating_sub(probes_before.1),
        });
        let (engine, tally) = (load.engine, load.tally);
        Ok(RunMeasurements { engine, tally, probes, open, close, series, has_left, failure, recorded: None })
    }

    /// Waits for the last replies of a window that closed at `close_ns`, and for all threads.
    fn drain(
        &self,
        shared: &RunState,
        probes: Option<&RunState>,
        all: &mut All,
        reports: &Receiver<Report>,
        close_ns: u64,
    ) -> Result<(), Error> {
        if self.plan.pace.is_some() && all.failure.is_none() {
            // Requests of the window that are still on their way count, too. A schedule ends with the window, unless
            // somebody has ended that before.
            shared.drain();
            all.wait(reports, close_ns + DRAIN_MAX.as_nanos() as u64)?;
        }
        shared.stop();
        while !all.wait(reports, u64::MAX)? {}
        if let Some(probes) = probes {
            all.wait_all(reports, now_ns() + DRAIN_MAX.as_nanos() as u64)?;
            probes.stop();
            while !all.wait_all(reports, u64::MAX)? {}
        }
        Ok(())
    }

    /// Follows the window second by second until it closes or the workers have nothing left to do.
    fn watch(
        &self,
        shared: &RunState,
        all: &mut All,
        reports: &Receiver<Report>,
        open: &Edge,
        follower: &mut dyn Follower,
    ) -> Result<Watched, Error> {
        let close_ns =
            self.plan.duration.map_or(u64::MAX, |duration| open.at_ns + duration.as_nanos() as u64);
        let mut series = Vec::new();
        let mut last = open.clone();
        let mut number = 0;
        let (close, has_left) = loop {
            // Seconds are those of the workers, however late this thread got round to the last.
            let next_ns = open.at_ns.saturating_add((number + 1) * SECOND_NS).min(close_ns);
            let rest = self.rest(all, reports, next_ns, follower)?;
            let now = self.edge(shared)?;
            let second = Second::between(&last, &now);
            let is_over = rest != Rest::Time || now.at_ns >= close_ns;
            // The last one may be a part of a second: it is told with its length when the window is closed.
            let whole = if is_over { Vec::new() } else { all.load.seconds.take() };
            follower.second(&second, whole)?;
            // Of several at once, the last that is complete.
            let passed = (now.at_ns - open.at_ns) / SECOND_NS;
            series.push((number.max(passed.saturating_sub(1)), second));
            if is_over {
                break (now, rest == Rest::Left || all.failure.is_some());
            }
            number = passed.max(number + 1);
            last = now;
        };
        Ok(Watched { close, series, has_left })
    }

    /// Waits until the given time, unless something ends the run before.
    fn rest(
        &self,
        all: &mut All,
        reports: &Receiver<Report>,
        until_ns: u64,
        follower: &mut dyn Follower,
    ) -> Result<Rest, Error> {
        loop {
            let now_ns = now_ns();
            let glance_ns = follower.asks_every().map(|time| now_ns + time.as_nanos() as u64);
            if all.wait_or_fail(reports, glance_ns.map_or(until_ns, |glance_ns| glance_ns.min(until_ns)))? {
                return Ok(Rest::Ended);
            }
            if follower.leaves()? {
                return Ok(Rest::Left);
            }
            if glance_ns.is_none_or(|glance_ns| glance_ns >= until_ns) {
                return Ok(Rest::Time);
            }
        }
    }

    /// All counters as they are now.
    fn edge(&self, shared: &RunState) -> Result<Edge, Error> {
        let server_cpu_ns = self.plan.server_pid.as_ref().map(ServerProcesses::cpu_ns).transpose()?;
        let client = shared.workers.iter().map(WorkerSlot::time).collect();
        let (requests, keys) = shared.total();
        let host = cpu_time::of_host();
        Ok(Edge { at_ns: now_ns(), requests, keys, client, server_cpu_ns, host })
    }
}

/// Why the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Time,
    /// No worker of the load is left, or one has failed.
    Ended,
    /// The follower has asked for the end.
    Left,
}

/// Measurements of a window.
struct Watched {
    close: Edge,
    /// With the number of the second that each is.
    series: Vec<(u64, Second)>,
    has_left: bool,
}

/// Threads that wait for the beginning are awake by then.
const BEGIN_AFTER_NS: u64 = 2_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// An open loop waits this long for the last replies of its window.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(2);
