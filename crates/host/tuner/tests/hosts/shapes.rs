//! Hosts of the shapes that matter.
//!
//! Provenance: none of them was captured. They are written from documentation: of the kernel (sysfs, /proc, names of
//! interrupts in the drivers' sources), of EC2's instance types, and from what others published of theirs.

use os::CpuSet;

use crate::hosts::tree::{Shape, Tree};

/// c3.4xlarge, 2013: Xen, one queue, whose event channel has the interface's name; no list of message interrupts.
pub(crate) fn c3_4xlarge() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 8, threads_per_core: 2, cores_per_cache: 8 };
    let columns = |first: u64| {
        (0..16).map(|cpu| format!("{:>10}", if cpu == 0 { first } else { 0 })).collect::<String>()
    };
    let header: String = (0..16).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
    let interrupts = format!(
        "{header}\n 83: {}   xen-dyn-event     blkif\n 84: {}   xen-dyn-event     eth0\nNMI: {}   Non-maskable interrupts",
        columns(7),
        columns(4_000_000),
        columns(0),
    );
    Tree::new()
        .kernel("3.13.0-44-generic")
        .firmware("Xen", "HVM domU", true)
        .file("sys/hypervisor/type", "xen")
        .file("proc/meminfo", "MemTotal:       30882500 kB")
        .cpus(shape)
        .nic("eth0", "vif-0", "vif", 1, 1)
        .file("proc/interrupts", &interrupts)
        .file("proc/irq/84/smp_affinity_list", "0")
        .file("proc/sys/net/core/somaxconn", "128")
        .file("proc/sys/net/ipv4/tcp_max_syn_backlog", "1024")
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file("proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t6291456")
        .file("sys/devices/system/clocksource/clocksource0/current_clocksource", "xen")
        .file("sys/devices/system/clocksource/clocksource0/available_clocksource", "xen tsc hpet acpi_pm")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
        .file("proc/stat", "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0")
        .softnet(&CpuSet::first(16), 11)
}

/// r5.8xlarge after the ENA driver reset its device: a new set of interrupts, all of them on the first CPU again, as
/// scylladb #3408 reports of i3.8xlarge; IRQ names and counters as in drivers/net/ethernet/amazon/ena.
pub(crate) fn r5_8xlarge_after_a_reset() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 16, threads_per_core: 2, cores_per_cache: 16 };
    let pci = "pci0000:00/0000:00:05.0";
    let tree = Tree::new()
        .kernel("5.10.205-195.804.amzn2.x86_64")
        .firmware("Amazon EC2", "r5.8xlarge", true)
        .cpus(shape)
        .nic("eth0", pci, "ena", 8, 8)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file(
            "ethtool.json",
            r#"{"eth0": {"channels": 8, "channels_max": 8, "rx_ring": [1024, 16384],
                "statistics": {"total_resets": 1, "suspected_poll_starvation": 0}}}"#,
        )
        .message_interrupt(pci, 27, "ena-mgmnt@pci:0000:00:05.0", 0);
    (0..8)
        .fold(tree, |tree, queue| tree.message_interrupt(pci, 28 + queue, &format!("eth0-Tx-Rx-{queue}"), 0))
}

/// c6gn.16xlarge: Graviton2 with 64 cores without hyperthreads, 32 queues; one node, as the EC2 user guide says.
pub(crate) fn c6gn_16xlarge() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 64, threads_per_core: 1, cores_per_cache: 64 };
    let pci = "pci0000:00/0000:00:05.0";
    let tree = Tree::new()
        .kernel("6.1.79-99.164.amzn2023.aarch64")
        .firmware("Amazon EC2", "c6gn.16xlarge", true)
        // Of an ARM CPU there is no line of flags.
        .file("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd evtstrm aes")
        .cpus(shape)
        .nic("ens5", pci, "ena", 32, 32)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file("ethtool.json", r#"{"ens5": {"channels": 32, "channels_max": 32, "rx_ring": [1024, 16384]}}"#)
        .message_interrupt(pci, 27, "ena-mgmnt@pci:0000:00:05.0", 0);
    (0..32).fold(tree, |tree, queue| {
        tree.message_interrupt(pci, 28 + queue, &format!("ens5-Tx-Rx-{queue}"), queue)
    })
}

