//! Packet steering, in software (RPS, RFS), and transmit queues (XPS).

use super::figures::{count, cpus, per_second, percent, percent_if_known};
use super::host::RuleInput;
use super::packets::saturated;
use super::rule::{Explanation, Remedy, RemedyOrder, Rule};
use crate::observe::cpu_load::BUSY_PERCENT;
use crate::observe::facts::Nic;
use crate::observe::irq_name::of_queues;
use crate::settings::strategy::Strategy;
use crate::settings::{masks, steering};
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "rps-missing",
            title: "few receive queues, and packets are not steered to other CPUs (RPS)",
            evidence: "An interface has fewer receive queues than there are CPUs near it (at least four), or their \
                       interrupts reach none of these, no queue steers, other cores than those with interrupts are left, and a CPU that takes its interrupts \
                       spends 30 % or more in interrupts in most parts of the window. Critical if that CPU is \
                       saturated.",
            meaning: "Without steering only the CPUs that take interrupts handle packets (Pinterest 2013: CPU 0 at \
                      100 %, the others idle; one setting took its system time from 47 % to 10 %).",
            remedy: "rps_cpus of every queue to the CPUs of the device's node without the interrupt's CPU and its \
                     hyperthread, and RFS with it. More queues in hardware are better, where the device has them. Not \
                     while an allowance of the instance is used up.",
        },
        remedy: Remedy::of_strategy(Strategy::RpsRfs, &[steering::steer])
            .ordered(RemedyOrder::AfterInterrupts),
        find: missing,
    },
    Rule {
        explanation: Explanation {
            rule: "rps-redundant",
            title: "packets are steered although every CPU has a queue",
            evidence: "As many receive queues as CPUs near the device, and RPS steers to CPUs that take interrupts \
                       themselves. A warning if more than 1,000 wake-ups per second (received_rps) were spent on it. \
                       Not where the interrupts come to half of these CPUs or fewer: then steering does spread.",
            meaning: "Every packet takes a second hop to a CPU that it could have reached in hardware (redpanda \
                      halved its soft interrupts by turning this off).",
            remedy: "rps_cpus = 0 on these queues.",
        },
        remedy: Remedy::settings(&[steering::no_steering]),
        find: redundant,
    },
    Rule {
        explanation: Explanation {
            rule: "rps-harmful",
            title: "packets are steered to CPUs that make things worse",
            evidence: "RPS steers to CPUs of another NUMA node than the device's or the interrupt's, or, while the \
                       interrupt's CPU spends 30 % or more in interrupts, back to that CPU or to its hyperthread.",
            meaning: "On another node every packet is fetched across the interconnect; the interrupt's CPU and its \
                      hyperthread have no time to give.",
            remedy: "Steer to CPUs of the same node, without the interrupt's CPU and its hyperthread.",
        },
        remedy: Remedy::of_strategy(Strategy::RpsRfs, &[steering::resteer]),
        find: harmful,
    },
    Rule {
        explanation: Explanation {
            rule: "rfs-half-set",
            title: "only one half of RFS is set",
            evidence: "Of an interface that steers, net.core.rps_sock_flow_entries is set but no queue's rps_flow_cnt; or \
                       of any, the other way round.",
            meaning: "RFS steers a packet to the CPU where its program runs. It needs the table of the host and one \
                      per queue; with one of them it does nothing.",
            remedy: "net.core.rps_sock_flow_entries = 32768, and rps_flow_cnt of every queue that divided by the \
                     number of queues.",
        },
        remedy: Remedy::of_strategy(Strategy::RpsRfs, &[steering::flows])
            .ordered(RemedyOrder::AfterInterrupts),
        find: half_set,
    },
    Rule {
        explanation: Explanation {
            rule: "rfs-off",
            title: "packets are steered, but not to their program's CPU (RFS)",
            evidence: "RPS is on, both halves of RFS are off, and a service runs here.",
            meaning: "RPS alone picks a CPU by a hash; the program then fetches the data from another CPU's cache.",
            remedy: "net.core.rps_sock_flow_entries = 32768, and rps_flow_cnt of every queue that divided by the \
                     number of queues.",
        },
        remedy: Remedy::of_strategy(Strategy::RpsRfs, &[steering::flows])
            .ordered(RemedyOrder::AfterInterrupts),
        find: flows_off,
    },
    Rule {
        explanation: Explanation {
            rule: "xps-missing",
            title: "CPUs share send queues at random (XPS)",
            evidence: "An interface with at least two send queues, none of which belongs to certain CPUs.",
            meaning: "Without XPS the queue is chosen by a hash, so that CPUs compete for its lock and completions \
                      arrive on foreign CPUs.",
            remedy: "xps_cpus: to each queue the CPUs that share a cache with the one that takes its interrupt.",
        },
        remedy: Remedy::of_strategy(Strategy::Xps, &[steering::send_near]),
        find: xps_missing,
    },
    Rule {
        explanation: Explanation {
            rule: "xps-crossed",
            title: "send queues belong to CPUs far from their interrupt (XPS)",
            evidence: "A send queue's CPUs share no cache with the CPU that takes that queue's interrupt.",
            meaning: "What one CPU sends, another far away cleans up. Tools that assign queues in the order of the \
                      alphabet (tx-10 before tx-2) leave this behind.",
            remedy: "xps_cpus: to each queue the CPUs that share a cache with the one that takes its interrupt.",
        },
        remedy: Remedy::of_strategy(Strategy::Xps, &[steering::send_near]),
        find: xps_crossed,
    },
];

