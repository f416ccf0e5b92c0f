//! Cgroup limits of a service: CPU time, real-time, memory, CPUs.

use super::host::cgroup_mounts;
use super::process::cgroup_of;
use super::view::ProbeView;
use crate::observe::facts::CpuWeight;
use os::CpuSet;

/// The default weight (cgroup-v2.rst; sched-design-CFS.rst for version 1).
const WEIGHT_ORDINARY: u64 = 100;
const SHARES_ORDINARY: u64 = 1024;

/// Version 1's value for "unlimited": a number that no machine has bytes for.
const UNLIMITED_FROM: u64 = 1 << 60;

/// The limits of a cgroup.
#[derive(Default)]
pub(super) struct CgroupLimits {
    pub(super) cpu_weight: Option<CpuWeight>,
    pub(super) realtime_budget_us: Option<i64>,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) cpuset: Option<CpuSet>,
}

/// Of a process with these lines in /proc/PID/cgroup.
pub(super) fn cgroup_limits(view: &ProbeView, cgroups: &str) -> CgroupLimits {
    let mounts = cgroup_mounts(view);
    let directory = |mount: &Option<String>, controller: &str| {
        // The root's weights have no effect; a path beyond the own namespace cannot be followed.
        let path = cgroup_of(cgroups, controller).filter(|path| *path != "/" && !path.starts_with("/.."))?;
        Some(format!("{}{path}", mount.as_ref()?))
    };
    let v1_cpu = directory(&mounts.cpu, "cpu");
    let v2 = directory(&mounts.unified, "");
    let weight = |directory: &Option<String>, name: &str, ordinary| {
        let path = format!("{}/{name}", directory.as_ref()?);
        let value = view.text(&path)?.parse().ok()?;
        Some(CpuWeight { path, value, ordinary })
    };
    let budget = v1_cpu.as_ref().and_then(|directory| view.text(&format!("{directory}/cpu.rt_runtime_us")));
    CgroupLimits {
        cpu_weight: weight(&v1_cpu, "cpu.shares", SHARES_ORDINARY)
            .or_else(|| weight(&v2, "cpu.weight", WEIGHT_ORDINARY)),
        realtime_budget_us: budget.and_then(|text| text.parse().ok()),
        memory_limit_bytes: memory_limit(
            view,
            mounts.memory.as_deref(),
            cgroup_of(cgroups, "memory"),
            "memory.limit_in_bytes",
        )
        .or_else(|| memory_limit(view, mounts.unified.as_deref(), cgroup_of(cgroups, ""), "memory.max")),
        cpuset: cpuset(
            view,
            mounts.cpuset.as_deref(),
            cgroup_of(cgroups, "cpuset"),
            &["cpuset.effective_cpus", "cpuset.cpus"],
        )
        .or_else(|| {
            cpuset(view, mounts.unified.as_deref(), cgroup_of(cgroups, ""), &["cpuset.cpus.effective"])
        }),
    }
}

/// CPUs of the innermost cgroup that limits them: one whose parent does not pass the controller on has no file.
fn cpuset(view: &ProbeView, mount: Option<&str>, cgroup: Option<&str>, files: &[&str]) -> Option<CpuSet> {
    let (mount, cgroup) = (mount?, cgroup?.trim_end_matches('/'));
    let above = cgroup.rmatch_indices('/').map(|(end, _)| &cgroup[..end]);
    let list = |path: &str| files.iter().find_map(|file| view.list(&format!("{mount}{path}/{file}")));
    std::iter::once(cgroup).chain(above).find_map(list).filter(|cpus| !cpus.is_empty())
}

/// The smallest limit of a cgroup and those above it.
fn memory_limit(view: &ProbeView, mount: Option<&str>, cgroup: Option<&str>, file: &str) -> Option<u64> {
    let (mount, cgroup) = (mount?, cgroup?);
    let above = cgroup.match_indices('/').map(|(end, _)| &cgroup[..end]).chain([cgroup]);
    let limit = |path: &str| view.text(&format!("{mount}{path}/{file}"))?.parse::<u64>().ok();
    above.filter_map(limit).filter(|limit| *limit < UNLIMITED_FROM).min()
}
