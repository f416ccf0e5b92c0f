//! Host facts: state that does not change by itself from second to second.
//!
//! Plain data. Facts that could not be read are `None` or missing; [`Facts::gaps`] has the reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observe::napi::InterruptDeferral;
use os::CpuSet;

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Its kernel.
    pub kernel: KernelFacts,
    /// The hypervisor and the machine.
    pub guest: Guest,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of swap; `None`: unknown.
    pub swap_bytes: Option<u64>,
    /// Its CPUs, in order.
    pub cpus: Vec<Cpu>,
    /// CPUs that ordinary tasks are kept off (`isolcpus`, isolated partitions of cpusets).
    pub isolated: CpuSet,
    /// CPUs that are slower than others by their design (efficiency cores); empty: all are alike, or it is unknown.
    pub slower: CpuSet,
    /// CPUs whose kernel work is done by others (`nohz_full`).
    pub nohz_full: CpuSet,
    /// Its network interfaces but the loopback, in order of their names.
    pub nics: Vec<Nic>,
    /// Interrupts that belong to a network interface or a disk, in order.
    pub interrupts: Vec<Interrupt>,
    /// Settings under /proc/sys that matter here: `net.core.somaxconn` and its value.
    pub sysctls: BTreeMap<String, String>,
    /// Disks and RAID arrays.
    pub disks: Vec<BlockDevice>,
    /// Mounted file systems that lie on disks.
    pub mounts: Vec<Mount>,
    /// Directories of settings that cannot be written, as in most containers: `/sys`, `/proc/sys`.
    pub read_only: Vec<String>,
    /// Transparent huge pages.
    pub huge_pages: HugePages,
    /// The clock source.
    pub clock_source: ClockSource,
    /// Listening TCP sockets.
    pub listeners: Vec<ListeningSocket>,
    /// UDP sockets without a fixed peer.
    pub datagrams: Vec<DatagramSocket>,
    /// Data servers that run here.
    pub services: Vec<Service>,
    /// Threads with real-time policies, those of services included.
    pub realtime_threads: Vec<RealtimeThread>,
    /// Other programs that set the same settings.
    pub agents: Vec<Agent>,
    /// irqbalance, if it runs and answers.
    pub irqbalance: Option<Irqbalance>,
    /// Costs of every packet.
    #[serde(rename = "taxes")]
    pub per_packet_costs: PerPacketCosts,
    /// A scheduler that was loaded in place of the kernel's (sched_ext), by its name.
    pub sched_ext: Option<String>,
    /// Limits of real-time threads that never wait.
    pub realtime: Realtime,
    /// Settings in files for sysctl that this kernel does not have (any more), and the file of each.
    #[serde(rename = "sysctls_dead")]
    pub obsolete_sysctls: BTreeMap<String, String>,
    /// Facts that could not be read, and the reasons.
    pub gaps: Vec<String>,
}

/// What it means that an interface has no device.
const WITHOUT_DEVICE: &str = "as bonds, VLANs, bridges, tunnels and the interfaces of containers: its queues and interrupts \
                              are those of the devices that carry the packets, perhaps of another host";

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// `6.1.0-18-cloud-amd64`
    pub release: String,
    /// Major and minor number.
    pub version: (u32, u32),
    /// Of this boot.
    pub boot_id: String,
    /// `CONFIG_RT_GROUP_SCHED`: real-time scheduling needs a budget of the cgroup.
    pub rt_group_sched: Option<bool>,
}

/// Limits of real-time threads that never wait, besides `kernel.sched_rt_runtime_us`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Realtime {
    /// Nanoseconds that fair threads have of a CPU in each period (the fair server, since Linux 6.12), by CPU; empty:
    /// debugfs is not mounted, or the kernel has none.
    pub fair_server_ns: BTreeMap<u32, u64>,
    /// Whether a CPU borrows real-time budget from others (`RT_RUNTIME_SHARE`); `None`: debugfs is not mounted.
    pub shares_runtime: Option<bool>,
}

/// The hypervisor and the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guest {
    /// `kvm`, `xen`, `microsoft`…; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Of the machine, as the firmware has it: `Amazon EC2`.
    pub vendor: Option<String>,
    /// `r5.2xlarge`, where the firmware says it.
    pub product: Option<String>,
}

