//! Hosts of published reports, with the printed figures: the rules find what engineers found by hand, and the plan is
//! what they did. Figures that a report does not print are marked as assumed.

use super::situation::{check, stage};
use crate::observe::cpu_model::Measured;
use crate::observe::facts::{Agent, Irqbalance};
use crate::plan::{PlanRequest, plan};

/// The changes of the plan for a situation, a line each: the file and its value.
#[track_caller]
fn check_plan(situation: &str, irqbalance: bool, wanted: &[&str]) {
    let (mut facts, series) = stage(situation);
    facts.sysctls.entry("net.core.rps_sock_flow_entries".to_owned()).or_insert("0".to_owned());
    if irqbalance {
        facts.agents.push(Agent { name: "irqbalance".to_owned(), pid: Some(77), sets: String::new() });
        facts.irqbalance = Some(Irqbalance { pid: 77, banned: Default::default() });
    }
    let findings = super::judge(&facts, &series);
    let measured = Measured::of(&series);
    let plan = plan(&facts, &PlanRequest { findings: &findings, measured, ..PlanRequest::default() });
    let said = plan.changes.iter().map(|change| {
        format!("{} {}", change.setting, change.wanted).replace("/sys/class/net/eth0/queues/", "")
    });
    assert_eq!(said.collect::<Vec<_>>(), wanted);
}

/// Pinterest 2013: a memcached host on EC2 (Xen, 4 CPUs, one queue), mpstat over 2 s, the row of /proc/interrupts of
/// eth0 and 50,000 packets/s. The window is ours; NET_RX by CPU is as its column `soft`.
const PINTEREST_2013: &str = "cpus 4
    kernel 3.2
    nic eth0 driver=vif rx=1
    irqs 275 eth0 on 0
    arrivals 275 0=1500000
    count eth0 rx_packets=1500000
    cpu 0 user=17.00 system=45.50 softirq=37.50
    cpu 1 user=3.53 system=7.65 steal=0.29
    cpu 2 user=4.64 system=8.12 softirq=0.29 steal=0.29
    cpu 3 user=2.96 system=9.17 steal=0.30
    NET_RX 0=1500000 2=11000\n";

#[test]
fn pinterest_2013_cpu_0_drowns_in_packets() {
    check(
        PINTEREST_2013,
        "softirq-one-core critical CPU 0: 38 %, 99 %, 88 %, 46 %, 0.0 %, 50,000 /s
         rps-missing critical eth0: 1, 4, 38 %, 50,000 /s",
    );
    check_plan(
        PINTEREST_2013,
        false,
        &["/proc/sys/net/core/rps_sock_flow_entries 32768", "rx-0/rps_cpus e", "rx-0/rps_flow_cnt 32768"],
    );
}

/// After `rps_cpus = f`: NET_RX as printed, system time of CPU 0 about 10 %. The other columns are assumed.
#[test]
fn pinterest_2013_after_steering_nothing_is_found() {
    check(
        "cpus 4
         kernel 3.2
         nic eth0 driver=vif rx=1 rps=0-3
         irqs 275 eth0 on 0
         arrivals 275 0=1500000
         count eth0 rx_packets=1500000
         cpu 0-3 user=6 system=10 softirq=12
         NET_RX 0=1114954147 1=1776433298 2=2034092667 3=1964220116",
        "no softirq-one-core
         no rps-missing
         no rps-harmful
         no rps-redundant
         no irqs-piled-up",
    );
}

/// Clustrix 2014, 32 cores: `core 0 saturated, the others wait for it`. Queues and percentages are assumed.
#[test]
fn clustrix_2014_nothing_done_core_0_is_saturated() {
    let host = "cpus 32
        nic eth0 driver=ixgbe rx=8
        irqs 40-47 eth0-TxRx- on 0
        arrivals 40-47 0=200000
        count eth0 rx_packets=6000000
        cpu 0 user=10 system=35 softirq=55
        cpu 1-31 user=20 system=10
        NET_RX 0=1600000 1-31=900\n";
    check(
        host,
        "softirq-one-core critical CPU 0: 55 %, 98 %, 70 %, 35 %, 0.0 %, 200,000 /s
         irqs-piled-up critical eth0: 8, 0, 55 %",
    );
    let spread: Vec<String> =
        (0..8).map(|queue| format!("/proc/irq/{}/smp_affinity {:x}", 40 + queue, 1 << queue)).collect();
    let spread: Vec<&str> = spread.iter().map(String::as_str).collect();
    check_plan(host, false, &spread[1..]);
}

