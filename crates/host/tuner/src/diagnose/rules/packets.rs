//! Packet processing: interrupts, soft interrupts, and drops by their place.

use std::collections::BTreeMap;

use super::contention::share;
use super::figures::{count, cpus, happened, per_second, percent, percent_if_known};
use super::host::RuleInput;
use super::rule::{Explanation, Remedy, RemedyOrder, Rule};
use crate::observe::cpu_load::{BUSY_PERCENT, Load};
use crate::observe::facts::Nic;
use crate::observe::reading::{ProcessTimes, Rate};
use crate::settings::strategy::Strategy;
use crate::settings::{interrupts, steering, sysctls};
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "softirq-one-core",
            title: "one CPU is saturated by packets while others idle",
            evidence: "A CPU spends 60 % or more in interrupts, or has less than 10 % idle while the kernel takes half \
                       of its time and interrupts 15 % of it or more. The others are idle for 30 % or more on \
                       average, and it handles at least twice its fair share of NET_RX: over the window, and in \
                       most of its parts.",
            meaning: "Received packets are handled on the CPU that takes the interrupt. When that CPU is full, packets \
                      wait and are dropped, however idle the other CPUs are; programs that share it wait as well.",
            remedy: "More receive queues if the device has them (queues-few), interrupts on different CPUs \
                     (irqs-piled-up), or steering in software if it has not (rps-missing). One connection cannot be \
                     spread (elephant-flow).",
        },
        remedy: Remedy::of_strategy(Strategy::RpsRfs, &[steering::steer])
            .ordered(RemedyOrder::AfterInterrupts),
        find: one_core,
    },
    Rule {
        explanation: Explanation {
            rule: "irqs-piled-up",
            title: "interrupts of a network device arrive on few CPUs",
            evidence: "Of the CPUs near an interface, its receive interrupts arrive on at most half as many as there are \
                       queues and such CPUs. A warning once those CPUs spend 30 % in interrupts, critical at 60 % \
                       or where one is saturated by packets. Below 30 % nothing is said where packets are steered on \
                       to other CPUs, or no service may run on these: CPUs for interrupts alone are a layout of its \
                       own.",
            meaning: "Several queues help only if different CPUs empty them.",
            remedy: "One CPU for each receive interrupt, on the device's NUMA node, and irqbalance configured to leave them \
                     alone. Interrupts that the kernel manages cannot be moved.",
        },
        remedy: Remedy::of_strategy(Strategy::Spread, &[interrupts::spread])
            .ordered(RemedyOrder::MovesInterrupts),
        find: piled_up,
    },
    Rule {
        explanation: Explanation {
            rule: "irqbalance-moves",
            title: "irqbalance moves interrupts back and forth",
            evidence: "irqbalance runs, and the CPU that takes most arrivals of a device's interrupt changes from one \
                       window to the next.",
            meaning: "Every move takes the packets of a queue away from warm caches. irqbalance does not see work that \
                      steering has moved, and takes it for work of other interrupts.",
            remedy: "Ban these interrupts in irqbalance and place them by hand; AWS advises to keep the daemon \
                     itself running.",
        },
        remedy: Remedy::ByHand,
        find: irqbalance,
    },
    Rule {
        explanation: Explanation {
            rule: "backlog-dropped",
            title: "packets are dropped because a CPU's backlog is full",
            evidence: "softnet_stat `dropped` grows on a CPU.",
            meaning: "Steered packets, and those of virtual interfaces, wait in a queue per CPU of at most \
                      net.core.netdev_max_backlog packets. Drops mean that the CPU does not keep up, or that bursts \
                      are longer than the queue.",
            remedy: "Spread the packets over more CPUs first; a longer queue (net.core.netdev_max_backlog) helps \
                     against bursts only.",
        },
        remedy: Remedy::settings(&[sysctls::netdev_backlog]).ordered(RemedyOrder::AfterCause),
        find: backlog_dropped,
    },
    Rule {
        explanation: Explanation {
            rule: "budget-squeezed",
            title: "a CPU runs out of budget for packets",
            evidence: "softnet_stat `time_squeeze` grows by more than 10 a minute on a CPU.",
            meaning: "The kernel handles at most net.core.netdev_budget packets, or works for \
                      net.core.netdev_budget_usecs, before it lets others run; work was left when that was used up. A \
                      few are harmless, many go with delayed packets.",
            remedy: "Spread the packets; a larger budget only if the CPU has time left and no program waits for it.",
        },
        remedy: Remedy::ByHand,
        find: squeezed,
    },
    Rule {
        explanation: Explanation {
            rule: "packets-per-core",
            title: "how many packets a CPU can handle here (for capacity planning)",
            evidence: "Packets received per second, divided by all time that CPUs were busy: programs, kernel and \
                       interrupts; from 1,000 packets per second on. Not known while CPUs were busy for less than a \
                       tenth of one, other programs than the services used more than 20 % of that time, or the \
                       hypervisor took 5 % or more.",
            meaning: "With the same kernel, service and mix of requests, this is what one CPU receives and answers. \
                      Soft interrupts alone are a part of it, and on kernels that count by ticks a wrong one. \
                      Multiply by the CPUs, and keep a reserve: busy CPUs disturb each other.",
            remedy: "Nothing to change: plan with it, and compare hosts of the same shape. Measure under load, with the \
                     services alone.",
        },
        remedy: Remedy::ReportOnly,
        find: per_core,
    },
];

