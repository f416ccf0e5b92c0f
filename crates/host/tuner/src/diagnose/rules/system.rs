//! Kernel and machine: clock, versions, per-packet costs, other programs that set things.

use super::figures::{count, per_second, percent};
use super::host::RuleInput;
use super::rule::{Explanation, Remedy, Rule};
use crate::settings::clock;
use crate::{Evidence, Finding, Severity};
use os::CpuSet;

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "clock-slow",
            title: "asking for the time is a system call",
            evidence: "The clock source is xen, hyperv_clocksource_msr, acpi_pm, hpet, jiffies or pit.",
            meaning: "With these the C library cannot read the clock by itself (vDSO); databases and caches ask for it \
                      with every request.",
            remedy: "clocksource/current_clocksource = tsc, or kvm-clock on KVM, where it is to be had.",
        },
        remedy: Remedy::settings(&[clock::fast]),
        find: clock,
    },
    Rule {
        explanation: Explanation {
            rule: "kernel-old",
            title: "the kernel lacks what would help here",
            evidence: "Linux before 5.4, a warning before 4.18: the oldest that distributions still maintain. What later \
                       versions added is listed; a strategy that needs one of them says so.",
            meaning: "What the evidence lists is not to be had on this kernel.",
            remedy: "A newer kernel. Distributions bring some of it back to older numbers (Red Hat most of all): there \
                     the version is a hint, no proof.",
        },
        remedy: Remedy::ReportOnly,
        find: kernel,
    },
    Rule {
        explanation: Explanation {
            rule: "conntrack-full",
            title: "the table of tracked connections is nearly full",
            evidence: "nf_conntrack_count is 80 % of nf_conntrack_max or more; critical from 95 % on.",
            meaning: "When it is full, new connections are dropped without a word to the program.",
            remedy: "Do not track the service's ports (notrack), or raise net.netfilter.nf_conntrack_max.",
        },
        remedy: Remedy::ByHand,
        find: conntrack,
    },
    Rule {
        explanation: Explanation {
            rule: "packet-taxes",
            title: "every packet or system call pays for something besides",
            evidence: "At 10,000 packets per second and more: packet filters, connection tracking, taps (tcpdump, \
                       dhclient), audit.",
            meaning: "Each is useful and has its price; in one published experiment on a web server, removing filters \
                      brought 22 %, audit 11 % and taps 6 % more requests.",
            remedy: "Rules that a service's packets leave early, notrack, audit rules that do not name its system \
                     calls. Mitigations are listed for completeness; they protect against attacks.",
        },
        remedy: Remedy::ReportOnly,
        find: per_packet_costs,
    },
    Rule {
        explanation: Explanation {
            rule: "governor-slow",
            title: "CPUs save energy between requests",
            evidence: "A cpufreq governor of powersave, ondemand, conservative or schedutil.",
            meaning: "A CPU that has slowed down serves the next request slowly; clients of a cache see it in the \
                      tail at low load.",
            remedy: "cpufreq/scaling_governor = performance, if the energy is worth it. With intel_pstate or amd-pstate \
                     in active mode, powersave is milder than its name.",
        },
        remedy: Remedy::ByHand,
        find: governor,
    },
    Rule {
        explanation: Explanation {
            rule: "agents",
            title: "other programs set what tuning sets",
            evidence: "irqbalance, tuned, a cloud's guest agent or the like runs here or acts at boot.",
            meaning: "What is set by hand or by `tune apply` may be set back by them.",
            remedy: "Tell each about the settings (ban interrupts in irqbalance, put values into tuned's profile) \
                     rather than stop it.",
        },
        remedy: Remedy::ReportOnly,
        find: agents,
    },
    Rule {
        explanation: Explanation {
            rule: "sysctl-dead",
            title: "files set what this kernel does not have any more",
            evidence: "A file for sysctl names a setting that Linux has dropped (kernel.sched_*_ns went in 5.13, \
                       tcp_tw_recycle in 4.12), and /proc/sys does not have it.",
            meaning: "The file relies on a setting that no kernel reads any more. The advice that it came from is as old.",
            remedy: "Remove the line. Since 5.13 the scheduler's are in /sys/kernel/debug/sched; since 6.12 a thread \
                     can ask for a shorter slice.",
        },
        remedy: Remedy::ReportOnly,
        find: dead,
    },
];

/// Clock sources without vDSO (arch/x86: only tsc, pvclock and hvclock have a vdso_clock_mode).
const CLOCKS_SLOW: [&str; 7] =
    ["xen", "hyperv_clocksource_msr", "acpi_pm", "hpet", "jiffies", "refined-jiffies", "pit"];
