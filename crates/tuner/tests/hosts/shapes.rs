//! Hosts of the shapes that matter.
//!
//! Provenance: none of them was captured. They are written from documentation: of the kernel (sysfs, /proc, names of
//! interrupts in the drivers' sources), of EC2's instance types, and from what others published of theirs.

use tuner::CpuSet;

use crate::tree::{Shape, Tree};

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
        .file("proc/sys/net/ipv4/tcp_rmem", "4096\t87380\t6291456")
        .file("sys/devices/system/clocksource/clocksource0/current_clocksource", "xen")
        .file("sys/devices/system/clocksource/clocksource0/available_clocksource", "xen tsc hpet acpi_pm")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
        .file("proc/stat", "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0")
        .softnet(&CpuSet::first(16), 11)
}

/// c5.4xlarge: 16 vCPUs, ENA with 8 queues, an EBS disk over NVMe.
pub(crate) fn c5_4xlarge() -> Tree {
    let shape = Shape { sockets: 1, cores_per_socket: 8, threads_per_core: 2, cores_per_cache: 8 };
    let pci = "pci0000:00/0000:00:05.0";
    let mut tree = Tree::new()
        .kernel("5.10.205-195.804.amzn2.x86_64")
        .firmware("Amazon EC2", "c5.4xlarge", true)
        .cpus(shape)
        .nic("eth0", pci, "ena", 8, 8)
        .file(&format!("sys/devices/{pci}/numa_node"), "-1")
        .file(&format!("sys/devices/{pci}/msi_irqs/27"), "msix")
        .interrupt(27, "ena-mgmnt@pci:0000:00:05.0", "0", &[1])
        // Reserved, and taken by nobody.
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
        .file(&format!("sys/devices/{pci}/numa_node"), "1")
        .process(700, "memcached", "0::/system.slice/memcached.service", "0-95")
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
        tree = tree.nvme(disk, 100 * disk, 32);
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
    Tree::new()
        .kernel("6.1.0-18-amd64")
        .cpus(shape)
        .nic("eth0", "pci0000:00/0000:01:00.0", "ixgbe", 4, 4)
        .nic("eth1", "pci0000:00/0000:01:00.1", "ixgbe", 4, 4)
        .file("sys/class/net/bonding_masters", "bond0")
        .virtual_nic("bond0", "bond", &["eth0", "eth1"])
        .virtual_nic("bond0.100", "vlan", &["bond0"])
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
        .softnet(&online, 15);
    let header = "                    CPU0       CPU1       CPU2       CPU3       CPU6";
    [4, 5, 7]
        .into_iter()
        .fold(tree, |tree, cpu| {
            tree.link(&format!("sys/devices/system/cpu/cpu{cpu}/node1"), "../../node/node1")
        })
        .file("proc/softirqs", &format!("{header}\n      NET_RX:  1 2 3 4 66"))
}

/// A container that hides /sys: counters and settings of /proc are all there is.
pub(crate) fn container() -> Tree {
    Tree::new()
        .kernel("6.1.0-18-amd64")
        .file("proc/stat", "cpu  1 1 1 1 1 1 1 1\ncpu0 1 0 0 1 0 0 0 0\ncpu2 1 0 0 1 0 0 0 0\nintr 5")
        .file("proc/net/softnet_stat", "00000010 00000000 00000000\n00000020 00000000 00000000")
        .process(7, "redis-server", "0::/", "0,2")
        // One that ended while it was looked at, and one that waits to be buried.
        .file("proc/8/comm", "memcached")
        .process(9, "memcached", "0::/", "0,2")
        .file("proc/9/task/9/status", "Name:\tmemcached\nState:\tZ (zombie)\nCpus_allowed_list:\t0")
}