/// A CPU that spends so much of its time in interrupts has little left for programs, and soon none for packets
/// (proposal).
pub(super) const SATURATED_PERCENT: f64 = 60.0;
/// Below this a CPU counts as full.
const FULL_IDLE_PERCENT: f64 = 10.0;
/// Of a full CPU, packets are the reason when the kernel takes half of its time, and interrupts a good part of that.
/// Pinterest's CPU 0 of 2013 had 45.5 % system and 37.5 % soft beside 17 % user: what packets cost is counted as system
/// time, too, where a read or a wake-up follows from them.
const FULL_KERNEL_PERCENT: f64 = 50.0;
const FULL_INTERRUPTS_PERCENT: f64 = 15.0;
/// CPUs with this share of NET_RX handle the packets of the host; the rest is noise (proposal).
const NEARLY_ALL_PERCENT: f64 = 90.0;
/// Other CPUs must have this much idle time.
const OTHERS_IDLE_PERCENT: f64 = 30.0;
/// netdata's alarm for `softnet` drops and squeezes: more than 10 a minute.
const SQUEEZES_PER_S: f64 = 10.0 / 60.0;
/// Below these a quotient of packets and time is noise.
const PLANNING_PACKETS_PER_S: f64 = 1000.0;
const PLANNING_BUSY_PERCENT: f64 = 10.0;
/// If other work used more of the time, the quotient is not that of packets (proposal).
const PLANNING_OTHERS: f64 = 0.2;
/// Stolen time was used by other guests (netdata's warning).
const PLANNING_STOLEN_PERCENT: f64 = 5.0;

/// The CPUs that are saturated by packets while others idle, with their share of NET_RX in percent.
pub(super) fn saturated<'h>(host: &'h RuleInput) -> &'h BTreeMap<u32, f64> {
    host.saturated.get_or_init(|| {
        let mut saturated = saturated_on_average(host).clone();
        saturated.retain(|cpu, _| host.mostly(|part| saturated_on_average(part).contains_key(cpu)));
        saturated
    })
}

fn saturated_on_average<'h>(host: &'h RuleInput) -> &'h BTreeMap<u32, f64> {
    host.saturated_on_average.get_or_init(|| saturated_in(host))
}

fn saturated_in(host: &RuleInput) -> BTreeMap<u32, f64> {
    let (net_rx, block) = (host.softirqs("NET_RX"), host.softirqs("BLOCK"));
    let all: u64 = net_rx.values().sum();
    let cpus = host.loads.len();
    if cpus < 2 || all == 0 {
        return BTreeMap::new();
    }
    let fair = 100.0 / cpus as f64;
    // Twice the fair share; with two or three CPUs, where that is all or nearly all, half of the way there.
    let unfair = (2.0 * fair).min((fair + 100.0) / 2.0);
    let idle: f64 = host.loads.values().map(|load| load.idle).sum();
    let is_saturated = |cpu: u32| {
        let Some(load) = host.load(cpu) else { return false };
        let others_idle = (idle - load.idle) / (cpus - 1) as f64;
        (load.interrupts() >= SATURATED_PERCENT || is_full(load)) && others_idle >= OTHERS_IDLE_PERCENT
    };
    // If disks interrupt more often than packets arrive, they are the reason.
    let by_packets = |cpu: &u32, count: u64| block.get(cpu).is_none_or(|block| *block <= count);
    net_rx
        .iter()
        .filter(|(cpu, count)| by_packets(cpu, **count))
        .map(|(cpu, count)| (*cpu, 100.0 * *count as f64 / all as f64))
        .filter(|(cpu, share)| *share >= unfair && is_saturated(*cpu))
        .collect()
}

