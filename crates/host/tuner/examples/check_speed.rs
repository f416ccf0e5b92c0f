//! CPU time of `tune check` on large hosts: `cargo run --profile dist -p tuner --example check_speed`.
//!
//! Writes the files of a host (CPUs, interfaces, interrupts) to a temporary directory, reads them as a check does, and judges
//! counters of four readings, under load on some CPUs. Prints milliseconds of CPU time of one thread. The profile is that of
//! what ships: the tuner is not optimised in `release`.

use std::fs;
use std::path::Path;

use os::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use tuner::observe::cpu_model::Measured;
use tuner::plan::{PlanRequest, plan};
use tuner::{Facts, Reading, Root, Series, judge, probe, read};

/// Hosts: CPUs, interfaces, and interrupts of each. The last is the largest that a check promises to take a second on.
const HOSTS: [(u32, u32, u32); 4] = [(64, 1, 63), (512, 1, 63), (256, 8, 64), (512, 16, 64)];
const NODES: u32 = 2;
/// The first interrupt's number.
const IRQ_FIRST: u32 = 40;
/// Seconds between two readings.
const WINDOW_S: u64 = 10;
const READINGS: u64 = 4;

fn main() {
    println!(
        "{:>5} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "CPUs", "IRQs", "facts", "readings", "judge", "plan", "all, ms"
    );
    for (cpus, nics, irqs) in HOSTS {
        let path = std::env::temp_dir().join(format!("tuner-check-speed-{}", std::process::id()));
        write_host(&path, cpus, nics, irqs);
        let root = Root::new(&path);
        let (facts, probed) = timed(|| probe(&root, &[]).expect("a host"));
        let (read, took) = timed(|| {
            (0..READINGS)
                .map(|i| read(&root, &facts, i * WINDOW_S * 1000).expect("counters"))
                .collect::<Vec<_>>()
        });
        fs::remove_dir_all(&path).expect("remove the host");
        assert_eq!(facts.interrupts.len(), (nics * irqs) as usize, "all are read");
        let series =
            Series::new(read.into_iter().zip(0..).map(|(now, i)| under_load(&facts, now, i)).collect());
        let series = series.expect("readings are in order");
        let (findings, judged) = timed(|| judge(&facts, &series));
        assert!(
            findings.iter().any(|finding| finding.rule == "irqs-misplaced"),
            "the interrupts are on node 0"
        );
        let (made, planned) = timed(|| {
            let measured = Measured::of(&series);
            plan(&facts, &PlanRequest { findings: &findings, measured, ..PlanRequest::default() })
        });
        assert!(!made.changes.is_empty(), "they are moved");
        let all = probed + took + judged + planned;
        println!(
            "{cpus:>5} {:>5} {probed:>8.0} {took:>8.0} {judged:>8.0} {planned:>8.0} {all:>8.0}",
            nics * irqs
        );
    }
}

/// A result, and the milliseconds of CPU time that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_ms();
    let result = work();
    (result, cpu_ms() - start)
}

fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 * 1e-6
}

