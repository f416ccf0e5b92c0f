use super::*;
use crate::observe::facts::{Agent, Channels, Coalescing, Facts, Irqbalance, Service};
use crate::observe::napi::InterruptDeferral;
use crate::observe::shapes::{ENA, Shape, VIRTIO, XEN};
use crate::plan::{PlanRequest, plan};
use crate::settings::change::Change;
use os::CpuSet;

pub(in crate::settings) const XEN_16: Shape = Shape { cpus: 16, threads: 1, nodes: 1, queues: 1, irqs: XEN };
const ENA_96: Shape = Shape { cpus: 96, threads: 2, nodes: 2, queues: 8, irqs: ENA };

pub(in crate::settings) fn host(shape: Shape) -> Facts {
    let mut facts = shape.facts();
    for name in ["net.core.rps_sock_flow_entries", "net.core.busy_read", "net.core.busy_poll"] {
        facts.sysctls.insert(name.into(), "0".into());
    }
    facts.kernel.version = (6, 18);
    facts.nics[0].defer_hard_irqs = Some(0);
    facts.nics[0].gro_flush_timeout_ns = Some(0);
    facts
}

/// What the strategy would do, a line each, refusals at the end.
#[track_caller]
pub(in crate::settings) fn check(facts: &Facts, strategy: &str, wanted: &[&str]) {
    let asked = PlanRequest { strategy: Strategy::named(strategy), ..PlanRequest::default() };
    let plan = plan(facts, &asked);
    let name = |change: &Change| change.setting.to_string().replace("/sys/class/net/eth0/", "");
    let steps = plan.changes.iter().map(|change| format!("{} {}", name(change), change.wanted));
    let refusals = plan.refusals.iter().map(|refusal| format!("{}: {}", refusal.subject, refusal.reason));
    let said: Vec<String> = steps.chain(refusals).collect();
    assert_eq!(said, wanted, "{strategy}");
}

#[test]
fn one_queue_is_steered_to_the_other_cpus() {
    check(
        &host(XEN_16),
        "rps-rfs",
        &[
            "/proc/sys/net/core/rps_sock_flow_entries 32768",
            "queues/rx-0/rps_cpus fffe",
            "queues/rx-0/rps_flow_cnt 32768",
        ],
    );
    check(&host(XEN_16), "none", &[]);
}

#[test]
fn the_cpu_that_only_hears_of_packets_sent_is_steered_to() {
    let mut facts = host(Shape { cpus: 2, irqs: VIRTIO, ..XEN_16 });
    facts.interrupts[1].effective = "1".parse().unwrap();
    check(
        &facts,
        "rps-rfs",
        &[
            "/proc/sys/net/core/rps_sock_flow_entries 32768",
            "queues/rx-0/rps_cpus 2",
            "queues/rx-0/rps_flow_cnt 32768",
        ],
    );
}

#[test]
fn interrupts_are_gathered_only_where_packets_can_go_elsewhere() {
    check(
        &host(XEN_16),
        "irq0-rps",
        &[
            "/proc/irq/40/smp_affinity 1",
            "/proc/sys/net/core/rps_sock_flow_entries 32768",
            "queues/rx-0/rps_cpus fffe",
            "queues/rx-0/rps_flow_cnt 32768",
        ],
    );
    check(
        &host(Shape { queues: 16, ..XEN_16 }),
        "irq0-rps",
        &["eth0: 16 receive queues for 16 CPUs: steering would only add a hop"],
    );
}

