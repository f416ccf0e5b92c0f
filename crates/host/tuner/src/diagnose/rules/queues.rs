//! Queues of network devices: their number, length, filling, and interrupt rate.

use std::collections::BTreeMap;

use super::figures::{count, happened, per_second, percent, percent_if_known};
use super::host::RuleInput;
use super::packets::saturated;
use super::rule::{Explanation, Remedy, RemedyOrder, Rule};
use crate::observe::cpu_load::BUSY_PERCENT;
use crate::observe::facts::Nic;
use crate::observe::queue_counter::{PacketDirection, queue_of};
use crate::settings::strategy::Strategy;
use crate::settings::{moderation, queues};
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "queues-few",
            title: "a network device has more queues than are used",
            evidence: "Fewer channels in use than both the device's maximum and the cores near it. A warning if a CPU \
                       that takes its interrupts spends 30 % or more in interrupts, else a note.",
            meaning: "Queues in hardware spread packets at no cost to the CPUs. The fewest that do not overflow are \
                      the most efficient, so without load this is only good to know.",
            remedy: "evenkeel tune apply --strategy queues: ethtool -L DEVICE combined N, then one CPU for each \
                     interrupt, as the numbers of interrupts change. The link may blink.",
        },
        remedy: Remedy::of_strategy(Strategy::Queues, &[queues::more_if_busy])
            .ordered(RemedyOrder::AddsQueues),
        find: few,
    },
    Rule {
        explanation: Explanation {
            rule: "ring-overrun",
            title: "a network device drops packets for lack of descriptors",
            evidence: "rx_missed_errors, rx_fifo_errors, rx_over_errors, or the driver's rx_overruns, rx_drops, \
                       rx_out_of_buffer or rx_no_buffer_count grows. Critical from one packet in 10,000 on.",
            meaning: "The CPU did not empty the ring in time. If that CPU is busy, it is the cause, and a longer ring \
                      only delays the drops; if not, bursts are longer than the ring.",
            remedy: "Spread the packets if the CPU is busy; otherwise evenkeel tune apply --strategy rings (ethtool -G \
                     DEVICE rx N).",
        },
        remedy: Remedy::of_strategy(Strategy::Rings, &[queues::longer_if_idle]),
        find: overrun,
    },
    Rule {
        explanation: Explanation {
            rule: "interrupt-per-packet",
            title: "nearly every packet makes an interrupt",
            evidence: "At 50,000 packets per second and more, at least one interrupt for two packets.",
            meaning: "No moderation is in effect: the device interrupts, the kernel takes one or two packets and \
                      waits for the next interrupt.",
            remedy: "napi_defer_hard_irqs and gro_flush_timeout of 20 to 50 µs (since Linux 5.8; on one rig with \
                     memcached p99 fell by 70 %, while 10 µs made it worse: try values), or coalescing by the \
                     device (evenkeel tune apply --strategy coalesce, ethtool -C DEVICE adaptive-rx on).",
        },
        remedy: Remedy::of_strategy(Strategy::Defer50, &[moderation::defer_or_coalesce]),
        find: per_packet,
    },
    Rule {
        explanation: Explanation {
            rule: "elephant-flow",
            title: "one connection fills one queue",
            evidence: "At 10,000 packets per second and more, one receive queue gets 80 % of an interface's packets, \
                       or more than twice the mean with at most 100 connections.",
            meaning: "All packets of one connection take the same queue and the same CPU, so that they stay in order. \
                      No setting spreads one connection.",
            remedy: "More connections (a pool, several clients) or larger packets; AWS limits one flow to 5 or 10 \
                     Gbit/s besides.",
        },
        remedy: Remedy::ReportOnly,
        find: elephant,
    },
    Rule {
        explanation: Explanation {
            rule: "queues-uneven",
            title: "packets are spread unevenly over the queues",
            evidence: "At 10,000 packets per second and more, and with more than 100 connections, one receive queue \
                       gets more than twice the mean.",
            meaning: "So many connections should spread evenly: the device's indirection table or hash key does not \
                      do so.",
            remedy: "ethtool -X DEVICE equal N, or another hash key.",
        },
        remedy: Remedy::ByHand,
        find: uneven,
    },
];

