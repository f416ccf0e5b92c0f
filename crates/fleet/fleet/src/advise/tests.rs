//! The model on shapes and workloads whose answer can be computed by hand.

use super::*;

fn exact(value: f64) -> InputFigure {
    InputFigure::chosen(value)
}

/// Round figures: a get alone takes 10 µs at 3 GHz.
fn costs() -> RequestCosts {
    RequestCosts {
        architecture: CpuArchitecture::X86,
        clock_ghz: exact(3.0),
        get_us: exact(10.0),
        get_of_16_us: exact(1.0),
        get_4k_us: exact(12.0),
        get_64k_us: exact(30.0),
        set_us: exact(10.0),
        set_of_16_us: exact(1.0),
        set_4k_us: exact(12.0),
        set_64k_us: exact(30.0),
        delete_us: exact(10.0),
        multiget_16_us: exact(14.0),
        multiget_100_us: exact(35.0),
        tls_get_us: exact(12.0),
        tls_get_of_16_us: exact(1.2),
        tls_get_4k_us: exact(15.0),
        tls_get_64k_us: exact(51.0),
        udp_get_us: exact(9.0),
        flash_get_us: exact(15.0),
        record_bytes: exact(20.0),
        index_bytes: exact(12.0),
        flash_item_bytes: exact(12.0),
        flash_write_amplification: exact(1.0),
        disk_reads_per_read: exact(1.0),
        disk_writes_per_set: exact(0.0),
        flash_p99_us: exact(1_000.0),
    }
}

/// Without surprises: all of a host is the cache's, and CPUs may be used whole.
fn assumptions() -> AdviceAssumptions {
    AdviceAssumptions {
        cpu_ceiling: exact(1.0),
        burst_requests: exact(1.0),
        host_memory_gib: exact(0.0),
        host_memory_share: exact(0.0),
        memory_fill: exact(1.0),
        disk_fill: exact(1.0),
        ..AdviceAssumptions::default()
    }
}

/// 200,000 gets a second, but for a few that keep whole hosts whole; 10 M items of 100 bytes.
fn workload() -> CacheWorkload {
    CacheWorkload {
        name: "by hand".to_owned(),
        get: InputFigure::stated(199_900.0),
        set: exact(0.0),
        delete: exact(0.0),
        multiget: exact(0.0),
        multiget_keys: exact(1.0),
        pipeline: exact(1.0),
        hit_ratio: exact(1.0),
        key_bytes: exact(20.0),
        value_bytes: exact(80.0),
        value_p99_bytes: None,
        items: InputFigure::stated(1e7),
        hot_items: None,
        hot_hits: None,
        miss_curve: Vec::new(),
        p99_ms: exact(1_000.0),
        tls_share: exact(0.0),
        udp_share: exact(0.0),
        connections: exact(0.0),
        zones: 1,
        spare_share: exact(0.0),
        headroom: exact(1.0),
        spike: exact(1.0),
        backend_usd_per_million: None,
        is_real_time: false,
        unspread_queues: None,
    }
}

pub(super) fn inputs(change: impl FnOnce(&mut CacheWorkload)) -> AdviceInputs {
    let mut workload = workload();
    change(&mut workload);
    AdviceInputs { workload, costs: costs(), assumptions: assumptions() }
}

fn shape(name: &str, vcpus: u32, memory_gib: f64, usd: f64) -> HostShape {
    HostShape {
        name: name.to_owned(),
        cloud: "ours".to_owned(),
        family: name.split('.').next().unwrap_or_default().to_owned(),
        architecture: CpuArchitecture::X86,
        vcpus,
        threads_per_core: 2,
        clock_ghz: Some(3.0),
        memory_gib,
        baseline_gbit: Some(100.0),
        burst_gbit: Some(200.0),
        disks: Some(LocalDisks { count: 0, gb: 0.0, kind: LocalDiskKind::Nvme }),
        packets_per_s: Some(1e9),
        disk_read_iops: None,
        disk_write_iops: None,
        disk_bytes_per_s: None,
        disk_read_p99_us: None,
        connections: Some(1_000_000),
        prices: vec![ShapePrice {
            region: "here".to_owned(),
            date: "2026-12-01".to_owned(),
            usd_per_hour: usd,
        }],
    }
}

