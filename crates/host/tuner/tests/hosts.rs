//! Findings of the probe on hosts of typical shapes, and the readings of their counters.

mod failures;
mod shapes;
mod talk;
mod talks;
mod tree;
mod units;

use os::CpuSet;
use tree::Tree;
use tuner::observe::facts::{Facts, Interrupt, ServiceKind};
use tuner::observe::probe::pids_of_unit;
use tuner::{Reading, probe, read};

fn look(tree: &Tree) -> (Facts, Reading) {
    let facts = probe(&tree.root(), &[]).expect("probe");
    let reading = read(&tree.root(), &facts, 0).expect("read");
    (facts, reading)
}

fn set(list: &str) -> CpuSet {
    list.parse().expect("a list of CPUs")
}

fn numbers(interrupts: &[Interrupt]) -> Vec<u32> {
    interrupts.iter().map(|interrupt| interrupt.irq).collect()
}

#[test]
fn on_xen_the_only_queue_has_the_interrupt_that_bears_the_interfaces_name() {
    let tree = shapes::c3_4xlarge();
    let (facts, reading) = look(&tree);
    assert_eq!((facts.kernel.version, facts.online().len()), ((3, 13), 16));
    assert_eq!(facts.guest.hypervisor.as_deref(), Some("xen"));
    let eth0 = facts.nic("eth0").unwrap();
    assert_eq!((eth0.driver.as_deref(), eth0.rx.len(), eth0.tx[0].xps.clone()), (Some("vif"), 1, None));
    assert_eq!(numbers(&facts.interrupts), [84]);
    assert_eq!(facts.interrupts[0].effective, set("0"));
    assert_eq!(facts.cpu(3).unwrap().siblings, set("3,11"));
    assert_eq!(facts.sysctl("net.core.somaxconn"), Some(128));
    assert_eq!(facts.sysctls["net.ipv4.tcp_rmem"], "4096 87380 6291456");
    assert_eq!(facts.clock_source.current.as_deref(), Some("xen"));
    assert_eq!(facts.huge_pages.enabled.as_deref(), Some("always"));
    assert_eq!(facts.memory_bytes, 30_882_500 * 1024);
    assert_eq!((reading.interrupts[&84][&0], reading.interrupts[&84][&15]), (4_000_000, 0));
    assert_eq!(reading.softnet[&15].processed, 0x10f);
    assert_eq!((reading.cpus[&0].user, reading.cpus[&0].steal), (3, 8));
}

#[test]
fn enas_interrupts_are_found_by_its_device_and_nvmes_are_managed() {
    let tree = shapes::c5_4xlarge();
    let (facts, reading) = look(&tree);
    assert_eq!(facts.guest.hypervisor.as_deref(), Some("kvm"));
    assert_eq!(facts.guest.product.as_deref(), Some("c5.4xlarge"));
    let of_nic: Vec<_> = facts.interrupts_of("eth0").cloned().collect();
    assert_eq!(numbers(&of_nic), [27, 28, 29, 30, 31, 32, 33, 34, 35], "36 has no handler");
    assert!(of_nic.iter().all(|interrupt| !interrupt.managed));
    let managed: Vec<bool> = facts.interrupts_of("nvme0n1").map(|interrupt| interrupt.managed).collect();
    assert_eq!(managed, [false, true, true, true, true, true, true, true, true], "the first administers");
    let eth0 = facts.nic("eth0").unwrap();
    assert_eq!((eth0.channels, eth0.channels_max, eth0.rx_ring), (Some(8), Some(8), Some((1024, 16384))));
    assert_eq!((eth0.node, eth0.speed_mbps), (None, None), "-1 stands for unknown");
    assert_eq!(reading.nics["eth0"]["bw_in_allowance_exceeded"], 3);
    assert_eq!(reading.nics["eth0"]["rx_packets"], 1000, "the kernel's, not the driver's");
    assert_eq!(reading.interrupts[&30][&4], 1002);
    assert_eq!((facts.listeners[0].backlog, facts.listeners[0].pid), (128, Some(700)));
}

