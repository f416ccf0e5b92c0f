//! Placement of interrupts: CPUs that take those of a network device and should not.

use super::figures::{cpus, percent, percent_if_known};
use super::host::RuleInput;
use super::packets::{SATURATED_PERCENT, saturated};
use super::rule::{Explanation, Remedy, RemedyOrder, Rule};
use crate::observe::facts::{Interrupt, Nic};
use crate::settings::interrupts;
use crate::settings::strategy::Strategy;
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[Rule {
    explanation: Explanation {
        rule: "irqs-misplaced",
        title: "interrupts of a network device arrive on the wrong CPUs",
        evidence: "Interrupts of an interface's queues arrive on isolated CPUs (isolcpus, nohz_full, isolated \
                   partitions of cpusets), or on another NUMA node than the device's while CPUs of its node take none. \
                   A warning once such a CPU spends 10 % in interrupts, critical at 60 % or where one is saturated by \
                   packets.",
        meaning: "On another node every packet is fetched across the interconnect. A CPU is isolated to leave it to one \
                  program, which every interrupt stops. Steering (RPS) does not help: the interrupts stay where they \
                  are, and hand the packets on.",
        remedy: "One CPU for each interrupt, of those near the device that are not isolated, and irqbalance configured \
                 to leave them alone; steering only if these CPUs have no time then. Interrupts that the kernel manages \
                 cannot be moved; isolcpus=managed_irq,LIST keeps them off isolated CPUs from the next boot on.",
    },
    remedy: Remedy::of_strategy(Strategy::Spread, &[interrupts::spread])
        .ordered(RemedyOrder::MovesInterrupts),
    find: misplaced,
}];

/// A CPU that spends this much in interrupts which belong elsewhere (proposal; below, moving them gains little).
const MISPLACED_PERCENT: f64 = 10.0;

fn misplaced(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| misplaced_of(host, nic)).collect()
}

fn misplaced_of(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let interrupts = host.model.misplaced(nic);
    let near = host.near(nic);
    let outside = |interrupt: &&Interrupt| host.taken_by(interrupt).without(&near);
    let taken = interrupts.iter().map(outside).fold(CpuSet::new(), |all, cpus| all.or(&cpus));
    if taken.is_empty() {
        return None;
    }
    let isolated = taken.and(&host.facts.isolated());
    let busiest = host.interrupts_at_most(&taken);
    let is_full = saturated(host).keys().any(|cpu| taken.contains(*cpu));
    let severity = match is_full || host.has_interrupts(&taken, SATURATED_PERCENT) {
        true => Severity::Critical,
        false if host.has_interrupts(&taken, MISPLACED_PERCENT) => Severity::Warning,
        false => Severity::Note,
    };
    let at = match (isolated.is_empty(), nic.node) {
        (false, _) => format!("{}, which are isolated from such work", cpus(&isolated)),
        (true, Some(node)) => format!("{}, away from its NUMA node {node}", cpus(&taken)),
        (true, None) => cpus(&taken),
    };
    let all = interrupts.len();
    let (what, arrive) = if all == 1 { ("interrupt", "arrives") } else { ("interrupts", "arrive") };
    let finding = Finding::about(severity, &nic.name)
        .cause(format!("{all} {what} of {} {arrive} on {at}", nic.name))
        .effect(match isolated.is_empty() {
            true => "packets stay in the memory of their node",
            false => "isolated CPUs are left to their programs",
        })
        .saw(host.measured("CPUs that take them", taken.to_string()))
        .saw(Evidence::setting(format!("CPUs for interrupts of {}", nic.name), near.to_string()))
        .saw(
            host.measured("irq + softirq, busiest of these", percent_if_known(busiest))
                .threshold(percent(MISPLACED_PERCENT)),
        );
    Some(match interrupts.iter().all(|interrupt| interrupt.managed) {
        true => finding.not_here(
            "the kernel manages these interrupts and refuses to move them (EIO): isolcpus=managed_irq,LIST on the \
             kernel's command line keeps them off isolated CPUs, or steer their packets in software (RPS)",
        ),
        false => finding,
    })
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::{check, check_folded};

    #[test]
    fn interrupts_on_another_node_than_the_device_are_misplaced_however_many_cpus_they_use() {
        let host = "cpus 16 nodes=2\n nic eth0 rx=8 tx=8 node=1\n irqs 40-47 eth0-TxRx- on 0,1,2,3,4,5,6,7\n";
        check(host, "irqs-misplaced note fixable eth0: 0-7, 8-15, 0.0 %\n no irqs-piled-up");
        check(
            &format!("{host} cpu 0-7 softirq=20"),
            "irqs-misplaced warning eth0: 0-7, 8-15, 20 %
             says 8 interrupts of eth0 arrive on CPUs 0-7, away from its NUMA node 1",
        );
        check(&format!("{host} cpu 0-7 softirq=60"), "irqs-misplaced critical eth0: 0-7, 8-15, 60 %");
        check(&host.replace("node=1", "node=0"), "no irqs-misplaced");
        check(&host.replace("node=1", ""), "no irqs-misplaced");
    }

    #[test]
    fn more_queues_than_cpus_near_the_device_may_go_elsewhere() {
        let host = |on: &str| {
            format!(
                "cpus 8 nodes=2\n nic eth0 rx=8 tx=8 node=1\n irqs 40-47 eth0-TxRx- on {on}\n cpu 0-7 softirq=40"
            )
        };
        check(&host("0,1,2,3,4,5,6,7"), "no irqs-misplaced");
        check(&host("0,1,2,3,4,5,6,0"), "irqs-misplaced warning eth0: 0-3, 4-7");
    }

    #[test]
    fn interrupts_on_isolated_cpus_are_misplaced_at_any_load() {
        let host =
            "cpus 8\n isolated 4-5\n nohz_full 6-7\n nic eth0 rx=4 tx=4\n irqs 40-43 eth0-TxRx- on 4,5,6,7\n";
        for (load, found) in [(0, "note"), (50, "warning"), (75, "critical")] {
            check(
                &format!("{host} cpu 4-7 softirq={load}"),
                &format!("irqs-misplaced {found} fixable eth0: 4-7, 0-3\n no irqs-piled-up"),
            );
        }
        check(&format!("{host} cpu 4-7 softirq=50"), "says CPUs 4-7, which are isolated from such work");
        check(&host.replace("on 4,5,6,7", "on 0,1,2,3"), "no irqs-misplaced");
        check(
            &host.replace("on 4,5,6,7", "on 4,5,6,7 managed"),
            "irqs-misplaced note not-here eth0: 4-7, 0-3",
        );
        check(&host.replace("on 4,5,6,7", "on 0,1,2,7"), "irqs-misplaced note fixable eth0: 7, 0-3");
    }

    #[test]
    fn what_follows_from_misplaced_interrupts_is_listed_below_them() {
        check_folded(
            "cpus 16 nodes=2\n nic eth0 rx=4 tx=4 node=1\n irqs 40-43 eth0-TxRx- on 0,1,2,3\n cpu 0-3 softirq=55",
            "warning irqs-misplaced eth0 > rps-missing",
        );
        check_folded(
            "cpus 16 nodes=2\n nic eth0 rx=8 tx=8 node=1\n irqs 40-47 eth0-TxRx- on 0,0,0,8,0,0,0,0\n cpu 0 softirq=55",
            "warning irqs-misplaced eth0 > irqs-piled-up",
        );
    }
}