/// Whether a CPU has no idle time, because of the kernel's work on interrupts and its consequences.
fn is_full(load: Load) -> bool {
    load.idle < FULL_IDLE_PERCENT
        && load.interrupts() >= FULL_INTERRUPTS_PERCENT.max(load.steal)
        && load.interrupts() + load.system >= FULL_KERNEL_PERCENT
}

/// One finding for all saturated CPUs: they have the same cause.
fn one_core(host: &RuleInput) -> Vec<Finding> {
    let saturated = saturated(host);
    let set: CpuSet = saturated.keys().copied().collect();
    let loads: Vec<Load> = set.iter().filter_map(|cpu| host.load(cpu)).collect();
    if loads.is_empty() {
        return Vec::new();
    }
    let mean = |part: fn(&Load) -> f64| loads.iter().map(part).sum::<f64>() / loads.len() as f64;
    let share: f64 = saturated.values().sum();
    let (interrupts, idle) = (mean(|load| load.interrupts()), mean(|load| load.idle));
    let others = host.loads.iter().filter(|(cpu, _)| !set.contains(**cpu)).map(|(_, load)| load.idle);
    let others = others.sum::<f64>() / (host.loads.len() - loads.len()).max(1) as f64;
    let are_full = loads.iter().all(|load| is_full(*load));
    let (them, words) = match loads.len() {
        1 => (
            format!("CPU {set}"),
            ["has", "handles", "spends", "its", "this one; its programs get their CPU"],
        ),
        _ => (
            format!("mean of CPUs {set}"),
            ["have", "handle", "spend", "their", "these; the programs there get their CPUs"],
        ),
    };
    let [has, handles, spends, their, relieved] = words;
    let full = if are_full { format!(" {has} no time left,") } else { String::new() };
    let finding = Finding::about(Severity::Critical, cpus(&set))
        .cause(format!(
            "{}{full} {handles} {} of all received packets and {spends} {} of {their} time on interrupts, while the \
             other CPUs are {} idle",
            cpus(&set),
            percent(share),
            percent(interrupts),
            percent(others),
        ))
        .effect(format!("packets handled by the idle CPUs, too, no longer wait for {relieved} back"))
        .saw(host.measured(format!("irq + softirq, {them}"), percent(interrupts)).threshold(percent(SATURATED_PERCENT)))
        .saw(host.measured(format!("NET_RX, {}", cpus(&set)), percent(share)))
        .saw(host.measured("idle, mean of the others", percent(others)).threshold(percent(OTHERS_IDLE_PERCENT)))
        .saw(host.measured(format!("system, {them}"), percent(mean(|load| load.system))))
        .saw(host.measured(format!("idle, {them}"), percent(idle)).threshold(percent(FULL_IDLE_PERCENT)));
    let packets: f64 = host.wires().map(|nic| host.packets_per_s(nic)).sum();
    let finding = match packets > 0.0 {
        true => {
            // The rate of the whole host is that of these CPUs only if they handle nearly all packets.
            let is_all = are_full && share >= NEARLY_ALL_PERCENT;
            let what = match is_all {
                true => format!("packets received per second when {} full", is(&set)),
                false => "packets received by the whole host".to_owned(),
            };
            finding.saw(host.measured(what, per_second(packets)))
        }
        false => finding,
    };
    let squeezes: u64 = host
        .softnet(|row| row.time_squeeze)
        .iter()
        .filter(|(cpu, _)| set.contains(**cpu))
        .map(|(_, count)| count)
        .sum();
    vec![match squeezes {
        0 => finding,
        count => {
            let rate = Rate { count, window_s: host.series.window_s() };
            finding.saw(host.measured(format!("softnet_stat time_squeeze, {}", cpus(&set)), happened(rate)))
        }
    }]
}