#[test]
fn a_large_instance_has_two_nodes_an_array_and_a_service_under_a_quota() {
    let tree = shapes::i3en_24xlarge();
    let (facts, reading) = look(&tree);
    assert_eq!(facts.online_on(1), set("24-47,72-95"));
    assert_eq!(facts.nic("ens6").unwrap().node, Some(1));
    assert_eq!(facts.nic("ens6").unwrap().rx.len(), 32);
    assert_eq!(facts.kernel.rt_group_sched, Some(true));

    let names: Vec<&str> = facts.disks.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names[..3], ["md0", "nvme1n1", "nvme2n1"]);
    let raid = facts.disks[0].raid.as_ref().unwrap();
    assert_eq!(
        (raid.level.as_str(), raid.disks, raid.chunk_bytes, raid.degraded),
        ("raid0", 8, 512 << 10, 0)
    );
    assert_eq!(facts.disks[0].scheduler, None, "an array has no choice");
    assert_eq!(facts.disks[1].scheduler.as_deref(), Some("none"));
    assert_eq!(
        (facts.disks[0].below.len(), &facts.disks[1].partitions[..]),
        (8, &["nvme1n1p1".to_owned()][..])
    );
    let nvme = &facts.disks[1];
    assert_eq!(
        (nvme.write_cache.as_deref(), nvme.rq_affinity, nvme.io_poll),
        (Some("write through"), Some(1), Some(false))
    );
    assert_eq!(facts.disk_of("/dev/nvme1n1p1").map(|disk| disk.name.as_str()), Some("nvme1n1"));
    assert_eq!(facts.mounts.len(), 1);
    assert_eq!(facts.mounts[0].path, "/mnt/a b");
    assert_eq!(facts.mount_of("/mnt/a b/tier").map(|mount| mount.device.as_str()), Some("/dev/md0"));
    assert_eq!(facts.mount_of("/mnt/a bc"), None);
    let times = reading.disks["nvme1n1"];
    assert_eq!((times.requests, times.waited_ms, times.busy_ms), (30, 20, 12));
    assert_eq!(reading.disks.len(), 1, "a loop device is no disk");

    let [service] = &facts.services[..] else { panic!("one service: {:?}", facts.services) };
    assert_eq!((service.kind, service.pid), (ServiceKind::Memcached, 700));
    assert_eq!(service.unit.as_deref(), Some("memcached.service"));
    assert_eq!(pids_of_unit(&tree.root(), "memcached"), [700]);
    assert_eq!(pids_of_unit(&tree.root(), "session-1.scope"), [900]);
    assert_eq!((service.allocator.as_str(), service.threads[0].policy), ("jemalloc", 1));
    assert_eq!((service.threads[0].priority, &service.threads[0].affinity), (5, &set("0-95")));
    assert_eq!((service.resident_bytes, service.huge_bytes, service.swapped_bytes), (2 << 20, 1 << 20, 4096));
    assert_eq!(reading.threads[&700].wait_ns, 700);
    assert_eq!(reading.cgroups["/system.slice"].throttled, 7);
    assert_eq!(reading.cgroups.len(), 1, "the service's own cgroup has no quota");
    assert_eq!(reading.stalled_us["cpu"], 123_456);

    let agents: Vec<_> = facts.agents.iter().map(|agent| (agent.name.as_str(), agent.pid)).collect();
    assert_eq!(agents, [("irqbalance", Some(800)), ("/etc/rc.local", None)]);
    assert_eq!(facts.agents[1].sets, "smp_affinity", "comments set nothing");
    assert_eq!(
        (facts.per_packet_costs.taps, &facts.per_packet_costs.filters[..]),
        (1, &["filter".to_owned(), "nat".to_owned()][..])
    );
}

#[test]
fn isolated_cpus_and_cpusets_are_known() {
    let tree = shapes::c5_4xlarge()
        .file("sys/devices/system/cpu/isolated", "14-15")
        .file("sys/devices/system/cpu/nohz_full", "12-13")
        .file("sys/fs/cgroup/cpuset.cpus.isolated", "11")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-15")
        .file("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-9");
    let (facts, _) = look(&tree);
    assert_eq!((&facts.isolated, &facts.nohz_full), (&set("11,14-15"), &set("12-13")));
    assert_eq!(facts.isolated(), set("11-15"));
    assert_eq!(facts.services[0].cpuset, Some(set("0-9")), "of the slice: the unit's own has no file");
    let (facts, _) = look(&shapes::c5_4xlarge().file("sys/devices/system/cpu/nohz_full", "(null)"));
    assert_eq!((facts.isolated(), facts.services[0].cpuset.clone()), (set(""), None));
    assert!(!facts.gaps.iter().any(|gap| gap.contains("nohz_full")), "{:?}", facts.gaps);
}

#[test]
fn metal_has_no_hypervisor_and_masks_of_many_words() {
    let tree = shapes::metal_256();
    let (facts, _) = look(&tree);
    assert_eq!((facts.guest.hypervisor.as_deref(), facts.cpus.len()), (None, 256));
    let cpu = facts.cpu(200).unwrap();
    assert_eq!((cpu.node, cpu.package, &cpu.siblings), (1, 1, &set("72,200")));
    assert_eq!(cpu.cache, set("72-79,200-207"));
    let nic = facts.nic("ens1f0np0").unwrap();
    assert_eq!(nic.rx[10].rps, set("0,255"));
    assert!(nic.rx[2].rps.is_empty());
    assert_eq!(facts.interrupts_of("ens1f0np0").count(), 12);
}

