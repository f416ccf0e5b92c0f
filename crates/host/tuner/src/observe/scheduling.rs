//! Thread scheduling, as text and by name.
//!
//! As a text it is `policy=0 priority=0 nice=0 slice_ns=3000000 started=8123 seen=9120`. `started` (clock ticks since
//! boot) identifies the thread: ids are used again. `seen`, on the same clock, is the time of reading: threads that
//! were started later may have inherited settings made since. Parameters that a wanted text does not name stay as
//! they are.
//!
//! The nice value is read and set with getpriority(2) and setpriority(2), which support it under every policy:
//! sched_getattr does not return that of a real-time thread, and sched_setattr does not set that of an idle one.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::str::FromStr;

use os::process_stat::{self, ProcessStat};
pub use os::scheduling::{FIFO, OTHER, RR};
use os::scheduling::{attributes, set_attributes};
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// Some or all of a thread's scheduling, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling(BTreeMap<String, u64>);

impl Scheduling {
    /// Whether this has every value that `wanted` names.
    pub fn fulfils(&self, wanted: &Scheduling) -> bool {
        wanted.0.iter().all(|(name, value)| name == SEEN || self.0.get(name) == Some(value))
    }

    /// The scheduling to restore for a thread that has inherited `wanted` from one that was like this; `None` if this
    /// thread has not inherited it: it existed before, or has other values.
    pub(crate) fn inherited(&self, before: &Scheduling, wanted: &Scheduling) -> Option<Scheduling> {
        let mut wanted = wanted.clone();
        wanted.0.remove(STARTED);
        let is_later = self.get(STARTED)? >= before.get(SEEN)?;
        let old = |name: &&str| before.get(name).map(|value| ((*name).to_owned(), value));
        let restored = ["policy", "priority", "slice_ns"].iter().filter_map(old);
        (is_later && self.fulfils(&wanted)).then(|| Scheduling(restored.collect()))
    }

    /// The value of `policy`, `priority`…
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

const STARTED: &str = "started";
const SEEN: &str = "seen";

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={}", *value as i64)).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Scheduling {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Scheduling, Self::Err> {
        const NAMES: [&str; 6] = ["policy", "priority", "nice", "slice_ns", STARTED, SEEN];
        let word = |word: &str| {
            let (name, value) = word.split_once('=')?;
            let value = value.parse::<i64>().ok()?;
            NAMES.contains(&name).then(|| (name.to_owned(), value as u64))
        };
        let words: Option<BTreeMap<_, _>> = text.split_whitespace().map(word).collect();
        words.filter(|words| !words.is_empty()).map(Scheduling).ok_or("policy, priority, nice, slice_ns")
    }
}

