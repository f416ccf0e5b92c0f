use super::*;
use crate::facts::Agent;
use crate::plan::{Asked, plan};
use crate::shapes::{ENA, Shape, VIRTIO, XEN};

pub(super) const XEN_16: Shape = Shape { cpus: 16, threads: 1, nodes: 1, queues: 1, irqs: XEN };
const ENA_96: Shape = Shape { cpus: 96, threads: 2, nodes: 2, queues: 8, irqs: ENA };

pub(super) fn host(shape: Shape) -> Facts {
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
pub(super) fn check(facts: &Facts, strategy: &str, wanted: &[&str]) {
    let asked = Asked { strategy: Strategy::named(strategy), ..Asked::default() };
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
        &["eth0: irqbalance (PID 5) would move its interrupts back: ban them there first"],
    );
    facts.nics[0].rx[1].rps = CpuSet::first(4);
    check(&facts, "irqbalance", &["queues/rx-1/rps_cpus 0"]);
}

#[test]
fn masks_of_many_cpus_are_written_in_words_of_32() {
    let facts = host(ENA_96);
    let wishes = Strategy::RpsRfs.changes(&facts, &[&facts.nics[0]]);
    let mask = wishes.changes.iter().find(|change| change.setting.to_string().ends_with("rx-7/rps_cpus"));
    assert_eq!(mask.unwrap().wanted, "ff,fffe0000,00fffffe", "1-23 and 49-71");
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
fn every_strategy_is_found_by_its_name() {
    for strategy in Strategy::ALL {
        assert_eq!(Strategy::named(strategy.name()), Some(strategy));
    }
    assert_eq!(Strategy::named("fastest"), None);
}
