//! Input of the rules: facts and series, and sums that several rules use.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::observe::cpu_load::{CpuCounts, Load, arrivals, by_cpu, loads, softirqs};
use crate::observe::cpu_model::{Choice, CpuModel, Measured};
use crate::observe::facts::{Interrupt, Nic, Service, ServiceKind};
use crate::observe::irq_name::{OfQueue, of_queues};
use crate::observe::reading::{Rate, Softnet};
use crate::{Evidence, Facts, Series};
use os::CpuSet;

/// Facts, series, and values derived from them once.
pub(crate) struct RuleInput<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) series: Series,
    /// CPUs in use.
    pub(crate) online: CpuSet,
    /// The CPU model, the same as that of plans.
    pub(crate) model: Rc<CpuModel<'a>>,
    /// Each CPU's load in the window.
    pub(crate) loads: BTreeMap<u32, Load>,
    /// The CPUs that are saturated by packets, once a rule has asked for them: several do.
    pub(super) saturated: OnceCell<BTreeMap<u32, f64>>,
    /// Those that are so over the window as a whole, whatever its parts.
    pub(super) saturated_on_average: OnceCell<BTreeMap<u32, f64>>,
    /// The same host in each window between two readings, once a rule has asked for them.
    parts: OnceCell<Vec<RuleInput<'a>>>,
}

impl<'a> RuleInput<'a> {
    pub(crate) fn new(facts: &'a Facts, series: &Series) -> RuleInput<'a> {
        let model = CpuModel::new(facts, Measured::of(series), Choice::default());
        RuleInput::with_model(Rc::new(model), series.clone())
    }

    fn with_model(model: Rc<CpuModel<'a>>, series: Series) -> RuleInput<'a> {
        RuleInput {
            facts: model.facts,
            online: model.online.clone(),
            model,
            loads: loads(&series),
            series,
            saturated: OnceCell::new(),
            saturated_on_average: OnceCell::new(),
            parts: OnceCell::new(),
        }
    }

    /// The windows between readings, each with its own counts. Where interrupts arrive is that of the whole.
    fn parts(&self) -> &[RuleInput<'a>] {
        let part = |window| RuleInput::with_model(Rc::clone(&self.model), window);
        self.parts.get_or_init(|| self.series.windows().into_iter().map(part).collect())
    }

    /// Evidence that was measured over the whole window.
    pub(crate) fn measured(&self, what: impl Into<String>, value: impl Into<String>) -> Evidence {
        Evidence::measured(what, value, self.series.window_s())
    }

    /// A CPU's load in the window; `None`: unknown.
    pub(crate) fn load(&self, cpu: u32) -> Option<Load> {
        self.loads.get(&cpu).copied()
    }

    /// A CPU's share of interrupts, in percent; `None`: unknown.
    pub(crate) fn interrupts(&self, cpu: u32) -> Option<f64> {
        self.load(cpu).map(Load::interrupts)
    }

    /// The highest share of interrupts that one of these CPUs has spent; `None`: unknown, also of no CPU.
    pub(crate) fn interrupts_at_most(&self, cpus: &CpuSet) -> Option<f64> {
        cpus.iter().filter_map(|cpu| self.interrupts(cpu)).reduce(f64::max)
    }

    /// Whether one of these CPUs is known to spend as much in interrupts.
    pub(crate) fn has_interrupts(&self, cpus: &CpuSet, percent: f64) -> bool {
        self.interrupts_at_most(cpus).is_some_and(|most| most >= percent)
    }

    /// Whether a condition holds in more than half of the windows between readings: a burst in one of them, or a job
    /// that ended, is not the normal load. Windows too short for the kernel's ticks are taken together.
    pub(crate) fn mostly(&self, holds: impl Fn(&RuleInput) -> bool) -> bool {
        let parts = self.parts();
        if parts.iter().any(|part| part.series.window_s() < WINDOW_MIN_S) {
            return holds(self);
        }
        parts.iter().filter(|part| holds(part)).count() * 2 > parts.len()
    }

    /// Mean of a part over all CPUs whose times are known; `None`: of none.
    pub(crate) fn mean(&self, part: impl Fn(Load) -> f64) -> Option<f64> {
        let cpus = self.loads.len();
        (cpus > 0).then(|| self.loads.values().map(|load| part(*load)).sum::<f64>() / cpus as f64)
    }

    /// The increment of a column of softnet_stat, by CPU.
    pub(crate) fn softnet(&self, column: impl Fn(&Softnet) -> u64) -> BTreeMap<u32, u64> {
        by_cpu(&self.series, |reading| {
            let row = |(cpu, row): (&u32, &Softnet)| (*cpu, column(row));
            Some(CpuCounts::Owned(reading.softnet.iter().map(row).collect()))
        })
    }

    /// The number of runs of a soft interrupt, by CPU.
    pub(crate) fn softirqs(&self, kind: &str) -> BTreeMap<u32, u64> {
        softirqs(&self.series, kind)
    }

    /// The number of an interrupt's arrivals, by CPU.
    pub(crate) fn arrivals(&self, irq: u32) -> BTreeMap<u32, u64> {
        arrivals(&self.series, irq)
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