/// `CPU 0 is`, `CPUs 0-3 are`
fn is(set: &CpuSet) -> String {
    format!("{} {}", cpus(set), if set.len() == 1 { "is" } else { "are" })
}

fn piled_up(host: &RuleInput) -> Vec<Finding> {
    host.wires().filter_map(|nic| pile(host, nic)).collect()
}

fn pile(host: &RuleInput, nic: &Nic) -> Option<Finding> {
    let receivers = host.receivers(nic);
    let taken = host.receiving_cpus(nic);
    // Interrupts that reach no CPU near the device are misplaced, and are spread for that reason.
    if taken.and(&host.near(nic)).is_empty() {
        return None;
    }
    let could = host.model.is_piled(nic, &taken)?;
    let busiest = host.interrupts_at_most(&taken);
    let is_full = saturated(host).keys().any(|cpu| taken.contains(*cpu));
    let steered = nic.rx.iter().fold(CpuSet::new(), |all, queue| all.or(&queue.rps)).and(&host.online);
    let apart = !steered.without(&taken).is_empty() || is_kept_free(host, &taken);
    let is_busy = host.has_interrupts(&taken, BUSY_PERCENT);
    if !is_busy && !is_full && apart {
        return None;
    }
    let severity = match is_busy {
        _ if host.has_interrupts(&taken, SATURATED_PERCENT) || is_full => Severity::Critical,
        true => Severity::Warning,
        false => Severity::Note,
    };
    let finding = Finding::about(severity, &nic.name)
        .cause(format!(
            "{} receive interrupts of {} arrive on {}, where {could} CPUs could take them",
            receivers.len(),
            nic.name,
            cpus(&taken),
        ))
        .effect(format!("the work of {} is shared by {could} CPUs", nic.name))
        .saw(Evidence::setting(format!("receive interrupts of {}", nic.name), receivers.len().to_string()))
        .saw(host.measured("CPUs that take them", taken.to_string()))
        .saw(
            host.measured("irq + softirq, busiest of these", percent_if_known(busiest))
                .threshold(percent(BUSY_PERCENT)),
        );
    Some(match stays_piled(host, nic, could) {
        true => finding.not_here(
            "the kernel manages these interrupts and refuses to move them (EIO): steer in software (RPS), or use a \
             driver or instance type whose interrupts can be moved",
        ),
        false => finding,
    })
}

/// Whether there are services, and none may run on these CPUs.
fn is_kept_free(host: &RuleInput, cpus: &CpuSet) -> bool {
    let mut threads = host.facts.services.iter().flat_map(|service| &service.threads).peekable();
    threads.peek().is_some() && threads.all(|thread| thread.affinity.and(cpus).is_empty())
}

/// Whether too many of the interrupts are managed to be spread.
fn stays_piled(host: &RuleInput, nic: &Nic, could: usize) -> bool {
    let (managed, movable): (Vec<_>, Vec<_>) =
        host.receivers(nic).into_iter().partition(|interrupt| interrupt.managed);
    let stay = managed.iter().fold(CpuSet::new(), |cpus, interrupt| cpus.or(&host.taken_by(interrupt)));
    (stay.and(&host.near(nic)).len() + movable.len()) * 2 <= could
}

fn irqbalance(host: &RuleInput) -> Vec<Finding> {
    let Some(agent) =
        host.facts.agents.iter().find(|agent| agent.name == "irqbalance" && agent.pid.is_some())
    else {
        return Vec::new();
    };
    host.wires().filter_map(|nic| moved(host, nic, agent.pid)).collect()
}

fn moved(host: &RuleInput, nic: &Nic, pid: Option<u32>) -> Option<Finding> {
    let moves: BTreeMap<u32, usize> = host
        .receivers(nic)
        .into_iter()
        .map(|interrupt| (interrupt.irq, moves(host, interrupt.irq)))
        .filter(|(_, moves)| *moves > 0)
        .collect();
    let all: usize = moves.values().sum();
    // One move in a window may be irqbalance's normal work; an interrupt that moves again is a conflict.
    let severity = if moves.values().any(|moves| *moves > 1) { Severity::Warning } else { Severity::Note };
    (all > 0).then(|| {
        let irqs: Vec<String> = moves.keys().map(u32::to_string).collect();
        Finding::about(severity, &nic.name)
            .cause(format!("irqbalance moved interrupts of {} while they were busy", nic.name))
            .effect("packets of a queue stay with the caches that hold their connections")
            .saw(host.measured(format!("moves of IRQ {}", irqs.join(", ")), all.to_string()))
            .saw(Evidence::setting("irqbalance, PID", pid.map_or("?".into(), |pid| pid.to_string())))
    })
}