/// From this release on nothing that servers generally need is missing: that there is something newer is true of every
/// host, and is no finding.
const KERNEL_NOTE: (u32, u32) = (5, 4);
/// The oldest kernel that a distribution maintains (Red Hat 8).
const KERNEL_WARNING: (u32, u32) = (4, 18);
/// The features of each version.
const KERNEL_SINCE: [((u32, u32), &str); 10] = [
    ((3, 18), "sending in batches (bulk dequeue)"),
    ((4, 10), "cheaper receiving of UDP (memory accounting)"),
    ((4, 18), "sending with transmit queues chosen by receive queues, segmented UDP"),
    ((5, 4), "accept queues of 4,096 by default"),
    ((5, 6), "changing a listener of a running program (pidfd_getfd)"),
    ((5, 8), "deferral of interrupts (napi_defer_hard_irqs)"),
    ((5, 12), "NAPI in threads"),
    ((6, 6), "the EEVDF scheduler"),
    ((6, 12), "slices per thread, and a fair server below real-time threads"),
    ((6, 13), "suspension of interrupts while a program polls (irq_suspend_timeout)"),
];
const CONNTRACK_WARNING_PERCENT: f64 = 80.0;
const CONNTRACK_CRITICAL_PERCENT: f64 = 95.0;
/// Below this rate the cost is not noticeable (proposal).
const TAXED_PACKETS_PER_S: f64 = 10_000.0;
const GOVERNORS_SLOW: [&str; 4] = ["powersave", "ondemand", "conservative", "schedutil"];

fn clock(host: &RuleInput) -> Vec<Finding> {
    let source = &host.facts.clock_source;
    let Some(current) = source.current.as_deref().filter(|current| CLOCKS_SLOW.contains(current)) else {
        return Vec::new();
    };
    let better = clock::better(source);
    let finding = Finding::about(Severity::Warning, "clock source")
        .cause(format!("the clock source {current} cannot be read without a system call"))
        .effect("asking for the time costs 20 ns instead of some 100")
        .saw(Evidence::setting("current_clocksource", current))
        .saw(Evidence::setting("available", source.available.join(", ")));
    vec![match better {
        Some(better) => finding.saw(Evidence::setting("better", better)),
        None => finding.not_here("there is no better clock source on this machine type"),
    }]
}

fn kernel(host: &RuleInput) -> Vec<Finding> {
    let kernel = &host.facts.kernel;
    let missing: Vec<&((u32, u32), &str)> =
        KERNEL_SINCE.iter().filter(|(since, _)| kernel.version < *since).collect();
    // A kernel version of 0.0 means that it was not read.
    if kernel.version >= KERNEL_NOTE || kernel.version == (0, 0) {
        return Vec::new();
    }
    let severity = if kernel.version < KERNEL_WARNING { Severity::Warning } else { Severity::Note };
    let name = if kernel.release.is_empty() {
        format!("{}.{}", kernel.version.0, kernel.version.1)
    } else {
        kernel.release.clone()
    };
    let finding = Finding::about(severity, "kernel")
        .cause(format!("Linux {name} is older than some of what helps servers"))
        .effect("more ways to lower latency, and a faster network stack")
        .saw(Evidence::setting("kernel", name))
        .not_here("it takes a newer kernel");
    let lacking = |finding: Finding, ((major, minor), what): &((u32, u32), &str)| {
        finding.saw(Evidence::setting(format!("since {major}.{minor}"), *what))
    };
    vec![missing.into_iter().fold(finding, lacking)]
}

fn conntrack(host: &RuleInput) -> Vec<Finding> {
    let Some((now, max)) = host.facts.per_packet_costs.conntrack.filter(|(_, max)| *max > 0) else {
        return Vec::new();
    };
    let full = 100.0 * now as f64 / max as f64;
    if full < CONNTRACK_WARNING_PERCENT {
        return Vec::new();
    }
    let critical = full >= CONNTRACK_CRITICAL_PERCENT;
    vec![
        Finding::about(if critical { Severity::Critical } else { Severity::Warning }, "conntrack")
            .cause("the table of tracked connections is nearly full")
            .effect("new connections are not dropped")
            .saw(
                Evidence::setting("nf_conntrack_count of max", format!("{} of {}", count(now), count(max)))
                    .threshold(percent(CONNTRACK_WARNING_PERCENT)),
            ),
    ]
}

fn per_packet_costs(host: &RuleInput) -> Vec<Finding> {
    let costs = &host.facts.per_packet_costs;
    let packets: f64 = host.wires().map(|nic| host.packets_per_s(nic)).sum();
    let mut paid = Vec::new();
    if !costs.filters.is_empty() {
        paid.push(Evidence::setting("packet filters", costs.filters.join(", ")));
    }
    if let Some((now, _)) = costs.conntrack {
        paid.push(Evidence::setting("connections tracked", count(now)));
    }
    if costs.taps > 0 {
        paid.push(Evidence::setting("sockets that see every packet", costs.taps.to_string()));
    }
    if costs.audit == Some(true) {
        paid.push(Evidence::setting("audit", "on"));
    }
    if paid.is_empty() || packets < TAXED_PACKETS_PER_S {
        return Vec::new();
    }
    if !costs.mitigations.is_empty() {
        let names: Vec<&str> = costs.mitigations.keys().map(String::as_str).collect();
        paid.push(Evidence::setting("mitigations", names.join(", ")));
    }
    let finding = Finding::about(Severity::Note, "packets")
        .cause("every packet or system call pays for filters, tracking, taps or audit")
        .effect("more packets per CPU")
        .saw(
            host.measured("packets received", per_second(packets)).threshold(per_second(TAXED_PACKETS_PER_S)),
        );
    vec![paid.into_iter().fold(finding, Finding::saw)]
}