fn best(inputs: &AdviceInputs, shapes: &[HostShape]) -> ShapeAdvice {
    advise(inputs, shapes, "here").expect("a workload").best.into_iter().next().expect("a shape")
}

/// Checks which resource binds, and how many hosts it asks for.
#[track_caller]
fn check_binds(inputs: &AdviceInputs, shape: &HostShape, resource: HostResource, hosts: f64) {
    let found = best(inputs, std::slice::from_ref(shape));
    assert_eq!(found.fit.uses[0].resource, resource, "{:?}", found.fit.uses);
    let exact = found.fit.hosts_exact;
    assert!((exact / hosts - 1.0).abs() < 0.01, "{exact} hosts, expected {hosts}");
}

/// 200,000 × 10 µs are two CPUs.
#[test]
fn what_there_is_least_of_binds() {
    let large = shape("a.large", 1, 1024.0, 1.0);
    check_binds(&inputs(|_| ()), &large, HostResource::Cpu, 2.0);
    // 10 M × (120 + 12) bytes are 1.32 GB; of 0.25 GiB each.
    check_binds(
        &inputs(|_| ()),
        &shape("a.small", 64, 0.25, 1.0),
        HostResource::Memory,
        1.32e9 / 268_435_456.0,
    );
    check_binds(
        &inputs(|_| ()),
        &HostShape { packets_per_s: Some(100_000.0), ..large.clone() },
        HostResource::Packets,
        4.0,
    );
    // 200,000 × (20 + 80 + 2 × 30 + 66) bytes a second.
    let slow = HostShape { baseline_gbit: Some(0.1), ..large.clone() };
    check_binds(&inputs(|_| ()), &slow, HostResource::Bandwidth, 200_000.0 * 226.0 / 12.5e6);
    let spike = inputs(|workload| workload.spike = exact(10.0));
    let capped = HostShape { burst_gbit: Some(0.2), ..large };
    check_binds(&spike, &capped, HostResource::SpikeBandwidth, 2_000_000.0 * 226.0 / 25e6);
}

#[test]
fn headroom_spare_zones_and_whole_hosts() {
    let host = shape("a.large", 1, 1024.0, 1.0);
    let spared = inputs(|workload| {
        workload.headroom = exact(0.5);
        workload.spare_share = exact(1.0 / 3.0);
        workload.zones = 3;
    });
    check_binds(&spared, &host, HostResource::Cpu, 6.0);
    assert_eq!(best(&spared, std::slice::from_ref(&host)).fit.hosts, 6);
    let zones = inputs(|workload| workload.zones = 3);
    assert_eq!(best(&zones, &[host]).fit.hosts, 3, "one in each zone");
}

#[test]
fn classes_clocks_and_encryption_have_their_price() {
    let host = shape("a.large", 1, 1024.0, 1.0);
    let check =
        |change: fn(&mut CacheWorkload), cpus| check_binds(&inputs(change), &host, HostResource::Cpu, cpus);
    check(|workload| workload.tls_share = exact(0.5), 2.2);
    check(|workload| workload.udp_share = exact(1.0), 1.8);
    // 16 together cost 1 µs each.
    check(|workload| workload.pipeline = exact(16.0), 0.2);
    check(|workload| workload.value_bytes = exact(4096.0), 2.4);
    // 14 µs for 16 keys, 0.25 µs for each more.
    check(
        |workload| {
            (workload.get, workload.multiget, workload.multiget_keys) =
                (exact(0.0), exact(100_000.0), exact(56.0))
        },
        2.4,
    );
    let fast = HostShape { clock_ghz: Some(4.0), ..host };
    check_binds(&inputs(|_| ()), &fast, HostResource::Cpu, 1.5);
}

