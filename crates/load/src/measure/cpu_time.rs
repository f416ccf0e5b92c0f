//! CPU time of threads, and for how long they waited for a CPU, in nanoseconds: the first two numbers of
//! /proc/PID/task/TID/schedstat.
//!
//! The kernel brings a running thread's number up to date at each timer tick and each switch, so a reading can be
//! one tick (1 to 4 ms) behind. Over a window of a second both edges together err by less than 0.5 %.

use crate::types::error::Error;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::{Path, PathBuf};

/// The unit of /proc/PID/stat: USER_HZ is 100 wherever Linux runs today.
const TICK_NS: u64 = 10_000_000;

/// The CPU time of process `pid`. That of its threads is exact; where some have ended, as of a server that has one for
/// each connection, the process knows of more, in ticks.
pub(crate) fn of_process(pid: u32) -> Result<u64, Error> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let failed = |path: &Path, source| Error::CpuTime { path: path.to_path_buf(), source };
    let mut total = 0;
    for task in fs::read_dir(&tasks).map_err(|source| failed(&tasks, source))? {
        let file = task.map_err(|source| failed(&tasks, source))?.path().join("schedstat");
        match fs::read_to_string(&file) {
            Ok(text) => total += first_number(&text),
            // The thread ended between the two calls; the process knows what it used.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed(&file, source)),
        }
    }
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = fs::read_to_string(&stat).map_err(|source| failed(&stat, source))?;
    Ok(total.max(ticks(&text) * TICK_NS))
}

/// utime and stime: the fields 14 and 15. A name with spaces ends with the last `)`, and the state, which is field 3,
/// follows.
fn ticks(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_ascii_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// What the kernel knows of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    /// It ran for so long.
    pub(crate) run_ns: u64,
    /// It could have run for so long, and other threads did.
    pub(crate) wait_ns: u64,
}

impl ThreadTime {
    pub(crate) fn since(self, before: ThreadTime) -> ThreadTime {
        ThreadTime {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
        }
    }
}

/// Of this process's thread `tid`; zeros once it has ended.
pub(crate) fn of_thread(tid: i32) -> ThreadTime {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
    ThreadTime { run_ns: numbers.next().unwrap_or(0), wait_ns: numbers.next().unwrap_or(0) }
}

/// Of the calling thread: its CPU time is known to the nanosecond.
pub(crate) fn of_this_thread() -> ThreadTime {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let run_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    ThreadTime { run_ns, ..of_thread(rustix::thread::gettid().as_raw_nonzero().get()) }
}

/// The host's CPU time in clock ticks: all of it, and what other guests of the machine took (proc_stat(5)). Zeros where
/// it cannot be read: nobody is accused then.
pub(crate) fn of_host() -> HostTime {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).map(|ticks| ticks.parse().unwrap_or(0)).collect();
    HostTime { total: ticks.iter().sum(), steal: ticks.get(7).copied().unwrap_or(0) }
}

/// Clock ticks of the host's CPUs since boot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostTime {
    pub(crate) total: u64,
    pub(crate) steal: u64,
}

impl HostTime {
    /// The share that others took, of the time since an earlier reading.
    pub(crate) fn stolen_since(self, before: HostTime) -> f64 {
        let (stolen, all) =
            (self.steal.saturating_sub(before.steal), self.total.saturating_sub(before.total));
        if all > 0 { stolen as f64 / all as f64 } else { 0.0 }
    }
}

fn first_number(text: &str) -> u64 {
    text.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
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
        assert_eq!(ticks("7 (a ) name) S 1 7 7 0 -1 4194560 1 0 0 0 100 20 3000 400000 20"), 120);
        let pid = std::process::id();
        let before = of_process(pid).expect("own process");
        let work = || while of_this_thread().run_ns < 60_000_000 {};
        std::thread::spawn(work).join().expect("it ends");
        assert!(of_process(pid).expect("own process") >= before + 40_000_000);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        // Each does half of what it could: what one runs, the other waits.
        let waited = std::thread::scope(|scope| {
            let work = || {
                crate::run::affinity::pin(first_cpu()).expect("a CPU of ours");
                let before = of_this_thread();
                while of_this_thread().run_ns < before.run_ns + 60_000_000 {}
                of_this_thread().since(before)
            };
            let threads = [scope.spawn(work), scope.spawn(work)];
            threads.map(|thread| thread.join().expect("no panic")).map(|time| time.wait_ns)
        });
        assert!(waited.iter().any(|wait_ns| *wait_ns > 20_000_000), "{waited:?}");
    }

    /// The first that this process may use.
    fn first_cpu() -> usize {
        let allowed = rustix::thread::sched_getaffinity(None).expect("a set");
        (0..1024).find(|cpu| allowed.is_set(*cpu)).expect("a CPU")
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(matches!(of_process(u32::MAX), Err(Error::CpuTime { .. })));
    }
}