/// With fewer CPUs than this, the program needs those that are not taking interrupts (Documentation/networking/scaling
/// excludes the interrupt's CPU; its hyperthread goes, too).
const CPUS_MIN: usize = 4;
/// Wake-ups of other CPUs per second from which on steering costs something (proposal; a wake-up is some microseconds).
const WAKEUPS_PER_S: f64 = 1000.0;

/// CPUs that any queue steers to.
fn steered(nic: &Nic) -> CpuSet {
    nic.rx.iter().fold(CpuSet::new(), |all, queue| all.or(&queue.rps))
}

fn mask(nic: &Nic) -> Evidence {
    Evidence::setting(format!("rps_cpus of {}, {} queues", nic.name, nic.rx.len()), cpus(&steered(nic)))
}

fn missing(host: &RuleInput) -> Vec<Finding> {
    let saturated = saturated(host);
    let wanting = |nic: &&Nic| {
        let (near, takes) = (host.near(nic), host.receiving_cpus(nic));
        // Queues whose interrupts arrive elsewhere bring no packet to the CPUs near the device, however many they are.
        let few = nic.rx.len() < near.len() || (!takes.is_empty() && takes.and(&near).is_empty());
        !nic.rx.is_empty() && few && near.len() >= CPUS_MIN && steered(nic).is_empty()
    };
    let finding = |nic: &Nic| {
        let takes = host.receiving_cpus(nic);
        let busiest = host.interrupts_at_most(&takes);
        let full = takes.iter().any(|cpu| saturated.contains_key(&cpu));
        // Where an allowance is used up, more CPUs would only wait for it together.
        if (!host.has_interrupts(&takes, BUSY_PERCENT) && !full) || host.at_allowance(nic) {
            return None;
        }
        let is_busy = |part: &RuleInput| part.has_interrupts(&takes, BUSY_PERCENT);
        // If the CPUs with interrupts and their siblings are all CPUs, there is none to steer to.
        if !(full || host.mostly(is_busy)) || masks::rps(&host.model, nic, &takes).is_err() {
            return None;
        }
        let near = host.near(nic);
        let finding = Finding::about(if full { Severity::Critical } else { Severity::Warning }, &nic.name)
            .cause(format!(
                "{} has {} for {} CPUs, and packets stay on {}",
                nic.name,
                queues(nic.rx.len()),
                near.len(),
                cpus(&takes)
            ))
            .effect(format!("packets of {} are handled by up to {} CPUs", nic.name, near.len()))
            .saw(Evidence::setting(format!("receive queues of {}", nic.name), nic.rx.len().to_string()))
            .saw(Evidence::setting("CPUs near it", near.len().to_string()))
            .saw(
                host.measured("irq + softirq, busiest of its CPUs", percent_if_known(busiest))
                    .threshold(percent(BUSY_PERCENT)),
            );
        Some(match host.packets(nic) {
            Some(rate) => finding.saw(host.measured("packets received", per_second(rate.per_s()))),
            None => finding,
        })
    };
    host.wires().filter(wanting).filter_map(finding).collect()
}

