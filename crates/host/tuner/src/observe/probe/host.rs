//! Host as a whole: kernel, hypervisor, memory, sysctls, huge pages, clock.

use std::collections::BTreeMap;

use super::view::{ProbeView, choices, chosen};
use crate::observe::facts::{ClockSource, Guest, HugePages, KernelFacts, Realtime};

/// Settings that a rule, plan or report uses.
const SYSCTLS: &[&str] = &[
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.file-max",
    "fs.nr_open",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "kernel.yama.ptrace_scope",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.flow_limit_cpu_bitmap",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_default_mask",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.netfilter.nf_conntrack_max",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
];

/// Says which waiting is not seen on a kernel that does not report pressure (PSI).
pub(super) fn note_pressure(view: &ProbeView) {
    if view.root.exists("/proc/pressure/cpu") {
        return;
    }
    const WHY: &str = "/proc/pressure is missing (Linux 4.20 with CONFIG_PSI has it, Red Hat with psi=1)";
    view.note(match view.root.exists("/proc/schedstat") {
        true => format!("{WHY}: tasks that wait for memory"),
        false => format!("{WHY}, and so is /proc/schedstat: tasks that wait for memory or for a CPU"),
    });
}

/// Makers of virtual machines as the firmware names them, and the hypervisor behind each.
const MAKERS: &[(&str, &str)] = &[
    ("Amazon EC2", "kvm"),
    ("Google", "kvm"),
    ("QEMU", "kvm"),
    ("Red Hat", "kvm"),
    ("OpenStack Foundation", "kvm"),
    ("DigitalOcean", "kvm"),
    ("Hetzner", "kvm"),
    ("Alibaba Cloud", "kvm"),
    ("Xen", "xen"),
    ("VMware", "vmware"),
    ("innotek", "virtualbox"),
];

