//! CPU masks: for receive steering (RPS, RFS), for interrupts, for sending (XPS).
//!
//! Pure: from a [`CpuModel`] to sets of CPUs. Every set is part of the online CPUs, because the kernel answers EOVERFLOW
//! to a mask beyond them. The rules are those of the kernel's Documentation/networking/scaling.rst and of the ENA driver's
//! best practices: same NUMA node, not the CPUs that take the interrupts nor their siblings, and no steering at all
//! where queues are as many as CPUs.

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::Nic;
use crate::observe::irq_name::{Way, of_queues};
use os::CpuSet;

/// Flows that the whole host remembers for RFS; scaling.rst recommends 32768 for a moderately loaded server.
pub(crate) const FLOW_ENTRIES: u32 = 32_768;

/// Reasons why there is no mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoMask {
    /// Every CPU has a queue already.
    #[error("{queues} receive queues for {cpus} CPUs: steering would only add a hop")]
    QueuesEnough {
        /// The number of queues.
        queues: usize,
        /// The number of CPUs that could be used.
        cpus: usize,
    },
    /// No CPUs are left besides those that take interrupts and their siblings.
    #[error("CPUs {irqs} take its interrupts, and with their siblings they are all there are of {usable}")]
    NoneLeft {
        /// CPUs that take interrupts.
        irqs: CpuSet,
        /// CPUs that could be used.
        usable: CpuSet,
    },
    /// There is no file to write.
    #[error(
        "its queues have no rps_cpus that can be read: a kernel without CONFIG_RPS, or no right to see it"
    )]
    Unsteerable,
    /// It has no movable interrupt.
    #[error("it has no interrupt that can be moved")]
    NoInterrupt,
    /// The driver or the kernel chooses.
    #[error("it has one transmit queue, or the driver chooses among them")]
    NoChoice,
}

/// CPUs to steer received packets to, while `irqs` take the interrupts: the same for every queue.
pub(crate) fn rps(model: &CpuModel, nic: &Nic, irqs: &CpuSet) -> Result<CpuSet, NoMask> {
    if nic.rx.iter().any(|queue| queue.rps_unknown) {
        return Err(NoMask::Unsteerable);
    }
    let usable = model.home(nic, irqs);
    // Queues whose interrupts are gathered on few CPUs reach no more than these.
    let reached = model.choice.irq_cpus.as_ref().map_or(usize::MAX, CpuSet::len);
    let queues = nic.rx.len().min(reached);
    // Interrupts that arrive elsewhere (isolated CPUs, another node) reach none of them, however many they are.
    let reach = irqs.is_empty() || irqs.without(&usable).len() < irqs.and(&usable).len();
    if queues >= usable.len() && reach {
        return Err(NoMask::QueuesEnough { queues, cpus: usable.len() });
    }
    let left = model.steerable(&usable, irqs);
    if left.is_empty() { Err(NoMask::NoneLeft { irqs: irqs.clone(), usable }) } else { Ok(left) }
}

/// Flows that each queue remembers, so that all together remember at least `entries`. The kernel rounds up to a power of
/// two; so do we, to read back what we wrote.
pub(crate) fn flows_per_queue(entries: u32, queues: usize) -> u32 {
    entries.div_ceil(queues.max(1) as u32).next_power_of_two()
}

/// Where each interrupt of an interface's queues should be taken: one per core of its node, queue 0 on the first. When
/// the cores are used up, their siblings have a turn, then it begins anew. The receive and the transmit interrupt of
/// one queue go to the same CPU. Managed interrupts stay where they are.
pub(crate) fn spread(model: &CpuModel, nic: &Nic) -> Result<Vec<(u32, CpuSet)>, NoMask> {
    let order = model.cores_first(&model.for_interrupts(nic));
    let queues = of_queues(model.facts, nic);
    let of = |way: fn(&Way) -> bool| queues.iter().filter(move |irq| way(&irq.way)).enumerate();
    // An interrupt for both directions has its turn as a receiving one.
    let movable: Vec<_> = of(|way| *way != Way::Sends)
        .chain(of(|way| *way == Way::Sends))
        .map(|(queue, irq)| (queue, irq.interrupt))
        .filter(|(_, irq)| !irq.managed && !order.is_empty())
        .map(|(queue, irq)| (irq.irq, CpuSet::from_iter([order[queue % order.len()]])))
        .collect();
    if movable.is_empty() { Err(NoMask::NoInterrupt) } else { Ok(movable) }
}

/// All movable interrupts of an interface's queues on the first CPU of its node.
pub(crate) fn gathered(model: &CpuModel, nic: &Nic) -> Result<Vec<(u32, CpuSet)>, NoMask> {
    let first = model.for_interrupts(nic).lowest().ok_or(NoMask::NoInterrupt)?;
    let irqs = of_queues(model.facts, nic);
    let movable = irqs.iter().map(|irq| irq.interrupt).filter(|irq| !irq.managed);
    let moved: Vec<_> = movable.map(|irq| (irq.irq, CpuSet::from_iter([first]))).collect();
    if moved.is_empty() { Err(NoMask::NoInterrupt) } else { Ok(moved) }
}

/// CPUs that should send through each transmit queue. A CPU uses the queue whose completions it or its sibling handles;
/// else one whose completions are handled under its own last-level cache, in turn; else any, in turn. So no CPU is
/// without a queue, and CPUs share a queue only where there are fewer queues than CPUs. Queues without an interrupt
/// (virtual interfaces) stand for CPUs in order.
pub(crate) fn xps(model: &CpuModel, nic: &Nic) -> Result<Vec<CpuSet>, NoMask> {
    let (facts, queues, online) = (model.facts, nic.tx.len(), &model.online);
    if queues < 2 || online.is_empty() || nic.tx.iter().any(|queue| queue.xps.is_none()) {
        return Err(NoMask::NoChoice);
    }
    let order = model.cores_first(&model.near(nic));
    let irqs = of_queues(facts, nic);
    let sending: Vec<_> = irqs.iter().filter(|irq| irq.sends()).collect();
    let receiving: Vec<_> = irqs.iter().filter(|irq| irq.receives()).collect();
    let homes: Vec<u32> = (0..queues)
        .map(|queue| {
            sending.get(queue).or(receiving.get(queue)).and_then(|irq| model.taken_by(irq.interrupt).lowest())
        })
        .enumerate()
        .map(|(queue, cpu)| cpu.filter(|cpu| online.contains(*cpu)).unwrap_or(order[queue % order.len()]))
        .collect();
    let mut sets: Vec<CpuSet> = homes.iter().map(|home| CpuSet::from_iter([*home])).collect();
    for (turn, cpu) in online.iter().filter(|cpu| !homes.contains(cpu)).enumerate() {
        let known = facts.cpu(cpu);
        let among = |near: Option<&CpuSet>| -> Vec<usize> {
            let Some(near) = near else { return Vec::new() };
            (0..queues).filter(|queue| near.contains(homes[*queue])).collect()
        };
        let by_sibling = among(known.map(|cpu| &cpu.siblings));
        let by_cache = among(known.map(|cpu| &cpu.cache));
        let all: Vec<usize> = (0..queues).collect();
        let choice = [by_sibling, by_cache, all].into_iter().find(|queues| !queues.is_empty());
        let choice = choice.expect("there are at least two queues");
        sets[choice[turn % choice.len()]].insert(cpu);
    }
    Ok(sets)
}

#[cfg(test)]
mod tests;
