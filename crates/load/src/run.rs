//! The course of a run: prefill, warm-up, the measured window, the sum.

use crate::affinity::pin;
use crate::agents::Part;
use crate::arguments::{Arguments, EngineChoice};
use crate::churn::{Churn, ChurnPlan, Storm};
use crate::clock::now_ns;
use crate::compose::Composer;
use crate::cpu_time;
use crate::engine::epoll::Epoll;
use crate::engine::tls::Encrypted;
use crate::engine::udp::{Patience, Udp};
use crate::engine::uring::Uring;
use crate::engine::{Engine, failed_to_start};
use crate::error::Error;
use crate::feed::Feed;
use crate::files;
use crate::follower::{Follower, Line};
use crate::hdr_log::HdrLog;
use crate::plan::{Pace, Plan, Timing};
use crate::replay::Replay;
use crate::schedule::{Arrivals, Schedule};
use crate::search::{Knee, Objective, Search};
use crate::seconds::Seconds;
use crate::shared::{Phase, Shared, Start};
use crate::summary::{Edge, Measured, Second, Summary, write_json};
use crate::tally::Tally;
use crate::target::Target;
use crate::trace::{ROUNDS_AHEAD, Reader};
use crate::worker::{Done, Worker};
use hdrhistogram::Histogram;
use std::io::Write;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Carries out the run and returns what was measured. `progress` receives lines that overwrite each other with
/// `\r`: a terminal's standard error, or `io::sink()` where nobody watches.
pub fn run(arguments: &Arguments, progress: &mut dyn Write) -> Result<Summary, Error> {
    let mut line = Line::new(progress);
    let (summary, _) = match &arguments.hdr_log {
        None => run_part(arguments, Part::WHOLE, &mut line)?,
        Some(path) => {
            let mut log = HdrLog::new(&mut line, path, arguments.warm_up.0)?;
            run_part(arguments, Part::WHOLE, &mut log)?
        }
    };
    if let Some(path) = &arguments.json {
        write_json(&summary, path)?;
    }
    Ok(summary)
}

/// Carries out a part of a load, and returns the histograms as well.
pub(crate) fn run_part(
    arguments: &Arguments,
    part: Part,
    follower: &mut dyn Follower,
) -> Result<(Summary, Tally), Error> {
    let plan = Plan { part, ..Plan::new(arguments)? };
    files::allow(plan.connections)?;
    let runner = Runner { arguments, plan: &plan };
    if arguments.prefill {
        runner.prefill(follower)?;
    }
    let measured = runner.measure(follower)?;
    let tally = measured.tally.clone();
    Ok((Summary::new(arguments, &plan, measured), tally))
}

/// Warm-up and window of a run, for those who make something else than a summary of it.
pub(crate) fn measure(
    arguments: &Arguments,
    plan: &Plan,
    progress: &mut dyn Write,
) -> Result<Measured, Error> {
    Runner { arguments, plan }.measure(&mut Line::new(progress))
}

/// Looks for the highest rate at which `objective` holds: one run after the other, each with the arguments' warm-up and
/// duration.
pub fn search(arguments: &Arguments, objective: &Objective, progress: &mut dyn Write) -> Result<Knee, Error> {
    let mut plan = Plan::new(arguments)?;
    if plan.requests.is_some() {
        return Err(Error::Arguments(String::from("a search takes --duration, not --requests")));
    }
    files::allow(plan.connections)?;
    if arguments.prefill {
        Runner { arguments, plan: &plan }.prefill(&mut Line::new(progress))?;
    }
    let pace = plan
        .pace
        .unwrap_or(Pace { timing: Timing::Law(SEARCH_RATE, plan.asked.arrivals), spin: arguments.spin });
    let Timing::Law(start, arrivals) = pace.timing else {
        return Err(Error::Arguments(String::from("a trace has its rate, which no search can change")));
    };
    let mut search = Search::new(start, arguments.seed);
    while let Some(rate) = search.next() {
        plan.pace = Some(Pace { timing: Timing::Law(rate, arrivals), ..pace });
        writeln!(progress, "trying {rate:.0} requests/s")?;
        let measured = Runner { arguments, plan: &plan }.measure(&mut Line::new(progress))?;
        let summary = Summary::new(arguments, &plan, measured);
        let outcome = objective.judge(&summary);
        search.tried(outcome, objective.of(&summary.latency));
    }
    let knee = search.knee(objective);
    if let Some(path) = &arguments.json {
        write_json(&knee, path)?;
    }
    Ok(knee)
}

