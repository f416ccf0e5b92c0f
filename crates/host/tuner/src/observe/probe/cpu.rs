//! CPUs: their numbers, the caches and cores that they share, and their NUMA nodes.

use std::collections::BTreeMap;

use super::host::cgroup_mounts;
use super::view::ProbeView;
use crate::observe::facts::Cpu;
use os::CpuSet;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn cpus(view: &ProbeView) -> Vec<Cpu> {
    let online = online(view);
    let present = view.list(&format!("{CPUS}/present")).unwrap_or_default().or(&online);
    let nodes = nodes(view);
    let one = |id| cpu(view, id, online.contains(id), nodes.get(&id).copied());
    present.iter().map(one).collect()
}

/// From /sys; in a container without it, those that /proc/stat counts.
pub(crate) fn online(view: &ProbeView) -> CpuSet {
    if let Some(online) = view.list(&format!("{CPUS}/online")).filter(|online| !online.is_empty()) {
        return online;
    }
    view.note(format!("{CPUS}/online is missing: CPUs are those of /proc/stat, their topology is unknown"));
    let stat = view.lines("/proc/stat");
    stat.iter().filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()).collect()
}

/// CPUs that ordinary tasks are kept off: by `isolcpus`, or by a partition of cgroup v2 that is isolated (since 6.7).
pub(crate) fn isolated(view: &ProbeView) -> CpuSet {
    let by_boot = view.list(&format!("{CPUS}/isolated")).unwrap_or_default();
    let unified = cgroup_mounts(view).unified;
    let partitions = unified.and_then(|mount| view.list(&format!("{mount}/cpuset.cpus.isolated")));
    by_boot.or(&partitions.unwrap_or_default())
}

/// CPUs without a tick, whose kernel work is done by others (`nohz_full`). Without any the file says `(null)`.
pub(crate) fn nohz_full(view: &ProbeView) -> CpuSet {
    let text = view.text(&format!("{CPUS}/nohz_full")).unwrap_or_default();
    CpuSet::parse_list(&text).unwrap_or_default()
}

/// CPUs that are slower than others of this host by their design: efficiency cores of x86, or those of less capacity
/// (ARM). Empty: all are the same, or the kernel does not say.
pub(super) fn slower(view: &ProbeView, cpus: &[Cpu]) -> CpuSet {
    if let Some(efficient) = view.list("/sys/devices/cpu_atom/cpus").filter(|cpus| !cpus.is_empty()) {
        // The kernel lists both kinds where there are both; a processor with one kind has nothing to choose.
        let fast = view.list("/sys/devices/cpu_core/cpus").unwrap_or_default();
        return if fast.is_empty() { CpuSet::new() } else { efficient };
    }
    let capacity = |id: u32| view.number::<u32>(&format!("{CPUS}/cpu{id}/cpu_capacity"));
    // Where the first CPU has none, none has: hosts have hundreds.
    let Some(first) = cpus.first().filter(|cpu| capacity(cpu.id).is_some()) else { return CpuSet::new() };
    let known: Vec<(u32, u32)> = cpus.iter().filter_map(|cpu| Some((cpu.id, capacity(cpu.id)?))).collect();
    let most = known.iter().map(|(_, capacity)| *capacity).max().or_else(|| capacity(first.id));
    known.iter().filter(|(_, capacity)| Some(*capacity) < most).map(|(id, _)| *id).collect()
}

/// The NUMA node of each CPU.
fn nodes(view: &ProbeView) -> BTreeMap<u32, u32> {
    let directory = "/sys/devices/system/node";
    let mut nodes = BTreeMap::new();
    for node in view.names(directory).iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()) {
        let cpus: CpuSet = view.list(&format!("{directory}/node{node}/cpulist")).unwrap_or_default();
        nodes.extend(cpus.iter().map(|cpu| (cpu, node)));
    }
    nodes
}

fn cpu(view: &ProbeView, id: u32, online: bool, node: Option<u32>) -> Cpu {
    let directory = format!("{CPUS}/cpu{id}");
    // A node's list holds CPUs in use only, but the others keep their link to it.
    let linked =
        || view.names(&directory).iter().find_map(|name| name.strip_prefix("node")?.parse::<u32>().ok());
    let topology = |name: &str| view.list(&format!("{directory}/topology/{name}"));
    let itself = CpuSet::from_iter([id]);
    let package = topology("package_cpus_list").or_else(|| topology("core_siblings_list"));
    let siblings = topology("core_cpus_list").or_else(|| topology("thread_siblings_list"));
    Cpu {
        id,
        online,
        node: node.or_else(linked).unwrap_or(0),
        package: view.number(&format!("{directory}/topology/physical_package_id")).unwrap_or(0),
        siblings: siblings.unwrap_or_default().or(&itself),
        // Without information about caches, a package is the nearest guess.
        cache: last_cache(view, &directory).or(package).unwrap_or_default().or(&itself),
        governor: view.text(&format!("{directory}/cpufreq/scaling_governor")),
    }
}

/// The CPUs that share the cache of the highest level.
fn last_cache(view: &ProbeView, directory: &str) -> Option<CpuSet> {
    let level = |index: &str| view.number::<u32>(&format!("{directory}/cache/{index}/level"));
    let indexes = view.names(&format!("{directory}/cache"));
    let last = indexes
        .iter()
        .filter(|name| name.starts_with("index"))
        .max_by_key(|index| level(index).unwrap_or(0))?;
    view.list(&format!("{directory}/cache/{last}/shared_cpu_list"))
}