/// n2-standard-16 with gVNIC: names and order of interrupts as in drivers/net/ethernet/google/gve (gve_main.c, gve.h):
/// blocks 0 to 15 complete what was sent, 16 to 31 receive, and block N is hinted at CPU N modulo 16; counters as in
/// gve_ethtool.c.
pub(crate) fn n2_standard_16() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 8, threads_per_core: 2, cores_per_cache: 8 };
    let pci = "pci0000:00/0000:00:04.0";
    let tree = Tree::new()
        .kernel("6.1.0-18-cloud-amd64")
        .firmware("Google", "Google Compute Engine", true)
        .cpus(shape)
        .nic("ens4", pci, "gve", 16, 16)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .process(600, "google_guest_agent", "0::/system.slice/google-guest-agent.service", "0-15")
        .file("ethtool.json", r#"{"ens4": {"channels": 16, "channels_max": 16, "rx_ring": [1024, 1024]}}"#)
        .message_interrupt(pci, 72, "gve-mgmnt@pci:0000:00:04.0", 0);
    (0..32).fold(tree, |tree, block| {
        tree.message_interrupt(pci, 40 + block, &format!("gve-ntfy-blk{block}@pci:0000:00:04.0"), block % 16)
    })
}

/// Standard_D16s_v6: a synthetic interface (hv_netvsc) over a MANA function; names as in
/// drivers/net/ethernet/microsoft/mana (gdma_main.c, mana_ethtool.c). VMBus has no interrupts that could be moved.
pub(crate) fn d16s_v6() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 8, threads_per_core: 2, cores_per_cache: 8 };
    let pci = "LNXSYSTM:00/7870:00/7870:00:00.0";
    let vmbus = "LNXSYSTM:00/VMBUS:00/000d3a5b-7f0c";
    let tree = Tree::new()
        .kernel("6.8.0-1018-azure")
        .firmware("Microsoft Corporation", "Virtual Machine", true)
        .cpus(shape)
        .nic("eth0", vmbus, "hv_netvsc", 16, 16)
        .link(&format!("sys/devices/{vmbus}/net/eth0/lower_enP30832s1"), "../enP30832s1")
        .nic("enP30832s1", pci, "mana", 16, 16)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file(
            "ethtool.json",
            r#"{"enP30832s1": {"channels": 16, "channels_max": 32},
                "eth0": {"channels": 16, "channels_max": 64, "rx_ring": [9166, 18811]}}"#,
        )
        .message_interrupt(pci, 30, "mana_hwc@pci:7870:00:00.0", 0);
    (0..16).fold(tree, |tree, queue| {
        tree.message_interrupt(pci, 31 + queue, &format!("mana_q{queue}@pci:7870:00:00.0"), queue)
    })
}

/// Two sockets whose nodes /sys does not show, while the device claims node 3 (scylladb #2925).
pub(crate) fn numa_broken() -> Tree {
    let shape = Shape { sockets: 2, cores_per_socket: 4, threads_per_core: 1, cores_per_cache: 4 };
    let pci = "pci0000:80/0000:81:00.0";
    Tree::new()
        .kernel("6.1.0-18-amd64")
        .firmware("Supermicro", "SYS-1029", false)
        .cpus(shape)
        .without("sys/devices/system/node")
        .nic("eth0", pci, "igb", 1, 1)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file(&format!("sys/devices/{pci}/numa_node"), "3")
        .message_interrupt(pci, 40, "eth0", 0)
        .message_interrupt(pci, 41, "eth0-TxRx-0", 0)
}

/// c5.4xlarge: 16 vCPUs, ENA with 8 queues, an EBS disk over NVMe.
pub(crate) fn c5_4xlarge() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 8, threads_per_core: 2, cores_per_cache: 8 };
    let pci = "pci0000:00/0000:00:05.0";
    let mut tree = Tree::new()
        .kernel("5.10.205-195.804.amzn2.x86_64")
        .firmware("Amazon EC2", "c5.4xlarge", true)
        .cpus(shape)
        .process(700, "memcached", "0::/system.slice/memcached.service", "0-15")
        .file("proc/sys/net/core/somaxconn", "4096")
        .file("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096")
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .nic("eth0", pci, "ena", 8, 8)
        .file(&format!("sys/devices/{pci}/numa_node"), "-1")
        .file(&format!("sys/devices/{pci}/msi_irqs/27"), "msix")
        .interrupt(27, "ena-mgmnt@pci:0000:00:05.0", "0", &[1])
        // Reserved, and not requested.
        .file(&format!("sys/devices/{pci}/msi_irqs/36"), "msix")
        .file("sys/kernel/irq/36/actions", "");
    for queue in 0..8 {
        let irq = 28 + queue;
        let mut counts = [0; 16];
        counts[queue as usize * 2] = 1000 + u64::from(queue);
        tree = tree.file(&format!("sys/devices/{pci}/msi_irqs/{irq}"), "msix").interrupt(
            irq,
            &format!("eth0-Tx-Rx-{queue}"),
            &(queue * 2).to_string(),
            &counts,
        );
    }
    tree.nvme(0, 40, 8)
        .file(
            "ethtool.json",
            r#"{"eth0": {"channels": 8, "channels_max": 8, "rx_ring": [1024, 16384],
                "statistics": {"bw_in_allowance_exceeded": 3, "rx_packets": 5}}}"#,
        )
        .file(
            "listeners.json",
            r#"[{"address": "0.0.0.0:11211", "port": 11211, "waiting": 2, "backlog": 128, "inode": 9, "pid": 700}]"#,
        )
        .softnet(&CpuSet::first(16), 13)
}

