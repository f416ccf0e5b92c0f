//! CPU time of threads, processes and the host.
//!
//! A thread's comes from /proc/PID/task/TID/schedstat, with the time that it waited for a CPU, in nanoseconds. The
//! kernel updates the number of a running thread at each timer tick and each switch, so a reading can be one tick (1 to
//! 4 ms) old. In a window of a second, the error of both ends together is less than 0.5 %.

use crate::process_stat::{self, ProcessStat, field};
use crate::processes;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The unit of /proc/PID/stat: USER_HZ is 100 wherever Linux runs today.
const TICK_NS: u64 = 10_000_000;

/// The same in seconds.
const TICK_S: f64 = 0.01;

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {path}")]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// A row of schedstat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadTimes {
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds waiting for one.
    pub wait_ns: u64,
    /// Time slices.
    pub slices: u64,
}

impl ThreadTimes {
    /// Reads a row.
    pub fn parse(text: &str) -> Option<ThreadTimes> {
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
        Some(ThreadTimes { run_ns: numbers.next()?, wait_ns: numbers.next()?, slices: numbers.next()? })
    }

    /// The times since an earlier reading.
    pub fn since(self, before: ThreadTimes) -> ThreadTimes {
        ThreadTimes {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            slices: self.slices.saturating_sub(before.slices),
        }
    }
}

/// CPU time of a process, to within a tick of the kernel (10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// CPU time of all threads since this process started; 0 without /proc.
    pub fn of_this_process() -> CpuTime {
        let own = fs::read_to_string("/proc/self/stat").ok();
        own.and_then(|text| CpuTime::of(&ProcessStat::parse(&text)?)).unwrap_or_default()
    }

    fn of(stat: &ProcessStat) -> Option<CpuTime> {
        let time = |number| {
            let ticks: u64 = stat.field(number)?;
            Some(Duration::from_millis(ticks * 1000 / clock_ticks_per_second()))
        };
        Some(CpuTime { user: time(field::USER_TIME)?, system: time(field::SYSTEM_TIME)? })
    }
}

/// Nanoseconds of CPU time of process `pid`. The times of its threads are exact. If some have ended, as in a server
/// with a thread for each connection, the total of the process is larger, and is in ticks.
pub fn of_process(pid: u32) -> Result<u64, Error> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let failed = |path: &Path, source| Error { path: path.to_path_buf(), source };
    let mut total = 0;
    for task in fs::read_dir(&tasks).map_err(|source| failed(&tasks, source))? {
        let file = task.map_err(|source| failed(&tasks, source))?.path().join("schedstat");
        match fs::read_to_string(&file) {
            Ok(text) => total += ThreadTimes::parse(&text).unwrap_or_default().run_ns,
            // The thread ended between the two calls; the total of the process has its time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(&file, source)),
        }
    }
    let text =
        process_stat::read(pid).map_err(|source| failed(Path::new(&format!("/proc/{pid}/stat")), source))?;
    let ticks = ProcessStat::parse(&text).and_then(|stat| stat.ticks()).unwrap_or(0);
    Ok(total.max(ticks * TICK_NS))
}

/// CPU-seconds of processes so far, with their threads and children that have ended, in ticks: /proc/PID/stat.
pub fn of_processes_s(pids: &[u32]) -> f64 {
    let ticks = |pid: &u32| {
        let text = process_stat::read(*pid).ok()?;
        let stat = ProcessStat::parse(&text)?;
        Some(stat.ticks()? + stat.children_ticks()?)
    };
    pids.iter().filter_map(ticks).sum::<u64>() as f64 * TICK_S
}

/// CPU-seconds of this process's children that have ended and were waited for.
pub fn of_ended_children_s() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let ticks = ProcessStat::parse(&text).and_then(|stat| stat.children_ticks());
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat has too few fields");
    Ok(ticks.ok_or_else(wrong)? as f64 * TICK_S)
}

/// Times of all threads of processes, by thread.
pub fn of_threads(pids: &[u32]) -> BTreeMap<u32, ThreadTimes> {
    let threads =
        pids.iter().flat_map(|pid| processes::threads(*pid).into_iter().map(move |tid| (*pid, tid)));
    let times = |(pid, tid)| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        Some((tid, ThreadTimes::parse(&text)?))
    };
    threads.filter_map(times).collect()
}

/// Times of this process's threads by their names; those of threads that share a name are added. Threads that have ended
/// are left out.
pub fn of_own_threads() -> BTreeMap<String, ThreadTimes> {
    let mut named: BTreeMap<String, ThreadTimes> = BTreeMap::new();
    for tid in processes::threads(std::process::id()) {
        let read = |file| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok();
        let times = read("schedstat").and_then(|text| ThreadTimes::parse(&text));
        if let (Some(name), Some(times)) = (read("comm"), times) {
            let sum = named.entry(name.trim_end().to_owned()).or_default();
            sum.run_ns += times.run_ns;
            sum.wait_ns += times.wait_ns;
            sum.slices += times.slices;
        }
    }
    named
}

/// Times of this process's thread `tid`; zeros after it has ended.
pub fn of_thread(tid: i32) -> ThreadTimes {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
    ThreadTimes::parse(&text).unwrap_or_default()
}

/// Times of the calling thread: its CPU time is exact to the nanosecond.
pub fn of_this_thread() -> ThreadTimes {
    let run_ns = this_thread_ns();
    ThreadTimes { run_ns, ..of_thread(rustix::thread::gettid().as_raw_nonzero().get()) }
}

