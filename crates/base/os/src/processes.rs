//! Processes of this host: ids, descendants, environment and resident memory.

use std::fs;

/// The ids of all processes.
pub fn all() -> Vec<u32> {
    numbers("/proc")
}

/// A process and its descendants: /proc/PID/task/TID/children.
pub fn with_descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        for task in threads(found[next]) {
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

/// The threads of a process; none if it has ended.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Whether a process has `NAME=value` in its environment; false if it has ended.
pub fn has_in_environment(pid: u32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

/// The resident memory of all of them; shared pages count for each.
pub fn resident_bytes(pids: &[u32]) -> u64 {
    let pages = |pid: &u32| -> Option<u64> {
        fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    pids.iter().filter_map(pages).sum::<u64>() * rustix::param::page_size() as u64
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
    fn children_are_descendants() {
        let mut child = Command::new("sleep")
            .arg("1000")
            .env("OS_PROCESSES_TEST", "a b")
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep");
        let own = with_descendants(std::process::id());
        assert!(own.contains(&child.id()) && own.contains(&std::process::id()), "{own:?}");
        assert!(own.iter().all(|pid| all().contains(pid)), "{own:?}");
        assert!(threads(std::process::id()).len() >= 2 && resident_bytes(&own) > 0);
        assert!(has_in_environment(child.id(), "OS_PROCESSES_TEST=a b"));
        assert!(!has_in_environment(child.id(), "OS_PROCESSES_TEST=a"));
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(threads(child.id()).is_empty() && !has_in_environment(child.id(), "OS_PROCESSES_TEST=a b"));
    }
}
