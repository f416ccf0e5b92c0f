//! Counters by CPU: times, packets, soft interrupts, interrupts.

use std::collections::BTreeMap;

use crate::observe::facts::Facts;
use crate::observe::probe::cpu::online;
use crate::observe::probe::view::ProbeView;
use crate::observe::reading::{CpuTimes, Softnet};
use os::CpuSet;

/// Columns of softnet_stat, from 0 (net/core/net-procfs.c, `softnet_seq_show`).
const PROCESSED: usize = 0;
const DROPPED: usize = 1;
const TIME_SQUEEZE: usize = 2;
const RECEIVED_RPS: usize = 9;
const FLOW_LIMIT: usize = 10;
/// Since 5.10. Before, a row did not have its CPU.
const CPU: usize = 12;

pub(super) fn times(view: &ProbeView) -> BTreeMap<u32, CpuTimes> {
    view.lines("/proc/stat").iter().filter_map(|line| cpu_row(line)).collect()
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`. Guests' time is in user and nice already.
fn cpu_row(line: &str) -> Option<(u32, CpuTimes)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = ticks.as_slice() else { return None };
    let times = CpuTimes {
        user: user + nice,
        system: *system,
        idle: *idle,
        iowait: *iowait,
        irq: *irq,
        softirq: *softirq,
        steal: rest.first().copied().unwrap_or(0),
    };
    Some((cpu, times))
}

/// Column of a CPU's row of /proc/schedstat, after its name (Documentation/scheduler/sched-stats.rst): the time that tasks
/// have waited for it.
const RUN_DELAY: usize = 7;

pub(super) fn run_delays(view: &ProbeView) -> BTreeMap<u32, u64> {
    view.lines("/proc/schedstat").iter().filter_map(|line| run_delay(line)).collect()
}

/// `cpu0 0 0 0 0 0 0 5893 1822 44`
fn run_delay(line: &str) -> Option<(u32, u64)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    Some((words.next()?.parse().ok()?, words.nth(RUN_DELAY)?.parse().ok()?))
}

/// Of the core and of its package, where x86 counts them.
pub(super) fn heat_throttles(view: &ProbeView, facts: &Facts) -> BTreeMap<u32, u64> {
    let directory = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let file = |cpu: u32, of: &str| format!("{}/{of}_throttle_count", directory(cpu));
    let first = facts.cpus.iter().find(|cpu| cpu.online);
    let there: Vec<&str> = ["core", "package"]
        .into_iter()
        .filter(|of| first.is_some_and(|cpu| view.root.exists(&file(cpu.id, of))))
        .collect();
    if there.is_empty() {
        return BTreeMap::new();
    }
    // One that cannot be read this time is not 0.
    let counts = |cpu: u32| {
        let sum = there.iter().map(|of| view.number::<u64>(&file(cpu, of))).sum::<Option<u64>>();
        Some((cpu, sum?))
    };
    facts.online().iter().filter_map(counts).collect()
}

pub(super) fn softnet(view: &ProbeView) -> BTreeMap<u32, Softnet> {
    view.text("/proc/net/softnet_stat").map(|text| softnet_rows(&text, &online(view))).unwrap_or_default()
}

/// Rows of 11, 13 or 15 columns; CPUs that are offline have none.
fn softnet_rows(text: &str, online: &CpuSet) -> BTreeMap<u32, Softnet> {
    let row = |(line, place): (&str, Option<u32>)| {
        let columns = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        let columns: Vec<u64> = columns.collect::<Option<_>>()?;
        let column = |index: usize| columns.get(index).copied();
        let counts = Softnet {
            processed: column(PROCESSED)?,
            dropped: column(DROPPED)?,
            time_squeeze: column(TIME_SQUEEZE)?,
            received_rps: column(RECEIVED_RPS).unwrap_or(0),
            flow_limit: column(FLOW_LIMIT).unwrap_or(0),
        };
        Some((column(CPU).map(|cpu| cpu as u32).or(place)?, counts))
    };
    let places = online.iter().map(Some).chain(std::iter::repeat(None));
    text.lines().zip(places).filter_map(row).collect()
}

pub(super) fn softirqs(view: &ProbeView) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let lines = view.lines("/proc/softirqs");
    let Some((header, rows)) = lines.split_first() else { return BTreeMap::new() };
    let cpus = header_cpus(header);
    let row = |line: &String| {
        let (kind, counts) = line.split_once(':')?;
        Some((kind.trim().to_owned(), by_cpu(&cpus, counts.split_whitespace())))
    };
    rows.iter().filter_map(row).collect()
}

/// `  CPU0  CPU2` heads the columns of 0 and 2.
fn header_cpus(header: &str) -> Vec<u32> {
    header.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect()
}

fn by_cpu<'t>(cpus: &[u32], counts: impl Iterator<Item = &'t str>) -> BTreeMap<u32, u64> {
    let counts = counts.map_while(|count| count.trim().parse().ok());
    cpus.iter().copied().zip(counts).collect()
}

/// One small file per interrupt that matters, where there are such files: /proc/interrupts has a row for every
/// interrupt with a column for every CPU, and takes locks for each.
pub(super) fn interrupts(view: &ProbeView, facts: &Facts) -> BTreeMap<u32, BTreeMap<u32, u64>> {
    if !view.root.exists("/sys/kernel/irq") {
        return rows_of_proc_interrupts(view, facts);
    }
    // Columns are those of all possible CPUs, not of those that are present.
    let possible = view.list("/sys/devices/system/cpu/possible");
    let cpus: Vec<u32> = possible.unwrap_or_else(|| facts.online()).iter().collect();
    let counts = |irq: u32| {
        let text = view.text(&format!("/sys/kernel/irq/{irq}/per_cpu_count"))?;
        Some((irq, by_cpu(&cpus, text.split(','))))
    };
    facts.interrupts.iter().filter_map(|interrupt| counts(interrupt.irq)).collect()
}

fn rows_of_proc_interrupts(view: &ProbeView, facts: &Facts) -> BTreeMap<u32, BTreeMap<u32, u64>> {
    let lines = view.lines("/proc/interrupts");
    let Some((header, rows)) = lines.split_first() else { return BTreeMap::new() };
    let cpus = header_cpus(header);
    let row = |line: &String| {
        let (irq, counts) = line.split_once(':')?;
        let irq = irq.trim().parse().ok()?;
        let matters = facts.interrupts.iter().any(|interrupt| interrupt.irq == irq);
        matters.then(|| (irq, by_cpu(&cpus, counts.split_whitespace())))
    };
    rows.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &str, online: &str, expected: &[(u32, u64, u64)]) {
        let counts = softnet_rows(rows, &online.parse().unwrap());
        let found: Vec<_> = counts.iter().map(|(cpu, row)| (*cpu, row.processed, row.received_rps)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn softnet_rows_belong_to_the_cpu_that_they_name_else_to_those_in_use_in_turn() {
        let eleven = |processed: &str| format!("{processed} 0 0 0 0 0 0 0 0 b 0");
        check(&format!("{}\n{}", eleven("10"), eleven("20")), "0,2", &[(0, 16, 11), (2, 32, 11)]);
        check(&format!("{} 0 0\n{} 0 3", eleven("10"), eleven("20")), "0,2", &[(0, 16, 11), (3, 32, 11)]);
        check(&format!("{} 0 ff 0 0", eleven("10")), "0", &[(255, 16, 11)]);
        check("10 0 0 0 0 0 0 0 0", "0", &[(0, 16, 0)]);
    }

    #[test]
    fn more_rows_than_cpus_in_use_belong_to_nobody() {
        check("10 0 0 0 0 0 0 0 0 0 0\n20 0 0 0 0 0 0 0 0 0 0", "5", &[(5, 16, 0)]);
    }

    #[test]
    fn waiting_for_a_cpu_is_the_eighth_number_of_its_row() {
        assert_eq!(run_delay("cpu3 0 0 0 0 0 0 5893 1822 44"), Some((3, 1822)));
        assert_eq!(run_delay("cpu3 0 0 0 0 0 0"), None);
        assert_eq!(run_delay("domain0 3 0 0 0 0 0 0 0 1 2"), None);
    }

    #[test]
    fn old_kernels_know_no_stolen_time() {
        let (cpu, times) = cpu_row("cpu7 1 2 3 4 5 6 7").unwrap();
        assert_eq!((cpu, times.user, times.softirq, times.steal), (7, 3, 7, 0));
        assert_eq!(cpu_row("cpu7 1 2 3 4 5 6 7 8 9 10").unwrap().1.steal, 8);
        assert!(cpu_row("cpu  1 2 3 4 5 6 7 8").is_none(), "the sum of all is no CPU");
    }
}
