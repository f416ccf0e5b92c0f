//! A process with all that it has started: who they are, how long their threads ran, what they hold.

use std::collections::BTreeMap;
use std::fs;
use tuner::reading::ThreadTimes;

/// It and its children, and theirs: /proc/PID/task/TID/children.
pub(crate) fn processes(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        for task in numbers(&format!("/proc/{}/task", found[next])) {
            let path = format!("/proc/{}/task/{task}/children", found[next]);
            let children = fs::read_to_string(path).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            for child in children.collect::<Vec<u32>>() {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
        }
        next += 1;
    }
    found
}

/// By thread, from schedstat.
pub(crate) fn thread_times(processes: &[u32]) -> BTreeMap<u32, ThreadTimes> {
    let threads = processes.iter().flat_map(|pid| {
        let task = format!("/proc/{pid}/task");
        numbers(&task).into_iter().map(move |tid| (tid, format!("{task}/{tid}/schedstat")))
    });
    let times = |(tid, path): (u32, String)| {
        let text = fs::read_to_string(path).ok()?;
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
        let (run_ns, wait_ns, slices) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some((tid, ThreadTimes { run_ns, wait_ns, slices }))
    };
    threads.filter_map(times).collect()
}

/// Resident, in all of them; what they share counts for each.
pub(crate) fn resident_bytes(processes: &[u32]) -> u64 {
    let pages = |pid: &u32| -> Option<u64> {
        fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    processes.iter().filter_map(pages).sum::<u64>() * rustix::param::page_size() as u64
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_belong_to_it() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let own = processes(std::process::id());
        assert!(own.contains(&child.id()) && own.contains(&std::process::id()), "{own:?}");
        assert!(thread_times(&own).len() >= 2 && resident_bytes(&own) > 0);
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
    }
}