/// One CPU (hardware thread).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// Whether it is in use.
    pub online: bool,
    /// NUMA node.
    pub node: u32,
    /// Physical package.
    pub package: u32,
    /// Hardware threads of its core, itself included.
    pub siblings: CpuSet,
    /// CPUs that share its last-level cache, itself included.
    pub cache: CpuSet,
    /// cpufreq's governor.
    pub governor: Option<String>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// `eth0`
    pub name: String,
    /// `ena`, `virtio_net`, `veth`…
    pub driver: Option<String>,
    /// The bus address of its device, which stays the same over a restart: `0000:00:05.0`; `None`: a virtual
    /// interface.
    pub bus: Option<String>,
    /// Its hardware address.
    pub mac: Option<String>,
    /// Of its device; `None`: a virtual interface, or a machine with one node.
    pub node: Option<u32>,
    /// Whether it is up.
    pub up: bool,
    /// Megabits per second.
    pub speed_mbps: Option<u32>,
    /// Whether it has a device.
    pub physical: bool,
    /// The interfaces below: members of a bond, the interface of a VLAN.
    pub lower: Vec<String>,
    /// Receive queues, in order.
    pub rx: Vec<RxQueue>,
    /// Transmit queues, in order.
    pub tx: Vec<TxQueue>,
    /// The maximum number of queues; `None`: the driver does not report it.
    pub channels_max: Option<u32>,
    /// Queues in use, by the driver's count.
    pub channels: Option<u32>,
    /// Queues by kind; `None`: the driver does not report them.
    pub channel_kinds: Option<Channels>,
    /// Receive descriptors now and at most.
    pub rx_ring: Option<(u32, u32)>,
    /// Transmit descriptors now and at most.
    pub tx_ring: Option<(u32, u32)>,
    /// Interrupt coalescing; `None`: the driver does not report it.
    pub coalescing: Option<Coalescing>,
    /// Offloads that matter here, and whether they are on: `gro`, `lro`, `tso`, `ntuple`, `rxhash`.
    pub features: BTreeMap<String, bool>,
    /// Hash values by the receive queue that gets their packets (RSS); empty: unknown.
    pub rss: BTreeMap<u32, u32>,
    /// Bytes of a packet.
    pub mtu: Option<u32>,
    /// `napi_defer_hard_irqs`
    pub defer_hard_irqs: Option<u32>,
    /// `gro_flush_timeout`, in nanoseconds.
    pub gro_flush_timeout_ns: Option<u64>,
    /// Whether NAPI runs in threads of its own.
    pub threaded: Option<bool>,
    /// When its NAPIs interrupt, by their numbers; empty: the driver or the kernel does not show it.
    pub napis: BTreeMap<u32, InterruptDeferral>,
}

/// The numbers of queues of each kind, now and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// That receive.
    pub rx: (u32, u32),
    /// That send.
    pub tx: (u32, u32),
    /// That do both.
    pub combined: (u32, u32),
}

/// Interrupt coalescing: how long a device gathers packets before it interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalescing {
    /// The driver adapts the time for received packets to their rate.
    pub adaptive_rx: bool,
    /// The driver adapts the time for sent packets.
    pub adaptive_tx: bool,
    /// Microseconds after a received packet.
    pub rx_usecs: u32,
    /// Microseconds after a sent packet.
    pub tx_usecs: u32,
}

/// One receive queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RxQueue {
    /// CPUs that packets are steered to (RPS).
    pub rps: CpuSet,
    /// Whether these CPUs are unknown: a kernel without CONFIG_RPS, or a file that cannot be read.
    pub rps_unknown: bool,
    /// Flows that are remembered for steering to the application's CPU (RFS); 0: off.
    pub flows: u32,
}

/// One transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TxQueue {
    /// CPUs that send through it (XPS); `None`: the driver does not support it.
    pub xps: Option<CpuSet>,
    /// Receive queues whose connections send through it (XPS by queue, for busy polling); `None`: not supported.
    pub xps_rxqs: Option<CpuSet>,
}

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interrupt {
    /// Its number.
    pub irq: u32,
    /// Name of its handler: `eth0-Tx-Rx-3`, `virtio0-input.0`.
    pub name: String,
    /// The interface or disk that it belongs to.
    pub device: Option<String>,
    /// CPUs that may take it.
    pub affinity: CpuSet,
    /// CPUs that do take it; follows `affinity` with the next interrupt.
    pub effective: CpuSet,
    /// The kernel spreads it itself and refuses other affinities.
    pub managed: bool,
}