fn queues(number: usize) -> String {
    if number == 1 { "one receive queue".to_owned() } else { format!("{number} receive queues") }
}

fn redundant(host: &RuleInput) -> Vec<Finding> {
    let is_redundant = |nic: &&Nic| {
        let (steered, taken) = (steered(nic), host.receiving_cpus(nic));
        let adds = host.model.is_piled(nic, &taken).is_some() || steered.and(&taken).is_empty();
        nic.rx.len() > 1
            && nic.rx.len() >= host.near(nic).len()
            && !steered.is_empty()
            && (taken.is_empty() || !adds)
    };
    let wakeups = host.softnet(|row| row.received_rps);
    let per_s = wakeups.values().sum::<u64>() as f64 / host.series.window_s();
    let finding = |nic: &Nic| {
        Finding::about(if per_s > WAKEUPS_PER_S { Severity::Warning } else { Severity::Note }, &nic.name)
            .cause(format!("{} has a queue for every CPU, and its packets are steered once more", nic.name))
            .effect("one soft interrupt per batch of packets instead of two")
            .saw(mask(nic))
            .saw(Evidence::setting("CPUs near it", host.near(nic).len().to_string()))
            .saw(
                host.measured("softnet_stat received_rps", per_second(per_s))
                    .threshold(per_second(WAKEUPS_PER_S)),
            )
    };
    host.wires().filter(is_redundant).map(finding).collect()
}

fn harmful(host: &RuleInput) -> Vec<Finding> {
    let steering = host.wires().filter(|nic| !steered(nic).is_empty());
    steering.flat_map(|nic| [far(host, nic), full(host, nic)].into_iter().flatten()).collect()
}

/// Packets are steered to another node.
fn far(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let by_interrupts = || {
        let nodes = host
            .receiving_cpus(nic)
            .iter()
            .filter_map(|cpu| Some(host.facts.cpu(cpu)?.node))
            .collect::<Vec<_>>();
        nodes.first().copied().filter(|first| nodes.iter().all(|node| node == first))
    };
    let node = nic.node.or_else(by_interrupts)?;
    let home = host.facts.online_on(node);
    let foreign = steered(nic).and(&host.online).without(&home);
    (!home.is_empty() && !foreign.is_empty()).then(|| {
        Finding::about(Severity::Warning, &nic.name)
            .cause(format!(
                "packets of {} are steered away from NUMA node {node} to {}",
                nic.name,
                cpus(&foreign)
            ))
            .effect("packets stay in the memory of their node")
            .saw(mask(nic))
            .saw(Evidence::setting(format!("CPUs of node {node}"), home.to_string()))
    })
}

/// Packets are steered to the CPUs that have no time for them.
fn full(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let takes = host.receiving_cpus(nic);
    let busy: CpuSet = {
        let is_busy = |cpu: &u32| host.interrupts(*cpu).is_some_and(|percent| percent >= BUSY_PERCENT);
        takes.iter().filter(is_busy).collect()
    };
    let cores: CpuSet = busy
        .iter()
        .filter_map(|cpu| host.facts.cpu(cpu))
        .flat_map(|cpu| cpu.siblings.iter().chain([cpu.id]))
        .collect();
    let back = steered(nic).and(&cores);
    // Where every CPU takes interrupts, there is no other: that is rps-redundant.
    let near = host.near(nic);
    (!back.is_empty() && takes.and(&near).len() * 2 <= near.len()).then(|| {
        Finding::about(Severity::Warning, &nic.name)
            .cause(format!(
                "packets of {} are steered to {}, which take its interrupts",
                nic.name,
                cpus(&back)
            ))
            .effect("the CPUs that take interrupts only hand packets on")
            .saw(mask(nic))
            .saw(
                host.measured(
                    "irq + softirq, busiest of these",
                    percent_if_known(host.interrupts_at_most(&busy)),
                )
                .threshold(percent(BUSY_PERCENT)),
            )
    })
}

