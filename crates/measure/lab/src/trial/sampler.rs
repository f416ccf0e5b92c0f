//! Sampler of the host and the subject, one sample per second while a load runs.
//!
//! A thread of its own, which reads the kernel's counters once a second and reports at the end what that has cost. Of a
//! short load the counters are read at both ends instead, and those of its threads, which end with it, in between.

pub(crate) mod charged;

use self::charged::Charged;
use crate::error::Error;
use crate::record::{CpuShares, Sample};
use crate::trial::halt::Halt;
use os::clock::Stopwatch;
use os::cpu_time::{self, ThreadTimes};
use os::processes;
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;
use tuner::observe::facts::Service;
use tuner::{Facts, Reading, Root};

/// Processes to sample.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The subject, with all that it has started.
    pub(crate) subject: Charged,
    /// The load, with all that it has started.
    pub(crate) load: u32,
    /// The commands beside it, likewise.
    pub(crate) beside: Vec<u32>,
}

/// The samples.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// Second by second; without the load's figures.
    pub(crate) samples: Vec<Sample>,
    /// By second: the share of it that the busiest thread of the load ran.
    pub(crate) load_busy: Vec<f64>,
    /// By second: the share of it that some thread of the load waited for a CPU, at most.
    pub(crate) load_waited: Vec<f64>,
    /// By second: CPU-seconds of all threads of the load, and of the commands beside it.
    pub(crate) load_run_s: Vec<f64>,
    /// The host facts.
    pub(crate) facts: Facts,
    /// The counters at the beginning of each second, and at the end of the last.
    pub(crate) readings: Vec<Reading>,
    /// CPU-seconds of the subject so far at the same moments, with threads and processes that have ended: those of a
    /// server with one for each connection are not among the threads of the next second.
    pub(crate) spent_s: Vec<f64>,
    /// CPU-seconds that sampling has cost.
    pub(crate) cost_s: f64,
}

/// A running sampler.
pub(crate) enum Sampler {
    /// Second by second.
    Thread {
        /// Stops it.
        halt: Halt,
        /// Its result.
        thread: JoinHandle<Result<Samples, Error>>,
    },
    /// At both ends.
    Ends(Box<Ends>),
}

/// A load that is too short for seconds.
pub(crate) struct Ends {
    facts: Facts,
    watched: Watched,
    clock: Stopwatch,
    open: Moment,
    /// Of the load's threads, and when, at the last look.
    load: (f64, BTreeMap<u32, ThreadTimes>),
    /// CPU-seconds of the looks.
    cost_s: f64,
}

/// A second that was cut off is kept if at least this share of it is there.
const SECOND_MIN_S: f64 = 0.5;

impl Sampler {
    /// Samples from now on. `facts` are the host facts; `clock` has been started with the load, which `is_short`, or
    /// lasts for some seconds.
    pub(crate) fn start(
        mut facts: Facts,
        watched: Watched,
        clock: Stopwatch,
        is_short: bool,
    ) -> Result<Sampler, Error> {
        if is_short {
            let before_s = cost_s();
            let open = Moment::now(&Root::new("/"), &mut facts, &watched, clock)?;
            let load = (open.at_s, open.load.clone());
            return Ok(Sampler::Ends(Box::new(Ends {
                facts,
                watched,
                clock,
                open,
                load,
                cost_s: cost_s() - before_s,
            })));
        }
        let halt = Halt::default();
        let until = halt.clone();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(move || look(facts, watched, clock, &until));
        let failed = |error| Error::place("the samples", format!("start a thread: {error}"));
        Ok(Sampler::Thread { halt, thread: thread.map_err(failed)? })
    }

    /// Looks at the load's threads while there are any.
    pub(crate) fn glance(&mut self) {
        let Sampler::Ends(ends) = self else { return };
        let before_s = cost_s();
        let times = cpu_time::of_threads(&processes::with_descendants(ends.watched.load));
        if !times.is_empty() {
            ends.load = (ends.clock.passed().as_secs_f64(), times);
        }
        ends.cost_s += cost_s() - before_s;
    }

    /// Stops, and returns the samples.
    pub(crate) fn stop(self) -> Result<Samples, Error> {
        match self {
            Sampler::Thread { halt, thread } => {
                halt.set();
                thread.join().expect("looking does not panic")
            }
            Sampler::Ends(ends) => ends.close(),
        }
    }
}