/// Clustrix 2014: `core 0 underused, interrupts concentrated on 8 cores of 32` by irqbalance. 16 queues are assumed.
#[test]
fn clustrix_2014_irqbalance_uses_8_of_32_cores() {
    let host = "cpus 32
        nic eth0 driver=ixgbe rx=16
        irqs 40-55 eth0-TxRx- on 8,9,10,11,16,17,18,19
        count eth0 rx_packets=6000000
        cpu 0 user=5
        cpu 8-11 user=20 system=20 softirq=35
        cpu 16-19 user=20 system=20 softirq=35
        NET_RX 8-11=100000 16-19=100000\n";
    let arrivals = "arrivals 40,48 8=50000\n arrivals 41,49 9=50000\n arrivals 42,50 10=50000\n arrivals 43,51 11=50000
        arrivals 44,52 16=50000\n arrivals 45,53 17=50000\n arrivals 46,54 18=50000\n arrivals 47,55 19=50000";
    let host = format!("{host} {arrivals}");
    check(&host, "irqs-piled-up warning eth0: 16, 8-11,16-19, 35 %");
    let banned: Vec<String> = (40..56).map(|irq| irq.to_string()).collect();
    let told = format!("interrupts that irqbalance (77) leaves alone {}", banned.join(" "));
    // The interrupts of queues 8 to 11 have come to the right CPU already.
    let moved = (0..8).chain(12..16);
    let places = moved.map(|queue| format!("/proc/irq/{}/smp_affinity {:x}", 40 + queue, 1 << queue));
    let wanted: Vec<String> = std::iter::once(told).chain(places).collect();
    check_plan(&host, true, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Clustrix 2014: irqbalance off, all interrupts on core 0, RPS on all cores, RFS: `balanced`. 65,536 flows with 8,192
/// in each queue are eight queues.
#[test]
fn clustrix_2014_interrupts_on_core_0_and_packets_on_all_is_left_as_it_is() {
    let host = "cpus 32
        sysctl net.core.rps_sock_flow_entries=65536
        nic eth0 driver=ixgbe rx=8 rps=0-31 flows=8192
        irqs 40-47 eth0-TxRx- on 0
        arrivals 40-47 0=200000
        count eth0 rx_packets=6000000
        cpu 0 user=55 system=15 softirq=15
        cpu 1-31 user=60 system=15 softirq=10
        NET_RX 0=60000 1-31=50000\n";
    check(
        host,
        "no softirq-one-core
         no irqs-piled-up
         no rps-missing
         no rps-harmful
         no rps-redundant
         no rfs-off
         no rfs-half-set",
    );
    check_plan(host, false, &[]);
}

#[test]
fn a_cpu_that_programs_or_disks_or_the_hypervisor_fill_does_not_drown_in_packets() {
    let with = |cpu: &str, more: &str| format!("cpus 4\n cpu 0 {cpu}\n NET_RX 0=1500000 1=100\n {more}");
    check(&with("system=45 softirq=37 user=18", ""), "softirq-one-core critical CPU 0: 37 %");
    check(&with("system=10 softirq=20 user=70", ""), "no softirq-one-core");
    check(&with("system=88 softirq=12", ""), "no softirq-one-core");
    check(&with("system=40 softirq=20 steal=35", ""), "no softirq-one-core");
    check(&with("system=45 softirq=37 user=18", "BLOCK 0=2000000"), "no softirq-one-core");
    check(&with("system=45 softirq=37 user=18", "cpu 1-3 user=80"), "no softirq-one-core");
}
