//! External limits: the instance, the hypervisor, a quota. No setting of the host changes them.

use super::figures::{count, happened, percent, percent_if_known};
use super::host::{RuleInput, is_allowance};
use super::rule::{Explanation, Remedy, Rule};
use crate::observe::facts::Nic;
use crate::observe::reading::Rate;
use crate::{Evidence, Finding, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        explanation: Explanation {
            rule: "allowance-exceeded",
            title: "an allowance of the cloud instance is used up",
            evidence: "A counter of the driver that ends in _allowance_exceeded (ENA), or virtio's \
                       {rx,tx}_hw_ratelimit_packets, grows. Critical, unless it is traffic and fewer than one packet \
                       in 10,000 received.",
            meaning: "The cloud queues or drops packets beyond the instance's bandwidth, packets per second, tracked \
                      connections, or requests to local services. Short bursts count, too, at low averages.",
            remedy: "No setting of the host helps: shape or spread the load, use untracked security group rules \
                     (conntrack), cache DNS (linklocal), or choose a larger instance. Tunings measured meanwhile \
                     prove nothing.",
        },
        remedy: Remedy::ReportOnly,
        find: allowance,
    },
    Rule {
        explanation: Explanation {
            rule: "device-dropped",
            title: "a virtual network device drops packets before the guest sees them",
            evidence: "A counter of the device grows: rx_queue_drop_cnt[N] of gve (which is reported only after `ethtool \
                       --set-priv-flags DEVICE report-stats on`), hc_rx_pkt_drop_phy and hc_tx_pkt_drop_phy of MANA, \
                       rx_hw_drops and tx_hw_drops of virtio.",
            meaning: "The device had packets that the guest did not take in time, or more than the machine type \
                      allows. These clouds tell no more of their limits than that.",
            remedy: "See whether the CPU that takes its interrupts is busy (softirq-one-core, rps-missing). If not, it \
                     is a limit of the machine type: spread the load or choose a larger one.",
        },
        remedy: Remedy::ReportOnly,
        find: device_dropped,
    },
    Rule {
        explanation: Explanation {
            rule: "cpu-stolen",
            title: "the hypervisor gives this host's CPU time to others",
            evidence: "Stolen time, mean over all CPUs: from 1 % a note, from 5 % a warning, from 10 % critical.",
            meaning: "Threads wait although the guest sees an idle CPU. It looks like a scheduling delay, and no \
                      priority inside of the guest changes it.",
            remedy: "A dedicated or larger instance, or another machine. Burstable instances: the credits are used up.",
        },
        remedy: Remedy::ReportOnly,
        find: stolen,
    },
    Rule {
        explanation: Explanation {
            rule: "cpu-throttled",
            title: "a CPU quota stops a service",
            evidence: "Periods in which a cgroup was stopped: a warning from 1 % of the periods on, critical from 10 %.",
            meaning: "The cgroup had used its share of a period (100 ms) before the period was over, and all its \
                      threads stood still until the next. Many threads use up a quota in a burst.",
            remedy: "A larger quota (CPUQuota=, cpu.max, limits.cpu) or none, or fewer threads. Priorities do not \
                     change it.",
        },
        remedy: Remedy::ReportOnly,
        find: throttled,
    },
];

/// A small amount of stolen time is normal on shared machines (proposal).
const STOLEN_NOTE_PERCENT: f64 = 1.0;
/// netdata warns from 5 % and raises the alarm at 10 %.
const STOLEN_WARNING_PERCENT: f64 = 5.0;
const STOLEN_CRITICAL_PERCENT: f64 = 10.0;
/// Packets held back per packet received (proposal, as for lost packets).
const HELD_BACK_CRITICAL: f64 = 1e-4;
/// Of a quota's periods (proposal): one in a hundred is visible in p99.
const THROTTLED_WARNING_PERCENT: f64 = 1.0;
const THROTTLED_CRITICAL_PERCENT: f64 = 10.0;