/// No moderation is in effect (proposal; knowledge of drivers: adaptive moderation is far below this at such rates).
const INTERRUPTS_PER_PACKET: f64 = 0.5;
const MODERATION_PACKETS_PER_S: f64 = 50_000.0;
/// Critical loss: one in 10,000 (proposal; TCP's throughput suffers noticeably from there on).
const LOSS_CRITICAL: f64 = 1e-4;
/// Below this rate it does not matter which queue gets the packets (proposal).
const SPREAD_PACKETS_PER_S: f64 = 10_000.0;
const ELEPHANT_PERCENT: f64 = 80.0;
const UNEVEN_TIMES: f64 = 2.0;
/// With more connections than this a hash spreads evenly.
const CONNECTIONS_MANY: u64 = 100;

/// Counters of packets that found no descriptor: of the kernel, and of the drivers ena, mlx5, igb, mana, virtio and gve
/// (which counts by queue).
const OVERRUNS: [&str; 9] = [
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_overruns",
    "rx_out_of_buffer",
    "rx_no_buffer_count",
    "hc_rx_discards_no_wqe",
    "rx_hw_drop_overruns",
    "rx_no_buffers_posted[N]",
];

fn few(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| few_of(host, nic)).collect()
}

fn few_of(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let (now, max) = (nic.channels?, nic.channels_max?);
    let cores = host.model.cores(nic);
    if now >= max || now as usize >= cores {
        return None;
    }
    let busiest = host.interrupts_at_most(&host.receiving_cpus(nic));
    let is_busy = busiest.is_some_and(|busiest| busiest >= BUSY_PERCENT);
    let severity = if is_busy { Severity::Warning } else { Severity::Note };
    Some(
        Finding::about(severity, &nic.name)
            .cause(format!("{} uses {now} of {max} queues, where {cores} cores could empty them", nic.name))
            .effect("more CPUs take packets, without steering in software")
            .saw(
                Evidence::setting(format!("channels of {}", nic.name), now.to_string())
                    .threshold(max.to_string()),
            )
            .saw(Evidence::setting("cores near it", cores.to_string()))
            .saw(host.measured("irq + softirq, busiest of its CPUs", percent_if_known(busiest))),
    )
}

/// Whether packets found no descriptor in the window.
pub(super) fn lost_for_want_of_descriptors(host: &RuleInput, nic: &Nic) -> bool {
    !host.grown(nic, |counter| OVERRUNS.contains(&counter)).is_empty()
}

fn overrun(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| overrun_of(host, nic)).collect()
}

fn overrun_of(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let overruns = host.grown(nic, |counter| OVERRUNS.contains(&counter));
    // Drivers count the same packet under several names.
    let lost = overruns.iter().map(|(_, rate)| rate.count).max()?;
    // Without a count of packets their part is unknown.
    let critical =
        host.packets(nic).is_some_and(|rate| lost as f64 >= LOSS_CRITICAL * (rate.count + lost) as f64);
    let takes = host.receiving_cpus(nic);
    let busy = takes.iter().any(|cpu| saturated(host).contains_key(&cpu))
        || host.has_interrupts(&takes, BUSY_PERCENT);
    let whole = nic.rx_ring.is_some_and(|(now, max)| now >= max);
    let (cause, effect) = match busy {
        true => (
            "the CPU that empties the ring is busy with interrupts",
            "spread its packets first: then the ring is emptied in time",
        ),
        false => ("a burst is longer than the ring", "bursts fit into a longer ring"),
    };
    let mut finding =
        Finding::about(if critical { Severity::Critical } else { Severity::Warning }, &nic.name)
            .cause(format!("{} drops packets because {cause}", nic.name))
            .effect(effect);
    for (counter, rate) in &overruns {
        finding = finding.saw(host.measured(counter, happened(*rate)).threshold("0"));
    }
    if let Some((now, max)) = nic.rx_ring {
        finding = finding.saw(Evidence::setting(
            "receive ring, now / at most",
            format!("{} / {}", count(now.into()), count(max.into())),
        ));
    }
    finding =
        finding.saw(host.measured(
            "irq + softirq, busiest of its CPUs",
            percent_if_known(host.interrupts_at_most(&takes)),
        ));
    Some(match whole && !busy {
        true => finding.not_here("the ring is as long as the device allows, and its CPU has time: smooth the bursts at their source, or use more queues"),
        false => finding,
    })
}

fn per_packet(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| per_packet_of(host, nic)).collect()
}