/// A disk or an array of disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockDevice {
    /// `nvme0n1`, `md0`
    pub name: String,
    /// A file in its directory under /sys whose text stays the same over a restart, and that text: `wwid` and
    /// `eui.0025388b71b2f1c3`; `None`: an array, or a disk without a number.
    pub identity: Option<(String, String)>,
    /// Whether it is rotational.
    pub rotational: bool,
    /// `none`, `mq-deadline`…; `None` where there is no choice.
    pub scheduler: Option<String>,
    /// The choices.
    pub schedulers: Vec<String>,
    /// Merging of neighbouring requests: 0 always, 1 simple, 2 never.
    pub nomerges: Option<u32>,
    /// Kilobytes.
    pub read_ahead_kb: Option<u32>,
    /// Requests that may wait.
    pub requests: Option<u32>,
    /// Where requests complete: 0 anywhere, 1 near the CPU that asked, 2 on it.
    pub rq_affinity: Option<u32>,
    /// Whether requests can be polled for.
    pub io_poll: Option<bool>,
    /// `write back`: a device with a cache that has to be flushed; `write through`.
    pub write_cache: Option<String>,
    /// For an array.
    pub raid: Option<Raid>,
    /// Its partitions: `nvme0n1p1`.
    pub partitions: Vec<String>,
    /// Disks and partitions that it is made of, for an array or a logical volume.
    pub below: Vec<String>,
    /// A logical volume's name below /dev/mapper.
    pub mapped: Option<String>,
}

/// An array of disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Raid {
    /// `raid0`
    pub level: String,
    /// The number of disks.
    pub disks: u32,
    /// Bytes on one disk before the next disk's.
    pub chunk_bytes: u64,
    /// Disks that are missing.
    pub degraded: u32,
}

/// A file system on a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// `/dev/nvme0n1p1`
    pub device: String,
    /// Its mount point.
    pub path: String,
    /// `xfs`
    pub kind: String,
    /// `rw`, `noatime`…
    pub options: Vec<String>,
}