/// Where a search begins: so few that any server manages them.
const SEARCH_RATE: f64 = 1000.0;

struct Runner<'a> {
    arguments: &'a Arguments,
    plan: &'a Plan,
}

/// What a worker thread is to do.
struct Task<'a> {
    composer: Composer<'a>,
    /// Of an open loop.
    pace: Option<Pace>,
    index: usize,
    connections: usize,
    depth: usize,
    verify: bool,
    backfill: bool,
    requests_max: Option<u64>,
    /// How often a datagram without a reply is sent again.
    repeats: u32,
    /// If connections come and go.
    churn: Option<ChurnPlan>,
}

/// What a worker tells.
enum Report {
    /// Its connections are open.
    Ready,
    /// Its latencies since the window opened, at the end of a second of it.
    Second(u64, Histogram<u64>),
    /// It has ended; with the engine's name.
    End(Box<Result<(&'static str, Done), Error>>),
}

impl Runner<'_> {
    /// Stores every key.
    fn prefill(&self, follower: &mut dyn Follower) -> Result<(), Error> {
        let plan = self.plan;
        let item_size = plan.items.values.mean() + plan.items.keys.mean();
        let depth = match (plan.udp_timeout, &plan.tls) {
            (None, None) => ((PREFILL_IN_FLIGHT / item_size) as usize).clamp(1, 64),
            (Some(_), _) => ((PREFILL_DATAGRAMS / item_size) as usize).clamp(1, 8),
            // memcached 1.6.18 stops listening to a connection whose records hold more than its buffer of 16 KiB and
            // not each a single set.
            (None, Some(_)) => 1,
        };
        let items = plan.part.items(plan.fills());
        let count = items.end - items.start;
        let mut start = items.start;
        let tasks = (0..plan.threads).map(|index| {
            let end = start + plan.share(count, index);
            let composer = Composer::fill(plan, start..end);
            start = end;
            let connections =
                plan.share(plan.connections.min(PREFILL_CONNECTIONS * plan.threads) as u64, index);
            Task {
                composer,
                pace: None,
                index,
                connections: connections as usize,
                depth,
                verify: false,
                backfill: false,
                requests_max: None,
                repeats: PREFILL_REPEATS,
                churn: None,
            }
        });
        let shared = Shared::new(plan.threads, Phase::Measure);
        let tally = self.with_workers(&shared, tasks.collect(), None, |reports| {
            let mut all = All::new(plan.threads);
            all.wait_ready(reports)?;
            let at_ns = now_ns();
            shared.begin(Start { at_ns, window_ns: at_ns..u64::MAX });
            while !all.wait(reports, now_ns() + PROGRESS_EVERY.as_nanos() as u64)? {
                follower.stored(shared.total().0, count)?;
                // Nobody asks how long storing took.
                drop(all.seconds.take());
            }
            Ok(all.tally)
        })?;
        let refused = tally.errors + tally.not_stored() + tally.lost;
        if refused > 0 {
            let other = if tally.lost > 0 { "no reply" } else { "NOT_STORED" };
            let example = tally.error_lines.into_keys().next().unwrap_or_else(|| String::from(other));
            return Err(Error::Prefill { refused, keys: count, example });
        }
        follower.filled(count)
    }

    /// Warm-up and window.
    fn measure(&self, follower: &mut dyn Follower) -> Result<Measured, Error> {
        let plan = self.plan;
        let (reader, mut replays) = match &plan.trace {
            None => (None, Vec::new()),
            Some(trace) => {
                let (senders, rounds): (Vec<_>, Vec<_>) =
                    (0..plan.threads).map(|_| sync_channel(ROUNDS_AHEAD)).unzip();
                (Some(Reader::open(trace, senders)?), rounds.into_iter().map(Replay::new).collect())
            }
        };
        let tasks = (0..plan.threads).map(|index| Task {
            composer: match replays.pop() {
                Some(replay) => Composer::replay(plan, replay),
                None => Composer::mix(plan, self.arguments.seed, plan.thread(index).index),
            },
            pace: plan.pace,
            index,
            connections: plan.share(plan.connections as u64, index) as usize,
            depth: plan.depth,
            verify: plan.verify,
            backfill: plan.backfill,
            requests_max: plan.requests.map(|total| plan.share(total, index)),
            repeats: 0,
            churn: plan.churn,
        });
        let shared = Shared::new(plan.threads, Phase::WarmUp);
        self.with_workers(&shared, tasks.collect(), reader, |reports| {
            let mut all = All::new(plan.threads);
            all.wait_ready(reports)?;
            let at_ns = follower.ready()?;
            let open_ns = at_ns + plan.warm_up.as_nanos() as u64;
            let close_ns = plan.duration.map_or(u64::MAX, |duration| open_ns + duration.as_nanos() as u64);
            shared.begin(Start { at_ns, window_ns: open_ns..close_ns });
            all.wait(reports, open_ns)?;
            let mut open = self.edge(&shared)?;
            if plan.pace.is_none() {
                // A closed loop's workers count from 0 when they see the window open.
                open = Edge { requests: 0, keys: 0, ..open };
            }
            shared.open(open.at_ns);
            let (close, mut series) = self.watch(&shared, &mut all, reports, &open, follower)?;
            if plan.pace.is_some() {
                // Requests of the window that are still on their way count, too.
                all.wait(reports, close.at_ns + DRAIN_MAX.as_nanos() as u64)?;
            }
            shared.stop();
            while !all.wait(reports, u64::MAX)? {}
            follower.closed(all.seconds.take())?;
            for interval in all.seconds.whole() {
                if let Some(second) = series.get_mut(interval.second as usize) {
                    second.latency = interval.latency;
                }
            }
            let All { engine, tally, unanswered, unsent, .. } = all;
            Ok(Measured { engine, tally, unanswered, unsent, open, close, series })
        })
    }

    /// Follows the window second by second until it closes or the workers have nothing left to do.
    fn watch(
        &self,
        shared: &Shared,
        all: &mut All,
        reports: &Receiver<Report>,
        open: &Edge,
        follower: &mut dyn Follower,
    ) -> Result<(Edge, Vec<Second>), Error> {
        let close_ns =
            self.plan.duration.map_or(u64::MAX, |duration| open.at_ns + duration.as_nanos() as u64);
        let mut series = Vec::new();
        let mut last = open.clone();
        let close = loop {
            let next_ns = (last.at_ns + PROGRESS_EVERY.as_nanos() as u64).min(close_ns);
            let ended = all.wait(reports, next_ns)?;
            let now = self.edge(shared)?;
            let second = Second::between(&last, &now);
            follower.second(&second, all.seconds.take())?;
            series.push(second);
            if ended || now.at_ns >= close_ns {
                break now;
            }
            last = now;
        };
        Ok((close, series))
    }

    /// Runs `tasks` on threads while `conduct` follows their reports; whatever it returns, they stop.
    fn with_workers<T>(
        &self,
        shared: &Shared,
        tasks: Vec<Task<'_>>,
        reader: Option<Reader>,
        conduct: impl FnOnce(&Receiver<Report>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let (sender, reports) = channel();
            for task in tasks {
                let sender = sender.clone();
                thread::Builder::new().name(format!("load-{}", task.index)).spawn_scoped(
                    scope,
                    move || {
                        let end = self.work(shared, task, &sender);
                        // Nobody listens any more when another worker failed first.
                        let _ = sender.send(Report::End(Box::new(end)));
                    },
                )?;
            }
            if let Some(mut reader) = reader {
                let sender = sender.clone();
                thread::Builder::new().name(String::from("load-trace")).spawn_scoped(scope, move || {
                    if let Err(error) = reader.run() {
                        // The reader still holds the queues: no worker has taken this for the end of the trace.
                        let _ = sender.send(Report::End(Box::new(Err(error))));
                    }
                    drop(reader);
                })?;
            }
            drop(sender);
            let result = conduct(&reports);
            shared.stop();
            result
        })
    }