fn per_packet_of(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let packets = host.packets(nic)?;
    let receivers = host.receivers(nic);
    let interrupts: u64 =
        receivers.iter().flat_map(|interrupt| host.arrivals(interrupt.irq).into_values()).sum();
    let quotient = interrupts as f64 / packets.count.max(1) as f64;
    if packets.per_s() < MODERATION_PACKETS_PER_S || quotient < INTERRUPTS_PER_PACKET {
        return None;
    }
    if !host.mostly(|part| part.packets_per_s(nic) >= MODERATION_PACKETS_PER_S) {
        return None;
    }
    let deferred = nic.defer_hard_irqs.map_or("unknown".to_owned(), |times| times.to_string());
    let finding = Finding::about(Severity::Warning, &nic.name)
        .cause(format!("{} interrupts for nearly every packet: no moderation is in effect", nic.name))
        .effect("fewer interrupts, more packets at a time, and often lower tail latency")
        .saw(
            host.measured("interrupts per packet", format!("{quotient:.2}"))
                .threshold(INTERRUPTS_PER_PACKET.to_string()),
        )
        .saw(host.measured("packets received", per_second(packets.per_s())))
        .saw(Evidence::setting("napi_defer_hard_irqs", deferred));
    let can_gather = nic.coalescing.is_some_and(|now| !now.adaptive_rx && now.rx_usecs == 0);
    Some(match host.facts.kernel.version < (5, 8) && !can_gather {
        true => finding.saw(Evidence::setting("kernel", &host.facts.kernel.release)).not_here(
            "this kernel cannot defer interrupts (since 5.8), and the driver has no coalescing to turn on",
        ),
        false => finding,
    })
}

/// Packets by receive queue, where the driver counts them.
fn by_queue(host: &RuleInput, nic: &Nic) -> BTreeMap<u32, u64> {
    let Some(counters) = host.series.last().nics.get(&nic.name) else { return BTreeMap::new() };
    let queue = |counter: &String| {
        let (PacketDirection::Receive, queue) = queue_of(counter)? else { return None };
        Some((queue, host.series.nic(&nic.name, counter)?.count))
    };
    counters.keys().filter_map(queue).collect()
}

/// The way in which one queue differs.
struct Uneven {
    queue: u32,
    percent: f64,
    times_mean: f64,
    connections: Option<u64>,
}

fn unevenness(host: &RuleInput, nic: &Nic) -> Option<Uneven> {
    let queues = by_queue(host, nic);
    let all: u64 = queues.values().sum();
    let (queue, most) = queues.iter().max_by_key(|(_, count)| **count)?;
    let busy = |host: &RuleInput| by_queue(host, nic).values().sum::<u64>() as f64 / host.series.window_s();
    if queues.len() < 2 || busy(host) < SPREAD_PACKETS_PER_S {
        return None;
    }
    // Connections come and go; only a queue that always has most packets matters.
    let leads = |part: &RuleInput| {
        let most = by_queue(part, nic).into_iter().max_by_key(|(_, count)| *count);
        most.is_some_and(|(first, _)| first == *queue)
    };
    if !host.mostly(|part| leads(part) && busy(part) >= SPREAD_PACKETS_PER_S) {
        return None;
    }
    Some(Uneven {
        queue: *queue,
        percent: 100.0 * *most as f64 / all as f64,
        times_mean: *most as f64 * queues.len() as f64 / all as f64,
        // A gauge among counters: as it was at the end.
        connections: host.series.last().protocols.get("Tcp.CurrEstab").copied(),
    })
}

impl Uneven {
    fn is_elephant(&self) -> bool {
        let few = self.connections.is_some_and(|connections| connections <= CONNECTIONS_MANY);
        self.percent >= ELEPHANT_PERCENT || (few && self.times_mean > UNEVEN_TIMES)
    }

    fn finding(&self, host: &RuleInput, severity: Severity, nic: &Nic) -> Finding {
        let finding = Finding::about(severity, &nic.name)
            .saw(host.measured(format!("packets in queue {}", self.queue), percent(self.percent)))
            .saw(
                host.measured("times the mean of the queues", format!("{:.1}", self.times_mean))
                    .threshold(UNEVEN_TIMES.to_string()),
            );
        match self.connections {
            Some(connections) => finding.saw(Evidence::setting("Tcp.CurrEstab", count(connections))),
            None => finding,
        }
    }
}

fn elephant(host: &RuleInput) -> Vec<Finding> {
    let finding = |nic: &Nic| {
        let uneven = unevenness(host, nic).filter(Uneven::is_elephant)?;
        Some(
            uneven
                .finding(host, Severity::Warning, nic)
                .cause(format!(
                    "queue {} of {} gets most packets: one or a few connections carry the traffic",
                    uneven.queue, nic.name
                ))
                .effect("with several connections, several CPUs share the work")
                .not_here(
                    "a connection stays on one queue and one CPU: spread the traffic over more connections",
                ),
        )
    };
    host.wires().filter_map(finding).collect()
}