/// Each client connects to every server, so connections bind a host and not a count; their memory is not the cache's.
#[test]
fn connections_are_of_each_host() {
    let host = shape("a.large", 64, 1.0, 1.0);
    let many = |count: f64| inputs(|workload| workload.connections = exact(count));
    let few = HostShape { connections: Some(10_000), ..host.clone() };
    let refused = advise(&many(20_000.0), &[few], "here").expect("a workload");
    assert_eq!(refused.left_out[0].why, "more connections than each host can have");
    let memory = |count| best(&many(count), std::slice::from_ref(&host)).fit.hosts_exact;
    assert!(memory(100_000.0) > memory(0.0) * 1.5);
}

#[test]
fn a_limit_that_is_not_known_binds_nothing_and_is_named() {
    let host =
        HostShape { packets_per_s: None, clock_ghz: None, disks: None, ..shape("a.large", 1, 1024.0, 1.0) };
    let found = best(&inputs(|_| ()), &[host]);
    let packets = found.fit.uses.iter().find(|used| used.resource == HostResource::Packets).expect("packets");
    assert_eq!((packets.limit, packets.hosts), (None, None));
    let unknown: Vec<_> =
        found.fit.unknown.iter().map(|unknown| (unknown.what, unknown.consequence)).collect();
    let each = 399_800.0 / f64::from(found.fit.hosts);
    assert_eq!(
        unknown,
        [
            ("packets per second", UnknownConsequence::Needs(each)),
            ("clock in GHz", UnknownConsequence::Taken(2.6)),
            ("local disks", UnknownConsequence::DoneWithout),
        ]
    );
}

fn with_disks(gb: f64) -> HostShape {
    HostShape {
        disks: Some(LocalDisks { count: 1, gb, kind: LocalDiskKind::Nvme }),
        disk_read_iops: Some(1e6),
        disk_bytes_per_s: Some(1e12),
        disk_read_p99_us: Some(500.0),
        ..shape("d.large", 64, 0.25, 1.0)
    }
}

fn on_flash(change: impl FnOnce(&mut CacheWorkload)) -> AdviceInputs {
    inputs(|workload| {
        (workload.hot_items, workload.hot_hits) = (Some(exact(0.1)), Some(exact(0.5)));
        change(workload);
    })
}

/// One item of ten in memory, the others 12 bytes each; 9 M × 120 bytes on disks.
#[test]
fn items_on_flash_take_their_index_of_memory() {
    let bytes = 1e6 * 132.0 + 9e6 * 12.0;
    check_binds(&on_flash(|_| ()), &with_disks(1_000.0), HostResource::Memory, bytes / 268_435_456.0);
    check_binds(&on_flash(|_| ()), &with_disks(0.3), HostResource::DiskSpace, 9e6 * 120.0 / 3e8);
    let few = HostShape { disk_read_iops: Some(10_000.0), ..with_disks(1_000.0) };
    // Memory alone would take five hosts, and takes the place of ten for these reads.
    check_binds(&on_flash(|_| ()), &few, HostResource::Memory, 1.32e9 / 268_435_456.0);
}

/// If one in a hundred waits for the disk, the disk is within the target.
#[test]
fn a_strict_target_leaves_flash_alone() {
    let strict = on_flash(|workload| workload.p99_ms = exact(0.4));
    assert_eq!(best(&strict, &[with_disks(1_000.0)]).fit.place, ItemsPlace::Memory);
    let relaxed = on_flash(|workload| workload.p99_ms = exact(10.0));
    assert_eq!(best(&relaxed, &[with_disks(1_000.0)]).fit.place, ItemsPlace::Flash);
}

#[test]
fn real_time_threads_may_use_a_fifth_more() {
    let host = shape("a.large", 1, 1024.0, 1.0);
    let with = |is_real_time| {
        let mut inputs = inputs(|workload| workload.is_real_time = is_real_time);
        inputs.assumptions.cpu_ceiling = exact(0.7);
        best(&inputs, std::slice::from_ref(&host)).fit.hosts_exact
    };
    assert!((with(false) / with(true) - 1.2).abs() < 1e-9);
}

