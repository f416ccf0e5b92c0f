//! CPU model of a host: one for rules and plans, so that a rule never asks for a change that a plan undoes.
//!
//! ```text
//! online ⊇ housekeeping (without isolcpus, nohz_full and isolated partitions) ∩ --cpus
//!            └─ near(nic): on its NUMA node; all where the node is unknown (-1) or has none of them
//!                 ├─ for_interrupts(nic): those of --irq-cpus, where they were chosen
//!                 └─ steerable(nic, irqs): neither those with interrupts nor their siblings
//! for_services: online ∩ --cpus without the CPUs with interrupts; isolated ones are among them
//! ```
//!
//! The CPUs where packets arrive are [measured](Measured); an affinity only shows where they may arrive, and is used
//! where an interrupt arrived too seldom. Pure: nothing is read or written here. Decision 11 has the reasons.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observe::cpu_load;
use crate::observe::facts::{Facts, Interrupt, Nic, Service};
use crate::observe::irq_name::{OfQueue, of_queues};
use crate::observe::reading::Series;
use os::CpuSet;

/// Fewer interrupts than this in a window do not show where the next will arrive.
const ARRIVALS_MIN: u64 = 100;
/// A CPU with less than one in this many arrivals does not count: an interrupt that was moved arrived at both places.
const ARRIVALS_PARTS: u64 = 10;

/// The limit for keeping steering is a little below the load from which on it is proposed, so that it does not come
/// and go.
const NEARLY: f64 = 0.8;

/// Measurements of the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// CPUs that took an interrupt, by its number; only of those that arrived often enough.
    pub arrivals: BTreeMap<u32, CpuSet>,
    /// CPUs that handled packets (NET_RX), if any did often enough.
    pub net_rx: CpuSet,
    /// How busy CPUs were with interrupts of both kinds, in percent.
    pub interrupts_percent: BTreeMap<u32, u32>,
}

impl Measured {
    /// Over the whole of a series.
    pub fn of(series: &Series) -> Measured {
        let irqs = series.last().interrupts.keys();
        let arrivals = irqs.map(|irq| (*irq, takers(&cpu_load::arrivals(series, *irq))));
        let loads = cpu_load::loads(series).into_iter();
        Measured {
            arrivals: arrivals.filter(|(_, cpus)| !cpus.is_empty()).collect(),
            net_rx: takers(&cpu_load::softirqs(series, "NET_RX")),
            interrupts_percent: loads.map(|(cpu, load)| (cpu, load.interrupts() as u32)).collect(),
        }
    }
}

/// The CPUs with most of the counts; none where there were too few.
fn takers(counts: &BTreeMap<u32, u64>) -> CpuSet {
    let all: u64 = counts.values().sum();
    let takes = |(_, count): &(&u32, &u64)| all >= ARRIVALS_MIN && **count > all / ARRIVALS_PARTS;
    counts.iter().filter(takes).map(|(cpu, _)| *cpu).collect()
}

/// The user's choice of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Those that take interrupts of interfaces; `None`: one for each queue, as far as there are cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_cpus: Option<CpuSet>,
    /// Those that interrupts, packets and services may use; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

/// A choice that this host does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    /// CPUs that do not exist, or are switched off.
    #[error("{option} names CPUs {missing}; those in use are {online}")]
    Missing {
        /// As typed.
        option: &'static str,
        /// The missing ones.
        missing: CpuSet,
        /// The existing ones.
        online: CpuSet,
    },
    /// None at all.
    #[error("{0} names no CPU")]
    Empty(&'static str),
    /// Interrupts on CPUs that are excluded from all use.
    #[error("--irq-cpus names CPUs {beyond}, which are not among --cpus {cpus}")]
    Beyond {
        /// The excess.
        beyond: CpuSet,
        /// The others.
        cpus: CpuSet,
    },
}

const IRQ_CPUS: &str = "--irq-cpus";
const CPUS: &str = "--cpus";

impl Choice {
    /// Whether nothing was chosen.
    pub fn is_free(&self) -> bool {
        *self == Choice::default()
    }

