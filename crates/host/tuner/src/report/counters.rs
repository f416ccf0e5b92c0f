//! A host's counters as metrics, for whoever serves them beside a program's own.

use std::collections::BTreeMap;

use stdx::exposition::{Exposition, FamilyKind};

use crate::Reading;
use crate::diagnose::rules::is_allowance;
use crate::observe::queue_counter::{PacketDirection, queue_of};

use FamilyKind::{Counter, Gauge};

/// Soft interrupts that packets and disks cause; the others are timers and the scheduler's.
const SOFTIRQS: [&str; 3] = ["NET_RX", "NET_TX", "BLOCK"];
/// `USER_HZ`, the same on all machines: a clock tick of /proc/stat in parts of a second.
const TICKS_PER_S: f64 = 100.0;

/// Adds families of the host's CPUs, interfaces and disks. A device that the reading does not have has no sample.
pub fn counters(reading: &Reading, text: &mut Exposition) {
    nics(reading, text);
    disks(reading, text);
    cpus(reading, text);
}

impl PacketDirection {
    fn word(self) -> &'static str {
        match self {
            PacketDirection::Receive => "receive",
            PacketDirection::Transmit => "transmit",
        }
    }
}

fn nics(reading: &Reading, text: &mut Exposition) {
    let help = "Packets of each interface.";
    by_direction(reading, text, "evenkeel_host_nic_packets_total", help, ["rx_packets", "tx_packets"]);
    let help = "Packets that the kernel dropped on behalf of an interface.";
    by_direction(reading, text, "evenkeel_host_nic_dropped_total", help, ["rx_dropped", "tx_dropped"]);
    let help = "Packets of each queue, where the driver counts them.";
    let mut family = text.family("evenkeel_host_nic_queue_packets_total", Counter, help);
    for (nic, counters) in &reading.nics {
        for ((direction, queue), packets) in queues(counters) {
            let labels = [("nic", &**nic), ("queue", &queue.to_string()), ("direction", direction.word())];
            family.sample(&labels, packets);
        }
    }
    let help =
        "Packets that the cloud held back or dropped because an allowance of the instance was used up.";
    let mut family = text.family("evenkeel_host_allowance_exceeded_total", Counter, help);
    for (nic, counters) in &reading.nics {
        for (counter, packets) in counters.iter().filter(|(counter, _)| is_allowance(counter)) {
            let allowance = counter.trim_end_matches("_allowance_exceeded").trim_end_matches("_packets");
            family.sample(&[("nic", nic), ("allowance", allowance)], packets);
        }
    }
}

fn by_direction(reading: &Reading, text: &mut Exposition, name: &str, help: &str, counters: [&str; 2]) {
    let mut family = text.family(name, Counter, help);
    for (nic, found) in &reading.nics {
        for (direction, counter) in
            [PacketDirection::Receive, PacketDirection::Transmit].into_iter().zip(counters)
        {
            if let Some(count) = found.get(counter) {
                family.sample(&[("nic", nic), ("direction", direction.word())], count);
            }
        }
    }
}

/// A driver may count a queue's packets under two names: the first one counts.
fn queues(counters: &BTreeMap<String, u64>) -> BTreeMap<(PacketDirection, u32), u64> {
    let mut queues = BTreeMap::new();
    for (counter, packets) in counters {
        if let Some(queue) = queue_of(counter) {
            queues.entry(queue).or_insert(*packets);
        }
    }
    queues
}

fn disks(reading: &Reading, text: &mut Exposition) {
    let mut family = text.family("evenkeel_host_disk_requests_total", Counter, "Reads and writes done.");
    for (disk, times) in &reading.disks {
        family.sample(&[("disk", disk)], times.requests);
    }
    let help = "Time from a read's or write's arrival until its end, queueing included, over all of them.";
    let mut family = text.family("evenkeel_host_disk_response_seconds_total", Counter, help);
    for (disk, times) in &reading.disks {
        family.sample(&[("disk", disk)], times.waited_ms as f64 / 1e3);
    }
    let help = "Time in which the disk had requests.";
    let mut family = text.family("evenkeel_host_disk_busy_seconds_total", Counter, help);
    for (disk, times) in &reading.disks {
        family.sample(&[("disk", disk)], times.busy_ms as f64 / 1e3);
    }
    let mut family = text.family("evenkeel_host_disk_in_flight", Gauge, "Requests that are being served.");
    for (disk, times) in &reading.disks {
        family.sample(&[("disk", disk)], times.in_flight);
    }
}