fn governor(host: &RuleInput) -> Vec<Finding> {
    let slow = |cpu: &&crate::observe::facts::Cpu| {
        cpu.online && cpu.governor.as_deref().is_some_and(|governor| GOVERNORS_SLOW.contains(&governor))
    };
    let cpus: Vec<_> = host.facts.cpus.iter().filter(slow).collect();
    let Some(governor) = cpus.first().and_then(|cpu| cpu.governor.clone()) else { return Vec::new() };
    let ids: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
    vec![
        Finding::about(Severity::Note, super::figures::cpus(&ids))
            .cause(format!("the governor {governor} lets CPUs slow down between requests"))
            .effect("a steady tail at low load")
            .saw(Evidence::setting("scaling_governor", governor)),
    ]
}

fn agents(host: &RuleInput) -> Vec<Finding> {
    if host.facts.agents.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = host.facts.agents.iter().map(|agent| agent.name.as_str()).collect();
    let finding = Finding::about(Severity::Note, names.join(", "))
        .cause("other programs on this host set what tuning sets")
        .effect("settings stay as they were set");
    let saw = |finding: Finding, agent: &crate::observe::facts::Agent| {
        let running = agent.pid.map_or("at boot".to_owned(), |pid| format!("PID {pid}"));
        let sets = if agent.sets.is_empty() { running } else { format!("{running}; sets {}", agent.sets) };
        finding.saw(Evidence::setting(&agent.name, sets))
    };
    vec![host.facts.agents.iter().fold(finding, saw)]
}

fn dead(host: &RuleInput) -> Vec<Finding> {
    let dead = &host.facts.obsolete_sysctls;
    if dead.is_empty() {
        return Vec::new();
    }
    let finding = Finding::about(Severity::Note, "sysctl")
        .cause(format!("{} settings in files for sysctl do nothing on this kernel", dead.len()))
        .effect("files say what is so");
    let saw = |finding: Finding, (name, file): (&String, &String)| finding.saw(Evidence::setting(name, file));
    vec![dead.iter().fold(finding, saw)]
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn clocks_that_need_a_system_call() {
        check("clock xen of xen,tsc", "clock-slow fixable clock source: xen, xen, tsc");
        check("clock hpet of hpet,acpi_pm", "clock-slow not-here clock source: hpet");
        check(
            "clock hyperv_clocksource_msr of hyperv_clocksource_tsc_page",
            "clock-slow fixable clock source",
        );
        check("clock kvm-clock of kvm-clock,tsc", "no clock-slow");
        check("clock tsc of tsc", "no clock-slow");
    }

    #[test]
    fn kernels_that_lack_something() {
        check("kernel 4.14", "kernel-old warning not-here kernel: 4.14");
        check("kernel 4.18", "kernel-old note kernel: 4.18, the EEVDF scheduler, slices per thread");
        check("kernel 5.4", "no kernel-old");
        check("kernel 0.0", "no kernel-old");
    }

    #[test]
    fn a_table_of_connections_that_fills() {
        check("conntrack 96 of 100", "conntrack-full critical conntrack: 96 of 100");
        check("conntrack 80 of 100", "conntrack-full warning conntrack: 80 of 100");
        check("conntrack 79 of 100", "no conntrack-full");
    }

    #[test]
    fn taxes_are_felt_at_high_rates() {
        let host = "nic eth0\n conntrack 7 of 100\n count eth0 rx_packets=";
        check(&format!("{host}300000"), "packet-taxes packets: 10,000 /s, 7");
        check(&format!("{host}290000"), "no packet-taxes");
        check("nic eth0\n count eth0 rx_packets=300000", "no packet-taxes");
    }

    #[test]
    fn cpus_that_slow_down() {
        check("cpus 4\n governor powersave", "governor-slow CPUs 0-3: powersave");
        check("cpus 4\n governor performance", "no governor-slow");
    }

    #[test]
    fn settings_that_nothing_reads() {
        check("dead net.ipv4.tcp_tw_recycle=/etc/sysctl.conf", "sysctl-dead note sysctl: /etc/sysctl.conf");
        check("cpus 4", "no sysctl-dead");
    }

    #[test]
    fn others_who_set_the_same() {
        check(
            "agent irqbalance pid=77\n agent tuned pid=78",
            "agents note irqbalance, tuned: PID 77, PID 78",
        );
        check("cpus 4", "no agents");
    }
}