/// Transparent huge pages: the chosen modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugePages {
    /// `always`, `madvise`, `never`
    pub enabled: Option<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise`, `never`
    pub defrag: Option<String>,
}

/// The clock source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSource {
    /// `tsc`, `kvm-clock`, `xen`…
    pub current: Option<String>,
    /// The choices.
    pub available: Vec<String>,
}

/// A listening TCP socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListeningSocket {
    /// Address and port, as `ss` prints them.
    pub address: String,
    /// The port.
    pub port: u16,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// How many may wait: the program's backlog, cut by `somaxconn` at that time.
    pub backlog: u32,
    /// Inode of the socket.
    pub inode: u64,
    /// The process that holds it.
    pub pid: Option<u32>,
    /// When that process was started, in clock ticks since boot.
    pub started: Option<u64>,
    /// For a service: how many requests may have come with a SYN and wait for the end of the handshake (Fast Open);
    /// 0: off.
    pub fast_open: Option<u32>,
}

/// A UDP socket that takes datagrams from any peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatagramSocket {
    /// Address and port.
    pub address: String,
    /// The port.
    pub port: u16,
    /// Inode of the socket.
    pub inode: u64,
    /// The process that holds it.
    pub pid: Option<u32>,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Process id.
    pub pid: u32,
    /// Its kind.
    pub kind: ServiceKind,
    /// Its name in the kernel.
    pub name: String,
    /// Its systemd unit, if it has one.
    pub unit: Option<String>,
    /// Its cgroup's path.
    pub cgroup: String,
    /// Its cgroup's share of CPU time; `None` in the root cgroup, which has none.
    pub cpu_weight: Option<CpuWeight>,
    /// Microseconds that real-time threads of its cgroup may run in a period; `None` where cgroups do not limit that.
    pub realtime_budget_us: Option<i64>,
    /// Bytes that its cgroup may use; `None`: unlimited.
    pub memory_limit_bytes: Option<u64>,
    /// Descriptors that it has open; `None`: they cannot be seen.
    pub descriptors: Option<u64>,
    /// Of these, sockets of any kind.
    pub sockets: Option<u64>,
    /// The limit of open descriptors (RLIMIT_NOFILE); `None`: unknown, or without a limit.
    pub descriptors_max: Option<u64>,
    /// Whether it polls for packets before it sleeps (`evenkeel serve --busy-poll`).
    pub polls: bool,
    /// The limit of clients, where its command line or its default gives it.
    pub connections_max: Option<u64>,
    /// Directories of its data, as far as its working directory and its command line show.
    pub data: Vec<String>,
    /// CPUs that its cpuset allows; `None`: no cpuset limits them.
    pub cpuset: Option<CpuSet>,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// `jemalloc`, `tcmalloc`, `mimalloc`, else `libc`, which includes one that is linked in statically; `unknown`
    /// without the right to see.
    pub allocator: String,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Of these, in transparent huge pages.
    pub huge_bytes: u64,
    /// Of its memory, swapped out.
    pub swapped_bytes: u64,
}

/// A cgroup's share of the CPU time beside others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuWeight {
    /// `cpu.weight` of version 2, or `cpu.shares` of version 1.
    pub path: String,
    /// Its value.
    pub value: u64,
    /// The default of every cgroup.
    pub ordinary: u64,
}

/// Kinds of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceKind {
    /// memcached
    Memcached,
    /// evenkeel serve
    Evenkeel,
    /// MySQL and MariaDB
    Mysql,
    /// Redis and Valkey
    Redis,
    /// Any process that the user named.
    #[default]
    Generic,
}

impl Service {
    /// Whether its clients send first: only then a request can come with the SYN.
    pub(crate) fn clients_speak_first(&self) -> bool {
        self.kind != ServiceKind::Mysql
    }
}

/// One thread of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its name in the kernel.
    pub name: String,
    /// Scheduling policy, as in sched(7): 0 other, 1 fifo, 2 rr, 3 batch, 5 idle, 6 deadline.
    pub policy: u32,
    /// Real-time priority; 0 without.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
    /// Length of its time slices in nanoseconds, since Linux 6.12.
    pub slice_ns: Option<u64>,
    /// When it was started, in clock ticks since boot; 0: unknown.
    pub started: u64,
    /// CPUs that it may run on.
    pub affinity: CpuSet,
}

/// A thread that runs before all ordinary ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RealtimeThread {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub thread: Thread,
}

/// A program that sets the same settings as this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// `irqbalance`, `tuned`…
    pub name: String,
    /// Its process; `None`: a file that acts at boot.
    pub pid: Option<u32>,
    /// The settings that it is known to change, in words.
    pub sets: String,
}

/// A running irqbalance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Irqbalance {
    /// Its process id.
    pub pid: u32,
    /// Interrupts that it is configured to leave alone.
    pub banned: BTreeSet<u32>,
}

/// Costs of every packet, or of every system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PerPacketCosts {
    /// Connections tracked now, and at most; `None`: no tracking.
    pub conntrack: Option<(u64, u64)>,
    /// Names of packet filter tables in use (`filter`, `nat`…).
    pub filters: Vec<String>,
    /// Sockets that see every packet (tcpdump, dhclient).
    pub taps: u32,
    /// Vulnerabilities whose mitigation is on, in the kernel's words.
    pub mitigations: BTreeMap<String, String>,
    /// Whether the audit system is on.
    pub audit: Option<bool>,
}

impl Interrupt {
    /// CPUs that take it. A new affinity takes effect with the next interrupt only: until then `effective` is the CPU
    /// of the last one, which is no longer allowed. Then the first allowed CPU in use stands for the next one.
    pub fn taken_by(&self, online: &CpuSet) -> CpuSet {
        let allowed = self.affinity.and(online);
        let is_old = !allowed.is_empty() && !self.effective.without(&allowed).is_empty();
        match self.effective.is_empty() || is_old {
            true => allowed.lowest().into_iter().collect(),
            false => self.effective.clone(),
        }
    }
}

impl Nic {
    /// Whether it receives packets: it is up, has a device, and is not above another interface. Azure's synthetic
    /// interface (hv_netvsc) has a device, too, but its packets come by the virtual function below, and count twice.
    pub fn is_wire(&self) -> bool {
        self.up && self.physical && self.lower.is_empty()
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (PID {})", self.name, self.pid)
    }
}

impl Facts {
    /// The service that holds a listener.
    pub(crate) fn service_of(&self, listener: &ListeningSocket) -> Option<&Service> {
        self.services.iter().find(|service| Some(service.pid) == listener.pid)
    }

    /// CPUs in use.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// CPUs in use of a NUMA node.
    pub fn online_on(&self, node: u32) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online && cpu.node == node).map(|cpu| cpu.id).collect()
    }

    /// CPUs that are not for the kernel's own work. It takes them out of RPS masks since Linux 5.9.
    pub fn isolated(&self) -> CpuSet {
        self.isolated.or(&self.nohz_full)
    }

    /// The CPU of this number.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// The interface of this name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }

    /// Why no interface of this host has queues and interrupts to set.
    pub(crate) fn why_no_device(&self) -> String {
        let up: Vec<&str> = self.nics.iter().filter(|nic| nic.up).map(|nic| nic.name.as_str()).collect();
        match up.as_slice() {
            [] => "there is no interface that is up; name one with --nic".to_owned(),
            [one] => format!("{one} has no device of its own here, {WITHOUT_DEVICE}"),
            _ => format!("{} have no devices of their own here, {WITHOUT_DEVICE}", up.join(", ")),
        }
    }

    /// The disk, array or volume behind a device file: `/dev/nvme0n1p1`, `/dev/mapper/data`.
    pub fn disk_of(&self, device: &str) -> Option<&BlockDevice> {
        let name = device.strip_prefix("/dev/")?;
        let is_it = |disk: &&BlockDevice| {
            disk.name == name
                || disk.partitions.iter().any(|partition| partition == name)
                || name.strip_prefix("mapper/").is_some_and(|name| disk.mapped.as_deref() == Some(name))
        };
        self.disks.iter().find(is_it)
    }

    /// The mount that holds a path: of those above it, the one with the longest path.
    pub fn mount_of(&self, path: &str) -> Option<&Mount> {
        let is_above = |mount: &&Mount| {
            let rest = path.strip_prefix(mount.path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.mounts.iter().filter(is_above).max_by_key(|mount| mount.path.len())
    }

    /// Process ids of the services in a unit of systemd: `memcached.service`, or `memcached` for short.
    pub fn pids_of_unit(&self, wanted: &str) -> Vec<u32> {
        let is_in = |service: &&Service| {
            let unit = service.unit.as_deref();
            unit.is_some_and(|unit| unit == wanted || unit.strip_suffix(".service") == Some(wanted))
        };
        self.services.iter().filter(is_in).map(|service| service.pid).collect()
    }

    /// Interrupts of an interface or disk.
    pub fn interrupts_of<'f>(&'f self, device: &'f str) -> impl Iterator<Item = &'f Interrupt> + 'f {
        self.interrupts.iter().filter(move |interrupt| interrupt.device.as_deref() == Some(device))
    }

    /// The read-only directory that holds a setting, if one does: `/proc/sys` in most containers.
    pub(crate) fn read_only_place(&self, path: &str) -> Option<&str> {
        let holds =
            |place: &&String| path.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'));
        self.read_only.iter().find(holds).map(String::as_str)
    }

    /// A sysctl that is a number.
    pub fn sysctl(&self, name: &str) -> Option<u64> {
        self.sysctls.get(name)?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(affinity: &str, effective: &str, online: &str, expected: &str) {
        let cpus = |list: &str| CpuSet::parse_list(list).unwrap();
        let interrupt =
            Interrupt { affinity: cpus(affinity), effective: cpus(effective), ..Interrupt::default() };
        assert_eq!(interrupt.taken_by(&cpus(online)), cpus(expected), "{affinity} {effective} {online}");
    }

    #[test]
    fn an_interrupt_is_taken_where_the_last_one_went_if_it_still_may() {
        check("0-3", "2", "0-7", "2");
        check("4-5", "2", "0-7", "4");
        check("4-5", "2", "0-3,5-7", "5");
        check("4-5", "", "0-7", "4");
        // Both of its CPUs are gone: the kernel has given it another one.
        check("4-5", "2", "0-3", "2");
    }
}