#[test]
fn interrupts_are_moved_before_anything_depends_on_them_and_only_if_nobody_moves_them_back() {
    let mut facts = host(Shape { cpus: 4, queues: 2, irqs: VIRTIO, ..XEN_16 });
    facts.interrupts[0].affinity = CpuSet::first(1);
    check(
        &facts,
        "spread",
        &["/proc/irq/41/smp_affinity 2", "/proc/irq/42/smp_affinity 1", "/proc/irq/43/smp_affinity 2"],
    );
    check(&facts, "irqbalance", &["eth0: irqbalance does not run; start it first"]);
    facts.agents = vec![Agent { name: "irqbalance".into(), pid: Some(5), sets: String::new() }];
    check(
        &facts,
        "spread",
        &[
            "eth0: irqbalance (PID 5) would move its interrupts back, and does not answer on its socket: ban them there first",
        ],
    );
    facts.irqbalance = Some(Irqbalance { pid: 5, banned: [7].into() });
    check(
        &facts,
        "spread",
        &[
            "interrupts that irqbalance (5) leaves alone 7 40 41 42 43",
            "/proc/irq/41/smp_affinity 2",
            "/proc/irq/42/smp_affinity 1",
            "/proc/irq/43/smp_affinity 2",
        ],
    );
    facts.irqbalance = Some(Irqbalance { pid: 5, banned: (40..44).collect() });
    facts.interrupts[1].affinity = "1".parse().unwrap();
    check(&facts, "spread", &["/proc/irq/42/smp_affinity 1", "/proc/irq/43/smp_affinity 2"]);
    facts.nics[0].rx[1].rps = CpuSet::first(4);
    check(&facts, "irqbalance", &["queues/rx-1/rps_cpus 0"]);
}

#[test]
fn masks_of_many_cpus_are_written_in_words_of_32() {
    let facts = host(ENA_96);
    let proposed = Strategy::RpsRfs.changes(&CpuModel::of(&facts), &[&facts.nics[0]]);
    let mask = proposed.changes.iter().find(|change| change.setting.to_string().ends_with("rx-7/rps_cpus"));
    assert_eq!(mask.unwrap().wanted, "ff,fffe0000,00fffffe", "1-23 and 49-71");
}

#[test]
fn interrupts_are_suspended_only_where_a_cache_polls() {
    let mut facts = host(XEN_16);
    check(
        &facts,
        "irq-suspend",
        &["services: no cache that polls runs here: start `evenkeel serve` with --busy-poll first"],
    );
    facts.services = vec![Service { pid: 7, polls: true, ..Service::default() }];
    check(&facts, "irq-suspend", &["eth0: it shows no NAPI, so there are no interrupts to suspend"]);
    let polled = InterruptDeferral {
        irq_suspend_timeout_ns: 20_000_000,
        defer_hard_irqs: 100,
        gro_flush_timeout_ns: 20_000,
    };
    facts.nics[0].napis = [(0, polled), (1, InterruptDeferral::default())].into();
    check(
        &facts,
        "irq-suspend",
        &["NAPI 1 of eth0 defer-hard-irqs=100 gro-flush-timeout=20000 irq-suspend-timeout=20000000"],
    );
    facts.kernel.version = (6, 12);
    check(&facts, "irq-suspend", &["kernel: interrupts can be suspended since Linux 6.13"]);
}

#[test]
fn interrupts_are_put_off_with_the_timer_first() {
    check(&host(XEN_16), "defer-50", &["gro_flush_timeout 50000", "napi_defer_hard_irqs 100"]);
    let mut old = host(XEN_16);
    old.kernel.version = (4, 14);
    check(&old, "defer-20", &["eth0: its interrupts cannot be put off: it takes Linux 5.8 and NAPI"]);
    check(
        &host(XEN_16),
        "busy-poll",
        &["/proc/sys/net/core/busy_read 50", "/proc/sys/net/core/busy_poll 50"],
    );
}

#[test]
fn queues_are_as_many_as_cores_and_never_fewer_than_before() {
    let with = |cpus, threads, combined| {
        let mut facts = host(Shape { cpus, threads, ..XEN_16 });
        facts.interrupts.clear();
        facts.nics[0].channel_kinds = Some(Channels { combined, ..Channels::default() });
        facts
    };
    check(&with(16, 1, (1, 32)), "queues", &["channels of eth0 combined=16"]);
    check(&with(16, 2, (1, 32)), "queues", &["channels of eth0 combined=8"]);
    check(&with(16, 1, (2, 8)), "queues", &["channels of eth0 combined=8"]);
    check(&with(2, 1, (4, 8)), "queues", &[]);
    check(&with(16, 1, (8, 8)), "queues", &[]);
    let mut apart = with(4, 1, (0, 0));
    apart.nics[0].channel_kinds = Some(Channels { rx: (1, 4), tx: (2, 2), combined: (0, 0) });
    check(&apart, "queues", &["channels of eth0 rx=4 tx=2"]);
    apart.nics[0].channel_kinds = None;
    check(&apart, "queues", &["eth0: its driver does not say how many queues it has"]);
}