    /// Whether this host has the CPUs.
    pub fn check(&self, facts: &Facts) -> Result<(), NoChoice> {
        let online = facts.online();
        for (option, chosen) in [(IRQ_CPUS, &self.irq_cpus), (CPUS, &self.cpus)] {
            let Some(chosen) = chosen else { continue };
            let missing = chosen.without(&online);
            if !missing.is_empty() {
                return Err(NoChoice::Missing { option, missing, online });
            }
            if chosen.is_empty() {
                return Err(NoChoice::Empty(option));
            }
        }
        let (Some(irq_cpus), Some(cpus)) = (&self.irq_cpus, &self.cpus) else { return Ok(()) };
        let beyond = irq_cpus.without(cpus);
        if beyond.is_empty() { Ok(()) } else { Err(NoChoice::Beyond { beyond, cpus: cpus.clone() }) }
    }

    /// As typed, with a space before each option: ` --irq-cpus 0-3`.
    pub(crate) fn typed(&self) -> String {
        let option = |name, cpus: &Option<CpuSet>| {
            cpus.as_ref().map(|cpus| format!(" {name} {cpus}")).unwrap_or_default()
        };
        option(IRQ_CPUS, &self.irq_cpus) + &option(CPUS, &self.cpus)
    }

    /// The requester, and the choice: of `spread --irq-cpus 0-3`.
    pub(crate) fn split(asked_by: &str) -> (&str, Choice) {
        let Some((who, options)) = asked_by.split_once(" --") else { return (asked_by, Choice::default()) };
        let words: Vec<&str> = options.split_whitespace().collect();
        let of = |name: &str| {
            let pair = words.chunks(2).find(|pair| pair[0].trim_start_matches('-') == &name[2..])?;
            CpuSet::parse_list(pair.get(1)?).ok()
        };
        (who, Choice { irq_cpus: of(IRQ_CPUS), cpus: of(CPUS) })
    }
}

/// CPUs that are left to services, as a list and as a mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// `4-15`
    pub list: CpuSet,
    /// `fff0`
    pub mask: String,
}

impl From<CpuSet> for Left {
    fn from(list: CpuSet) -> Left {
        Left { mask: list.mask(), list }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPUs for services: {} (mask {})", self.list, self.mask)
    }
}

/// The CPUs of a host.
#[derive(Clone, Debug)]
pub struct CpuModel<'f> {
    /// Its facts.
    pub facts: &'f Facts,
    /// In use.
    pub online: CpuSet,
    /// In use, left to the kernel's own work, and among the chosen ones.
    pub housekeeping: CpuSet,
    /// The choice.
    pub choice: Choice,
    measured: Measured,
}

impl<'f> CpuModel<'f> {
    /// Without measurement and choice.
    pub fn of(facts: &'f Facts) -> CpuModel<'f> {
        CpuModel::new(facts, Measured::default(), Choice::default())
    }

    /// With measurement and choice.
    pub fn new(facts: &'f Facts, measured: Measured, choice: Choice) -> CpuModel<'f> {
        let online = facts.online();
        let allowed = choice.cpus.as_ref().map_or(online.clone(), |cpus| online.and(cpus));
        let own = allowed.without(&facts.isolated()).and(&online);
        // The kernel always keeps one CPU for itself; a choice may leave it out.
        let housekeeping = [own, allowed, online.clone()].into_iter().find(|cpus| !cpus.is_empty());
        CpuModel { facts, online, housekeeping: housekeeping.unwrap_or_default(), choice, measured }
    }

    /// The same with other facts, in which these interrupts have been moved: their measurements are out of date.
    pub fn after<'m>(&self, facts: &'m Facts, moved: impl Iterator<Item = u32>) -> CpuModel<'m> {
        let mut measured = self.measured.clone();
        moved.for_each(|irq| drop(measured.arrivals.remove(&irq)));
        CpuModel::new(facts, measured, self.choice.clone())
    }

    /// The load of CPUs by interrupts, in percent; empty if that was not measured.
    pub fn interrupts_percent(&self) -> &BTreeMap<u32, u32> {
        &self.measured.interrupts_percent
    }

    /// CPUs that should do the work of an interface: those of its NUMA node, or all where the node is unknown or has none.
    pub fn near(&self, nic: &Nic) -> CpuSet {
        self.on_node_of(nic, &self.housekeeping)
    }

    /// CPUs that its interrupts should be placed on.
    pub fn for_interrupts(&self, nic: &Nic) -> CpuSet {
        match &self.choice.irq_cpus {
            Some(chosen) => self.on_node_of(nic, &chosen.and(&self.online)),
            None => self.near(nic),
        }
    }

    fn on_node_of(&self, nic: &Nic, cpus: &CpuSet) -> CpuSet {
        let near = nic.node.map(|node| self.facts.online_on(node).and(cpus)).unwrap_or_default();
        if near.is_empty() { cpus.clone() } else { near }
    }