fn flow_entries(host: &RuleInput) -> Option<u64> {
    host.facts.sysctl("net.core.rps_sock_flow_entries")
}

fn half_set(host: &RuleInput) -> Vec<Finding> {
    let Some(entries) = flow_entries(host) else { return Vec::new() };
    let is_half = |nic: &&Nic| match nic.rx.iter().any(|queue| queue.flows > 0) {
        true => entries == 0,
        // The table of the host may be another interface's.
        false => entries > 0 && !steered(nic).is_empty(),
    };
    // A host may have other interfaces; one that remembers flows is enough.
    let whole = host.wires().any(|nic| nic.rx.iter().any(|queue| queue.flows > 0)) && entries > 0;
    let finding = |nic: &Nic| {
        let flows: u64 = nic.rx.iter().map(|queue| u64::from(queue.flows)).sum();
        Finding::about(Severity::Warning, &nic.name)
            .cause("one half of RFS is set and the other is not, so it does nothing")
            .effect("packets reach the CPU where their program runs")
            .saw(Evidence::setting("net.core.rps_sock_flow_entries", count(entries)))
            .saw(Evidence::setting(format!("rps_flow_cnt of {}, sum", nic.name), count(flows)))
    };
    host.wires().filter(is_half).filter(|_| !whole).map(finding).collect()
}

fn flows_off(host: &RuleInput) -> Vec<Finding> {
    let off = |nic: &&Nic| !steered(nic).is_empty() && nic.rx.iter().all(|queue| queue.flows == 0);
    if flow_entries(host) != Some(0) || host.facts.services.is_empty() {
        return Vec::new();
    }
    let finding = |nic: &Nic| {
        Finding::about(Severity::Note, &nic.name)
            .cause(format!("packets of {} are steered by a hash, not to where their program runs", nic.name))
            .effect("data is in the right cache when the program asks for it")
            .saw(mask(nic))
            .saw(Evidence::setting("net.core.rps_sock_flow_entries", "0"))
    };
    host.wires().filter(off).map(finding).collect()
}

fn xps_missing(host: &RuleInput) -> Vec<Finding> {
    let without = |nic: &&Nic| {
        let chooses = nic.tx.iter().filter_map(|queue| queue.xps.as_ref());
        let mut masks = chooses.peekable();
        nic.tx.len() >= 2 && host.online.len() >= 2 && masks.peek().is_some() && masks.all(CpuSet::is_empty)
    };
    let finding = |nic: &Nic| {
        Finding::about(Severity::Note, &nic.name)
            .cause(format!("the {} send queues of {} belong to no CPU in particular", nic.tx.len(), nic.name))
            .effect("CPUs do not compete for a send queue")
            .saw(Evidence::setting(format!("send queues of {}", nic.name), nic.tx.len().to_string()))
            .saw(Evidence::setting("xps_cpus of each", "none"))
    };
    host.wires().filter(without).map(finding).collect()
}

fn xps_crossed(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| crossed(host, nic)).collect()
}