#[test]
fn rings_are_as_long_as_bursts_and_memory_allow() {
    let with = |ring, memory_bytes| {
        let mut facts = host(Shape { queues: 8, ..XEN_16 });
        (facts.nics[0].rx_ring, facts.nics[0].mtu, facts.memory_bytes) = (ring, Some(9001), memory_bytes);
        facts
    };
    let large = 128 << 30;
    check(&with(Some((1024, 16384)), large), "rings", &["rings of eth0 rx=4096"]);
    check(&with(Some((4096, 16384)), large), "rings", &["rings of eth0 rx=8192"]);
    check(&with(Some((256, 511)), large), "rings", &["rings of eth0 rx=511"]);
    check(
        &with(Some((512, 512)), large),
        "rings",
        &["eth0: its receive ring is as long as can be: 512 of 512"],
    );
    check(&with(None, large), "rings", &["eth0: its driver has no ring that can be set"]);
    check(
        &with(Some((1024, 16384)), 8 << 30),
        "rings",
        &["eth0: 3072 more descriptors for each of 8 queues would take 384 MiB, more than 1 % of the memory"],
    );
}

#[test]
fn rings_that_are_kept_do_not_grow_whenever_they_are_kept() {
    let kept = |now| {
        let mut facts = host(XEN_16);
        (facts.nics[0].rx_ring, facts.memory_bytes) = (Some((now, 16384)), 128 << 30);
        let asked = PlanRequest { strategy: Some(Strategy::Rings), whole: true, ..PlanRequest::default() };
        plan(&facts, &asked).changes.remove(0).wanted
    };
    assert_eq!((kept(1024), kept(4096), kept(8192)), ("rx=4096".into(), "rx=4096".into(), "rx=8192".into()));
}

#[test]
fn a_driver_moderates_as_well_as_it_can_and_only_if_it_does_not_yet() {
    let with = |driver: &str, coalescing| {
        let mut facts = host(XEN_16);
        (facts.nics[0].driver, facts.nics[0].coalescing) = (Some(driver.into()), coalescing);
        facts
    };
    let off = Some(Coalescing::default());
    check(&with("ena", off), "coalesce", &["coalescing of eth0 adaptive-rx=1"]);
    check(&with("tg3", off), "coalesce", &["coalescing of eth0 rx-usecs=50"]);
    let set = Some(Coalescing { rx_usecs: 8, ..Coalescing::default() });
    let already = "eth0: it moderates its interrupts already; measure before changing rx-usecs by hand";
    check(&with("tg3", set), "coalesce", &[already]);
    check(&with("veth", None), "coalesce", &["eth0: its driver does not moderate interrupts"]);
}

#[test]
fn every_strategy_is_found_by_its_name() {
    for strategy in Strategy::ALL {
        assert_eq!(Strategy::named(strategy.name()), Some(strategy));
    }
    assert_eq!(Strategy::named("fastest"), None);
}

#[test]
fn json_has_strategies_as_they_are_typed_and_knows_what_earlier_versions_wrote() {
    for strategy in Strategy::ALL {
        let typed = format!("\"{}\"", strategy.name());
        assert_eq!(serde_json::to_string(&strategy).unwrap(), typed);
        assert_eq!(serde_json::from_str::<Strategy>(&typed).unwrap(), strategy);
    }
    assert_eq!(serde_json::from_str::<Strategy>("\"defer50\"").unwrap(), Strategy::Defer50);
    assert_eq!(serde_json::from_str::<Strategy>("\"defer20\"").unwrap(), Strategy::Defer20);
}
