//! The course of a run: prefill, warm-up, the measured window, the sum.

use crate::affinity::pin;
use crate::arguments::{Arguments, EngineChoice};
use crate::clock::now_ns;
use crate::compose::Composer;
use crate::cpu_time;
use crate::engine::epoll::Epoll;
use crate::engine::uring::Uring;
use crate::engine::{Engine, failed_to_start};
use crate::error::Error;
use crate::plan::Plan;
use crate::summary::{Edge, Measured, Second, Summary};
use crate::tally::Tally;
use crate::worker::{Phase, Shared, Worker};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Carries out the run and returns what was measured. `progress` receives lines that overwrite each other with
/// `\r`: a terminal's standard error, or `io::sink()` where nobody watches.
pub fn run(arguments: &Arguments, progress: &mut dyn Write) -> Result<Summary, Error> {
    let plan = Plan::new(arguments)?;
    let runner = Runner { arguments, plan: &plan };
    if arguments.prefill {
        runner.prefill(progress)?;
    }
    let measured = runner.measure(progress)?;
    let summary = Summary::new(arguments, &plan, measured);
    if let Some(path) = &arguments.json {
        summary.write_json(path)?;
    }
    Ok(summary)
}

struct Runner<'a> {
    arguments: &'a Arguments,
    plan: &'a Plan,
}

/// What a worker thread is to do.
struct Task<'a> {
    composer: Composer<'a>,
    index: usize,
    connections: usize,
    depth: usize,
    verify: bool,
    requests_max: Option<u64>,
}