/// i3en.24xlarge: 96 vCPUs on two nodes, eight local disks in one array, memcached in a cgroup with a quota above it.
pub(crate) fn i3en_24xlarge() -> Tree {
    let shape = Shape { sockets: 2, cores_per_socket: 24, threads_per_core: 2, cores_per_cache: 24 };
    let pci = "pci0000:00/0000:00:06.0";
    let mut tree = Tree::new()
        .kernel("6.1.79-99.164.amzn2023.x86_64")
        .firmware("Amazon EC2", "i3en.24xlarge", true)
        .cpus(shape)
        .nic("ens6", pci, "ena", 32, 32)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file(&format!("sys/devices/{pci}/numa_node"), "1")
        .process(700, "memcached", "0::/system.slice/memcached.service", "0-95")
        .realtime_and_swapped(700, "memcached")
        .process(800, "irqbalance", "0::/system.slice/irqbalance.service", "0-95")
        .process(900, "bash", "0::/user.slice/session-1.scope", "0-95")
        .file(
            "sys/fs/cgroup/system.slice/cpu.stat",
            "usage_usec 9\nnr_periods 100\nnr_throttled 7\nthrottled_usec 70000",
        )
        .file("sys/fs/cgroup/system.slice/memcached.service/cpu.stat", "usage_usec 9")
        .file("boot/config-6.1.79-99.164.amzn2023.x86_64", "CONFIG_RT_GROUP_SCHED=y")
        .file("sys/block/md0/md/level", "raid0")
        .file("sys/block/md0/md/raid_disks", "8")
        .file("sys/block/md0/md/chunk_size", "524288")
        .file("sys/block/md0/queue/scheduler", "none")
        .file("sys/block/loop0/queue/scheduler", "none")
        .file(
            "proc/mounts",
            "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n/dev/md0 /mnt/a\\040b xfs rw,noatime 0 0",
        )
        .file("proc/diskstats", " 259 0 nvme1n1 10 0 80 5 20 0 160 15 0 12 20 0 0 0 0\n 7 0 loop0 1 2 3 4 5 6 7 8 9 10 11")
        .file("proc/pressure/cpu", "some avg10=1.00 avg60=0.50 avg300=0.10 total=123456")
        .file("etc/rc.local", "#!/bin/sh\n# echo f > rps_cpus\necho 2 > /proc/irq/24/smp_affinity")
        .file("proc/net/ptype", "Type Device      Function\nALL  ens6     tpacket_rcv")
        .file("proc/net/ip_tables_names", "filter\nnat");
    for disk in 1..=8 {
        let name = format!("nvme{disk}n1");
        let member = format!("sys/block/md0/slaves/{name}");
        tree = tree.nvme(disk, 100 * disk, 32).link(&member, &format!("../../{name}"));
    }
    for queue in 0..32 {
        // The cores of node 1, then their siblings.
        let cpu = if queue < 24 { 24 + queue } else { 72 + queue - 24 };
        tree = tree.message_interrupt(pci, 28 + queue, &format!("ens6-Tx-Rx-{queue}"), cpu);
    }
    tree
}

/// Two sockets of 64 cores with 16 cores per cache, 256 CPUs, mlx5 with interrupts that do not bear its name.
pub(crate) fn metal_256() -> Tree {
    let shape = Shape { sockets: 2, cores_per_socket: 64, threads_per_core: 2, cores_per_cache: 8 };
    let pci = "pci0000:80/0000:81:00.0";
    let mut tree = Tree::new()
        .kernel("6.8.0-45-generic")
        .firmware("Dell Inc.", "PowerEdge R7625", false)
        .cpus(shape)
        .nic("ens1f0np0", pci, "mlx5_core", 12, 12)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file(&format!("sys/devices/{pci}/numa_node"), "1")
        .file(
            &format!("sys/devices/{pci}/net/ens1f0np0/queues/rx-10/rps_cpus"),
            "80000000,00000000,00000000,00000000,00000000,00000000,00000000,00000001",
        );
    for queue in 0..12 {
        let irq = 300 + queue;
        let name = format!("mlx5_comp{queue}@pci:0000:81:00.0");
        tree = tree.file(&format!("sys/devices/{pci}/msi_irqs/{irq}"), "msix").interrupt(
            irq,
            &name,
            &(64 + queue).to_string(),
            &[],
        );
    }
    tree
}