    /// CPUs that packets may be steered to while `irqs` take the interrupts, and the set from which they are chosen.
    /// Where the node of the interface is unknown, it is that of its interrupts: a packet that changes nodes is
    /// fetched twice.
    pub fn home(&self, nic: &Nic, irqs: &CpuSet) -> CpuSet {
        let on_nodes =
            irqs.iter().filter_map(|cpu| self.facts.cpu(cpu)).map(|cpu| self.facts.online_on(cpu.node));
        let home = on_nodes.fold(CpuSet::new(), |home, node| home.or(&node)).and(&self.housekeeping);
        match nic.node {
            None if !home.is_empty() => home,
            _ => self.near(nic),
        }
    }

    /// Of these, those where packets do no harm: not those with interrupts, nor the other threads of those cores.
    pub fn steerable(&self, home: &CpuSet, irqs: &CpuSet) -> CpuSet {
        let chosen = self.choice.irq_cpus.clone().unwrap_or_default();
        home.without(&self.with_siblings(irqs)).without(&chosen)
    }

    /// CPUs that take an interrupt: where it arrived, or else where it would.
    pub fn taken_by(&self, interrupt: &Interrupt) -> CpuSet {
        let measured = self.measured.arrivals.get(&interrupt.irq).cloned();
        measured.unwrap_or_else(|| interrupt.taken_by(&self.online))
    }

    /// CPUs that take the interrupts of an interface, in both directions.
    pub fn irq_cpus(&self, nic: &Nic) -> CpuSet {
        self.taking(of_queues(self.facts, nic).iter())
    }

    /// CPUs that receive packets: an interrupt for sending alone brings none. For a device whose interrupts are
    /// unknown, those that handled packets, unless steering hides where these came from.
    pub fn receiving(&self, nic: &Nic) -> CpuSet {
        let irqs = of_queues(self.facts, nic);
        let takes = self.taking(irqs.iter().filter(|irq| irq.receives()));
        let steered = nic.rx.iter().any(|queue| !queue.rps.is_empty());
        if irqs.is_empty() && nic.physical && !steered { self.measured.net_rx.clone() } else { takes }
    }