/// Only the CPU time of the calling thread, for which no file is read.
pub fn this_thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The host's CPU time in clock ticks: the total, and what other guests of the machine took (proc_stat(5)). Zeros if it
/// cannot be read: no steal is reported then.
pub fn of_host() -> HostTime {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).map(|ticks| ticks.parse().unwrap_or(0)).collect();
    HostTime { total: ticks.iter().sum(), steal: ticks.get(7).copied().unwrap_or(0) }
}

/// Clock ticks of the host's CPUs since boot.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostTime {
    /// The total.
    pub total: u64,
    /// Those that other guests of the machine took.
    pub steal: u64,
}

impl HostTime {
    /// The share that other guests took, of the time since an earlier reading.
    pub fn stolen_since(self, before: HostTime) -> f64 {
        let (stolen, all) =
            (self.steal.saturating_sub(before.steal), self.total.saturating_sub(before.total));
        if all > 0 { stolen as f64 / all as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_time() {
        let (pid, tid) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get());
        let before = (of_process(pid).expect("own process"), of_thread(tid));
        // By its own clock: on a busy machine a thread may not run for long.
        let start_ns = of_this_thread().run_ns;
        while of_this_thread().run_ns < start_ns + 30_000_000 {
            std::hint::spin_loop();
        }
        assert!(of_process(pid).expect("own process") > before.0 && of_thread(tid).run_ns > before.1.run_ns);
    }

    #[test]
    fn a_thread_that_has_ended_has_used_time() {
        let pid = std::process::id();
        let before = of_process(pid).expect("own process");
        let work = || while of_this_thread().run_ns < 60_000_000 {};
        std::thread::spawn(work).join().expect("it ends");
        assert!(of_process(pid).expect("own process") >= before + 40_000_000);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        // Each gets half of the CPU: while one runs, the other waits.
        let waited = std::thread::scope(|scope| {
            let work = || {
                pin(first_cpu());
                let before = of_this_thread();
                while of_this_thread().run_ns < before.run_ns + 60_000_000 {}
                of_this_thread().since(before)
            };
            let threads = [scope.spawn(work), scope.spawn(work)];
            threads.map(|thread| thread.join().expect("no panic")).map(|time| time.wait_ns)
        });
        assert!(waited.iter().any(|wait_ns| *wait_ns > 20_000_000), "{waited:?}");
    }

    /// Binds the calling thread.
    fn pin(cpu: usize) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).expect("a CPU that this process may use");
    }

    /// The first CPU that this process may use.
    fn first_cpu() -> usize {
        let allowed = rustix::thread::sched_getaffinity(None).expect("a set");
        (0..1024).find(|cpu| allowed.is_set(*cpu)).expect("a CPU")
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        let error = of_process(u32::MAX).expect_err("there is none");
        assert_eq!(error.to_string(), "read /proc/4294967295/task");
    }

    #[test]
    fn a_row_has_three_numbers() {
        let row = |run_ns, wait_ns, slices| Some(ThreadTimes { run_ns, wait_ns, slices });
        assert_eq!(
            (ThreadTimes::parse("5 6 7\n"), ThreadTimes::parse("0 0 0")),
            (row(5, 6, 7), row(0, 0, 0))
        );
        assert_eq!((ThreadTimes::parse("5 6"), ThreadTimes::parse("5 x 7")), (None, None));
    }

    #[test]
    fn the_time_of_ended_threads_and_children_is_counted() {
        let own = [std::process::id()];
        let before = (of_processes_s(&own), of_ended_children_s().expect("own process"));
        let text = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").arg("-c").arg(text).status().expect("sh");
        let after = (of_processes_s(&own), of_ended_children_s().expect("own process"));
        assert!(status.success() && after.0 > before.0 + 0.02, "{before:?} {after:?}");
        assert!(after.1 > before.1 + 0.02, "{before:?} {after:?}");
    }

    #[test]
    fn the_times_of_a_process_are_those_of_user_space_and_the_kernel() {
        let ms = |count: u64| Duration::from_millis(count * 1000 / clock_ticks_per_second());
        let stat = ProcessStat::parse("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 25 0 0").expect("fields");
        assert_eq!(CpuTime::of(&stat), Some(CpuTime { user: ms(150), system: ms(25) }));
    }

    #[test]
    fn own_threads_are_found_by_name_and_added() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let stopped = std::sync::Mutex::new(stopped);
        let (ready, is_ready) = std::sync::mpsc::channel::<u64>();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (ready, stopped) = (ready.clone(), &stopped);
                let work = move || {
                    while of_this_thread().run_ns < 20_000_000 {}
                    // What others see is as old as the last switch: the channel's wait is one.
                    ready.send(of_this_thread().run_ns).expect("a reader");
                    let _ = stopped.lock().map(|stopped| stopped.recv());
                };
                std::thread::Builder::new()
                    .name("of-one-name".into())
                    .spawn_scoped(scope, work)
                    .expect("a thread");
            }
            let used: u64 = is_ready.iter().take(2).sum();
            // A running thread's number is up to a tick old.
            let found = of_own_threads().get("of-one-name").copied().unwrap_or_default();
            assert!(found.run_ns + 20_000_000 > used && found.run_ns > 20_000_000, "{found:?}, used {used}");
            drop(stop);
        });
    }

    #[test]
    fn all_threads_of_processes_are_found() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        assert!(of_threads(&[std::process::id()]).len() >= 2);
        drop(stop);
        thread.join().expect("no panic").expect_err("nothing was sent");
    }
}