impl Ends {
    fn close(mut self) -> Result<Samples, Error> {
        let before_s = cost_s();
        let close = Moment::now(&Root::new("/"), &mut self.facts, &self.watched, self.clock)?;
        let (seen_s, load) = self.load;
        // The load has ended, and its threads with it: what they did until the last look is what is known of them.
        let seen = Moment { at_s: seen_s, load, ..close.clone() };
        let share = |time| if seen_s > self.open.at_s { most(&self.open, &seen, time) } else { 0.0 };
        Ok(Samples {
            samples: vec![sample(&self.facts, &self.open, &close)],
            load_busy: vec![share(|times| times.run_ns)],
            load_waited: vec![share(|times| times.wait_ns)],
            load_run_s: vec![load_ns(&self.open, &seen) as f64 / 1e9],
            spent_s: vec![self.open.spent_s, close.spent_s],
            cost_s: self.cost_s + cost_s() - before_s,
            readings: vec![self.open.reading, close.reading],
            facts: self.facts,
        })
    }
}

fn look(mut facts: Facts, watched: Watched, clock: Stopwatch, until: &Halt) -> Result<Samples, Error> {
    let root = Root::new("/");
    let mut moments = vec![Moment::now(&root, &mut facts, &watched, clock)?];
    loop {
        let is_over = until.pause(until_next(clock.passed())).is_err();
        let last = moments.last().map_or(0.0, |moment| moment.at_s);
        if is_over && clock.passed().as_secs_f64() - last < SECOND_MIN_S {
            break;
        }
        moments.push(Moment::now(&root, &mut facts, &watched, clock)?);
        if is_over {
            break;
        }
    }
    let pairs = || moments.windows(2).map(|pair| (&pair[0], &pair[1]));
    let samples = pairs().map(|(from, to)| sample(&facts, from, to)).collect();
    let most = |time: fn(&ThreadTimes) -> u64| pairs().map(|(from, to)| most(from, to, time)).collect();
    Ok(Samples {
        samples,
        load_busy: most(|times| times.run_ns),
        load_waited: most(|times| times.wait_ns),
        load_run_s: pairs().map(|(from, to)| load_ns(from, to) as f64 / 1e9).collect(),
        spent_s: moments.iter().map(|moment| moment.spent_s).collect(),
        readings: moments.into_iter().map(|moment| moment.reading).collect(),
        facts,
        cost_s: cost_s(),
    })
}

/// Until the next full second that is worth a sample: one after a late sample is left out.
fn until_next(passed: Duration) -> Duration {
    let next = Duration::from_secs((passed.as_secs_f64() + SECOND_MIN_S) as u64 + 1);
    next - passed
}

/// CPU-seconds of this thread, which only samples.
pub(crate) fn cost_s() -> f64 {
    cpu_time::this_thread_ns() as f64 / 1e9
}

/// All counters, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    at_s: f64,
    reading: Reading,
    load: BTreeMap<u32, ThreadTimes>,
    beside: BTreeMap<u32, ThreadTimes>,
    spent_s: f64,
    rss_bytes: u64,
}

impl Moment {
    fn now(root: &Root, facts: &mut Facts, watched: &Watched, clock: Stopwatch) -> Result<Moment, Error> {
        let subject = watched.subject.processes();
        // Other servers on this host are not the subject.
        facts.services.retain(|service| subject.contains(&service.pid));
        for pid in &subject {
            if facts.services.iter().all(|service| service.pid != *pid) {
                facts.services.push(Service { pid: *pid, ..Service::default() });
            }
        }
        let at_s = clock.passed().as_secs_f64();
        let reading = tuner::read(root, facts, (at_s * 1000.0) as u64)?;
        let load = cpu_time::of_threads(&processes::with_descendants(watched.load));
        let beside: Vec<u32> =
            watched.beside.iter().flat_map(|pid| processes::with_descendants(*pid)).collect();
        let beside = cpu_time::of_threads(&beside);
        // Where nothing has ended, the sum of the threads is more exact.
        let threads_ns: u64 = reading.threads.values().map(|times| times.run_ns).sum();
        let spent_s = cpu_time::of_processes_s(&subject).max(threads_ns as f64 / 1e9);
        Ok(Moment { at_s, reading, load, beside, spent_s, rss_bytes: processes::resident_bytes(&subject) })
    }

    /// Only what CPUs do: of a virtual machine, where each instruction of ours may take the time of fifty.
    pub(crate) fn of_cpus(root: &Root, facts: &Facts, clock: Stopwatch) -> Result<Moment, Error> {
        let at_s = clock.passed().as_secs_f64();
        let reading = tuner::observe::read::cpus(root, facts, (at_s * 1000.0) as u64)?;
        let (load, beside) = Default::default();
        Ok(Moment { at_s, reading, load, beside, spent_s: 0.0, rss_bytes: 0 })
    }
}