fn crossed(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let interrupts = of_queues(host.facts, nic);
    let completes = |queue: usize| {
        let mut sending = interrupts.iter().filter(|irq| irq.sends());
        sending.find(|irq| irq.queue == Some(queue as u32)).map(|irq| irq.interrupt)
    };
    let is_crossed = |queue: usize, xps: &CpuSet| {
        let taker = host.facts.cpu(host.taken_by(completes(queue)?).lowest()?)?;
        (!taker.cache.is_empty() && !xps.is_empty() && xps.and(&taker.cache).is_empty())
            .then_some((queue, taker.id))
    };
    let masks = nic.tx.iter().enumerate().filter_map(|(i, queue)| Some((i, queue.xps.as_ref()?)));
    let crossed: Vec<(usize, u32)> = masks.filter_map(|(i, xps)| is_crossed(i, xps)).collect();
    let (queue, taker) = crossed.first()?;
    let xps = nic.tx[*queue].xps.as_ref()?;
    Some(
        Finding::about(Severity::Note, &nic.name)
            .cause(format!(
                "{} of {} send queues belong to CPUs far from their interrupt",
                crossed.len(),
                nic.tx.len()
            ))
            .effect("what a CPU sends is cleaned up nearby")
            .saw(Evidence::setting(format!("xps_cpus of tx-{queue}"), cpus(xps)))
            .saw(Evidence::setting("its interrupt arrives on", format!("CPU {taker}"))),
    )
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    /// Pinterest's host of 2013: one queue, CPU 0 does all the work.
    const SINGLE_QUEUE: &str = "cpus 8
        nic eth0 driver=vif rx=1 node=0
        irqs 68 eth0-q on 0
        count eth0 rx_packets=1500000
        cpu 0 system=10 softirq=88
        cpu 1-7 user=10
        NET_RX 0=1000000 1-7=100\n";

    #[test]
    fn one_queue_and_no_steering() {
        check(
            SINGLE_QUEUE,
            "rps-missing critical eth0: 1, 8, 88 %, 50,000 /s\n softirq-one-core CPU 0: 88 %",
        );
        let steering = SINGLE_QUEUE.replace("rx=1", "rx=1 rps=1-7");
        check(&steering, "no rps-missing\n no rps-redundant\n no rps-harmful");
        // A kernel without RPS has nothing to write.
        check(
            &SINGLE_QUEUE.replace("rx=1", "rx=1 rps=unknown"),
            "no rps-missing\n softirq-one-core CPU 0: 88 %",
        );
    }

    #[test]
    fn steering_does_not_help_against_an_allowance() {
        check(&format!("{SINGLE_QUEUE} count eth0 pps_allowance_exceeded=7"), "no rps-missing");
        check(&format!("{SINGLE_QUEUE} count eth0 pps_allowance_exceeded=0"), "rps-missing critical eth0: 1");
    }

    #[test]
    fn an_interface_without_load_needs_no_steering() {
        check("cpus 8\n nic eth0 rx=1\n irqs 68 eth0-q on 0\n cpu 0 softirq=10", "no rps-missing");
    }

    #[test]
    fn a_burst_is_not_how_the_host_works() {
        check(
            &SINGLE_QUEUE.replace("system=10 softirq=88", "softirq=95,95,5"),
            "rps-missing critical eth0: 1\n softirq-one-core CPU 0",
        );
        check(
            &SINGLE_QUEUE.replace("system=10 softirq=88", "softirq=99,2,2"),
            "no rps-missing\n no softirq-one-core",
        );
    }

    #[test]
    fn where_every_core_takes_interrupts_there_is_none_to_steer_to() {
        let host =
            "cpus 8 smt\n nic eth0 rx=4\n irqs 40-43 eth0-TxRx- on 0-3\n cpu 0-3 softirq=50\n cpu 4-7 user=1";
        check(host, "no rps-missing");
        check(&host.replace("cpus 8 smt", "cpus 8"), "rps-missing eth0: 4, 8, 50 %");
    }

    #[test]
    fn two_cpus_have_none_to_steer_to() {
        check("cpus 2\n nic eth0 rx=1\n irqs 68 eth0-q on 0\n cpu 0 softirq=50", "no rps-missing");
    }

    #[test]
    fn a_queue_for_every_cpu_needs_no_steering() {
        let host = "cpus 4\n nic eth0 rx=4 rps=0-3\n irqs 40-43 eth0-TxRx- on 0,1,2,3\n";
        check(&format!("{host} softnet 0-3 rps=30000"), "rps-redundant warning eth0: CPUs 0-3, 4, 4,000 /s");
        check(host, "rps-redundant note eth0: CPUs 0-3");
        check(&host.replace(" rps=0-3", ""), "no rps-redundant");
        check(&host.replace("cpus 4", "cpus 8"), "no rps-redundant");
    }

    #[test]
    fn steering_from_few_cpus_to_many_spreads_however_many_queues_there_are() {
        let host = "cpus 8\n nic eth0 rx=8 rps=MASK\n irqs 40-47 eth0-TxRx- on CPUS\n";
        let with = |mask: &str, cpus: &str| host.replace("MASK", mask).replace("CPUS", cpus);
        check(&with("0-7", "0"), "no rps-redundant");
        check(&with("0-7", "0,1,2,3,4"), "rps-redundant note eth0: CPUs 0-7");
        check(&with("5-7", "0,1,2,3,4"), "no rps-redundant");
    }

    #[test]
    fn steering_to_another_node() {
        let host = "cpus 16 nodes=2\n nic eth0 rx=1 node=0\n irqs 68 eth0-q on 0\n";
        check(&host.replace("rx=1", "rx=1 rps=1-15"), "rps-harmful eth0: CPUs 1-15, 0-7");
        check(&host.replace("rx=1", "rx=1 rps=1-7"), "no rps-harmful");
        let nowhere = host.replace(" node=0", "").replace("rx=1", "rx=1 rps=1-15");
        check(&nowhere, "rps-harmful eth0: CPUs 1-15, 0-7");
    }

    #[test]
    fn steering_back_to_the_interrupts_core() {
        let host =
            "cpus 8 smt\n nic eth0 rx=1 rps=MASK\n irqs 68 eth0-q on 0\n cpu 0 softirq=50\n cpu 1-7 user=1";
        check(&host.replace("MASK", "0-7"), "rps-harmful eth0: CPUs 0-7, 50 %");
        check(&host.replace("MASK", "4"), "rps-harmful eth0: CPU 4");
        check(&host.replace("MASK", "1-3,5-7"), "no rps-harmful");
        check(&host.replace("MASK", "0-7").replace("softirq=50", "softirq=5"), "no rps-harmful");
    }

    #[test]
    fn half_of_rfs_does_nothing() {
        let host =
            "cpus 8\n nic eth0 rx=2 flows=FLOWS rps=1-7\n sysctl net.core.rps_sock_flow_entries=ENTRIES";
        let set = |flows: &str, entries: &str| host.replace("FLOWS", flows).replace("ENTRIES", entries);
        check(&set("0", "32768"), "rfs-half-set eth0: 32,768, 0");
        check(&set("16384", "0"), "rfs-half-set eth0: 0, 32,768");
        check(&set("16384", "32768"), "no rfs-half-set");
        check(&set("0", "0"), "no rfs-half-set");
        check(&set("0", "32768").replace("rps=1-7", ""), "no rfs-half-set");
        check(&set("16384", "0").replace("rps=1-7", ""), "rfs-half-set eth0: 0, 32,768");
    }

    #[test]
    fn steering_without_rfs() {
        let host = "cpus 8\n nic eth0 rx=1 rps=1-7\n sysctl net.core.rps_sock_flow_entries=0\n";
        check(&format!("{host} service memcached pid=812"), "rfs-off eth0: CPUs 1-7, 0");
        check(host, "no rfs-off");
    }

    #[test]
    fn send_queues_that_belong_to_nobody() {
        check("cpus 4\n nic eth0 tx=4 xps=none", "xps-missing eth0: 4, none");
        check("cpus 4\n nic eth0 tx=4 xps=0/1/2/3", "no xps-missing");
        check("cpus 4\n nic eth0 tx=1 xps=none", "no xps-missing");
        check("cpus 4\n nic eth0 tx=4", "no xps-missing");
    }

    #[test]
    fn send_queues_in_the_order_of_the_alphabet() {
        let host = "cpus 16 nodes=2\n irqs 40-41 eth0-TxRx- on 0,8\n";
        check(&format!("{host} nic eth0 tx=2 xps=8/0"), "xps-crossed eth0: CPU 8, CPU 0");
        check(&format!("{host} nic eth0 tx=2 xps=1/9"), "no xps-crossed");
    }
}
