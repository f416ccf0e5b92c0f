//! Processes and threads of the kernel whose CPU time is charged to a subject.
//!
//! Packets that arrive are handled in the time of whatever runs on their CPU, unless the interface has threads for that
//! (threaded NAPI, Documentation/networking/napi.rst): then these have the time, and can be charged.

use crate::error::Error;
use os::process_stat::{self, ProcessStat, field};
use os::processes;

/// What CPU time is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    /// The subject's process, with all that it has started.
    pub(crate) pid: u32,
    /// Threads of the kernel.
    pub(crate) kernel_threads: Vec<u32>,
}

impl Charged {
    /// All of them, as they are now.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut all = processes::with_descendants(self.pid);
        all.extend(&self.kernel_threads);
        all
    }
}

impl From<u32> for Charged {
    fn from(pid: u32) -> Charged {
        Charged { pid, kernel_threads: Vec::new() }
    }
}

/// `PF_KTHREAD` of the kernel's linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Threads of the kernel whose names match any of the patterns. One that matches none would silently leave out time.
pub(crate) fn kernel_threads(patterns: &[String]) -> Result<Vec<u32>, Error> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let named = |pid: u32| {
        let stat = process_stat::read(pid).ok()?;
        let flags: u64 = ProcessStat::parse(&stat)?.field(field::FLAGS)?;
        // In stat, a name may be cut off.
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (flags & KERNEL_THREAD != 0).then(|| (pid, name.trim_end().to_owned()))
    };
    chosen(patterns, &processes::all().into_iter().filter_map(named).collect::<Vec<_>>())
}

fn chosen(patterns: &[String], threads: &[(u32, String)]) -> Result<Vec<u32>, Error> {
    let matches_none = |pattern: &&String| !threads.iter().any(|(_, name)| matches(pattern, name));
    if let Some(pattern) = patterns.iter().find(matches_none) {
        let what = format!(
            "{pattern:?} is the name of none of the kernel's {} threads; those of an interface are there after \
             `echo 1 > /sys/class/net/NAME/threaded`, and `ps -eo comm` lists all",
            threads.len()
        );
        return Err(Error::place("measure.kernel_threads", what));
    }
    let is_chosen = |(_, name): &&(u32, String)| patterns.iter().any(|pattern| matches(pattern, name));
    Ok(threads.iter().filter(is_chosen).map(|(pid, _)| *pid).collect())
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(place) = name.find(part) else { return false };
        name = &name[place + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, fits: &[&str], others: &[&str]) {
        for (names, expected) in [(fits, true), (others, false)] {
            for name in names {
                assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        check(
            "napi/eth0-*",
            &["napi/eth0-8193", "napi/eth0-"],
            &["napi/eth1-1", "napi/eth0", "xnapi/eth0-1"],
        );
        check("ksoftirqd/0", &["ksoftirqd/0"], &["ksoftirqd/01", "ksoftirqd/"]);
        check("*/eth*-1", &["napi/eth0-1", "a/eth/eth7-1"], &["napi/eth0-12", "eth0-1"]);
        check("*", &["", "a"], &[]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
    }

    #[test]
    fn threads_are_found_and_a_pattern_that_finds_none_is_an_error() {
        let threads = [(7, "napi/eth0-8193"), (9, "napi/eth0-8194"), (11, "ksoftirqd/0")];
        let threads = threads.map(|(pid, name)| (pid, name.to_owned()));
        let patterns =
            |patterns: &[&str]| -> Vec<String> { patterns.iter().map(|it| (*it).to_owned()).collect() };
        let found = |wanted: &[&str]| chosen(&patterns(wanted), &threads);
        assert_eq!(found(&["napi/eth0-*", "napi/*"]).expect("there are some"), [7, 9]);
        let error = found(&["napi/*", "napi/eth1-*"]).expect_err("there are none").to_string();
        assert!(
            error.starts_with(
                "carry out measure.kernel_threads: \"napi/eth1-*\" is the name of none of the kernel's 3 threads; "
            ),
            "{error}"
        );
        assert_eq!(kernel_threads(&[]).expect("none are asked for"), [0; 0]);
        // A program of this name is no thread of the kernel.
        let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
        assert!(kernel_threads(&[own.trim_end().to_owned()]).is_err());
    }
}