pub(super) fn kernel(view: &ProbeView) -> KernelFacts {
    let release = view.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    KernelFacts {
        version: version(&release),
        boot_id: view.text("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
        rt_group_sched: rt_group_sched(view, &release),
        release,
    }
}

/// `6.1.0-18-cloud-amd64` → (6, 1)
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// From the kernel's configuration where it is on disk; else from the file that cgroup v1 has with it.
fn rt_group_sched(view: &ProbeView, release: &str) -> Option<bool> {
    let config = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")]
        .iter()
        .find_map(|path| view.text(path));
    if let Some(config) = config {
        let has = |line: &str| config.lines().any(|other| other == line);
        // Since Linux 6.16 it can be built in and left off.
        let off = has("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y");
        let words = view.text("/proc/cmdline").unwrap_or_default();
        let asked =
            |value: &str| words.split_whitespace().any(|word| word == format!("rt_group_sched={value}"));
        return Some(has("CONFIG_RT_GROUP_SCHED=y") && if off { asked("1") } else { !asked("0") });
    }
    let cpu = cgroup_mounts(view).cpu?;
    Some(view.root.exists(&format!("{cpu}/cpu.rt_runtime_us")))
}

/// Mount points of cgroups.
pub(crate) struct CgroupMounts {
    /// The controller `cpu` of version 1.
    pub(crate) cpu: Option<String>,
    /// The controller `memory` of version 1.
    pub(crate) memory: Option<String>,
    /// The controller `cpuset` of version 1.
    pub(crate) cpuset: Option<String>,
    /// Version 2.
    pub(crate) unified: Option<String>,
}

pub(crate) fn cgroup_mounts(view: &ProbeView) -> CgroupMounts {
    let mut mounts = CgroupMounts { cpu: None, memory: None, cpuset: None, unified: None };
    for line in view.lines("/proc/mounts") {
        let mut words = line.split_whitespace().skip(1);
        let (Some(path), Some(kind), Some(options)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let has = |controller: &str| options.split(',').any(|option| option == controller);
        match kind {
            "cgroup" if has("cpu") => mounts.cpu = Some(path.to_owned()),
            "cgroup" if has("memory") => mounts.memory = Some(path.to_owned()),
            "cgroup" if has("cpuset") => mounts.cpuset = Some(path.to_owned()),
            "cgroup2" => mounts.unified = Some(path.to_owned()),
            _ => {}
        }
    }
    mounts
}

pub(super) fn guest(view: &ProbeView) -> Guest {
    let vendor = view.text("/sys/class/dmi/id/sys_vendor").filter(|vendor| !vendor.is_empty());
    let product = view.text("/sys/class/dmi/id/product_name").filter(|product| !product.is_empty());
    let hypervisor = hypervisor(view, vendor.as_deref(), product.as_deref());
    Guest { hypervisor, vendor, product }
}

fn hypervisor(view: &ProbeView, vendor: Option<&str>, product: Option<&str>) -> Option<String> {
    if let Some(kind) = view.text("/sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    let (vendor, product) = (vendor.unwrap_or_default(), product.unwrap_or_default());
    let maker = MAKERS.iter().find(|(maker, _)| vendor.starts_with(maker)).map(|(_, kind)| *kind);
    let made = match maker {
        _ if vendor == "Microsoft Corporation" && product == "Virtual Machine" => Some("microsoft"),
        _ if product == "KVM" => Some("kvm"),
        maker => maker,
    };
    match virtual_flag(view) {
        Some(false) => None,
        // Without firmware tables (Firecracker) the clock source shows it.
        Some(true) => {
            let clocks = view.text("/sys/devices/system/clocksource/clocksource0/available_clocksource");
            let is_kvm = clocks.is_some_and(|clocks| clocks.contains("kvm-clock"));
            Some(made.unwrap_or(if is_kvm { "kvm" } else { "unknown" }).to_owned())
        }
        // ARM's CPUs have no such flag; `c6gn.metal` is a machine of its own.
        None => made.filter(|_| !product.contains("metal")).map(str::to_owned),
    }
}

/// Whether x86's flag `hypervisor` is set; `None`: there are no such flags.
fn virtual_flag(view: &ProbeView) -> Option<bool> {
    let cpuinfo = view.text("/proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// A line of /proc/meminfo, in bytes.
pub(super) fn memory(view: &ProbeView, name: &str) -> Option<u64> {
    kilobytes(&view.text("/proc/meminfo")?, name)
}

/// The name of a loaded scheduler (sched_ext), while it is active.
pub(super) fn sched_ext(view: &ProbeView) -> Option<String> {
    let state = view.text("/sys/kernel/sched_ext/state")?;
    let name = view.text("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
    (state == "enabled").then(|| if name.is_empty() { "unnamed".to_owned() } else { name })
}

/// Limits of real-time threads in debugfs. Before Linux 5.13 its files were elsewhere.
pub(super) fn realtime(view: &ProbeView) -> Realtime {
    const DEBUG: &str = "/sys/kernel/debug";
    let servers = view.names(&format!("{DEBUG}/sched/fair_server"));
    let runtime = |name: &String| {
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, view.number::<u64>(&format!("{DEBUG}/sched/fair_server/{name}/runtime"))?))
    };
    let features = [format!("{DEBUG}/sched/features"), format!("{DEBUG}/sched_features")];
    let features = features.iter().find_map(|path| view.text(path));
    let has = |text: String| text.split_whitespace().any(|word| word == "RT_RUNTIME_SHARE");
    Realtime {
        fair_server_ns: servers.iter().filter_map(runtime).collect(),
        shares_runtime: features.map(has),
    }
}

/// A line such as `MemTotal:  1024 kB`, in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

pub(super) fn sysctls(view: &ProbeView) -> BTreeMap<String, String> {
    let value = |name: &&str| {
        let text = view.text(&format!("/proc/sys/{}", name.replace('.', "/")))?;
        Some(((*name).to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SYSCTLS.iter().filter_map(value).collect()
}

pub(super) fn huge_pages(view: &ProbeView) -> HugePages {
    let choice = |name: &str| chosen(&view.text(&format!("/sys/kernel/mm/transparent_hugepage/{name}"))?);
    HugePages { enabled: choice("enabled"), defrag: choice("defrag") }
}

pub(super) fn clock_source(view: &ProbeView) -> ClockSource {
    let text = |name: &str| view.text(&format!("/sys/devices/system/clocksource/clocksource0/{name}"));
    ClockSource {
        current: text("current_clocksource"),
        available: text("available_clocksource").map(|names| choices(&names)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_major_and_a_minor_number() {
        assert_eq!(version("6.1.0-18-cloud-amd64"), (6, 1));
        assert_eq!(version("3.10.0-1160.el7.x86_64"), (3, 10));
        assert_eq!(version("6.18-rc1"), (6, 18));
        assert_eq!(version(""), (0, 0));
    }

    #[test]
    fn kilobytes_become_bytes() {
        assert_eq!(kilobytes("MemTotal:   2 kB\nMemFree: 1 kB", "MemFree"), Some(1024));
        assert_eq!(kilobytes("MemTotal:   2 kB", "Mem"), None);
    }
}
