//! Figures of a process from /proc (resident memory, CPU time), and the limit on open files.

use crate::clock;
use anyhow::{Context, Result, bail};
use rustix::param::clock_ticks_per_second;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a process's memory that are resident.
///
/// # Errors
/// If there is no such process.
pub fn resident(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let kilobytes: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("find VmRSS in {path}"))?;
    Ok(kilobytes * 1024)
}

/// The CPU time of all threads of a process so far, to within a tick of the kernel (10 ms).
///
/// # Errors
/// If there is no such process.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // Fields 14 and 15 of proc(5). Field 2, the name, may contain any character, and ends at the last parenthesis.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    let &[user, system] = ticks.as_slice() else { bail!("{path} reads {stat}") };
    Ok(Duration::from_millis((user + system) * 1000 / clock_ticks_per_second()))
}

/// Stops a process (SIGSTOP), and waits until all of its threads have: on another CPU one goes on for a moment.
///
/// # Errors
/// If there is no such process, or it does not stop.
pub fn stop(pid: u32) -> Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process id")?;
    kill_process(process, Signal::STOP).with_context(|| format!("stop process {pid}"))?;
    let tasks = format!("/proc/{pid}/task");
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
        let state =
            |stat: String| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'));
        stat.is_ok_and(state)
    };
    let all = || std::fs::read_dir(&tasks).is_ok_and(|mut tasks| tasks.all(is_stopped)).then_some(());
    clock::wait_for(all).with_context(|| format!("process {pid} does not stop"))
}

/// Lets this process, and those it starts, open `count` files.
///
/// # Errors
/// If the system does not allow it.
pub fn raise_open_files(count: u64) -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Another test may raise it, too: the highest count stays.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = now.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .with_context(|| format!("allow {count} open files"))
}