fn allowance(host: &RuleInput) -> Vec<Finding> {
    let finding = |(counter, rate): (String, Rate), nic: &Nic| {
        let (what, remedy) = match counter.as_str() {
            "bw_in_allowance_exceeded" => {
                ("incoming bandwidth", "spread the load, or choose an instance with more bandwidth")
            }
            "bw_out_allowance_exceeded" => {
                ("outgoing bandwidth", "spread the load, or choose an instance with more bandwidth")
            }
            "pps_allowance_exceeded" => {
                ("packets per second", "send larger or fewer packets, spread the load, or resize")
            }
            "conntrack_allowance_exceeded" => (
                "tracked connections",
                "use security group rules that are not tracked, keep connections open, or resize",
            ),
            "rx_hw_ratelimit_packets" => {
                ("incoming traffic", "spread the load, or choose a machine type with more")
            }
            "tx_hw_ratelimit_packets" => {
                ("outgoing traffic", "spread the load, or choose a machine type with more")
            }
            "linklocal_allowance_exceeded" => {
                ("packets to local services (DNS, metadata, time)", "cache DNS answers on the host")
            }
            _ => ("an allowance", "spread the load, or resize"),
        };
        // A burst of traffic now and then is held back a little on many hosts; lost connections and names matter
        // more.
        let is_traffic = !["conntrack", "linklocal"].iter().any(|kind| counter.starts_with(kind));
        // Without a count of packets their part is unknown.
        let is_part_small = host
            .packets(nic)
            .is_none_or(|packets| (rate.count as f64) < HELD_BACK_CRITICAL * packets.count as f64);
        let few = is_traffic && is_part_small;
        Finding::about(if few { Severity::Warning } else { Severity::Critical }, &nic.name)
            .cause(format!(
                "the instance's allowance for {what} is used up, so packets are queued or dropped"
            ))
            .effect("packets no longer wait for, or fall to, the instance's limit")
            .saw(host.measured(counter, happened(rate)).threshold("0"))
            .not_here(remedy)
    };
    let of = |nic: &'_ Nic| -> Vec<Finding> {
        let exceeded = host.grown(nic, is_allowance);
        exceeded.into_iter().map(|counter| finding(counter, nic)).collect()
    };
    host.wires().flat_map(of).collect()
}

/// Whether a counter of a paravirtual driver counts packets that were lost outside of the guest. Others with similar
/// names
/// do not: gve's rx_dropped_pkt and virtio's rx_queue_N_drops are packets that the guest had no memory for, or that XDP
/// dropped.
fn is_drop(driver: &str, counter: &str) -> bool {
    match driver {
        "gve" => counter == "rx_queue_drop_cnt[N]",
        "mana" => ["hc_rx_pkt_drop_phy", "hc_tx_pkt_drop_phy"].contains(&counter),
        "virtio_net" => ["rx_hw_drops", "tx_hw_drops"].contains(&counter),
        _ => false,
    }
}

fn device_dropped(host: &RuleInput) -> Vec<Finding> {
    let finding = |nic: &Nic| {
        let driver = nic.driver.as_deref()?;
        let dropped = host.grown(nic, |counter| is_drop(driver, counter));
        let busiest = host.interrupts_at_most(&host.receiving_cpus(nic));
        let busy = busiest.map(|busiest| busiest >= crate::observe::cpu_load::BUSY_PERCENT);
        let mut finding = Finding::about(Severity::Warning, &nic.name)
            .cause(match busy {
                Some(true) => format!("{} loses packets while the CPU that takes them is busy", nic.name),
                Some(false) => {
                    format!("{} loses packets although the CPU that takes them has time", nic.name)
                }
                None => {
                    format!("{} loses packets; how busy the CPUs are that take them is unknown", nic.name)
                }
            })
            .effect("packets are not sent again");
        for (counter, rate) in &dropped {
            finding = finding.saw(host.measured(counter, happened(*rate)).threshold("0"));
        }
        finding = finding
            .saw(Evidence::setting("driver", driver))
            .saw(host.measured("irq + softirq, busiest of its CPUs", percent_if_known(busiest)));
        (!dropped.is_empty()).then(|| match busy {
            Some(true) => finding,
            Some(false) | None => {
                finding.not_here("a limit of the machine type: spread the load, or choose a larger one")
            }
        })
    };
    host.wires().filter_map(finding).collect()
}

fn stolen(host: &RuleInput) -> Vec<Finding> {
    let Some(mean) = host.mean(|load| load.steal) else { return Vec::new() };
    let most = host.loads.values().map(|load| load.steal).fold(0.0, f64::max);
    let severity = match mean {
        _ if mean >= STOLEN_CRITICAL_PERCENT => Severity::Critical,
        _ if mean >= STOLEN_WARNING_PERCENT => Severity::Warning,
        _ if mean >= STOLEN_NOTE_PERCENT => Severity::Note,
        _ => return Vec::new(),
    };
    vec![
        Finding::about(severity, "all CPUs")
            .cause(format!("the hypervisor gave {} of this host's CPU time to others", percent(mean)))
            .effect("threads run when the guest schedules them")
            .saw(host.measured("steal, mean", percent(mean)).threshold(percent(STOLEN_NOTE_PERCENT)))
            .saw(host.measured("steal, most on one CPU", percent(most)))
            .not_here("the guest has no say in it: use a dedicated or larger instance, or another machine"),
    ]
}