/// The increments between two moments.
pub(crate) fn sample(facts: &Facts, from: &Moment, to: &Moment) -> Sample {
    let (old, new) = (&from.reading, &to.reading);
    let shares = |(cpu, times): (&u32, &tuner::observe::reading::CpuTimes)| {
        let times = old.cpus.get(cpu).and_then(|old| times.since(*old)).unwrap_or_default();
        let share = |ticks: u64| ticks as f64 / times.total().max(1) as f64;
        CpuShares {
            user: share(times.user),
            system: share(times.system),
            irq: share(times.irq),
            softirq: share(times.softirq),
            idle: share(times.idle + times.iowait),
            steal: share(times.steal),
        }
    };
    let is_of_nic = |irq: &u32| {
        let device = facts.interrupts.iter().find(|interrupt| interrupt.irq == *irq)?.device.as_ref()?;
        facts.nics.iter().find(|nic| nic.name == *device)
    };
    let by_cpu = |counts: &BTreeMap<u32, u64>, cpu: &u32| counts.get(cpu).copied().unwrap_or(0);
    let net_rx =
        |reading: &Reading, cpu: &u32| reading.softirqs.get("NET_RX").map_or(0, |row| by_cpu(row, cpu));
    let interrupts = |reading: &Reading, cpu: &u32| -> u64 {
        let rows = reading.interrupts.iter().filter(|(irq, _)| is_of_nic(irq).is_some());
        rows.map(|(_, row)| by_cpu(row, cpu)).sum()
    };
    let each = |count: &dyn Fn(&Reading, &u32) -> u64| {
        new.cpus.keys().map(|cpu| count(new, cpu).saturating_sub(count(old, cpu))).collect()
    };
    let softnet = |count: fn(&tuner::observe::reading::Softnet) -> u64| {
        let sum = |reading: &Reading| reading.softnet.values().map(count).sum::<u64>();
        sum(new).saturating_sub(sum(old))
    };
    let overflows = |reading: &Reading| reading.protocols.get("TcpExt.ListenOverflows").copied().unwrap_or(0);
    let (run_ns, wait_ns) = times_between(&old.threads, &new.threads);
    let stalled = |(kind, us): (&String, &u64)| {
        let before = old.stalled_us.get(kind).copied().unwrap_or(*us);
        (kind.clone(), us.saturating_sub(before) as f64 / 1e6)
    };
    Sample {
        at_s: to.at_s,
        load: BTreeMap::new(),
        cpus: new.cpus.iter().map(shares).collect(),
        cpu_ids: ids_with_gaps(new.cpus.keys().copied()),
        net_rx: each(&net_rx),
        interrupts: each(&interrupts),
        run_s: run_ns as f64 / 1e9,
        wait_s: wait_ns as f64 / 1e9,
        rss_bytes: to.rss_bytes,
        softnet_dropped: softnet(|row| row.dropped),
        softnet_squeezed: softnet(|row| row.time_squeeze),
        listen_overflows: overflows(new).saturating_sub(overflows(old)),
        stalled_s: new.stalled_us.iter().map(stalled).collect(),
    }
}

/// None if each is its own place.
fn ids_with_gaps(cpus: impl Iterator<Item = u32>) -> Vec<u32> {
    let ids: Vec<u32> = cpus.collect();
    if ids.iter().copied().eq(0..ids.len() as u32) { Vec::new() } else { ids }
}

/// The increments of all threads; a new one has done all of it in between.
fn times_between(old: &BTreeMap<u32, ThreadTimes>, new: &BTreeMap<u32, ThreadTimes>) -> (u64, u64) {
    let added = new.iter().map(|(tid, new)| {
        let old = old.get(tid).copied().unwrap_or_default();
        (new.run_ns.saturating_sub(old.run_ns), new.wait_ns.saturating_sub(old.wait_ns))
    });
    added.fold((0, 0), |(run, wait), (more_run, more_wait)| (run + more_run, wait + more_wait))
}

/// What the load and the commands beside it ran: none of it is another program's.
fn load_ns(from: &Moment, to: &Moment) -> u64 {
    times_between(&from.load, &to.load).0 + times_between(&from.beside, &to.beside).0
}