/// Two interfaces in a bond that carries a VLAN.
pub(crate) fn bond_with_vlan() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 4, threads_per_core: 1, cores_per_cache: 4 };
    let tree = Tree::new()
        .kernel("6.1.0-18-amd64")
        .cpus(shape)
        .nic("eth0", "pci0000:00/0000:01:00.0", "ixgbe", 4, 4)
        .nic("eth1", "pci0000:00/0000:01:00.1", "ixgbe", 4, 4)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .file("sys/class/net/bonding_masters", "bond0")
        .virtual_nic("bond0", "bond", &["eth0", "eth1"])
        .virtual_nic("bond0.100", "vlan", &["bond0"]);
    (0..8).fold(tree, |tree, irq| {
        let (port, queue) = (irq / 4, irq % 4);
        let pci = format!("pci0000:00/0000:01:00.{port}");
        tree.message_interrupt(&pci, 40 + irq, &format!("eth{port}-TxRx-{queue}"), 0)
    })
}

/// Eight CPUs, of which 4, 5 and 7 are switched off: they keep their number and their node, and lose the rest.
pub(crate) fn offline_cpus() -> Tree {
    let online: CpuSet = "0-3,6".parse().expect("a list");
    let shape = Shape { sockets: 1, cores_per_socket: 4, threads_per_core: 1, cores_per_cache: 4 };
    let tree = Tree::new()
        .kernel("6.1.0-18-amd64")
        .cpus(shape)
        .file("sys/devices/system/cpu/possible", "0-15")
        .file("sys/devices/system/cpu/present", "0-7")
        .file("sys/devices/system/cpu/online", &online.to_string())
        .file("sys/devices/system/node/node0/cpulist", "0-3")
        .file("sys/devices/system/node/node1/cpulist", "6")
        .nic("eth0", "pci0000:00/0000:00:03.0/virtio0", "virtio_net", 2, 2)
        .file("proc/sys/net/core/rps_sock_flow_entries", "0")
        .message_interrupt("pci0000:00/0000:00:03.0", 24, "virtio0-config", 0)
        .message_interrupt("pci0000:00/0000:00:03.0", 25, "virtio0-input.0", 0)
        .message_interrupt("pci0000:00/0000:00:03.0", 26, "virtio0-output.0", 1)
        .message_interrupt("pci0000:00/0000:00:03.0", 27, "virtio0-input.1", 2)
        .message_interrupt("pci0000:00/0000:00:03.0", 28, "virtio0-output.1", 3)
        .softnet(&online, 15);
    let header = "                    CPU0       CPU1       CPU2       CPU3       CPU6";
    [4, 5, 7]
        .into_iter()
        .fold(tree, |tree, cpu| {
            tree.link(&format!("sys/devices/system/cpu/cpu{cpu}/node1"), "../../node/node1")
        })
        .file("proc/softirqs", &format!("{header}\n      NET_RX:  1 2 3 4 66"))
}

/// A container that hides /sys and makes /proc/sys read-only, as Docker mounts it: counters and settings of /proc
/// are all there is.
pub(crate) fn container() -> Tree {
    Tree::new()
        .kernel("6.1.0-18-amd64")
        .file(
            "proc/mounts",
            "proc /proc proc rw,nosuid 0 0\ncgroup2 /sys/fs/cgroup cgroup2 ro 0 0\nproc /proc/sys proc ro,nosuid 0 0",
        )
        .file("proc/sys/net/core/somaxconn", "128")
        .file("proc/sys/net/ipv4/tcp_max_syn_backlog", "512")
        .file("proc/stat", "cpu  1 1 1 1 1 1 1 1\ncpu0 1 0 0 1 0 0 0 0\ncpu2 1 0 0 1 0 0 0 0\nintr 5")
        .file("proc/net/softnet_stat", "00000010 00000000 00000000\n00000020 00000000 00000000")
        .process(7, "redis-server", "0::/", "0,2")
        // The root that it sees is a cgroup of the host's, with a quota.
        .file("sys/fs/cgroup/cpu.stat", "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0")
        // One that ended while it was looked at, and one that waits to be buried.
        .file("proc/8/comm", "memcached")
        .process(9, "memcached", "0::/", "0,2")
        .file("proc/9/task/9/status", "Name:\tmemcached\nState:\tZ (zombie)\nCpus_allowed_list:\t0")
}
