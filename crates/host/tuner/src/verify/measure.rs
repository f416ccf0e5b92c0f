//! Measurement of a figure in a [`Series`], for the subject of a change.
//!
//! Pure. Every figure has a load figure beside it: without packets, interrupts per packet mean nothing, and a full
//! queue that gets no connections does not stand still because of a larger limit.

use crate::observe::cpu_load::{arrivals, loads, softirqs};
use crate::observe::facts::Facts;
use crate::observe::reading::{Rate, Reading, Series};
use crate::plan::change::{Change, Setting};
use crate::plan::signal::Figure;
use os::CpuSet;

/// Fewer packets, interrupts or page faults a second are no load: daemons and neighbours make as many.
const EVENTS_PER_S_MIN: f64 = 100.0;
/// Fewer connections or requests of a disk a second are no load.
const CONNECTIONS_PER_S_MIN: f64 = 1.0;
/// A thread that runs less than this share of the time waits for requests, not for a CPU.
const RUNS_PERCENT_MIN: f64 = 1.0;

/// One window's figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowFigure {
    /// The figure, in [`unit`].
    pub value: f64,
    /// The rate of the events that load the figure: packets, connections.
    pub load_per_s: f64,
}

/// Reasons why there is no figure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Nothing {
    /// There was too little load to move it.
    #[error("no load: {counter} counted {per_s:.1} a second, and it takes {least:.0}")]
    Silent {
        /// The counter of the load.
        counter: String,
        /// Its rate.
        per_s: f64,
        /// The required rate.
        least: f64,
    },
    /// It is not counted here, or was reset in between.
    #[error("{0} is not counted here, or was reset meanwhile")]
    Missing(String),
}

/// The subject of a change's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FigureSubject {
    nic: Option<String>,
    disk: Option<String>,
    thread: Option<u32>,
    steered_to: CpuSet,
}

impl FigureSubject {
    /// Derived from the setting.
    pub fn of(change: &Change, facts: &Facts) -> FigureSubject {
        let mut subject = FigureSubject::default();
        match &change.setting {
            Setting::Thread { tid } => subject.thread = Some(*tid),
            Setting::Device { nic, .. } | Setting::Interrupt { nic, .. } => subject.nic = Some(nic.clone()),
            setting => {
                let path = setting.to_string();
                let below = |root: &str| Some(path.strip_prefix(root)?.split('/').next()?.to_owned());
                let of_interrupt = || {
                    let irq = facts.interrupts.iter().find(|irq| Some(irq.irq) == setting.irq())?;
                    irq.device.clone()
                };
                subject.nic = below("/sys/class/net/").or_else(of_interrupt);
                subject.disk = below("/sys/block/");
                if path.ends_with("/rps_cpus") {
                    subject.steered_to = CpuSet::parse_mask(&change.wanted).unwrap_or_default();
                }
            }
        }
        subject
    }
}

/// The unit of a figure.
pub fn unit(figure: Figure) -> &'static str {
    match figure {
        Figure::BusiestNetRx
        | Figure::BusiestInterrupts
        | Figure::BusiestSoftirq
        | Figure::BusyTime
        | Figure::ThreadWait => "%",
        Figure::BusyTimePerPacket => "µs",
        Figure::InterruptsPerPacket => "",
        Figure::DiskWait => "ms",
        Figure::Steered
        | Figure::SteeredTo
        | Figure::ListenOverflows
        | Figure::SynQueueFull
        | Figure::FastOpens
        | Figure::Swapping
        | Figure::Compaction => "/s",
    }
}