#[test]
fn a_vlan_stands_on_a_bond_and_a_bond_on_its_members() {
    let tree = shapes::bond_with_vlan();
    let (facts, _) = look(&tree);
    let found: Vec<_> =
        facts.nics.iter().map(|nic| (nic.name.as_str(), nic.physical, nic.lower.join(" "))).collect();
    let expected = [
        ("bond0", false, "eth0 eth1".to_owned()),
        ("bond0.100", false, "bond0".to_owned()),
        ("eth0", true, String::new()),
        ("eth1", true, String::new()),
    ];
    assert_eq!(found, expected);
    assert_eq!(facts.nic("bond0.100").unwrap().driver.as_deref(), Some("vlan"));
}

#[test]
fn cpus_that_are_off_keep_their_node_and_have_no_counters() {
    let tree = shapes::offline_cpus();
    let (facts, reading) = look(&tree);
    assert_eq!((facts.cpus.len(), facts.online()), (8, set("0-3,6")));
    assert_eq!(facts.cpu(7).map(|cpu| (cpu.online, cpu.node)), Some((false, 1)));
    assert_eq!(facts.online_on(1), set("6"));
    assert_eq!(reading.softnet.keys().copied().collect::<CpuSet>(), set("0-3,6"));
    assert_eq!(reading.softnet[&6].processed, 0x106);
    assert_eq!(reading.softirqs["NET_RX"][&6], 66);
}

#[test]
fn a_container_without_sys_tells_what_it_can_and_says_what_it_cannot() {
    let tree = shapes::container();
    let (facts, reading) = look(&tree);
    assert_eq!(facts.online(), set("0,2"));
    assert_eq!(facts.cpu(2).unwrap().siblings, set("2"));
    assert!(facts.nics.is_empty() && facts.interrupts.is_empty());
    let services: Vec<_> = facts.services.iter().map(|service| (service.pid, service.kind)).collect();
    assert_eq!(services, [(7, ServiceKind::Redis)], "those that have ended serve nobody");
    for missing in ["topology is unknown", "no listeners.json", "no ethtool.json"] {
        assert!(facts.gaps.iter().any(|gap| gap.contains(missing)), "{missing}: {:?}", facts.gaps);
    }
    assert_eq!(reading.softnet.keys().copied().collect::<CpuSet>(), set("0,2"));
}

#[test]
fn a_service_is_known_by_the_file_that_it_runs_and_not_by_what_it_calls_itself() {
    let tree = Tree::new()
        .kernel("6.1.0-18-amd64")
        .process(7, "cache-frontend", "0::/", "0")
        .link("proc/7/exe", "/opt/memcached/bin/memcached-1.6.45 (deleted)")
        .file("proc/7/cmdline", "memcached\0-o\0slab_reassign,ext_path=/mnt/a/extstore:64G\0-m\x001024")
        .process(6, "evenkeel", "0::/", "0")
        .link("proc/6/exe", "/usr/bin/evenkeel")
        .file(
            "proc/6/cmdline",
            "evenkeel\0serve\0-oext_path=/dev/disk/by-id/nvme-a:1t\0-o\0ext_path=/dev/sdb:9g",
        )
        .link("dev/disk/by-id/nvme-a", "../../nvme1n1")
        .process(8, "memcached", "0::/", "0")
        .link("proc/8/exe", "/usr/bin/python3.11")
        .process(9, "mysqld", "0::/", "0")
        .process(10, "redis-server", "0::/", "0")
        .link("proc/10/exe", "/usr/bin/redis-check-rdb")
        .link("proc/10/cwd", "/var/lib/redis")
        .process(11, "redis-check-rdb", "0::/", "0")
        .link("proc/11/exe", "/usr/bin/redis-check-rdb");
    let (facts, _) = look(&tree);
    let found: Vec<_> = facts.services.iter().map(|service| format!("{service}")).collect();
    assert_eq!(found, ["evenkeel (PID 6)", "memcached (PID 7)", "mysqld (PID 9)", "redis-server (PID 10)"]);
    let data: Vec<_> = facts.services.iter().map(|service| service.data.join(" ")).collect();
    assert_eq!(data, ["/dev/nvme1n1 /dev/sdb", "/mnt/a/extstore", "", "/var/lib/redis"]);
    let by_name = facts.gaps.iter().filter(|gap| gap.contains("by its name alone"));
    assert_eq!(by_name.collect::<Vec<_>>().len(), 1, "{:?}", facts.gaps);
}

#[test]
fn facts_survive_being_written_and_read() {
    let (facts, reading) = look(&shapes::c5_4xlarge());
    let text = serde_json::to_string(&(&facts, &reading)).expect("write");
    assert_eq!(serde_json::from_str::<(Facts, Reading)>(&text).expect("read"), (facts, reading));
}
