//! Processes: their names, and the data servers among them.

use std::collections::BTreeMap;

use super::cgroup_limits::cgroup_limits;
use super::host::kilobytes;
use super::view::ProbeView;
use crate::observe::facts::{RealtimeThread, Service, ServiceKind, Thread};
use crate::observe::reading::ProcessTimes;
use os::CpuSet;
use os::process_stat::{ProcessStat, field};
use stdx::escape;

/// Bytes of a name that the kernel keeps (`TASK_COMM_LEN` less the final zero).
const COMM_LEN_MAX: usize = 15;

/// `PF_KTHREAD`: a thread of the kernel's own.
const FLAG_KERNEL: u32 = 0x0020_0000;
/// Threads that the kernel runs for devices, where an administrator or the boot line asks for it.
const KERNEL_WORK: [&str; 2] = ["irq/", "napi/"];
/// As in sched(7): SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
const POLICIES_REALTIME: [u32; 3] = [1, 2, 6];
/// More than any host runs (PID_MAX_LIMIT of small machines); beyond it the rest is left out.
const PROCESSES_MAX: usize = 32_768;

/// A process by its names.
pub(super) struct Process {
    pub(super) pid: u32,
    /// The kernel's name: 15 bytes at most. A program can choose it.
    pub(super) name: String,
    /// The name of its executable, without the parts that differ between builds; `None` without the right to see it.
    program: Option<String>,
}

/// All that run. One that ends meanwhile is left out.
pub(super) fn processes(view: &ProbeView) -> Vec<Process> {
    let named = |pid| {
        let program = view.link_name(&format!("/proc/{pid}/exe")).map(|file| program(&file).to_owned());
        Some(Process { pid, name: comm(view, &format!("/proc/{pid}"))?, program })
    };
    view.numbers("/proc").into_iter().filter_map(named).collect()
}

/// The kernel's name of a process or thread. Every program can choose its own, line ends and all, and findings quote it.
fn comm(view: &ProbeView, here: &str) -> Option<String> {
    Some(escape::line(&view.text(&format!("{here}/comm"))?).into_owned())
}

/// `memcached` of `memcached-1.6.45`, `memcached-debug` and `memcached (deleted)`, which was replaced since it started.
fn program(file: &str) -> &str {
    let file = file.strip_suffix(" (deleted)").unwrap_or(file);
    let is_build = |suffix: &str| suffix == "debug" || suffix.starts_with(|c: char| c.is_ascii_digit());
    file.rsplit_once('-').filter(|(_, suffix)| is_build(suffix)).map_or(file, |(name, _)| name)
}

impl Process {
    /// Its executable; its name if that is unknown.
    fn program(&self) -> &str {
        self.program.as_deref().unwrap_or(&self.name)
    }

    /// Whether this is its name, as far as the kernel keeps names.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name[..name.len().min(COMM_LEN_MAX)]
    }
}

/// Data servers among them, and others that were named by their process id.
pub(super) fn services(view: &ProbeView, processes: &[Process], pids: &[u32]) -> Vec<Service> {
    for pid in pids.iter().filter(|pid| !processes.iter().any(|process| process.pid == **pid)) {
        view.note(format!("there is no process {pid}"));
    }
    let by_name = |process: &&Process| process.program.is_none() && kind(view, process).is_some();
    for Process { pid, name, .. } in processes.iter().filter(by_name) {
        view.note(format!(
            "{name} (PID {pid}) is a service by its name alone: which file it runs is unknown"
        ));
    }
    let wanted = |process: &&Process| kind(view, process).is_some() || pids.contains(&process.pid);
    processes.iter().filter(wanted).filter_map(|process| service(view, process)).collect()
}

/// By the executable; by its name only where that is unknown.
fn kind(view: &ProbeView, process: &Process) -> Option<ServiceKind> {
    match process.program() {
        "memcached" => Some(ServiceKind::Memcached),
        // The same binary tunes and loads.
        "evenkeel" => {
            let line = view.text(&format!("/proc/{}/cmdline", process.pid))?;
            line.split('\0').skip(1).any(|word| word == "serve").then_some(ServiceKind::Evenkeel)
        }
        "mysqld" | "mariadbd" => Some(ServiceKind::Mysql),
        "redis-server" | "valkey-server" => Some(ServiceKind::Redis),
        // One file with several names (Debian): its name decides.
        "redis-check-rdb" | "valkey-check-rdb" => {
            ["redis-server", "valkey-server"].contains(&process.name.as_str()).then_some(ServiceKind::Redis)
        }
        _ => None,
    }
}