/// The figure over a series.
pub fn measure(
    figure: Figure,
    subject: &FigureSubject,
    facts: &Facts,
    series: &Series,
) -> Result<WindowFigure, Nothing> {
    let window_s = series.window_s();
    match figure {
        Figure::BusiestNetRx => {
            let counts = softirqs(series, "NET_RX");
            let sum: u64 = counts.values().sum();
            let load_per_s = enough("NET_RX", sum as f64 / window_s, EVENTS_PER_S_MIN)?;
            let most = counts.values().max().copied().unwrap_or(0);
            Ok(WindowFigure { value: 100.0 * most as f64 / sum as f64, load_per_s })
        }
        Figure::BusiestInterrupts => {
            let (counts, what) = interrupts(subject, facts, series)?;
            let sum: u64 = counts.values().sum();
            let load_per_s = enough(&what, sum as f64 / window_s, EVENTS_PER_S_MIN)?;
            let most = counts.values().max().copied().unwrap_or(0);
            Ok(WindowFigure { value: 100.0 * most as f64 / sum as f64, load_per_s })
        }
        Figure::BusiestSoftirq => {
            let sum: u64 = softirqs(series, "NET_RX").values().sum();
            let load_per_s = enough("NET_RX", sum as f64 / window_s, EVENTS_PER_S_MIN)?;
            let most = loads(series).values().map(|load| load.softirq).reduce(f64::max);
            Ok(WindowFigure { value: most.ok_or_else(|| missing("/proc/stat"))?, load_per_s })
        }
        Figure::Steered | Figure::SteeredTo => steered(figure == Figure::Steered, subject, series),
        Figure::BusyTime => {
            let load_per_s = packets(subject, series, &["rx_packets", "tx_packets"])?;
            let idle = loads(series).values().map(|load| load.idle).collect::<Vec<_>>();
            let cpus = Some(idle.len() as f64).filter(|cpus| *cpus > 0.0);
            let cpus = cpus.ok_or_else(|| missing("/proc/stat"))?;
            Ok(WindowFigure { value: 100.0 - idle.iter().sum::<f64>() / cpus, load_per_s })
        }
        Figure::BusyTimePerPacket => {
            let load_per_s = packets(subject, series, &["rx_packets", "tx_packets"])?;
            let busy = loads(series).values().map(|load| 100.0 - load.idle - load.steal).collect::<Vec<_>>();
            if busy.is_empty() {
                return Err(missing("/proc/stat"));
            }
            let busy: f64 = busy.into_iter().sum();
            Ok(WindowFigure { value: busy * 10_000.0 / load_per_s, load_per_s })
        }
        Figure::InterruptsPerPacket => {
            let load_per_s = packets(subject, series, &["rx_packets"])?;
            let (counts, _) = interrupts(subject, facts, series)?;
            let per_s = counts.values().sum::<u64>() as f64 / window_s;
            Ok(WindowFigure { value: per_s / load_per_s, load_per_s })
        }
        Figure::ThreadWait => thread_wait(subject, series),
        Figure::ListenOverflows => connections(series, &["TcpExt.ListenOverflows"]),
        Figure::SynQueueFull => {
            connections(series, &["TcpExt.TCPReqQFullDrop", "TcpExt.TCPReqQFullDoCookies"])
        }
        Figure::FastOpens => connections(series, &["TcpExt.TCPFastOpenPassive"]),
        Figure::Swapping => memory(series, &["pswpin", "pswpout"]),
        Figure::Compaction => memory(series, &["compact_stall", "thp_fault_fallback"]),
        Figure::DiskWait => disk_wait(subject, series),
    }
}

/// Packets per second that CPUs were woken up for: all CPUs (`everywhere`), or those that packets are steered to.
fn steered(everywhere: bool, subject: &FigureSubject, series: &Series) -> Result<WindowFigure, Nothing> {
    let load_per_s = packets(subject, series, &["rx_packets"])?;
    let wakeups = |reading: &Reading| {
        let rows = reading.softnet.iter();
        let meant = rows.filter(|(cpu, _)| everywhere || subject.steered_to.contains(**cpu));
        meant.map(|(_, row)| row.received_rps).sum()
    };
    let rate = series.rate(|reading| Some(wakeups(reading)));
    Ok(WindowFigure { value: rate.ok_or_else(|| missing("received_rps"))?.per_s(), load_per_s })
}

