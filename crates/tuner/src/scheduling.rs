//! How a thread is scheduled: read and set with sched_getattr(2) and sched_setattr(2), which no safe library has.
//!
//! As a text it is `policy=0 priority=0 nice=0 slice_ns=3000000 started=8123`. `started` (clock ticks since boot) says
//! which thread is meant: ids are used again. What a wanted text does not name stays as it is.

#![expect(unsafe_code, reason = "two system calls that have no safe wrapper")]

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

/// sched(7): shared fairly.
pub const OTHER: u64 = 0;
/// sched(7): runs until it waits, before everything that is shared fairly.
pub const FIFO: u64 = 1;

/// Some or all of a thread's scheduling, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling(BTreeMap<String, u64>);

impl Scheduling {
    /// Whether everything that `wanted` names is so here.
    pub fn fulfils(&self, wanted: &Scheduling) -> bool {
        wanted.0.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// What it says of `policy`, `priority`…
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={}", *value as i64)).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Scheduling {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Scheduling, Self::Err> {
        const NAMES: [&str; 5] = ["policy", "priority", "nice", "slice_ns", "started"];
        let word = |word: &str| {
            let (name, value) = word.split_once('=')?;
            let value = value.parse::<i64>().ok()?;
            NAMES.contains(&name).then(|| (name.to_owned(), value as u64))
        };
        let words: Option<BTreeMap<_, _>> = text.split_whitespace().map(word).collect();
        words.filter(|words| !words.is_empty()).map(Scheduling).ok_or("policy, priority, nice, slice_ns")
    }
}

/// The kernel's `struct sched_attr`, version 0.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For shared threads the length of a turn, since Linux 6.12.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const ATTRIBUTES_LEN: u32 = size_of::<Attributes>() as u32;

/// How a thread is scheduled, and when it was started.
pub(crate) fn read(tid: u32) -> io::Result<Scheduling> {
    let attributes = attributes(tid)?;
    let named = [
        ("policy", u64::from(attributes.policy)),
        ("priority", u64::from(attributes.priority)),
        ("nice", i64::from(attributes.nice) as u64),
        ("slice_ns", attributes.runtime_ns),
        ("started", started(tid)?),
    ];
    Ok(Scheduling(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// Schedules a thread as `wanted` says. Another thread that has its id now is no such thread (ESRCH).
pub(crate) fn write(tid: u32, wanted: &Scheduling) -> io::Result<()> {
    if wanted.get("started").is_some_and(|wanted| started(tid).ok() != Some(wanted)) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    let now = attributes(tid)?;
    let or = |name: &str, now: u64| wanted.get(name).unwrap_or(now);
    let attributes = Attributes {
        size: ATTRIBUTES_LEN,
        policy: or("policy", now.policy.into()) as u32,
        nice: or("nice", i64::from(now.nice) as u64) as i64 as i32,
        priority: or("priority", now.priority.into()) as u32,
        runtime_ns: or("slice_ns", now.runtime_ns),
        ..now
    };
    // SAFETY: the structure outlives the call, which reads as many bytes as `size` says.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) })
}

fn attributes(tid: u32) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the structure outlives the call, which writes at most as many bytes as it is told that there are.
    done(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, ATTRIBUTES_LEN, 0) })?;
    Ok(attributes)
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// When a thread was started, in clock ticks since boot: field 22 of /proc/TID/stat; the name before it may hold anything but ends at the last bracket.
pub(crate) fn started(tid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat"))?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat without a start time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_scheduling_is_set_read_back_and_restored() {
        let wanted: Scheduling = "policy=3 nice=4".parse().unwrap();
        let (before, between, after) = std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            let before = read(tid).unwrap();
            write(tid, &wanted).unwrap();
            let between = read(tid).unwrap();
            assert!(between.fulfils(&wanted), "{between}");
            write(tid, &before).unwrap();
            (before, between, read(tid).unwrap())
        })
        .join()
        .unwrap();
        assert_ne!(before, between);
        assert_eq!(before, after);
        assert_eq!(before.to_string().parse(), Ok(before));
    }

    #[test]
    fn another_thread_with_the_same_id_is_not_touched() {
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        let error = write(tid, &"policy=0 started=1".parse().unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn only_what_is_named_is_compared() {
        let scheduling = |text: &str| text.parse::<Scheduling>().unwrap();
        assert!(scheduling("policy=0 nice=-5 slice_ns=7").fulfils(&scheduling("nice=-5")));
        assert!(!scheduling("policy=0").fulfils(&scheduling("slice_ns=7")));
        assert!("polcy=0".parse::<Scheduling>().is_err());
    }
}