/// How often the CPU that takes most of an interrupt's arrivals changed between windows.
fn moves(host: &RuleInput, irq: u32) -> usize {
    let taker = |pair: &[std::sync::Arc<crate::Reading>]| {
        let (before, after) = (pair[0].interrupts.get(&irq)?, pair[1].interrupts.get(&irq)?);
        let grown = |cpu: &u32, after: &u64| after.saturating_sub(*before.get(cpu).unwrap_or(&0));
        let grown = after.iter().map(|(cpu, after)| (grown(cpu, after), *cpu));
        grown.max().filter(|(arrivals, _)| *arrivals >= ARRIVALS_MIN).map(|(_, cpu)| cpu)
    };
    let takers: Vec<u32> = host.series.readings().windows(2).filter_map(taker).collect();
    takers.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Fewer arrivals than this in a window do not show where an interrupt goes.
const ARRIVALS_MIN: u64 = 100;

fn backlog_dropped(host: &RuleInput) -> Vec<Finding> {
    let dropped = host.softnet(|row| row.dropped);
    let all: u64 = dropped.values().sum();
    let on: CpuSet = dropped.iter().filter(|(_, dropped)| **dropped > 0).map(|(cpu, _)| *cpu).collect();
    if all == 0 {
        return Vec::new();
    }
    let backlog = host.facts.sysctl("net.core.netdev_max_backlog");
    let mut finding = Finding::about(Severity::Warning, cpus(&on))
        .cause(format!("packets arrive faster than {} can take them from the backlog", cpus(&on)))
        .effect("packets are no longer dropped before the protocol has seen them")
        .saw(host.measured("softnet_stat dropped", count(all)).threshold("0"));
    if let Some(backlog) = backlog {
        finding = finding.saw(Evidence::setting("net.core.netdev_max_backlog", count(backlog)));
    }
    vec![finding]
}

fn squeezed(host: &RuleInput) -> Vec<Finding> {
    let squeezes = host.softnet(|row| row.time_squeeze);
    let window_s = host.series.window_s();
    let often = |count: &u64| *count as f64 / window_s > SQUEEZES_PER_S;
    let on: CpuSet = squeezes.iter().filter(|(_, count)| often(count)).map(|(cpu, _)| *cpu).collect();
    let Some(most) = squeezes.values().max().filter(|most| often(most)) else { return Vec::new() };
    vec![
        Finding::about(Severity::Note, cpus(&on))
            .cause(format!("{} had packets left when the budget for one round was used up", cpus(&on)))
            .effect("packets wait less for the next round")
            .saw(
                host.measured(
                    "softnet_stat time_squeeze, most on one CPU",
                    per_second(*most as f64 / window_s),
                )
                .threshold(per_second(SQUEEZES_PER_S)),
            ),
    ]
}

fn per_core(host: &RuleInput) -> Vec<Finding> {
    let packets: f64 = host.wires().map(|nic| host.packets_per_s(nic)).sum();
    if packets < PLANNING_PACKETS_PER_S {
        return Vec::new();
    }
    let busy: f64 = host.loads.values().map(|load| 100.0 - load.idle - load.steal).sum();
    let interrupts: f64 = host.loads.values().map(|load| load.interrupts()).sum();
    let others = others_percent(host);
    let stolen = host.mean(|load| load.steal).unwrap_or_default();
    let unknown = match others {
        _ if host.loads.is_empty() => Some("the CPUs' times are unknown".to_owned()),
        _ if busy < PLANNING_BUSY_PERCENT => {
            Some(format!("CPUs were busy for {} of one only", percent(busy)))
        }
        _ if stolen >= PLANNING_STOLEN_PERCENT => {
            Some(format!("the hypervisor took {} of the time", percent(stolen)))
        }
        Some(others) if others > PLANNING_OTHERS * busy => {
            Some(format!("programs that are no services used {} of a CPU", percent(others)))
        }
        _ => None,
    };
    let finding = Finding::about(Severity::Note, "all interfaces")
        .effect("a figure to plan capacity with")
        .saw(host.measured("packets received", per_second(packets)))
        .saw(host.measured("busy, sum over CPUs", percent(busy)))
        .saw(host.measured("of it irq + softirq", percent(interrupts)));
    let finding = match others {
        Some(others) => finding.saw(host.measured("CPU time of other programs", percent(others))),
        None => finding,
    };
    let per_core = packets / (busy / 100.0);
    vec![match unknown {
        Some(why) => {
            finding.cause(format!("how many packets a CPU can handle cannot be told from this: {why}"))
        }
        None => finding
            .cause(format!(
                "at this mix a busy CPU receives {}, and does all that follows",
                per_second(per_core)
            ))
            .saw(host.measured("packets per second and CPU", per_second(per_core))),
    }]
}

/// CPU time of programs that are no services, in percent of one CPU; `None`: there is no service, or no process was read.
fn others_percent(host: &RuleInput) -> Option<f64> {
    let processes = &host.series.last().processes;
    if host.facts.services.is_empty() || processes.is_empty() {
        return None;
    }
    let is_service = |pid: &u32| host.facts.services.iter().any(|service| service.pid == *pid);
    // Soft interrupts of a busy CPU run in ksoftirqd, and count as packets' work.
    let is_packets =
        |times: &ProcessTimes| times.name.starts_with("ksoftirqd/") || times.name.starts_with("napi/");
    let others = processes.iter().filter(|(pid, times)| !is_service(pid) && !is_packets(times));
    Some(others.filter_map(|(pid, _)| share(host, *pid)).sum())
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn one_core_saturated_by_packets() {
        check(
            "cpus 8
             cpu 0 user=5 system=10 softirq=80
             cpu 1-7 user=20
             NET_RX 0=900000 1-7=1000
             softnet 0 squeezed=60",
            "softirq-one-core CPU 0: 80 %, 99 %, 80 %, 60 (2.0 /s)
             budget-squeezed CPU 0: 2.0 /s",
        );
    }

    #[test]
    fn a_busy_host_is_no_saturated_core() {
        check(
            "cpus 8
             cpu 0 softirq=80
             cpu 1-7 user=75
             NET_RX 0=900000 1-7=1000",
            "no softirq-one-core",
        );
    }

    #[test]
    fn packets_that_are_spread_are_no_saturated_core() {
        check(
            "cpus 4
             cpu 0-1 softirq=70
             cpu 2-3 user=1
             NET_RX 0-1=100000 2-3=80000",
            "no softirq-one-core",
        );
    }

    #[test]
    fn with_two_cpus_three_quarters_of_the_packets_are_one_sided() {
        let loads = "cpus 2\n cpu 0 softirq=70\n cpu 1 user=10\n";
        check(&format!("{loads} NET_RX 0=800 1=200"), "softirq-one-core CPU 0: 80 %");
        check(&format!("{loads} NET_RX 0=700 1=300"), "no softirq-one-core");
    }

    #[test]
    fn a_single_cpu_has_no_others() {
        check("cpus 1\n cpu 0 softirq=90\n NET_RX 0=1000", "no softirq-one-core");
    }

    #[test]
    fn interrupts_piled_up_on_the_first_cpus() {
        let host = "cpus 16
             nic eth0 driver=ixgbe rx=16
             irqs 40-55 eth0-TxRx- on 0,1\n";
        check(
            &format!("{host} cpu 0-1 softirq=45\n cpu 2-15 user=1"),
            "irqs-piled-up warning eth0: 16, 0-1, 45 %",
        );
        check(host, "irqs-piled-up note eth0: 16, 0-1");
    }

    #[test]
    fn interrupts_on_their_own_cpus_are_not_piled_up() {
        check("cpus 4\n nic eth0 rx=4\n irqs 40-43 eth0-TxRx- on 0,1,2,3", "no irqs-piled-up");
    }

    #[test]
    fn a_single_queue_is_no_pile() {
        check("cpus 16\n nic eth0 rx=1\n irqs 40 virtio0-input. on 0", "no irqs-piled-up");
    }

    #[test]
    fn where_interrupts_did_arrive_counts_more_than_where_they_may() {
        check(
            "cpus 4\n nic eth0 rx=4\n irqs 40-43 eth0-TxRx- on 0,1,2,3
             arrivals 40-43 0=5000",
            "irqs-piled-up eth0: 4, 0",
        );
    }

    #[test]
    fn managed_interrupts_cannot_be_moved_here() {
        check(
            "cpus 8\n nic eth0 rx=8\n irqs 40-47 virtio0-input. on 0 managed",
            "irqs-piled-up not-here eth0: 8, 0",
        );
    }

    #[test]
    fn cpus_that_are_kept_for_interrupts_are_no_pile_while_they_have_time() {
        let host =
            "cpus 16\n nic eth0 rx=16\n irqs 40-55 eth0-TxRx- on 0,1\n service memcached pid=7 cpus=CPUS\n";
        let with = |cpus: &str, percent: u32| {
            format!("{} cpu 0-1 softirq={percent}\n cpu 2-15 user=1", host.replace("CPUS", cpus))
        };
        check(&with("2-15", 20), "no irqs-piled-up");
        check(&with("1-15", 20), "irqs-piled-up note eth0: 16, 0-1");
        check(&with("2-15", 45), "irqs-piled-up warning fixable eth0: 16, 0-1, 45 %");
    }

    #[test]
    fn irqbalance_that_moves_a_busy_interrupt_again_and_again() {
        let host = "cpus 4\n nic eth0 rx=2\n irqs 40-41 eth0-TxRx- on 0,1\n";
        let moving = "arrivals 40 0=5000,0,5000 1=0,5000,0\n";
        check(&format!("{host} {moving} agent irqbalance pid=77"), "irqbalance-moves warning eth0: 2, 77");
        check(&format!("{host} {moving}"), "no irqbalance-moves");
        check(&format!("{host} agent irqbalance pid=77\n arrivals 40 0=5000"), "no irqbalance-moves");
        check(
            &format!("{host} agent irqbalance pid=77\n arrivals 40 0=5000,5000,0 1=0,0,5000"),
            "irqbalance-moves note eth0: 1",
        );
    }

    #[test]
    fn a_full_backlog_drops_packets() {
        check(
            "cpus 4\n softnet 2 dropped=1200\n sysctl net.core.netdev_max_backlog=1000",
            "backlog-dropped CPU 2: 1,200, 1,000",
        );
        check("cpus 4\n softnet 2 dropped=0", "no backlog-dropped");
    }

    #[test]
    fn a_few_squeezes_are_harmless() {
        check("cpus 4\n softnet 0 squeezed=5", "no budget-squeezed");
        check("cpus 4\n softnet 0 squeezed=6", "budget-squeezed CPU 0: 0.2 /s");
    }

    #[test]
    fn packets_per_core_are_for_planning() {
        check(
            "cpus 4\n nic eth0\n count eth0 rx_packets=3000000\n cpu 0 softirq=50\n cpu 1-3 user=1",
            "packets-per-core note all interfaces: 100,000 /s, 53 %, 50 %, 188,679 /s",
        );
        // A server takes far more time for a packet than the soft interrupt does.
        check(
            "cpus 4\n nic eth0\n count eth0 rx_packets=3000000\n cpu 0-3 user=20 system=25 softirq=5",
            "packets-per-core note all interfaces: 100,000 /s, 200 %, 20 %, 50,000 /s",
        );
        check("cpus 4\n nic eth0\n count eth0 rx_packets=3000\n cpu 0 softirq=5", "no packets-per-core");
    }

    #[test]
    fn packets_per_core_are_not_told_where_they_cannot_be_known() {
        let host = "cpus 2\n nic eth0\n count eth0 rx_packets=3000000\n service memcached pid=8\n process memcached pid=8 run=50\n";
        let unknown = |more: &str, why: &str| {
            check(&format!("{host} {more}"), &format!("says cannot be told from this: {why}"))
        };
        unknown("cpu 0 user=4 softirq=5", "CPUs were busy for 9.0 % of one only");
        unknown("cpu 0-1 user=40 steal=5", "the hypervisor took 5.0 % of the time");
        unknown(
            "cpu 0-1 user=50\n process cc1 pid=9 run=21",
            "programs that are no services used 21 % of a CPU",
        );
        check(
            &format!("{host} cpu 0-1 user=50\n process cc1 pid=9 run=20\n process ksoftirqd/0 pid=10 run=30"),
            "packets-per-core all interfaces: 100,000 /s, 100 %, 0.0 %, 20 %, 100,000 /s",
        );
    }
}
