//! Counters of the services: how long their threads ran and waited, and how often their quota stopped them.

use std::collections::BTreeMap;

use crate::observe::facts::Facts;
use crate::observe::probe::host::cgroup_mounts;
use crate::observe::probe::view::ProbeView;
use crate::observe::reading::Throttling;
use os::cpu_time::ThreadTimes;

/// By thread, of services and with real-time policies: the file of the process is about its first thread only.
pub(super) fn threads(view: &ProbeView, facts: &Facts) -> BTreeMap<u32, ThreadTimes> {
    let tasks = facts.services.iter().map(|service| format!("/proc/{}/task", service.pid));
    // Threads that have started since the probe count, too.
    let threads = tasks.flat_map(|task| view.numbers(&task).into_iter().map(move |tid| (task.clone(), tid)));
    let realtime =
        facts.realtime_threads.iter().map(|other| (format!("/proc/{}/task", other.pid), other.thread.tid));
    let times = |(task, tid): (String, u32)| {
        Some((tid, thread_times(&view.text(&format!("{task}/{tid}/schedstat"))?)?))
    };
    threads.chain(realtime).filter_map(times).collect()
}

/// `None` also for three zeros: a kernel that does not account for waiting says so in this way.
fn thread_times(text: &str) -> Option<ThreadTimes> {
    ThreadTimes::parse(text).filter(|times| times.slices > 0)
}

/// By cgroup, for those of the services and all above them: a quota anywhere on the way stops the service.
pub(super) fn cgroups(view: &ProbeView, facts: &Facts) -> BTreeMap<String, Throttling> {
    let mounts = cgroup_mounts(view);
    let Some(mount) = mounts.cpu.or(mounts.unified) else { return BTreeMap::new() };
    let mut cgroups = BTreeMap::new();
    for service in &facts.services {
        for cgroup in lineage(&service.cgroup) {
            if let Some(text) = view.text(&format!("{mount}{cgroup}/cpu.stat")) {
                cgroups.extend(throttling(&text).map(|throttling| (cgroup.to_owned(), throttling)));
            }
        }
    }
    cgroups
}

/// `/a/b`: `/a/b`, `/a`, and the root, which has no quota on a host, but in a container may be any cgroup of the host's.
fn lineage(cgroup: &str) -> impl Iterator<Item = &str> {
    let first = Some(cgroup).filter(|cgroup| cgroup.starts_with('/'));
    std::iter::successors(first, |path| match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    })
}

/// Version 2 counts `throttled_usec`, version 1 `throttled_time` in nanoseconds.
fn throttling(text: &str) -> Option<Throttling> {
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
    };
    let throttled_us = number("throttled_usec").or_else(|| Some(number("throttled_time")? / 1000))?;
    Some(Throttling { periods: number("nr_periods")?, throttled: number("nr_throttled")?, throttled_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_cgroups_say_how_long_they_stopped() {
        let expected = Some(Throttling { periods: 10, throttled: 2, throttled_us: 3000 });
        assert_eq!(throttling("nr_periods 10\nnr_throttled 2\nthrottled_time 3000000"), expected);
        let v2 = "usage_usec 9\nuser_usec 1\nnr_periods 10\nnr_throttled 2\nthrottled_usec 3000\nnr_bursts 0";
        assert_eq!(throttling(v2), expected);
        assert_eq!(throttling("usage_usec 9\nuser_usec 1\nsystem_usec 8"), None, "no controller, no quota");
    }

    #[test]
    fn a_quota_above_counts() {
        assert_eq!(lineage("/a/b/c").collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!(lineage("/").collect::<Vec<_>>(), ["/"]);
        assert_eq!(lineage("").count(), 0);
    }

    #[test]
    fn zeros_are_no_times() {
        assert_eq!(thread_times("0 0 0"), None);
        assert_eq!(thread_times("5 6 7"), Some(ThreadTimes { run_ns: 5, wait_ns: 6, slices: 7 }));
    }
}