/// The percentage of time that a thread waited for a CPU.
fn thread_wait(subject: &FigureSubject, series: &Series) -> Result<WindowFigure, Nothing> {
    let tid = subject.thread.unwrap_or_default();
    let share = |of: fn(&os::cpu_time::ThreadTimes) -> u64| {
        let rate = series.rate(|reading| reading.threads.get(&tid).map(of));
        let rate = rate.ok_or_else(|| missing(format!("schedstat of thread {tid}")))?;
        Ok::<f64, Nothing>(rate.per_s() / 10_000_000.0)
    };
    let runs = share(|times| times.run_ns)?;
    let load_per_s = enough(&format!("percent of time that thread {tid} ran"), runs, RUNS_PERCENT_MIN)?;
    Ok(WindowFigure { value: share(|times| times.wait_ns)?, load_per_s })
}

fn missing(what: impl Into<String>) -> Nothing {
    Nothing::Missing(what.into())
}

fn enough(counter: &str, per_s: f64, least: f64) -> Result<f64, Nothing> {
    match per_s >= least {
        true => Ok(per_s),
        false => Err(Nothing::Silent { counter: counter.to_owned(), per_s, least }),
    }
}

/// Packets a second, of the interface or of all.
fn packets(subject: &FigureSubject, series: &Series, counters: &[&str]) -> Result<f64, Nothing> {
    let what = format!("{} of {}", counters.join(" + "), subject.nic.as_deref().unwrap_or("all interfaces"));
    let nics: Vec<&String> = match &subject.nic {
        Some(nic) => vec![nic],
        None => series.last().nics.keys().collect(),
    };
    let rates = nics.iter().flat_map(|nic| counters.iter().map(|counter| series.nic(nic, counter)));
    let rates: Option<Vec<Rate>> = rates.collect();
    let rates = rates.filter(|rates| !rates.is_empty()).ok_or_else(|| missing(&what))?;
    enough(&what, rates.into_iter().map(Rate::per_s).sum(), EVENTS_PER_S_MIN)
}

/// By CPU, of all interrupts of the interface.
fn interrupts(
    subject: &FigureSubject,
    facts: &Facts,
    series: &Series,
) -> Result<(std::collections::BTreeMap<u32, u64>, String), Nothing> {
    let nic = subject.nic.as_deref().unwrap_or_default();
    let what = format!("interrupts of {nic}");
    let mut sums = std::collections::BTreeMap::new();
    for irq in facts.interrupts_of(nic) {
        for (cpu, count) in arrivals(series, irq.irq) {
            *sums.entry(cpu).or_insert(0) += count;
        }
    }
    if sums.is_empty() { Err(missing(what)) } else { Ok((sums, what)) }
}

/// A counter of which new connections are the load.
fn connections(series: &Series, counters: &[&str]) -> Result<WindowFigure, Nothing> {
    let opens = series.protocol("Tcp.PassiveOpens").ok_or_else(|| missing("Tcp PassiveOpens"))?;
    let load_per_s = enough("Tcp PassiveOpens", opens.per_s(), CONNECTIONS_PER_S_MIN)?;
    let rates: Option<Vec<Rate>> = counters.iter().map(|counter| series.protocol(counter)).collect();
    let rates = rates.ok_or_else(|| missing(counters.join(" + ")))?;
    Ok(WindowFigure { value: rates.into_iter().map(Rate::per_s).sum(), load_per_s })
}

/// A counter of which page faults are the load.
fn memory(series: &Series, counters: &[&str]) -> Result<WindowFigure, Nothing> {
    let rate = |name: &str| series.rate(|reading| reading.vmstat.get(name).copied());
    let faults = rate("pgfault").ok_or_else(|| missing("pgfault"))?;
    let load_per_s = enough("pgfault", faults.per_s(), EVENTS_PER_S_MIN)?;
    let rates: Option<Vec<Rate>> = counters.iter().map(|counter| rate(counter)).collect();
    let rates = rates.ok_or_else(|| missing(counters.join(" + ")))?;
    Ok(WindowFigure { value: rates.into_iter().map(Rate::per_s).sum(), load_per_s })
}

