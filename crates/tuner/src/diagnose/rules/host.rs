//! Input of the rules: facts and series, and sums that several rules use.

use std::collections::BTreeMap;

use crate::observe::cpu_load::{Load, arrivals, by_cpu, loads, softirqs};
use crate::observe::cpu_model::{Choice, CpuModel, Measured};
use crate::observe::facts::{Interrupt, Nic, Service, ServiceKind};
use crate::observe::irq_name::{OfQueue, of_queues};
use crate::observe::reading::{Rate, Reading};
use crate::{Evidence, Facts, Series};
use os::CpuSet;

/// Facts, series, and values derived from them once.
pub(crate) struct RuleInput<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) series: &'a Series,
    /// CPUs in use.
    pub(crate) online: CpuSet,
    /// The CPU model, the same as that of plans.
    pub(crate) model: CpuModel<'a>,
    /// Each CPU's load in the window.
    pub(crate) loads: BTreeMap<u32, Load>,
}

impl<'a> RuleInput<'a> {
    pub(crate) fn new(facts: &'a Facts, series: &'a Series) -> RuleInput<'a> {
        let model = CpuModel::new(facts, Measured::of(series), Choice::default());
        RuleInput { facts, series, online: facts.online(), model, loads: loads(series) }
    }

    /// Evidence that was measured over the whole window.
    pub(crate) fn measured(&self, what: impl Into<String>, value: impl Into<String>) -> Evidence {
        Evidence::measured(what, value, self.series.window_s())
    }

    /// A CPU's load in the window; all zeros if that is unknown.
    pub(crate) fn load(&self, cpu: u32) -> Load {
        self.loads.get(&cpu).copied().unwrap_or_default()
    }

    /// The highest share of interrupts that one of these CPUs has spent.
    pub(crate) fn interrupts_at_most(&self, cpus: &CpuSet) -> f64 {
        cpus.iter().map(|cpu| self.load(cpu).interrupts()).fold(0.0, f64::max)
    }

    /// Whether a condition holds in more than half of the windows between readings: a burst in one of them, or a job
    /// that ended, is not the normal load. Windows too short for the kernel's ticks are taken together.
    pub(crate) fn mostly(&self, holds: impl Fn(&RuleInput) -> bool) -> bool {
        let windows = self.series.windows();
        if windows.iter().any(|window| window.window_s() < WINDOW_MIN_S) {
            return holds(self);
        }
        let held = windows.iter().filter(|window| holds(&RuleInput::new(self.facts, window))).count();
        held * 2 > windows.len()
    }

    /// Mean of a part over all CPUs whose times are known.
    pub(crate) fn mean(&self, part: impl Fn(Load) -> f64) -> f64 {
        match self.loads.len() {
            0 => 0.0,
            cpus => self.loads.values().map(|load| part(*load)).sum::<f64>() / cpus as f64,
        }
    }

    /// The increment of a per-CPU counter, on each.
    pub(crate) fn by_cpu(
        &self,
        counts: impl Fn(&Reading) -> Option<BTreeMap<u32, u64>>,
    ) -> BTreeMap<u32, u64> {
        by_cpu(self.series, counts)
    }

    /// The number of runs of a soft interrupt, by CPU.
    pub(crate) fn softirqs(&self, kind: &str) -> BTreeMap<u32, u64> {
        softirqs(self.series, kind)
    }

    /// The number of an interrupt's arrivals, by CPU.
    pub(crate) fn arrivals(&self, irq: u32) -> BTreeMap<u32, u64> {
        arrivals(self.series, irq)
    }

    /// Packets received by an interface.
    pub(crate) fn packets(&self, nic: &Nic) -> Option<Rate> {
        self.series.nic(&nic.name, "rx_packets")
    }

    /// Packets received by an interface per second; 0 if unknown.
    pub(crate) fn packets_per_s(&self, nic: &Nic) -> f64 {
        self.packets(nic).map_or(0.0, Rate::per_s)
    }

    /// Interrupts that receive packets for an interface.
    pub(crate) fn receivers(&self, nic: &Nic) -> Vec<&'a Interrupt> {
        let brings = |irq: &OfQueue<'a>| irq.receives().then_some(irq.interrupt);
        of_queues(self.facts, nic).iter().filter_map(brings).collect()
    }

    /// CPUs that take the packets of an interface: where its interrupts arrived, or else where they would.
    pub(crate) fn receiving_cpus(&self, nic: &Nic) -> CpuSet {
        self.model.receiving(nic)
    }

    /// CPUs that take an interrupt.
    pub(crate) fn taken_by(&self, interrupt: &Interrupt) -> CpuSet {
        self.model.taken_by(interrupt)
    }

    /// CPUs that could share the work of an interface: in use, not isolated, and on its NUMA node if it has one.
    pub(crate) fn near(&self, nic: &Nic) -> CpuSet {
        self.model.near(nic)
    }

    /// Interfaces that receive packets.
    pub(crate) fn wires(&self) -> impl Iterator<Item = &'a Nic> {
        self.facts.nics.iter().filter(|nic| nic.is_wire())
    }

    /// Services of these kinds.
    pub(crate) fn services(&self, kinds: &[ServiceKind]) -> Vec<&'a Service> {
        self.facts.services.iter().filter(|service| kinds.contains(&service.kind)).collect()
    }

    /// Selected counters of an interface that have grown, those of its queues added up: `rx_queue_drop_cnt[N]`.
    pub(crate) fn grown(&self, nic: &Nic, wanted: impl Fn(&str) -> bool) -> Vec<(String, Rate)> {
        let counters = self.series.last().nics.get(&nic.name).into_iter().flat_map(BTreeMap::keys);
        let mut sums: BTreeMap<String, Rate> = BTreeMap::new();
        for counter in counters {
            let kind = of_any_queue(counter);
            let rate = self.series.nic(&nic.name, counter).filter(|rate| rate.count > 0 && wanted(&kind));
            if let Some(rate) = rate {
                sums.entry(kind).and_modify(|sum| sum.count += rate.count).or_insert(rate);
            }
        }
        sums.into_iter().collect()
    }

    /// Whether an allowance of the instance is used up, which no setting of the host changes.
    pub(crate) fn at_allowance(&self, nic: &Nic) -> bool {
        !self.grown(nic, is_allowance).is_empty()
    }
}

/// Whether a counter is of packets that the cloud held back: ENA's, and virtio's where the device has a limit (6.10).
pub(crate) fn is_allowance(counter: &str) -> bool {
    counter.ends_with("_allowance_exceeded") || counter.ends_with("x_hw_ratelimit_packets")
}

/// Times in interrupts are counted by ticks of 1/100 s on kernels without IRQ_TIME_ACCOUNTING: with fewer than some
/// hundred of them a percentage is noise.
const WINDOW_MIN_S: f64 = 3.0;

/// `rx_queue_drop_cnt[3]` is `rx_queue_drop_cnt[N]` of queue 3.
fn of_any_queue(counter: &str) -> String {
    match counter.strip_suffix(']').and_then(|counter| counter.split_once('[')) {
        Some((kind, _)) => format!("{kind}[N]"),
        None => counter.to_owned(),
    }
}

/// `memcached (PID 812)`
pub(crate) fn named(service: &Service) -> String {
    service.to_string()
}