#[test]
fn the_cheapest_of_each_family_is_shown_with_the_next_ones() {
    let shapes = [
        shape("b.large", 2, 1024.0, 3.0),
        shape("a.xlarge", 2, 1024.0, 2.2),
        shape("a.large", 1, 1024.0, 1.0),
        shape("c.large", 2, 1024.0, 9.0),
        shape("d.large", 2, 1024.0, 99.0),
        HostShape { prices: Vec::new(), ..shape("e.large", 2, 1024.0, 1.0) },
    ];
    let advice = advise(&inputs(|_| ()), &shapes, "here").expect("a workload");
    let names: Vec<_> =
        advice.best.iter().map(|found| (found.shape.name.as_str(), found.usd_per_hour)).collect();
    assert_eq!(names, [("a.large", 2.0), ("b.large", 3.0), ("c.large", 9.0)]);
    assert_eq!(advice.best[0].usd_per_month(), 1_460.0);
    assert_eq!(
        advice.left_out,
        [LeftOut { why: "no price in here".to_owned(), count: 1, example: "e.large".to_owned() }]
    );
}

/// Twice the items are a tenth fewer misses: worth it if a miss is dear.
#[test]
fn memory_is_bought_while_it_costs_less_than_misses() {
    let host = shape("a.large", 64, 1.0, 1.0);
    let kept = |usd: f64| {
        let inputs = inputs(|workload| {
            workload.miss_curve = vec![(1e9, 0.8), (2e9, 0.9), (40e9, 0.91)];
            workload.backend_usd_per_million = Some(exact(usd));
        });
        let advice = advise(&inputs, std::slice::from_ref(&host), "here").expect("a workload");
        assert_eq!(advice.curve.len(), 3);
        advice.best[0].kept.hit_ratio
    };
    // 200,000 misses a second are 720 times a million an hour.
    assert_eq!([kept(1e-6), kept(1.0), kept(100.0)], [0.8, 0.9, 0.91]);
}

#[test]
fn what_matters_is_named_first_and_ranges_add_up() {
    let shapes = [shape("a.large", 1, 1024.0, 1.0), shape("b.large", 1, 1024.0, 1.1)];
    let mut inputs = inputs(|workload| {
        workload.get = InputFigure::stated(19_990_000.0);
        workload.headroom = exact(0.5);
    });
    inputs.assumptions.work_per_clock = InputFigure::assumed(1.0, 0.5, 1.0, "a test");
    let advice = advise(&inputs, &shapes, "here").expect("a workload");
    let mut names: Vec<_> = advice.effects.iter().take(3).map(|effect| effect.name).collect();
    names.sort_unstable();
    // What there is is multiplied by them: with 0.8 of one it is a quarter more hosts.
    assert_eq!(names, ["cpu_ceiling", "headroom", "work_per_clock"]);
    let pipeline = advice.effects.iter().find(|effect| effect.name == "pipeline").expect("an effect");
    assert_eq!(
        pipeline.less.as_ref().map(|less| less.hosts),
        Some(advice.best[0].fit.hosts),
        "no less than 1"
    );
    assert_eq!(to_measure(&advice.effects).map(|effect| effect.name), Some("work_per_clock"));
    let (low, high) = advice.best[0].hosts_range;
    let hosts = advice.best[0].fit.hosts;
    assert!(low < hosts && hosts * 2 <= high && high < hosts * 3, "{low} {hosts} {high}");
    let headroom = advice.effects.iter().find(|effect| effect.name == "headroom").expect("an effect");
    assert_eq!(headroom.less.as_ref().map(|less| less.hosts), Some(500));
}

/// Pinterest 2013: a host with four CPUs and one queue; at 50,000 packets/s CPU 0 has nothing left, and all CPUs together are busy for
/// 1.37 s a second (docs of the report: idle 0, 88.53, 86.67 and 87.57 %).
#[test]
fn one_queue_binds_at_50_000_packets_a_second() {
    let busy = 4.0 - (0.0 + 0.8853 + 0.8667 + 0.8757);
    let host = shape("xen.4cpu", 4, 1024.0, 1.0);
    let with = |unspread_queues| {
        let mut inputs = inputs(|workload| {
            workload.get = exact(50_000.0);
            workload.unspread_queues = unspread_queues;
        });
        inputs.costs.get_us = exact(busy / 50_000.0 * 1e6);
        inputs.costs.get_of_16_us = inputs.costs.get_us.clone();
        inputs
    };
    check_binds(&with(Some(1)), &host, HostResource::QueueCpu, 1.0);
    // Receive packet steering buys 2.9 times as many packets.
    check_binds(&with(None), &host, HostResource::Cpu, 0.343);
}