fn uneven(host: &RuleInput) -> Vec<Finding> {
    let finding = |nic: &Nic| {
        let uneven = unevenness(host, nic)
            .filter(|uneven| !uneven.is_elephant() && uneven.times_mean > UNEVEN_TIMES)?;
        // Without a count of connections it is unknown whether a hash should have spread them.
        uneven.connections?;
        Some(
            uneven
                .finding(host, Severity::Warning, nic)
                .cause(format!(
                    "the hash of {} sends too many connections to queue {}",
                    nic.name, uneven.queue
                ))
                .effect("queues and their CPUs share the work evenly"),
        )
    };
    host.wires().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn a_device_with_queues_to_spare() {
        let host = "cpus 8\n nic eth0 rx=2 max=8\n irqs 40-41 eth0-TxRx- on 0,1\n";
        check(host, "queues-few note eth0: 2, 8");
        check(&format!("{host} cpu 0 softirq=40"), "queues-few warning eth0: 2, 8, 40 %");
        check(&host.replace("cpus 8", "cpus 2"), "no queues-few");
        check(&host.replace("max=8", "max=2"), "no queues-few");
    }

    #[test]
    fn a_ring_that_overruns() {
        let host =
            "cpus 4\n nic eth0 ring=1024/8192\n irqs 40 eth0-TxRx- on 0\n count eth0 rx_packets=1000000\n";
        check(
            &format!("{host} count eth0 rx_missed_errors=30"),
            "ring-overrun warning eth0: 30 (1.0 /s), 1,024 / 8,192",
        );
        check(&format!("{host} count eth0 rx_overruns=300"), "ring-overrun critical fixable eth0: 300");
        check(&format!("{host} count eth0 rx_missed_errors=0"), "no ring-overrun");
    }

    #[test]
    fn a_ring_at_its_maximum_can_only_be_emptied_faster() {
        let host =
            "cpus 4\n nic eth0 ring=512/512\n irqs 40 eth0-TxRx- on 0\n count eth0 rx_missed_errors=30\n";
        check(host, "ring-overrun not-here eth0: 30");
        check(&format!("{host} cpu 0 softirq=50"), "ring-overrun fixable eth0: 30, 512 / 512, 50 %");
    }

    #[test]
    fn interrupts_for_nearly_every_packet() {
        let host = "cpus 4\n nic eth0\n irqs 40 eth0-TxRx- on 0\n count eth0 rx_packets=3000000\n";
        check(
            &format!("{host} arrivals 40 0=1800000"),
            "interrupt-per-packet fixable eth0: 0.60, 100,000 /s",
        );
        check(
            &format!("{host} kernel 5.4\n arrivals 40 0=1800000"),
            "interrupt-per-packet not-here eth0: 0.60",
        );
        check(&format!("{host} arrivals 40 0=900000"), "no interrupt-per-packet");
        check(
            &format!("{} arrivals 40 0=1800000", host.replace("3000000", "1400000")),
            "no interrupt-per-packet",
        );
    }

    #[test]
    fn one_connection_fills_one_queue() {
        let host = "cpus 4\n nic eth0 rx=4\n";
        let counted = |packets: &str, connections: &str| {
            format!("{host} count eth0 {packets}\n count Tcp.CurrEstab={connections},0,0")
        };
        let elephant = "queue_0_rx_cnt=900000 queue_1_rx_cnt=1000 queue_2_rx_cnt=1000 queue_3_rx_cnt=1000";
        check(
            &counted(elephant, "5000"),
            "elephant-flow not-here eth0: 100 %, 4.0, 5,000\n no queues-uneven",
        );
        let uneven = "rx_queue_0_packets=900000 rx_queue_1_packets=300000 rx_queue_2_packets=200000 rx_queue_3_packets=200000";
        check(&counted(uneven, "50"), "elephant-flow eth0: 56 %, 2.2, 50\n no queues-uneven");
        check(&counted(uneven, "5000"), "queues-uneven eth0: 56 %, 2.2, 5,000\n no elephant-flow");
        let even = "rx0_packets=400000 rx1_packets=300000 rx2_packets=200000 rx3_packets=200000";
        check(&counted(even, "5000"), "no elephant-flow\n no queues-uneven");
        let slow = "rx0_packets=100000 rx1_packets=0";
        check(&counted(slow, "5000"), "no elephant-flow\n no queues-uneven");
    }
}