/// `None` if it has ended, or is a zombie.
fn service(view: &ProbeView, process: &Process) -> Option<Service> {
    let pid = process.pid;
    let threads = threads(view, pid);
    if threads.is_empty() {
        return None;
    }
    let cgroups = view.text(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let memory = memory(view, pid);
    let limits = cgroup_limits(view, &cgroups);
    let kind = kind(view, process).unwrap_or_default();
    // A process named by the user may be one script of many that run in the same interpreter.
    let is_known = ![ServiceKind::Generic, ServiceKind::Redis].contains(&kind);
    Some(Service {
        pid,
        kind,
        name: if is_known { process.program() } else { &process.name }.to_owned(),
        data: data(view, pid, kind),
        descriptors_max: descriptors_max(view, pid),
        polls: kind == ServiceKind::Evenkeel && polls(view, pid),
        connections_max: connections_max(view, pid, kind),
        unit: unit(&cgroups),
        cgroup: cpu_cgroup(&cgroups),
        cpu_weight: limits.cpu_weight,
        realtime_budget_us: limits.realtime_budget_us,
        memory_limit_bytes: limits.memory_limit_bytes,
        cpuset: limits.cpuset,
        threads,
        allocator: allocator(view, pid),
        resident_bytes: memory.resident,
        huge_bytes: memory.huge,
        swapped_bytes: memory.swapped,
        ..Service::default()
    })
}

/// MySQL, MariaDB and Redis work in the directory of their data; memcached and Evenkeel have a tier on flash only where
/// a flag names its files or devices.
fn data(view: &ProbeView, pid: u32, kind: ServiceKind) -> Vec<String> {
    match kind {
        ServiceKind::Mysql | ServiceKind::Redis => {
            view.root.link(&format!("/proc/{pid}/cwd")).into_iter().collect()
        }
        ServiceKind::Memcached | ServiceKind::Evenkeel => ext_paths(view, pid),
        ServiceKind::Generic => Vec::new(),
    }
}

/// The files and devices of `-o ext_path=FILE:SIZE`.
fn ext_paths(view: &ProbeView, pid: u32) -> Vec<String> {
    let line = view.text(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let path = |option: &str| {
        let (_, value) = option.split_once("ext_path=")?;
        let path = value.split(':').next()?;
        Some(device_behind(view, path).unwrap_or_else(|| path.to_owned()))
    };
    line.split(['\0', ',']).filter_map(path).collect()
}

/// `/dev/nvme1n1` of `/dev/disk/by-id/…`, which udev links to it.
fn device_behind(view: &ProbeView, path: &str) -> Option<String> {
    let name = view.link_name(path).filter(|_| path.starts_with("/dev/"))?;
    Some(format!("/dev/{name}"))
}

/// `Max open files            1024                 1048576              files`: 1024.
fn descriptors_max(view: &ProbeView, pid: u32) -> Option<u64> {
    let limits = view.text(&format!("/proc/{pid}/limits"))?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// memcached's default of `-c`.
const CONNECTIONS_DEFAULT: u64 = 1024;

/// For memcached and Evenkeel, which take the same flag. Others read it from files that may have changed since.
fn connections_max(view: &ProbeView, pid: u32, kind: ServiceKind) -> Option<u64> {
    if ![ServiceKind::Memcached, ServiceKind::Evenkeel].contains(&kind) {
        return None;
    }
    let line = view.text(&format!("/proc/{pid}/cmdline"))?;
    let words: Vec<&str> = line.split('\0').collect();
    let given = words.iter().enumerate().rev().find_map(|(i, word)| {
        let next = || words.get(i + 1).copied();
        match *word {
            "-c" | "--conn-limit" => next(),
            word => word.strip_prefix("--conn-limit=").or_else(|| word.strip_prefix("-c")),
        }
    });
    given.map_or(Some(CONNECTIONS_DEFAULT), |given| given.parse().ok())
}

/// Whether its command line has `--busy-poll` with another time than 0; the last one counts.
fn polls(view: &ProbeView, pid: u32) -> bool {
    let line = view.text(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&str> = line.split('\0').collect();
    let given = words.iter().enumerate().rev().find_map(|(i, word)| match *word {
        "--busy-poll" => words.get(i + 1).copied(),
        word => word.strip_prefix("--busy-poll="),
    });
    given.and_then(|time| time.parse::<u64>().ok()).is_some_and(|time| time > 0)
}

/// Process ids of those in a unit of systemd: `memcached.service`, or `memcached` for short.
pub fn pids_of_unit(root: &crate::Root, wanted: &str) -> Vec<u32> {
    let view = ProbeView::new(root);
    let wanted = if wanted.contains('.') { wanted.to_owned() } else { format!("{wanted}.service") };
    let cgroups = |pid: u32| view.text(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
    view.numbers("/proc").into_iter().filter(|pid| unit(&cgroups(*pid)).as_ref() == Some(&wanted)).collect()
}

/// The innermost part of any of the paths that is a unit.
fn unit(cgroups: &str) -> Option<String> {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    paths.filter_map(|path| path.rsplit('/').find(is_unit)).map(str::to_owned).next()
}

/// The path in the hierarchy that limits CPU time: version 1's `cpu` where there is one, else version 2.
fn cpu_cgroup(cgroups: &str) -> String {
    let v1 = cgroup_of(cgroups, "cpu");
    v1.or_else(|| cgroup_of(cgroups, "")).map(str::to_owned).unwrap_or_default()
}

/// The path in the hierarchy of version 1 that has this controller; of version 2, which has none: the empty one.
pub(super) fn cgroup_of<'t>(cgroups: &'t str, controller: &str) -> Option<&'t str> {
    let mut rows = cgroups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    rows.find(|(controllers, _)| controllers.split(',').any(|other| other == controller)).map(|row| row.1)
}

fn threads(view: &ProbeView, pid: u32) -> Vec<Thread> {
    let tids = view.numbers(&format!("/proc/{pid}/task"));
    tids.into_iter().filter_map(|tid| thread(view, &format!("/proc/{pid}/task/{tid}"), tid)).collect()
}

/// `None` if it has ended: it is gone, or a zombie.
fn thread(view: &ProbeView, here: &str, tid: u32) -> Option<Thread> {
    let stat = view.text(&format!("{here}/stat"))?;
    let status = view.text(&format!("{here}/status"))?;
    if status.lines().any(|line| line.starts_with("State:\tZ")) {
        return None;
    }
    let stat = ProcessStat::parse(&stat)?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Some(Thread {
        tid,
        name: comm(view, here)?,
        policy: stat.field(field::POLICY)?,
        priority: stat.field(field::RT_PRIORITY)?,
        nice: stat.field(field::NICE)?,
        slice_ns: slice_ns(view, here),
        started: stat.field(field::STARTED)?,
        affinity: CpuSet::parse_list(allowed?).ok()?,
    })
}

/// Threads with real-time policies. Of the kernel's own, only those that work for devices: the others (migration,
/// watchdog) are on every host and sleep.
pub(super) fn realtime(view: &ProbeView, processes: &[Process]) -> Vec<RealtimeThread> {
    let mut found = Vec::new();
    for Process { pid, .. } in processes {
        for tid in view.numbers(&format!("/proc/{pid}/task")) {
            let here = format!("/proc/{pid}/task/{tid}");
            let stat = view.text(&format!("{here}/stat")).unwrap_or_default();
            let Some(stat) = ProcessStat::parse(&stat) else { continue };
            let policy = stat.field(field::POLICY).unwrap_or(0);
            if !POLICIES_REALTIME.contains(&policy) {
                continue;
            }
            let is_kernels = stat.field(field::FLAGS).is_some_and(|flags: u32| flags & FLAG_KERNEL != 0);
            let found_thread = thread(view, &here, tid).filter(|thread| {
                !is_kernels || KERNEL_WORK.iter().any(|prefix| thread.name.starts_with(prefix))
            });
            found.extend(found_thread.map(|thread| RealtimeThread { pid: *pid, thread }));
        }
    }
    found
}

/// The counters of each process since its start.
pub(crate) fn times(view: &ProbeView) -> BTreeMap<u32, ProcessTimes> {
    let pids = view.numbers("/proc").into_iter().take(PROCESSES_MAX);
    pids.filter_map(|pid| Some((pid, times_of(&view.text(&format!("/proc/{pid}/stat"))?)?))).collect()
}

fn times_of(stat: &str) -> Option<ProcessTimes> {
    let stat = ProcessStat::parse(stat)?;
    Some(ProcessTimes {
        name: escape::line(stat.name()).into_owned(),
        state: stat.field(field::STATE)?,
        ticks: stat.ticks()?,
        cpu: stat.field(field::CPU)?,
        policy: stat.field(field::POLICY)?,
    })
}

/// This line exists only where a time slice can have a length of its own: the kernel shows it since then.
fn slice_ns(view: &ProbeView, here: &str) -> Option<u64> {
    let sched = view.text(&format!("{here}/sched"))?;
    let (_, value) = sched.lines().find(|line| line.starts_with("se.slice "))?.split_once(':')?;
    value.trim().parse().ok()
}

fn allocator(view: &ProbeView, pid: u32) -> String {
    let Some(maps) = view.text(&format!("/proc/{pid}/maps")) else { return "unknown".to_owned() };
    let libraries = ["jemalloc", "tcmalloc", "mimalloc"];
    let found = libraries.iter().find(|library| maps.contains(&format!("/lib{library}")));
    (*found.unwrap_or(&"libc")).to_owned()
}

struct Memory {
    resident: u64,
    huge: u64,
    swapped: u64,
}

fn memory(view: &ProbeView, pid: u32) -> Memory {
    let of = |text: &str, name: &str| kilobytes(text, name).unwrap_or(0);
    match view.text(&format!("/proc/{pid}/smaps_rollup")).filter(|text| !text.is_empty()) {
        Some(text) => Memory {
            resident: of(&text, "Rss"),
            huge: of(&text, "AnonHugePages"),
            swapped: of(&text, "Swap"),
        },
        // Without the right to it, or before 4.14: every user may read this much.
        None => {
            let text = view.text(&format!("/proc/{pid}/status")).unwrap_or_default();
            Memory { resident: of(&text, "VmRSS"), huge: 0, swapped: of(&text, "VmSwap") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_a_program_are_the_same_program() {
        for (file, expected) in [
            ("memcached", "memcached"),
            ("memcached-1.6.45", "memcached"),
            ("memcached-debug", "memcached"),
            ("mysqld (deleted)", "mysqld"),
            ("valkey-server-8.0", "valkey-server"),
            ("redis-server", "redis-server"),
            ("memcached_exporter", "memcached_exporter"),
            ("memcached-tool", "memcached-tool"),
        ] {
            assert_eq!(program(file), expected, "{file}");
        }
    }

    #[test]
    fn the_unit_is_the_innermost_one() {
        let check = |cgroups: &str, expected: Option<&str>| {
            assert_eq!(unit(cgroups).as_deref(), expected, "{cgroups}");
        };
        check("0::/system.slice/memcached.service", Some("memcached.service"));
        check(
            "12:cpu,cpuacct:/system.slice/a.service\n1:name=systemd:/system.slice/a.service\n",
            Some("a.service"),
        );
        check("0::/user.slice/user-0.slice/user@0.service/app.slice/run-1.scope", Some("run-1.scope"));
        check("0::/", None);
    }

    #[test]
    fn cpu_time_is_rationed_by_version_1_where_it_has_the_controller() {
        assert_eq!(cpu_cgroup("4:cpuset:/a\n3:cpu,cpuacct:/b\n0::/c"), "/b");
        assert_eq!(cpu_cgroup("1:name=systemd:/a\n0::/c"), "/c");
        assert_eq!(cpu_cgroup(""), "");
    }

    #[test]
    fn a_name_may_hold_what_it_likes() {
        let rest = (3..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("7 (a) b (c) {rest}");
        let times = times_of(&stat.replacen(" 3 ", " T ", 1)).unwrap();
        assert_eq!((times.name.as_str(), times.state, times.ticks, times.cpu), ("a) b (c", 'T', 29, 39));
        let times = times_of(&stat.replacen("(a) b (c)", "(a\x1b[2J\n)", 1)).unwrap();
        assert_eq!(times.name, "a\\u001b[2J\\u000a", "but give no orders to a terminal");
    }
}
