//! The order in which threads with a CPU each get theirs: one hardware thread of every core first, node by node.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::sched_getaffinity;

use crate::CpuSet;

/// The CPUs of the calling thread in that order. What the kernel does not tell counts as one node, and one hardware
/// thread in each core.
pub fn of_this_thread() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    let allowed = all.filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect();
    Ok(order(&allowed, Path::new("/sys/devices/system/cpu")))
}

/// The order of `allowed`, by the description of all CPUs in `directory`.
fn order(allowed: &CpuSet, directory: &Path) -> Vec<u32> {
    let mut cpus: Vec<u32> = allowed.iter().collect();
    // A stable sort: otherwise by number.
    cpus.sort_by_cached_key(|cpu| {
        let of_cpu = directory.join(format!("cpu{cpu}"));
        (siblings_before(*cpu, allowed, &of_cpu), node(&of_cpu))
    });
    cpus
}

/// How many allowed hardware threads of its core come before a CPU.
fn siblings_before(cpu: u32, allowed: &CpuSet, of_cpu: &Path) -> usize {
    let text = fs::read_to_string(of_cpu.join("topology/thread_siblings_list")).unwrap_or_default();
    let siblings = CpuSet::parse_list(&text).unwrap_or_default();
    siblings.and(allowed).iter().filter(|sibling| *sibling < cpu).count()
}

/// The node of a CPU's memory: a link `node0` in its directory.
fn node(of_cpu: &Path) -> u32 {
    let entries = fs::read_dir(of_cpu).into_iter().flatten().flatten();
    let mut nodes: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()).collect();
    nodes.sort_by_key(|node| Reverse(*node));
    nodes.pop().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose CPUs, from 0 on, are in these nodes, with these hardware threads in their cores.
    #[track_caller]
    fn check(name: &str, cpus: &[(u32, &str)], allowed: &str, expected: &[u32]) {
        let directory = std::env::temp_dir().join(format!("os-cpu-order-{}-{name}", std::process::id()));
        for (cpu, (node, siblings)) in cpus.iter().enumerate() {
            let of_cpu = directory.join(format!("cpu{cpu}"));
            fs::create_dir_all(of_cpu.join("topology")).expect("a directory");
            fs::create_dir_all(of_cpu.join(format!("node{node}"))).expect("a directory");
            fs::write(of_cpu.join("topology/thread_siblings_list"), format!("{siblings}\n")).expect("a file");
        }
        let order = order(&CpuSet::parse_list(allowed).expect("a list"), &directory);
        let _ = fs::remove_dir_all(&directory);
        assert_eq!(order, expected);
    }

    #[test]
    fn cores_come_before_their_second_hardware_threads_and_nodes_stay_together() {
        let two_nodes =
            [(0, "0,4"), (1, "1,5"), (0, "2,6"), (1, "3,7"), (0, "0,4"), (1, "1,5"), (0, "2,6"), (1, "3,7")];
        check("nodes", &two_nodes, "0-7", &[0, 2, 1, 3, 4, 6, 5, 7]);
        // Of a core with one allowed hardware thread, that one is the first.
        check("part", &two_nodes, "0,4-6", &[0, 6, 5, 4]);
        let neighbours = [(0, "0-1"), (0, "0-1"), (0, "2-3"), (0, "2-3")];
        check("neighbours", &neighbours, "0-3", &[0, 2, 1, 3]);
    }

    #[test]
    fn without_a_description_cpus_are_in_order() {
        check("nothing", &[], "1,3,5", &[1, 3, 5]);
    }

    #[test]
    fn this_threads_cpus_are_all_in_the_order_once() {
        let mut cpus = of_this_thread().expect("affinity can be read");
        let count = cpus.len();
        cpus.sort_unstable();
        cpus.dedup();
        assert!(count > 0 && cpus.len() == count);
    }
}