/// A thread's scheduling and start time.
pub(crate) fn read(tid: u32) -> io::Result<Scheduling> {
    let attributes = attributes(tid)?;
    let named = [
        ("policy", u64::from(attributes.policy)),
        ("priority", u64::from(attributes.priority)),
        ("nice", i64::from(nice(tid)?) as u64),
        ("slice_ns", attributes.runtime_ns),
        (STARTED, started(tid)?),
        (SEEN, ticks_since_boot()?),
    ];
    Ok(Scheduling(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// Schedules a thread as `wanted` describes. Another thread that has its id now is refused (ESRCH).
pub(crate) fn write(tid: u32, wanted: &Scheduling) -> io::Result<()> {
    if wanted.get(STARTED).is_some_and(|wanted| started(tid).ok() != Some(wanted)) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    let now = attributes(tid)?;
    let or = |name: &str, now: u64| wanted.get(name).unwrap_or(now);
    let nice_now = nice(tid)?;
    let nice_wanted = or("nice", i64::from(nice_now) as u64) as i64 as i32;
    let mut attributes = now;
    attributes.policy = or("policy", now.policy.into()) as u32;
    attributes.nice = nice_wanted;
    attributes.priority = or("priority", now.priority.into()) as u32;
    attributes.runtime_ns = or("slice_ns", now.runtime_ns);
    set_attributes(tid, &attributes)?;
    if nice(tid)? != nice_wanted {
        setpriority_process(pid(tid)?, nice_wanted)?;
    }
    Ok(())
}

fn nice(tid: u32) -> io::Result<i32> {
    Ok(getpriority_process(pid(tid)?)?)
}

/// Linux takes a thread's id where POSIX has a process's.
fn pid(tid: u32) -> io::Result<Option<Pid>> {
    let pid = i32::try_from(tid).ok().and_then(Pid::from_raw);
    pid.map(Some).ok_or_else(|| rustix::io::Errno::SRCH.into())
}

/// The present time on the clock of `started`.
fn ticks_since_boot() -> io::Result<u64> {
    let uptime = std::fs::read_to_string("/proc/uptime")?;
    let seconds = uptime.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let seconds = seconds.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no uptime"))?;
    Ok((seconds * rustix::param::clock_ticks_per_second() as f64).round() as u64)
}

/// The other threads of a thread's process.
pub(crate) fn others(tid: u32) -> io::Result<Vec<u32>> {
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    // Any thread's directory lists all threads of its process.
    let all = std::fs::read_dir(format!("/proc/{tid}/task"))?.filter_map(number);
    Ok(all.filter(|other| *other != tid).collect())
}

/// When a thread was started, in clock ticks since boot.
pub(crate) fn started(tid: u32) -> io::Result<u64> {
    let stat = process_stat::read(tid)?;
    let started = ProcessStat::parse(&stat).and_then(|stat| stat.field(process_stat::field::STARTED));
    started.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat without a start time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that is first as `first` says is made as `wanted` says, and gets back what it had.
    #[track_caller]
    fn check(first: &str, wanted: &str) {
        let [first, wanted]: [Scheduling; 2] = [first, wanted].map(|text| text.parse().unwrap());
        let [before, between, after] = std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_pid() as u32;
            write(tid, &first).unwrap();
            let before = read(tid).unwrap();
            assert!(before.fulfils(&first), "{before}");
            write(tid, &wanted).unwrap();
            let between = read(tid).unwrap();
            assert!(between.fulfils(&wanted), "{between}");
            write(tid, &before).unwrap();
            [before, between, read(tid).unwrap()]
        })
        .join()
        .unwrap();
        assert!(!between.fulfils(&before), "{between}");
        assert!(after.fulfils(&before), "{after} is not {before}");
        assert_eq!(before.to_string().parse(), Ok(before));
    }

    #[test]
    fn a_threads_scheduling_is_set_read_back_and_restored() {
        // Without privileges, one may only become nicer, and not come back: then there is nothing to see.
        if !rustix::process::geteuid().is_root() {
            return eprintln!("it takes root to become less nice");
        }
        check("policy=0 nice=0", "policy=3 nice=4");
        check("policy=3 nice=7", "policy=0 nice=0");
        check("policy=5 nice=3", "policy=3 nice=4");
        check("policy=5 nice=0", "policy=0 nice=-2");
    }

    #[test]
    fn who_was_started_later_and_is_as_was_set_has_inherited_it() {
        let scheduling = |text: &str| text.parse::<Scheduling>().unwrap();
        let before = scheduling("policy=0 priority=0 nice=3 slice_ns=7 started=50 seen=90");
        let wanted = scheduling("policy=1 priority=1 started=50");
        let check = |found: &str, restored: Option<&str>| {
            let found = scheduling(found).inherited(&before, &wanted);
            assert_eq!(found.map(|text| text.to_string()).as_deref(), restored);
        };
        check("policy=1 priority=1 nice=3 started=90", Some("policy=0 priority=0 slice_ns=7"));
        check("policy=1 priority=1 nice=3 started=89", None);
        check("policy=1 priority=2 nice=3 started=95", None);
        check("policy=0 priority=0 nice=3 started=95", None);
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
        assert!(scheduling("policy=0").fulfils(&scheduling("policy=0 seen=8")));
        assert!("polcy=0".parse::<Scheduling>().is_err());
    }
}