fn throttled(host: &RuleInput) -> Vec<Finding> {
    let finding = |cgroup: &String| {
        let periods = host.series.rate(|reading| Some(reading.cgroups.get(cgroup)?.periods))?;
        let stopped = host.series.rate(|reading| Some(reading.cgroups.get(cgroup)?.throttled))?;
        let stopped_us = host.series.rate(|reading| Some(reading.cgroups.get(cgroup)?.throttled_us))?;
        let share = 100.0 * stopped.count as f64 / periods.count.max(1) as f64;
        let critical = share >= THROTTLED_CRITICAL_PERCENT;
        (share >= THROTTLED_WARNING_PERCENT).then(|| {
            Finding::about(if critical { Severity::Critical } else { Severity::Warning }, cgroup)
                .cause(format!("the CPU quota of {cgroup} was used up in {} of its periods", percent(share)))
                .effect("its threads no longer stand still until the next period")
                .saw(
                    host.measured(
                        "nr_throttled of nr_periods",
                        format!("{} of {}", count(stopped.count), count(periods.count)),
                    )
                    .threshold(percent(THROTTLED_WARNING_PERCENT)),
                )
                .saw(host.measured("throttled", format!("{} ms", count(stopped_us.count / 1000))))
                .not_here(
                    "the quota is set by the owner of this cgroup: raise it (CPUQuota=, cpu.max, limits.cpu)",
                )
        })
    };
    host.series.last().cgroups.keys().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::diagnose::rules::situation::check;

    #[test]
    fn an_allowance_that_is_used_up_cannot_be_tuned() {
        check(
            "nic eth0 driver=ena\n count eth0 pps_allowance_exceeded=7 bw_in_allowance_exceeded=0",
            "allowance-exceeded warning not-here eth0: 7 (0.2 /s)",
        );
        check(
            "nic eth0 driver=ena\n count eth0 rx_packets=900 pps_allowance_exceeded=7",
            "allowance-exceeded critical not-here eth0: 7 (0.2 /s)",
        );
        check("nic eth0 driver=ena\n count eth0 pps_allowance_exceeded=0", "no allowance-exceeded");
        let busy = "nic eth0 driver=ena\n count eth0 rx_packets=1000000";
        check(&format!("{busy} bw_in_allowance_exceeded=99"), "allowance-exceeded warning not-here eth0: 99");
        check(
            &format!("{busy} bw_in_allowance_exceeded=100"),
            "allowance-exceeded critical not-here eth0: 100",
        );
        check(&format!("{busy} conntrack_allowance_exceeded=1"), "allowance-exceeded critical eth0: 1");
    }

    #[test]
    fn devices_that_drop_for_the_machine_types_sake() {
        let drops = "nic eth0 driver=gve\n count eth0 rx_queue_drop_cnt[0]=20 rx_queue_drop_cnt[11]=10\n";
        check(drops, "device-dropped not-here eth0: 30, gve, unknown");
        check(
            &format!("{drops} cpus 2\n irqs 40-41 eth0-ntfy-block. on 0-1\n cpu 1 softirq=40"),
            "device-dropped fixable eth0: 30, gve, 40 %",
        );
        check("nic eth0 driver=mana\n count eth0 hc_rx_pkt_drop_phy=3", "device-dropped eth0: 3, mana");
        check(
            "nic eth0 driver=virtio_net\n count eth0 rx_hw_drops=3 rx0_hw_drops=3",
            "device-dropped eth0: 3",
        );
    }

    #[test]
    fn drops_that_are_the_guests_own_are_no_limit_of_the_machine_type() {
        check("nic eth0 driver=gve\n count eth0 rx_dropped_pkt[0]=30", "no device-dropped\n no ring-overrun");
        check("nic eth0 driver=ena\n count eth0 rx_queue_drop_cnt[0]=30", "no device-dropped");
        check("nic eth0 driver=virtio_net\n count eth0 rx_queue_0_drops=9", "no device-dropped");
        check(
            "nic eth0 driver=gve\n count eth0 rx_no_buffers_posted[0]=9 rx_no_buffers_posted[1]=1",
            "ring-overrun eth0: 10\n no device-dropped",
        );
        check("nic eth0 driver=mana\n count eth0 hc_rx_discards_no_wqe=3", "ring-overrun eth0: 3");
    }

    #[test]
    fn virtio_tells_of_its_limit_too() {
        check(
            "nic eth0 driver=virtio_net\n count eth0 tx_hw_ratelimit_packets=9 tx0_hw_ratelimit_packets=9",
            "allowance-exceeded warning not-here eth0: 9",
        );
    }

    #[test]
    fn stolen_time_is_not_the_guests_to_give() {
        check("cpus 2\n cpu 0-1 steal=12", "cpu-stolen critical not-here all CPUs: 12 %, 12 %");
        check("cpus 2\n cpu 0 steal=12", "cpu-stolen warning all CPUs: 6.0 %, 12 %");
        check("cpus 2\n cpu 0 steal=2", "cpu-stolen note all CPUs: 1.0 %");
        check("cpus 2\n cpu 0 steal=1", "no cpu-stolen");
    }

    #[test]
    fn a_quota_that_stops_the_service() {
        check(
            "cgroup /a periods=300 throttled=30 ms=900",
            "cpu-throttled critical not-here /a: 30 of 300, 900 ms",
        );
        check("cgroup /a periods=300 throttled=3 ms=9", "cpu-throttled warning /a: 3 of 300, 9 ms");
        check("cgroup /a periods=300 throttled=2 ms=9", "no cpu-throttled");
    }
}