/// CPUs of two nodes; interfaces of the second one, whose interrupts arrive on the first.
fn write_host(root: &Path, cpus: u32, nics: u32, irqs: u32) {
    let file = |path: &str, text: &str| {
        let path = root.join(path);
        if fs::write(&path, text).is_err() {
            fs::create_dir_all(path.parent().expect("a directory")).expect("make directories");
            fs::write(&path, text).expect("write a file");
        }
    };
    let all = CpuSet::first(cpus).to_string();
    file("proc/sys/kernel/osrelease", "6.12.0");
    ["possible", "present", "online"]
        .iter()
        .for_each(|name| file(&format!("sys/devices/system/cpu/{name}"), &all));
    for node in 0..NODES {
        let list: CpuSet = (0..cpus).filter(|cpu| cpu / (cpus / NODES) == node).collect();
        file(&format!("sys/devices/system/node/node{node}/cpulist"), &list.to_string());
    }
    for cpu in 0..cpus {
        let node: CpuSet = (0..cpus).filter(|other| other * NODES / cpus == cpu * NODES / cpus).collect();
        let here = format!("sys/devices/system/cpu/cpu{cpu}");
        file(&format!("{here}/topology/thread_siblings_list"), &cpu.to_string());
        file(&format!("{here}/cache/index3/level"), "3");
        file(&format!("{here}/cache/index3/shared_cpu_list"), &node.to_string());
    }
    for nic in 0..nics {
        let (name, device) = (format!("eth{nic}"), format!("sys/devices/pci0/0000:{nic:02x}:00.0"));
        let here = format!("{device}/net/{name}");
        file(&format!("{here}/type"), "1");
        file(&format!("{here}/flags"), "0x1003");
        file(&format!("{here}/operstate"), "up");
        file(&format!("{here}/statistics/rx_packets"), "1000");
        file(&format!("{device}/numa_node"), "1");
        fs::create_dir_all(root.join("sys/class/net")).expect("make directories");
        let link = |target: &str, path: String| {
            std::os::unix::fs::symlink(target, root.join(path)).expect("make a link");
        };
        link(&format!("../../devices/pci0/0000:{nic:02x}:00.0/net/{name}"), format!("sys/class/net/{name}"));
        link(&format!("../../../0000:{nic:02x}:00.0"), format!("{here}/device"));
        for queue in 0..irqs {
            file(&format!("{here}/queues/rx-{queue}/rps_cpus"), "0");
            file(&format!("{here}/queues/rx-{queue}/rps_flow_cnt"), "0");
            file(&format!("{here}/queues/tx-{queue}/xps_cpus"), &CpuSet::from_iter([queue]).mask());
            let (irq, at) = (IRQ_FIRST + nic * irqs + queue, (nic * irqs + queue) % (cpus / NODES));
            file(&format!("{device}/msi_irqs/{irq}"), "msix");
            file(&format!("sys/kernel/irq/{irq}/actions"), &format!("{name}-TxRx-{queue}"));
            let counts: Vec<&str> = (0..cpus).map(|cpu| if cpu == at { "1000000" } else { "0" }).collect();
            file(&format!("sys/kernel/irq/{irq}/per_cpu_count"), &counts.join(","));
            file(&format!("proc/irq/{irq}/smp_affinity_list"), &at.to_string());
            file(&format!("proc/irq/{irq}/effective_affinity_list"), &at.to_string());
        }
    }
    let rows = (0..cpus).map(|cpu| format!("cpu{cpu} 1 0 1 100 0 0 0 0 0 0\n")).collect::<String>();
    file("proc/stat", &rows);
    let row = (0..cpus).map(|_| " 1000").collect::<String>();
    let header = (0..cpus).map(|cpu| format!(" CPU{cpu}")).collect::<String>();
    file("proc/softirqs", &format!("{header}\n NET_RX:{row}\n BLOCK:{row}\n"));
    let softnet = (0..cpus).map(|cpu| format!("10 0 0 0 0 0 0 0 0 0 0 0 {cpu:x}\n")).collect::<String>();
    file("proc/net/softnet_stat", &softnet);
}

/// The reading after `i` windows under load: the interrupts' CPUs are busy, some of them saturated.
fn under_load(facts: &Facts, mut reading: Reading, i: u64) -> Reading {
    for interrupt in &facts.interrupts {
        let at = interrupt.effective.lowest().expect("a CPU");
        *reading.interrupts.entry(interrupt.irq).or_default().entry(at).or_default() += 50_000 * i;
        let busy = if at % 8 == 0 { 700 } else { 400 };
        let times = reading.cpus.entry(at).or_default();
        (times.softirq, times.idle) = (busy * i, (1000 - busy) * i);
        *reading.softirqs.entry("NET_RX".into()).or_default().entry(at).or_default() += 50_000 * i;
    }
    for (cpu, times) in &mut reading.cpus {
        if times.softirq == 0 {
            times.idle = (1000 - u64::from(*cpu % 3) * 10) * i;
        }
    }
    reading
}