    fn taking<'q>(&self, irqs: impl Iterator<Item = &'q OfQueue<'q>>) -> CpuSet {
        irqs.fold(CpuSet::new(), |cpus, irq| cpus.or(&self.taken_by(irq.interrupt)))
    }

    /// CPUs that receive packets, whatever the interface.
    pub fn receiving_any(&self) -> CpuSet {
        self.facts.nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&self.receiving(nic)))
    }

    /// Whether a CPU with interrupts of an interface that steers would be busy with packets if it did not, as far as that
    /// was measured: if the queues have equal shares of what interrupts cost now.
    pub(crate) fn needs_steering(&self, nic: &Nic) -> bool {
        let irqs = of_queues(self.facts, nic);
        let mut queues: BTreeMap<u32, f64> = BTreeMap::new();
        for taken in irqs.iter().filter(|irq| irq.receives()).map(|irq| self.taken_by(irq.interrupt)) {
            taken.iter().for_each(|cpu| *queues.entry(cpu).or_default() += 1.0 / taken.len() as f64);
        }
        let most = queues.values().copied().fold(0.0, f64::max) / queues.values().sum::<f64>().max(1.0);
        let all =
            nic.rx.iter().fold(queues.keys().copied().collect::<CpuSet>(), |all, queue| all.or(&queue.rps));
        let percents = all.iter().filter_map(|cpu| self.measured.interrupts_percent.get(&cpu));
        let busiest = percents.map(|percent| f64::from(*percent)).sum::<f64>() * most;
        busiest >= NEARLY * cpu_load::BUSY_PERCENT || self.measured.interrupts_percent.is_empty()
    }

    /// Whether the receive interrupts of an interface come to at most half as many of the CPUs near it as could take
    /// them; how many could, if so.
    pub fn is_piled(&self, nic: &Nic, taken: &CpuSet) -> Option<usize> {
        let receivers = of_queues(self.facts, nic).iter().filter(|irq| irq.receives()).count();
        let near = self.near(nic);
        let could = receivers.min(near.len());
        (!taken.is_empty() && taken.and(&near).len() * 2 <= could).then_some(could)
    }

    /// Interrupts of an interface's queues that arrive on CPUs that should not take them: on isolated ones, or on
    /// another node while some CPU near the interface takes none. Where all of them do, the rest has to go somewhere.
    pub(crate) fn misplaced(&self, nic: &Nic) -> Vec<&'f Interrupt> {
        let (near, isolated) = (self.near(nic), self.facts.isolated());
        let has_room = !near.without(&self.irq_cpus(nic)).is_empty();
        let is_misplaced = |interrupt: &&Interrupt| {
            let outside = self.taken_by(interrupt).without(&near);
            !outside.and(&isolated).is_empty() || (has_room && !outside.is_empty())
        };
        of_queues(self.facts, nic).iter().map(|irq| irq.interrupt).filter(is_misplaced).collect()
    }

    /// The number of cores that can take the interrupts of an interface; a second thread of a core does not help
    /// (scaling.rst).
    pub fn cores(&self, nic: &Nic) -> usize {
        let usable = self.for_interrupts(nic);
        let first = |cpu: &u32| {
            let siblings = self.facts.cpu(*cpu).map(|cpu| cpu.siblings.and(&usable)).unwrap_or_default();
            siblings.lowest().is_none_or(|lowest| lowest == *cpu)
        };
        usable.iter().filter(first).count()
    }

    /// The CPUs left to services while `irqs` take interrupts; all, if these are all CPUs.
    pub fn for_services(&self, irqs: &CpuSet) -> CpuSet {
        let all = self.choice.cpus.as_ref().map_or(self.online.clone(), |cpus| self.online.and(cpus));
        let left = all.without(irqs);
        if left.is_empty() { all } else { left }
    }

    /// Of these, those that a service's cpuset allows.
    pub fn for_service(&self, service: &Service, irqs: &CpuSet) -> CpuSet {
        let left = self.for_services(irqs);
        service.cpuset.as_ref().map_or(left.clone(), |cpuset| left.and(cpuset))
    }

    /// These CPUs, and the hardware threads that share their cores.
    pub fn with_siblings(&self, cpus: &CpuSet) -> CpuSet {
        let known = cpus.iter().filter_map(|cpu| self.facts.cpu(cpu));
        known.fold(cpus.clone(), |set, cpu| set.or(&cpu.siblings))
    }

    /// The first thread of every core, then the second ones…
    pub(crate) fn cores_first(&self, cpus: &CpuSet) -> Vec<u32> {
        let rank = |cpu: &u32| {
            let siblings = self.facts.cpu(*cpu).map(|cpu| cpu.siblings.and(cpus)).unwrap_or_default();
            siblings.iter().take_while(|sibling| sibling < cpu).count()
        };
        let mut order: Vec<u32> = cpus.iter().collect();
        order.sort_by_key(|cpu| (rank(cpu), *cpu));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::reading::Reading;
    use crate::observe::shapes::{ENA, IRQ_FIRST, Shape, VIRTIO};

    const HOST: Shape = Shape { cpus: 16, threads: 2, nodes: 2, queues: 4, irqs: ENA };

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// Two readings, between which the first interrupt has come to these CPUs so often.
    fn measured(counts: &[(u32, u64)]) -> Measured {
        let mut readings = vec![Reading::default(), Reading { at_ms: 10_000, ..Reading::default() }];
        for (i, reading) in readings.iter_mut().enumerate() {
            let counts = counts.iter().map(|(cpu, count)| (*cpu, count * i as u64)).collect();
            reading.interrupts.insert(IRQ_FIRST, counts);
        }
        Measured::of(&Series::new(readings).unwrap())
    }

    #[track_caller]
    fn check_arrivals(counts: &[(u32, u64)], wanted: &str) {
        let facts = Shape { queues: 1, ..HOST }.facts();
        let model = CpuModel::new(&facts, measured(counts), Choice::default());
        assert_eq!(model.receiving(&facts.nics[0]), set(wanted), "{counts:?}");
    }

    #[test]
    fn where_interrupts_arrived_counts_and_affinity_only_where_too_few_came() {
        check_arrivals(&[(0, 0), (5, 900)], "5");
        check_arrivals(&[(3, 60), (5, 40)], "3,5");
        check_arrivals(&[(3, 95), (5, 5)], "3");
        check_arrivals(&[(5, 99)], "0");
        check_arrivals(&[], "0");
    }

    #[test]
    fn an_interrupt_that_is_moved_is_no_longer_where_it_was_measured() {
        let facts = Shape { queues: 1, ..HOST }.facts();
        let model = CpuModel::new(&facts, measured(&[(5, 900)]), Choice::default());
        let after = model.after(&facts, [IRQ_FIRST].into_iter());
        assert_eq!(after.receiving(&facts.nics[0]), set("0"));
    }

    #[test]
    fn a_device_without_interrupts_receives_where_packets_were_handled_unless_they_were_steered() {
        let mut facts = Shape { irqs: &[], ..HOST }.facts();
        let measured = Measured { net_rx: set("3"), ..Measured::default() };
        let receiving = |facts: &Facts| {
            CpuModel::new(facts, measured.clone(), Choice::default()).receiving(&facts.nics[0])
        };
        assert_eq!(receiving(&facts), set("3"));
        facts.nics[0].rx[0].rps = set("4-7");
        assert_eq!(receiving(&facts), set(""));
    }

    #[test]
    fn isolated_cpus_take_neither_interrupts_nor_packets_and_are_left_to_services() {
        let mut facts = HOST.facts();
        (facts.isolated, facts.nohz_full) = (set("2"), set("3,11"));
        let model = CpuModel::of(&facts);
        let nic = &facts.nics[0];
        assert_eq!((model.near(nic), model.for_interrupts(nic)), (set("0-1,8-10"), set("0-1,8-10")));
        assert_eq!(model.steerable(&model.near(nic), &set("0")), set("1,9-10"));
        assert_eq!(model.for_services(&set("0-1")), set("2-15"));
        // All CPUs of the node are isolated: the others of the host do its work.
        facts.isolated = set("0-3,8-11");
        assert_eq!(CpuModel::of(&facts).near(&facts.nics[0]), set("4-7,12-15"));
        facts.isolated = set("0-15");
        assert_eq!(CpuModel::of(&facts).near(&facts.nics[0]), set("0-3,8-11"), "no kernel runs on none");
    }

    #[test]
    fn where_the_node_is_unknown_all_cpus_are_near_and_packets_stay_where_interrupts_are() {
        let mut facts = Shape { irqs: VIRTIO, ..HOST }.facts();
        facts.nics[0].node = None;
        let model = CpuModel::of(&facts);
        assert_eq!(model.near(&facts.nics[0]), set("0-15"));
        assert_eq!(model.home(&facts.nics[0], &set("5")), set("4-7,12-15"));
        facts.nics[0].node = Some(7);
        assert_eq!(CpuModel::of(&facts).near(&facts.nics[0]), set("0-15"), "a node that has no CPU");
    }

    #[test]
    fn what_is_chosen_has_to_be_there() {
        let facts = HOST.facts();
        let check = |irq_cpus: Option<&str>, cpus: Option<&str>, wanted: Option<&str>| {
            let choice = Choice { irq_cpus: irq_cpus.map(set), cpus: cpus.map(set) };
            assert_eq!(choice.check(&facts).err().map(|error| error.to_string()).as_deref(), wanted);
            assert_eq!(Choice::split(&format!("spread{}", choice.typed())), ("spread", choice));
        };
        check(None, None, None);
        check(Some("0-1"), Some("0-7"), None);
        check(Some("0-16"), None, Some("--irq-cpus names CPUs 16; those in use are 0-15"));
        check(None, Some("99"), Some("--cpus names CPUs 99; those in use are 0-15"));
        check(Some("0-9"), Some("8-15"), Some("--irq-cpus names CPUs 0-7, which are not among --cpus 8-15"));
        let empty = Choice { irq_cpus: Some(CpuSet::new()), cpus: None };
        assert_eq!(empty.check(&facts), Err(NoChoice::Empty(IRQ_CPUS)));
    }

    #[test]
    fn chosen_cpus_are_used_and_the_rest_is_left() {
        let facts = HOST.facts();
        let choice = Choice { irq_cpus: Some(set("0-1")), cpus: Some(set("0-7")) };
        let model = CpuModel::new(&facts, Measured::default(), choice);
        let nic = &facts.nics[0];
        assert_eq!((model.near(nic), model.for_interrupts(nic)), (set("0-3"), set("0-1")));
        assert_eq!(model.steerable(&model.near(nic), &set("0")), set("2-3"));
        assert_eq!(Left::from(model.for_services(&set("0-1"))), Left { list: set("2-7"), mask: "fc".into() });
        assert_eq!(model.for_services(&set("0-7")), set("0-7"), "shared, where none is left");
        let service = Service { cpuset: Some(set("3-9")), ..Service::default() };
        assert_eq!(model.for_service(&service, &set("0-1")), set("3-7"));
    }
}