/// Pinterest 2015: MySQL with 16 KiB pages on two SSDs in RAID 0, which wrote 350 MB/s at random, and 5,100 to 6,000 writes a second.
#[test]
fn writes_of_two_disks_bind_a_data_base() {
    let iops = 350e6 / 16_384.0;
    let mut inputs = on_flash(|workload| {
        (workload.get, workload.set) = (exact(20_000.0), exact(6_000.0));
        workload.p99_ms = exact(30.0);
    });
    inputs.costs.get_us = exact(100.0);
    inputs.costs.set_us = exact(200.0);
    inputs.costs.disk_writes_per_set = exact(iops / 6_000.0);
    let raid = HostShape { disk_write_iops: Some(iops), ..shape("i2.2xlarge", 8, 61.0, 1.7) };
    let raid = HostShape {
        disks: with_disks(1_600.0).disks,
        disk_read_iops: Some(150_000.0),
        disk_read_p99_us: Some(1_000.0),
        ..raid
    };
    // 80 M pages are 1.3 TB, of which 39 GB are in memory.
    (inputs.workload.items, inputs.workload.value_bytes) = (exact(8e7), exact(16_364.0));
    inputs.workload.hot_items = Some(exact(0.03));
    check_binds(&inputs, &raid, HostResource::DiskWrites, 1.0);
    let one = HostShape { disk_write_iops: Some(iops / 2.0), ..raid };
    check_binds(&inputs, &one, HostResource::DiskWrites, 2.0);
}

/// Pinterest 2022, in sum: what one server of a cluster, and one request, have of it.
#[test]
fn the_published_fleet_adds_up() {
    let (servers, requests, bytes_per_s, bytes, clusters) = (5_000.0, 180e6, 220e9, 460e12, 70.0);
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
    near(servers / clusters, 71.4);
    near(requests / servers, 36_000.0);
    near(bytes / servers, 92e9);
    near(bytes_per_s / requests, 1_222.0);
    // A pool of 8 connections from each of 5,000 hosts are tens of thousands a server, and over a million a cluster.
    let connections = 5_000.0 * 8.0;
    assert!((10_000.0..100_000.0).contains(&connections) && connections * 71.0 > 1e6);
    // The model's bytes on the wire, with nine gets of ten and values of 1,000 bytes, are those of the report.
    let mean = inputs(|workload| {
        (workload.get, workload.set) = (exact(0.9 * requests / clusters), exact(0.1 * requests / clusters));
        (workload.key_bytes, workload.value_bytes, workload.hit_ratio) =
            (exact(40.0), exact(1_000.0), exact(0.95));
        workload.items = exact(bytes / clusters / 1_040.0);
    });
    let demand = demand::Demand::of(&mean, ItemsPlace::Memory);
    near(demand.requests * clusters, requests);
    let both_ways = demand::wire_bytes_both_ways(&mean) * clusters;
    assert!((0.8..1.2).contains(&(both_ways / bytes_per_s)), "{both_ways}");
}

#[test]
fn workloads_beyond_a_limit_are_refused() {
    let refused = |change: fn(&mut CacheWorkload)| {
        advise(&inputs(change), &[], "here").expect_err("a limit").to_string()
    };
    assert_eq!(refused(|workload| workload.get.value = -1.0), "`get` is -1: expected 0 to 10000000000");
    assert_eq!(
        refused(|workload| workload.items = exact(1e12)),
        "`count` is 1000000000000: expected 1 to 100000000000"
    );
    assert!(refused(|workload| workload.get = exact(0.0)).starts_with("there are no requests"));
    assert!(
        refused(|workload| workload.miss_curve = vec![(1.0, 0.5), (1.0, 0.6)]).starts_with("the miss curve")
    );
    assert!(refused(|workload| workload.hot_items = Some(exact(0.1))).contains("are given together"));
}