fn cpus(reading: &Reading, text: &mut Exposition) {
    let help = "CPU time in soft interrupts.";
    let mut family = text.family("evenkeel_host_softirq_seconds_total", Counter, help);
    for (cpu, times) in &reading.cpus {
        family.sample(&[("cpu", &cpu.to_string())], times.softirq as f64 / TICKS_PER_S);
    }
    let help = "Runs of soft interrupts for packets and disks.";
    let mut family = text.family("evenkeel_host_softirqs_total", Counter, help);
    for kind in SOFTIRQS {
        for (cpu, runs) in reading.softirqs.get(kind).into_iter().flatten() {
            family.sample(&[("cpu", &cpu.to_string()), ("kind", kind)], runs);
        }
    }
    let help = "Packets dropped because a CPU's backlog was full (net.core.netdev_max_backlog).";
    let mut family = text.family("evenkeel_host_backlog_dropped_total", Counter, help);
    for (cpu, softnet) in &reading.softnet {
        family.sample(&[("cpu", &cpu.to_string())], softnet.dropped);
    }
    let help =
        "Times that packets were left when a soft interrupt's budget was used up (net.core.netdev_budget).";
    let mut family = text.family("evenkeel_host_budget_exhausted_total", Counter, help);
    for (cpu, softnet) in &reading.softnet {
        family.sample(&[("cpu", &cpu.to_string())], softnet.time_squeeze);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::reading::{CpuTimes, DiskTimes, Softnet};
    use stdx::exposition::read;

    fn counted(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn written(reading: &Reading) -> String {
        let mut text = Exposition::default();
        counters(reading, &mut text);
        text.finish()
    }

    #[test]
    fn counters_of_devices_become_families() {
        let eth0 = counted(&[
            ("rx_packets", 12),
            ("tx_packets", 13),
            ("rx_dropped", 1),
            ("queue_0_rx_cnt", 7),
            ("queue_0_tx_cnt", 8),
            ("queue_1_rx_cnt", 5),
            ("pps_allowance_exceeded", 3),
            ("rx_hw_ratelimit_packets", 4),
            ("wd_expired", 9),
        ]);
        let disk = DiskTimes { requests: 50, waited_ms: 1250, busy_ms: 700, in_flight: 2 };
        let reading = Reading {
            nics: BTreeMap::from([("eth0".to_owned(), eth0), ("gone".to_owned(), BTreeMap::new())]),
            disks: BTreeMap::from([("nvme0n1".to_owned(), disk)]),
            cpus: BTreeMap::from([(3, CpuTimes { softirq: 150, ..CpuTimes::default() })]),
            softnet: BTreeMap::from([(3, Softnet { dropped: 6, time_squeeze: 7, ..Softnet::default() })]),
            softirqs: BTreeMap::from([
                ("NET_RX".to_owned(), BTreeMap::from([(3, 99)])),
                ("TIMER".to_owned(), BTreeMap::from([(3, 1)])),
            ]),
            ..Reading::default()
        };
        let text = written(&reading);
        read(&text).expect("it is as the format wants it");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = r#"evenkeel_host_nic_packets_total{nic="eth0",direction="receive"} 12
evenkeel_host_nic_packets_total{nic="eth0",direction="transmit"} 13
evenkeel_host_nic_dropped_total{nic="eth0",direction="receive"} 1
evenkeel_host_nic_queue_packets_total{nic="eth0",queue="0",direction="receive"} 7
evenkeel_host_nic_queue_packets_total{nic="eth0",queue="1",direction="receive"} 5
evenkeel_host_nic_queue_packets_total{nic="eth0",queue="0",direction="transmit"} 8
evenkeel_host_allowance_exceeded_total{nic="eth0",allowance="pps"} 3
evenkeel_host_allowance_exceeded_total{nic="eth0",allowance="rx_hw_ratelimit"} 4
evenkeel_host_disk_requests_total{disk="nvme0n1"} 50
evenkeel_host_disk_response_seconds_total{disk="nvme0n1"} 1.25
evenkeel_host_disk_busy_seconds_total{disk="nvme0n1"} 0.7
evenkeel_host_disk_in_flight{disk="nvme0n1"} 2
evenkeel_host_softirq_seconds_total{cpu="3"} 1.5
evenkeel_host_softirqs_total{cpu="3",kind="NET_RX"} 99
evenkeel_host_backlog_dropped_total{cpu="3"} 6
evenkeel_host_budget_exhausted_total{cpu="3"} 7"#;
        assert_eq!(samples.join("\n"), expected);
    }

    #[test]
    fn names_of_a_hostile_driver_make_no_second_sample() {
        let names =
            counted(&[("rx3_packets", 1), ("rx_queue_3_packets", 2), ("\"}\n x_allowance_exceeded", 3)]);
        let reading = Reading { nics: BTreeMap::from([("e\"0".to_owned(), names)]), ..Reading::default() };
        let text = written(&reading);
        let families = read(&text).unwrap_or_else(|problem| panic!("{problem}\n{text}"));
        let queues = families.iter().find(|family| family.name == "evenkeel_host_nic_queue_packets_total");
        assert_eq!(queues.map(|family| family.samples.len()), Some(1));
        assert_eq!(read(&written(&Reading::default())).map(|families| families.len()), Ok(12));
    }
}
