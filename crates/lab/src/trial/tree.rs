//! Process trees: members, CPU time of their threads, resident memory.

use std::collections::BTreeMap;
use std::fs;
use tuner::observe::reading::ThreadTimes;

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

/// The unit of /proc/PID/stat: USER_HZ is 100 wherever Linux runs today.
const TICK_S: f64 = 0.01;

/// CPU-seconds of all of them so far, with their threads and children that have ended, in ticks: /proc/PID/stat.
pub(crate) fn spent_s(processes: &[u32]) -> f64 {
    let ticks = |pid: &u32| Some(spent_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
    processes.iter().filter_map(ticks).sum::<u64>() as f64 * TICK_S
}

/// utime, stime, cutime and cstime: the fields 14 to 17. A name with spaces ends with the last `)`, and the state, which
/// is field 3, follows.
fn spent_ticks(text: &str) -> u64 {
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
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
    fn time_of_what_has_ended_is_not_lost() {
        let stat = "7 (a ) name) S 1 7 7 0 -1 4194560 1 0 0 0 100 20 3000 400000 20 0 1 0 99";
        assert_eq!((spent_ticks(stat), spent_ticks("")), (403_120, 0));
        let own = [std::process::id()];
        let before = spent_s(&own);
        let text = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let status = Command::new("sh").arg("-c").arg(text).status().expect("sh");
        assert!(status.success() && spent_s(&own) > before + 0.02, "{before} {}", spent_s(&own));
    }

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