    fn work(
        &self,
        shared: &Shared,
        task: Task<'_>,
        reports: &Sender<Report>,
    ) -> Result<(&'static str, Done), Error> {
        if let Some(cpus) = &self.arguments.cpu {
            pin(cpus.of(task.index))?;
        }
        if task.pace.is_some() {
            // By default the kernel may wake a thread 50 µs late. Where it refuses, the verdict sees the lateness.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        shared.workers[task.index].thread.store(thread, Ordering::Relaxed);
        if let Some(timeout) = self.plan.udp_timeout {
            let sockets = self.plan.target.datagrams(task.connections)?;
            let patience = Patience { timeout, repeats: task.repeats };
            let engine = Udp::new(sockets, task.depth, patience)?;
            let task = Task { connections: task.connections * task.depth, depth: 1, ..task };
            return self.drive(engine, shared, task, reports);
        }
        let sockets = self.plan.target.connect(task.connections)?;
        if task.churn.is_some()
            && let Target::Tcp(address) = self.plan.target
        {
            return self.encrypt(Epoll::new(sockets)?.reopening(address), shared, task, reports);
        }
        let sockets = match self.plan.engine {
            EngineChoice::Epoll => sockets,
            choice => match Uring::new(sockets) {
                Ok(engine) => return self.encrypt(engine, shared, task, reports),
                Err((sockets, _)) if choice == EngineChoice::Auto => sockets,
                Err((_, error)) => return Err(failed_to_start(Uring::NAME, error)),
            },
        };
        self.encrypt(Epoll::new(sockets)?, shared, task, reports)
    }

    /// Wraps the engine where the plan says so: otherwise it is driven as it is.
    fn encrypt<E: Engine>(
        &self,
        engine: E,
        shared: &Shared,
        task: Task<'_>,
        reports: &Sender<Report>,
    ) -> Result<(&'static str, Done), Error> {
        let Some(tls) = &self.plan.tls else { return self.drive(engine, shared, task, reports) };
        let parties = (0..task.connections).map(|_| tls.party()).collect();
        self.drive(Encrypted::new(engine, parties)?, shared, task, reports)
    }

    fn drive<E: Engine>(
        &self,
        engine: E,
        shared: &Shared,
        task: Task<'_>,
        reports: &Sender<Report>,
    ) -> Result<(&'static str, Done), Error> {
        let Task {
            mut composer,
            pace,
            index,
            connections,
            depth,
            verify,
            backfill,
            mut requests_max,
            repeats: _,
            churn,
        } = task;
        let (plan, slot) = (self.plan, &shared.workers[index]);
        if let Some(replay) = composer.trace() {
            replay.prepare();
        }
        // Nobody listens any more when another worker failed first.
        let _ = reports.send(Report::Ready);
        let Some(Start { at_ns, window_ns }) = shared.start() else {
            return Ok((E::NAME, Done::nothing()));
        };
        let feed = match pace {
            None => Feed::closed(connections),
            Some(Pace { timing: Timing::Trace, spin }) => {
                Feed::trace(at_ns, window_ns.end, connections, spin)
            }
            Some(Pace { timing: Timing::Law(rate, arrivals), spin }) => {
                let rate = rate * plan.part.of as f64;
                let schedule = Schedule::new(arrivals, rate, plan.thread(index), self.arguments.seed);
                // The schedule ends it, so that the last requests are waited for.
                let most = requests_max.take().unwrap_or(u64::MAX);
                Feed::open(schedule.during(at_ns, window_ns.clone(), most), connections, spin)
            }
        };
        let churn = churn.map(|ChurnPlan { after, rate, storm }| {
            let mut churn = Churn::new(connections);
            churn.after = after.unwrap_or(u64::MAX);
            churn.schedule = rate.map(|rate| {
                let seed = stdx::prng::mix(self.arguments.seed ^ CHURN_SALT);
                Schedule::new(Arrivals::Poisson, rate, plan.thread(index), seed).during(
                    at_ns,
                    window_ns.clone(),
                    u64::MAX,
                )
            });
            churn.storm = storm.map(|Storm { connections, at }| {
                let storm_ns = window_ns.start + at.0.as_nanos() as u64;
                (storm_ns, plan.share(connections as u64, index) as usize)
            });
            churn
        });
        // A turn that waited for more connections than there are would always wait its full time; an open loop has
        // no time to wait.
        let gather = if pace.is_some() { 1 } else { plan.gather.min(connections.div_ceil(4)) };
        let worker = Worker {
            engine,
            composer,
            feed,
            items: &plan.items,
            connections,
            depth,
            verify,
            backfill,
            gather,
            requests_max,
            churn,
            shared,
            slot,
        };
        let (done, _) = worker.run(window_ns, &mut |second, total| {
            let _ = reports.send(Report::Second(second, total));
        })?;
        slot.ended_cpu_ns.store(cpu_time::of_this_thread(), Ordering::Relaxed);
        Ok((E::NAME, done))
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
        let host = cpu_time::of_host();
        Ok(Edge { at_ns: now_ns(), requests, keys, client_cpu_ns, server_cpu_ns, host })
    }
}

/// Bytes on their way per connection while prefilling, about.
const PREFILL_IN_FLIGHT: f64 = 65_536.0;
/// The same of datagrams: a socket of a server holds about 200 KiB, and a small datagram takes one of them.
const PREFILL_DATAGRAMS: f64 = 8192.0;
/// A datagram that gets lost so often in a row meets no server, or one that does not take it.
const PREFILL_REPEATS: u32 = 10;
/// Enough to keep a server busy; more would only cost it memory.
const PREFILL_CONNECTIONS: usize = 8;
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// So that connections do not come and go in step with requests.
const CHURN_SALT: u64 = 0x6368_7572_6e00_0000;
/// An open loop waits this long for the last replies of its window.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// What the workers have reported so far.
struct All {
    ready: usize,
    running: usize,
    engine: &'static str,
    tally: Tally,
    unanswered: u64,
    unsent: u64,
    seconds: Seconds,
}

impl All {
    fn new(workers: usize) -> All {
        All {
            ready: 0,
            running: workers,
            engine: "",
            tally: Tally::new(),
            unanswered: 0,
            unsent: 0,
            seconds: Seconds::new(workers),
        }
    }

    /// Waits until all workers have their connections.
    fn wait_ready(&mut self, reports: &Receiver<Report>) -> Result<(), Error> {
        while self.ready < self.running {
            self.take(reports.recv().map_err(|_| Error::Panic)?)?;
        }
        Ok(())
    }

    /// Waits for workers until the given time; `true` once none is left.
    fn wait(&mut self, reports: &Receiver<Report>, until_ns: u64) -> Result<bool, Error> {
        while self.running > 0 {
            let patience = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match reports.recv_timeout(patience) {
                Ok(report) => self.take(report)?,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Panic),
            }
        }
        Ok(true)
    }

    fn take(&mut self, report: Report) -> Result<(), Error> {
        match report {
            Report::Ready => self.ready += 1,
            Report::Second(second, total) => self.seconds.add(second, &total),
            Report::End(end) => {
                let (engine, done) = (*end)?;
                self.engine = engine;
                self.tally.add(&done.tally);
                self.unanswered += done.unanswered;
                self.unsent += done.unsent;
                self.running -= 1;
            }
        }
        Ok(())
    }
}