/// A worker's end: the engine's name and what it counted.
type Outcome = Result<(&'static str, Tally), Error>;

impl Runner<'_> {
    /// Stores every key.
    fn prefill(&self, progress: &mut dyn Write) -> Result<(), Error> {
        let plan = self.plan;
        let value_size = self.arguments.value_size.max() + self.arguments.key_size.max();
        let depth = (PREFILL_IN_FLIGHT / value_size.max(1)).clamp(1, 64);
        let mut start = 0;
        let tasks = (0..plan.threads).map(|index| {
            let end = start + plan.share(plan.items.count, index);
            let composer = Composer::fill(plan, start..end);
            start = end;
            let connections =
                plan.share(plan.connections.min(PREFILL_CONNECTIONS * plan.threads) as u64, index);
            Task {
                composer,
                index,
                connections: connections as usize,
                depth,
                verify: false,
                requests_max: None,
            }
        });
        let shared = Shared::new(plan.threads, Phase::Measure);
        let tally = self.with_workers(&shared, tasks.collect(), |outcomes| {
            let mut all = All::new(plan.threads);
            while !all.wait(outcomes, now_ns() + PROGRESS_EVERY.as_nanos() as u64)? {
                write!(progress, "\rprefill: {} of {} keys", shared.total().0, plan.items.count)?;
                progress.flush()?;
            }
            Ok(all.tally)
        })?;
        let refused = tally.errors + tally.not_stored;
        if refused > 0 {
            let example = tally.error_lines.into_keys().next().unwrap_or_else(|| String::from("NOT_STORED"));
            return Err(Error::Prefill { refused, keys: plan.items.count, example });
        }
        writeln!(progress, "\rprefill: {} keys stored{:20}", plan.items.count, "")?;
        Ok(())
    }

    /// Warm-up and window.
    fn measure(&self, progress: &mut dyn Write) -> Result<Measured, Error> {
        let plan = self.plan;
        let tasks = (0..plan.threads).map(|index| Task {
            composer: Composer::mix(plan, self.arguments.seed, index),
            index,
            connections: plan.share(plan.connections as u64, index) as usize,
            depth: plan.depth,
            verify: plan.verify,
            requests_max: plan.requests.map(|total| plan.share(total, index)),
        });
        let shared = Shared::new(plan.threads, Phase::WarmUp);
        self.with_workers(&shared, tasks.collect(), |outcomes| {
            let mut all = All::new(plan.threads);
            all.wait(outcomes, now_ns() + plan.warm_up.as_nanos() as u64)?;
            // Workers count from 0 when they see the window open.
            let open = Edge { requests: 0, keys: 0, ..self.edge(&shared)? };
            shared.enter(Phase::Measure);
            let close_ns = plan.duration.map_or(u64::MAX, |duration| open.at_ns + duration.as_nanos() as u64);
            let mut series = Vec::new();
            let mut last = open.clone();
            let close = loop {
                let next_ns = (last.at_ns + PROGRESS_EVERY.as_nanos() as u64).min(close_ns);
                let ended = all.wait(outcomes, next_ns)?;
                let now = self.edge(&shared)?;
                let second = Second::between(&last, &now);
                write!(progress, "\r{:.0} requests/s{:20}", second.requests_per_second, "")?;
                progress.flush()?;
                series.push(second);
                if ended || now.at_ns >= close_ns {
                    break now;
                }
                last = now;
            };
            shared.enter(Phase::Stop);
            writeln!(progress)?;
            while !all.wait(outcomes, u64::MAX)? {}
            Ok(Measured { engine: all.engine, tally: all.tally, open, close, series })
        })
    }

    /// Runs `tasks` on threads while `conduct` follows their outcomes; whatever it returns, they stop.
    fn with_workers<T>(
        &self,
        shared: &Shared,
        tasks: Vec<Task<'_>>,
        conduct: impl FnOnce(&Receiver<Outcome>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let (report, outcomes) = channel();
            for task in tasks {
                let report = report.clone();
                thread::Builder::new().name(format!("load-{}", task.index)).spawn_scoped(
                    scope,
                    move || {
                        // Nobody listens any more when another worker failed first.
                        let _ = report.send(self.work(shared, task));
                    },
                )?;
            }
            drop(report);
            let result = conduct(&outcomes);
            shared.enter(Phase::Stop);
            result
        })
    }

    fn work(&self, shared: &Shared, task: Task<'_>) -> Outcome {
        if let Some(cpus) = &self.arguments.cpu {
            pin(cpus.of(task.index))?;
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        shared.workers[task.index].thread.store(thread, Ordering::Relaxed);
        let sockets = self.plan.target.connect(task.connections)?;
        let sockets = match self.plan.engine {
            EngineChoice::Epoll => sockets,
            choice => match Uring::new(sockets) {
                Ok(engine) => return self.drive(engine, shared, task),
                Err((sockets, _)) if choice == EngineChoice::Auto => sockets,
                Err((_, error)) => return Err(failed_to_start(Uring::NAME, error)),
            },
        };
        self.drive(Epoll::new(sockets)?, shared, task)
    }

    fn drive<E: Engine>(&self, engine: E, shared: &Shared, task: Task<'_>) -> Outcome {
        let Task { composer, index, connections, depth, verify, requests_max } = task;
        let (plan, slot) = (self.plan, &shared.workers[index]);
        // A turn that waited for more connections than there are would always wait its full time.
        let (items, gather) = (&plan.items, plan.gather.min(connections.div_ceil(4)));
        let worker = Worker {
            engine,
            composer,
            items,
            connections,
            depth,
            verify,
            gather,
            requests_max,
            shared,
            slot,
        };
        let tally = worker.run()?;
        slot.ended_cpu_ns.store(cpu_time::of_this_thread(), Ordering::Relaxed);
        Ok((E::NAME, tally))
    }

    fn edge(&self, shared: &Shared) -> Result<Edge, Error> {
        let server_cpu_ns = self.arguments.server_pid.map(cpu_time::of_process).transpose()?;
        let client_cpu_ns =
            shared.workers.iter().map(|slot| match slot.ended_cpu_ns.load(Ordering::Relaxed) {
                0 => cpu_time::of_thread(slot.thread.load(Ordering::Relaxed)),
                ended => ended,
            });
        let client_cpu_ns = client_cpu_ns.collect();
        let (requests, keys) = shared.total();
        Ok(Edge { at_ns: now_ns(), requests, keys, client_cpu_ns, server_cpu_ns })
    }
}

/// Bytes on their way per connection while prefilling.
const PREFILL_IN_FLIGHT: usize = 64 * 1024;
/// Enough to keep a server busy; more would only cost it memory.
const PREFILL_CONNECTIONS: usize = 8;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The workers' outcomes so far.
struct All {
    running: usize,
    engine: &'static str,
    tally: Tally,
}

impl All {
    fn new(workers: usize) -> All {
        All { running: workers, engine: "", tally: Tally::new() }
    }

    /// Waits for workers until the given time; `true` once none is left.
    fn wait(&mut self, outcomes: &Receiver<Outcome>, until_ns: u64) -> Result<bool, Error> {
        while self.running > 0 {
            let patience = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match outcomes.recv_timeout(patience) {
                Ok(outcome) => {
                    let (engine, tally) = outcome?;
                    self.engine = engine;
                    self.tally.add(&tally);
                    self.running -= 1;
                }
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Panic),
            }
        }
        Ok(true)
    }
}

impl Shared {
    /// Requests and keys completed in the present phase.
    fn total(&self) -> (u64, u64) {
        self.workers.iter().fold((0, 0), |(requests, keys), slot| {
            (requests + slot.requests.load(Ordering::Relaxed), keys + slot.keys.load(Ordering::Relaxed))
        })
    }
}
