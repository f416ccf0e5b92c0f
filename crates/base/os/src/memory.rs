//! The memory that this process may use: the limits of its control groups, and the host's memory.
//!
//! Both versions of control groups are read, with and without a namespace of their own (cgroups(7), cgroup_namespaces(7)).

use std::fs;
use std::path::Path;

/// Version 1 writes a number that no host has bytes for where there is no limit.
const UNLIMITED_FROM: u64 = 1 << 60;

/// The smallest limit of this process's control group and of those above it, in bytes; `None` without one.
pub fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    limit_of(&groups, &mounts, &|path| fs::read_to_string(path).ok())
}

/// All memory of this host, in bytes.
pub fn of_host() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// A mounted hierarchy: the control group at its root, and where it is mounted.
struct Hierarchy<'m> {
    root: &'m str,
    mount: &'m str,
}

/// `groups` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo.
fn limit_of(groups: &str, mounts: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    // memory.high is where the kernel begins to slow the process down, which is no place to be all day.
    let versions = [
        ("cgroup2", None, "", &["memory.max", "memory.high"][..]),
        ("cgroup", Some("memory"), "memory", &["memory.limit_in_bytes"][..]),
    ];
    let limits = versions.into_iter().flat_map(|(kind, controller, name, files)| {
        // It may be mounted several times, each time with another part of it.
        let mounted = mounts.lines().filter_map(move |line| hierarchy(line, kind, controller));
        let group = group(groups, name);
        mounted.filter_map(move |hierarchy| smallest(&hierarchy, group?, files, read))
    });
    limits.filter(|limit| *limit < UNLIMITED_FROM).min()
}

/// The smallest limit in these files of a group and of those above it.
fn smallest(
    hierarchy: &Hierarchy<'_>,
    group: &str,
    files: &[&str],
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<u64> {
    let below = below_mount(group, hierarchy.root);
    let above = below.match_indices('/').map(|(end, _)| &below[..end]).chain([below]);
    let paths = above.flat_map(|path| {
        files.iter().map(move |file| format!("{}{}/{file}", hierarchy.mount, path.trim_end_matches('/')))
    });
    paths.filter_map(|path| read(Path::new(&path))?.trim().parse().ok()).min()
}

/// The path of the process's group below the mount. One that lies outside of what is mounted is that of the mount itself: a container
/// sees its own group there, and the host's path of it.
fn below_mount<'g>(group: &'g str, root: &str) -> &'g str {
    if group.starts_with("/..") {
        return "";
    }
    group
        .strip_prefix(root.trim_end_matches('/'))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or("")
}

/// The process's group: version 2 is the controller without a name.
fn group<'g>(groups: &'g str, controller: &str) -> Option<&'g str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|found| found == controller).then_some(path)
    })
}

/// A line of mountinfo, if it is of this type (proc_pid_mountinfo(5)): `36 35 0:30 ROOT MOUNT options… - TYPE source options`.
fn hierarchy<'m>(line: &'m str, kind: &str, controller: Option<&str>) -> Option<Hierarchy<'m>> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (found, options) = (after.next()?, after.nth(1)?);
    let is_of = controller.is_none_or(|controller| options.split(',').any(|option| option == controller));
    let mut before = before.split(' ').skip(3);
    let (root, mount) = (before.next()?, before.next()?);
    // A part that lies outside of this process's namespace.
    let is_own = !root.starts_with("/..");
    (found == kind && is_of && is_own).then_some(Hierarchy { root, mount })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[track_caller]
    fn check(groups: &str, mounts: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let files: BTreeMap<&Path, &str> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let found = limit_of(groups, mounts, &|path| files.get(path).map(|text| format!("{text}\n")));
        assert_eq!(found, expected, "{groups}");
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let file = |folder: &str, name: &str| format!("/sys/fs/cgroup{folder}/{name}");
        let (unit, slice) =
            (file("/system.slice/evenkeel.service", "memory.max"), file("/system.slice", "memory.max"));
        let high = file("/system.slice/evenkeel.service", "memory.high");
        let groups = "0::/system.slice/evenkeel.service\n";
        let (large, small) = ((512 * MIB).to_string(), (256 * MIB).to_string());
        check(groups, V2, &[(&unit, &large), (&slice, "max")], Some(512 * MIB));
        check(groups, V2, &[(&unit, &large), (&slice, &small)], Some(256 * MIB));
        check(groups, V2, &[(&unit, &large), (&high, &small)], Some(256 * MIB));
        check(groups, V2, &[(&unit, "max"), (&slice, "max")], None);
        check(groups, V2, &[], None);
    }

    #[test]
    fn a_container_finds_its_own_group_at_the_mount() {
        let limit = (64 * MIB).to_string();
        let own = [("/sys/fs/cgroup/memory.max", &*limit)];
        check("0::/\n", V2, &own, Some(64 * MIB));
        // Without a namespace of control groups, the path and the root are those of the host.
        let mounted = "30 23 0:26 /kubepods/pod1/c2 /sys/fs/cgroup ro - cgroup2 cgroup rw";
        check("0::/kubepods/pod1/c2\n", mounted, &own, Some(64 * MIB));
        check("0::/../other\n", V2, &own, Some(64 * MIB));
        // The host's hierarchy is mounted, too, as in a pod that looks at its host.
        let host = "29 23 0:26 /../.. /host/sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        check("0::/\n", &format!("{host}{V2}"), &own, Some(64 * MIB));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let mounts = "33 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      34 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let groups = "5:cpu:/a\n4:memory:/docker/c1\n0::/\n";
        let path = "/sys/fs/cgroup/memory/docker/c1/memory.limit_in_bytes";
        let limit = (100 * MIB).to_string();
        check(groups, mounts, &[(path, &limit)], Some(100 * MIB));
        check(groups, mounts, &[(path, "9223372036854771712")], None);
    }

    #[test]
    fn the_memory_of_a_host_is_in_kilobytes() {
        assert_eq!(total("MemTotal:       30882500 kB\nMemFree: 1 kB\n"), Some(30_882_500 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(of_host().is_some());
    }
}