fn disk_wait(subject: &FigureSubject, series: &Series) -> Result<WindowFigure, Nothing> {
    let meant = |reading: &Reading, of: fn(&crate::observe::reading::DiskTimes) -> u64| match &subject.disk {
        Some(disk) => reading.disks.get(disk).map(of),
        None => Some(reading.disks.values().map(of).sum()),
    };
    let what = format!("requests of {}", subject.disk.as_deref().unwrap_or("all disks"));
    let requests = series.rate(|reading| meant(reading, |disk| disk.requests));
    let waited = series.rate(|reading| meant(reading, |disk| disk.waited_ms));
    let (Some(requests), Some(waited)) = (requests, waited) else { return Err(missing(what)) };
    let load_per_s = enough(&what, requests.per_s(), CONNECTIONS_PER_S_MIN)?;
    Ok(WindowFigure { value: waited.count as f64 / requests.count as f64, load_per_s })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::observe::facts::Interrupt;
    use crate::observe::reading::{CpuTimes, DiskTimes, Softnet};
    use crate::plan::change::{Risk, Stage};
    use os::cpu_time::ThreadTimes;

    fn change(setting: Setting, wanted: &str) -> Change {
        Change {
            stage: Stage::Steering,
            setting,
            now: String::new(),
            wanted: wanted.into(),
            why: String::new(),
            asked_by: String::new(),
            risk: Risk::Low,
            signal: Default::default(),
        }
    }

    fn facts() -> Facts {
        let irq = |irq| Interrupt { irq, device: Some("eth0".into()), ..Interrupt::default() };
        Facts { interrupts: vec![irq(40), irq(41)], ..Facts::default() }
    }

    /// After `seconds` of the same load.
    fn reading(seconds: u64) -> Reading {
        let cpu = |softirq: u64| CpuTimes { user: 10, softirq, idle: 90 - softirq, ..CpuTimes::default() };
        let per_s = |cpu: CpuTimes| CpuTimes {
            user: cpu.user * seconds,
            softirq: cpu.softirq * seconds,
            idle: cpu.idle * seconds,
            ..CpuTimes::default()
        };
        let counters = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), count * seconds)).collect()
        };
        let softnet =
            |received_rps: u64| Softnet { received_rps: received_rps * seconds, ..Softnet::default() };
        let thread = ThreadTimes { run_ns: 200_000_000 * seconds, wait_ns: 30_000_000 * seconds, slices: 1 };
        let disk = DiskTimes { requests: 50 * seconds, waited_ms: 200 * seconds, ..DiskTimes::default() };
        Reading {
            at_ms: 1000 * seconds,
            cpus: BTreeMap::from([(0, per_s(cpu(50))), (1, per_s(cpu(0)))]),
            softnet: BTreeMap::from([(0, softnet(0)), (1, softnet(7))]),
            softirqs: BTreeMap::from([(
                "NET_RX".to_owned(),
                BTreeMap::from([(0, 900 * seconds), (1, 100 * seconds)]),
            )]),
            interrupts: BTreeMap::from([
                (40, BTreeMap::from([(0, 300 * seconds), (1, 0)])),
                (41, BTreeMap::from([(0, 0), (1, 100 * seconds)])),
            ]),
            nics: BTreeMap::from([(
                "eth0".to_owned(),
                counters(&[("rx_packets", 2000), ("tx_packets", 1000)]),
            )]),
            protocols: counters(&[
                ("TcpExt.ListenOverflows", 3),
                ("TcpExt.TCPReqQFullDrop", 1),
                ("TcpExt.TCPReqQFullDoCookies", 1),
                ("TcpExt.TCPFastOpenPassive", 4),
                ("Tcp.PassiveOpens", 20),
            ]),
            vmstat: counters(&[
                ("pswpin", 5),
                ("pswpout", 6),
                ("compact_stall", 1),
                ("thp_fault_fallback", 1),
                ("pgfault", 500),
            ]),
            threads: BTreeMap::from([(812, thread)]),
            disks: BTreeMap::from([("sda".to_owned(), disk)]),
            ..Reading::default()
        }
    }

    #[track_caller]
    fn check(figure: Figure, setting: Setting, wanted: &str, value: f64) {
        let series = Series::new(vec![reading(1), reading(6), reading(11)]).unwrap();
        let subject = FigureSubject::of(&change(setting, wanted), &facts());
        let found = measure(figure, &subject, &facts(), &series).unwrap();
        assert!((found.value - value).abs() < 1e-9, "{figure:?}: {found:?}");
    }

    #[test]
    fn every_figure_is_what_was_counted_of_its_subject() {
        let irq = || Setting::mask("/proc/irq/40/smp_affinity");
        let rps = || Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus");
        let sysctl = || Setting::number("/proc/sys/vm/swappiness");
        check(Figure::BusiestNetRx, irq(), "1", 90.0);
        check(Figure::BusiestInterrupts, irq(), "1", 75.0);
        check(Figure::BusiestSoftirq, rps(), "2", 50.0);
        check(Figure::Steered, rps(), "1", 7.0);
        check(Figure::SteeredTo, rps(), "2", 7.0);
        check(Figure::SteeredTo, rps(), "1", 0.0);
        check(Figure::BusyTime, sysctl(), "1", 35.0);
        // 70 % of a CPU over 3,000 packets a second.
        check(Figure::BusyTimePerPacket, rps(), "1", 700_000.0 / 3000.0);
        check(
            Figure::InterruptsPerPacket,
            Setting::number("/sys/class/net/eth0/gro_flush_timeout"),
            "1",
            0.2,
        );
        check(Figure::ThreadWait, Setting::Thread { tid: 812 }, "", 3.0);
        check(Figure::ListenOverflows, sysctl(), "1", 3.0);
        check(Figure::SynQueueFull, sysctl(), "1", 2.0);
        check(Figure::FastOpens, sysctl(), "1", 4.0);
        check(Figure::Swapping, sysctl(), "1", 11.0);
        check(Figure::Compaction, sysctl(), "1", 2.0);
        check(Figure::DiskWait, sysctl(), "1", 4.0);
        check(Figure::DiskWait, Setting::choice("/sys/block/sda/queue/scheduler"), "none", 4.0);
    }

    #[test]
    fn without_load_the_counter_that_was_silent_is_named() {
        let idle = |at_ms| Reading { at_ms, ..reading(1) };
        let series = Series::new(vec![idle(0), idle(10_000)]).unwrap();
        let said = |figure, setting: Setting| {
            let subject = FigureSubject::of(&change(setting, "2"), &facts());
            measure(figure, &subject, &facts(), &series).unwrap_err().to_string()
        };
        let rps = Setting::mask("/sys/class/net/eth0/queues/rx-0/rps_cpus");
        let silent = |counter: &str, least: u32| {
            format!("no load: {counter} counted 0.0 a second, and it takes {least}")
        };
        assert_eq!(said(Figure::SteeredTo, rps.clone()), silent("rx_packets of eth0", 100));
        assert_eq!(said(Figure::BusiestNetRx, rps.clone()), silent("NET_RX", 100));
        assert_eq!(said(Figure::ListenOverflows, rps.clone()), silent("Tcp PassiveOpens", 1));
        assert_eq!(said(Figure::Swapping, rps), silent("pgfault", 100));
        let gone = said(Figure::ThreadWait, Setting::Thread { tid: 7 });
        assert_eq!(gone, "schedstat of thread 7 is not counted here, or was reset meanwhile");
    }
}