/// The share of the time that a thread of the load ran, or waited for a CPU: of the one that did so most.
fn most(from: &Moment, to: &Moment, time_ns: fn(&ThreadTimes) -> u64) -> f64 {
    let added = |(tid, times): (&u32, &ThreadTimes)| {
        time_ns(times).saturating_sub(from.load.get(tid).map_or(0, time_ns))
    };
    let most_ns = to.load.iter().map(added).max().unwrap_or(0);
    most_ns as f64 / 1e9 / (to.at_s - from.at_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tuner::observe::reading::CpuTimes;

    fn moment(at_s: f64, ticks: u64, run_ns: u64) -> Moment {
        let times = CpuTimes { user: ticks, idle: 3 * ticks, ..CpuTimes::default() };
        let threads = BTreeMap::from([(7, ThreadTimes { run_ns, wait_ns: run_ns / 2, slices: 1 })]);
        let reading = Reading {
            cpus: BTreeMap::from([(0, times), (2, times)]),
            softirqs: BTreeMap::from([("NET_RX".to_owned(), BTreeMap::from([(2, ticks)]))]),
            stalled_us: BTreeMap::from([("cpu".to_owned(), 1000 * ticks)]),
            threads: threads.clone(),
            ..Reading::default()
        };
        let beside = threads.clone();
        Moment { at_s, reading, load: threads, beside, spent_s: 0.0, rss_bytes: 5 }
    }

    #[test]
    fn a_second_is_what_was_added_in_it() {
        let (from, mut to) = (moment(1.0, 100, 4_000_000), moment(2.0, 200, 504_000_000));
        // A thread that was not there before has run for all of its time since.
        to.reading.threads.insert(8, ThreadTimes { run_ns: 1_000_000_000, wait_ns: 0, slices: 1 });
        let sample = sample(&Facts::default(), &from, &to);
        assert_eq!((sample.cpus.len(), sample.cpus[1].user, sample.cpus[1].idle), (2, 0.25, 0.75));
        assert_eq!((sample.cpu_ids, ids_with_gaps(0..2)), (vec![0, 2], vec![]));
        assert_eq!((sample.net_rx.as_slice(), sample.rss_bytes), ([0, 100].as_slice(), 5));
        assert_eq!(load_ns(&from, &to), 1_000_000_000, "that of the load and that beside it");
        assert_eq!((sample.run_s, sample.wait_s, sample.stalled_s["cpu"]), (1.5, 0.25, 0.1));
        assert_eq!(
            (most(&from, &to, |times| times.run_ns), most(&from, &to, |times| times.wait_ns)),
            (0.5, 0.25)
        );
    }

    #[test]
    fn a_late_look_is_not_made_up_for() {
        let next = |ms: u64| until_next(Duration::from_millis(ms)).as_millis() as u64 + ms;
        assert_eq!([0, 3, 1001, 2400, 3501, 7950].map(next), [1000, 1000, 2000, 3000, 5000, 9000]);
    }

    #[test]
    fn a_cpu_without_elapsed_ticks_is_not_busy() {
        let (from, to) = (moment(1.0, 100, 0), moment(1.001, 100, 0));
        let sample = sample(&Facts::default(), &from, &to);
        assert_eq!((sample.cpus.len(), sample.cpus[0].busy()), (2, None));
    }

    #[test]
    fn a_short_load_is_seen_at_both_ends() {
        let (clock, own) = (Stopwatch::start(), std::process::id());
        let mut sampler = Sampler::start(
            Facts::default(),
            Watched { subject: Charged::from(own), load: own, beside: Vec::new() },
            clock,
            true,
        )
        .expect("moments");
        let begin = cpu_time::this_thread_ns();
        while cpu_time::this_thread_ns() < begin + 60_000_000 {
            std::hint::spin_loop();
        }
        sampler.glance();
        let seen = sampler.stop().expect("samples");
        assert_eq!((seen.samples.len(), seen.readings.len(), seen.spent_s.len()), (1, 2, 2));
        assert!(
            seen.samples[0].run_s > 0.0 && seen.load_busy[0] > 0.0 && seen.load_run_s[0] > 0.0,
            "{seen:?}"
        );
        assert!(seen.cost_s > 0.0 && seen.cost_s < 0.06, "{}", seen.cost_s);
    }

    #[test]
    fn this_process_is_seen_at_work() {
        let clock = Stopwatch::start();
        let own = std::process::id();
        let sampler = Sampler::start(
            Facts::default(),
            Watched { subject: Charged::from(own), load: own, beside: Vec::new() },
            clock,
            false,
        )
        .expect("a thread");
        // By its own clock: on a busy machine a thread may not run for long.
        let ran = || cpu_time::this_thread_ns() / 1_000_000;
        let begin = ran();
        while ran() < begin + 50 || clock.passed() < Duration::from_millis(1100) {
            std::hint::spin_loop();
        }
        let seen = sampler.stop().expect("samples");
        assert!(!seen.samples.is_empty() && seen.readings.len() == seen.samples.len() + 1);
        assert!(seen.samples.iter().map(|sample| sample.run_s).sum::<f64>() > 0.0, "{seen:?}");
        let spent_s = seen.spent_s[seen.samples.len()] - seen.spent_s[0];
        assert!(spent_s > 0.0 && seen.spent_s.len() == seen.readings.len(), "{:?}", seen.spent_s);
        assert!(seen.samples[0].rss_bytes > 0 && seen.load_busy[0] > 0.0 && seen.cost_s > 0.0);
    }
}
