//! Strategies for a host's packet and thread placement, by name, each from [`Facts`] to changes or to the reason why
//! not.
//!
//! Pure. A strategy is a whole layout: it requests every value, and [`plan`](crate::plan) leaves out those in force.
//! Which one is best differs between hosts and has to be measured.

pub(crate) mod queues;
pub(crate) mod turns;

use serde::{Deserialize, Serialize};

use crate::diagnose::masks::{self, FLOW_ENTRIES};
use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{Facts, Nic, Service};
use crate::plan::change::{Holds, Risk, Setting, Stage};
use crate::plan::proposal::{ProposedChanges, Reason};
use crate::plan::signal::{ExpectedSignals, Figure, Moves};
use os::CpuSet;

/// Interrupts deferred in a row before one is taken anyway; from the memcached measurements in the cover letter of
/// "Suspend IRQs during application busy periods" (2024).
const DEFER_HARD_IRQS: u32 = 100;

/// Microseconds of busy polling; the value recommended by the kernel's documentation of `busy_poll` and `busy_read`.
const BUSY_POLL_US: u32 = 50;

/// A layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Everything stays as it is: the baseline of the others.
    None,
    /// Interrupts where irqbalance moves them, no steering.
    Irqbalance,
    /// All interrupts to one CPU, packets steered to the others.
    Irq0Rps,
    /// Packets steered to the node's other CPUs, to those where the application reads.
    RpsRfs,
    /// One interrupt per core.
    Spread,
    /// Each CPU sends through the queue that is nearest.
    Xps,
    /// A queue for each core, and its interrupt there.
    Queues,
    /// Longer receive rings.
    Rings,
    /// Packets gathered by the device before it interrupts.
    Coalesce,
    /// Interrupts deferred for up to 20 µs.
    #[serde(rename = "defer-20", alias = "defer20")]
    Defer20,
    /// Interrupts deferred for up to 50 µs.
    #[serde(rename = "defer-50", alias = "defer50")]
    Defer50,
    /// Readers poll for packets themselves before they sleep.
    BusyPoll,
    /// The services' threads get short time slices, and so get them sooner.
    SchedSlice,
    /// The services' threads run before all others.
    SchedFifo,
}

impl Strategy {
    /// All, in the order in which to try them.
    pub const ALL: [Strategy; 14] = [
        Strategy::None,
        Strategy::Irqbalance,
        Strategy::Spread,
        Strategy::Irq0Rps,
        Strategy::RpsRfs,
        Strategy::Xps,
        Strategy::Queues,
        Strategy::Rings,
        Strategy::Coalesce,
        Strategy::Defer20,
        Strategy::Defer50,
        Strategy::BusyPoll,
        Strategy::SchedSlice,
        Strategy::SchedFifo,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::None => "none",
            Strategy::Irqbalance => "irqbalance",
            Strategy::Irq0Rps => "irq0-rps",
            Strategy::RpsRfs => "rps-rfs",
            Strategy::Spread => "spread",
            Strategy::Xps => "xps",
            Strategy::Queues => "queues",
            Strategy::Rings => "rings",
            Strategy::Coalesce => "coalesce",
            Strategy::Defer20 => "defer-20",
            Strategy::Defer50 => "defer-50",
            Strategy::BusyPoll => "busy-poll",
            Strategy::SchedSlice => "sched-slice",
            Strategy::SchedFifo => "sched-fifo",
        }
    }

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its changes for these interfaces and for all services.
    pub fn changes(self, model: &CpuModel, nics: &[&Nic]) -> ProposedChanges {
        let facts = model.facts;
        let mut proposed = ProposedChanges { asked_by: self.name().to_owned(), ..ProposedChanges::default() };
        match self {
            Strategy::None => {}
            Strategy::Irqbalance => proposed.each(nics, |proposed, nic| irqbalance(proposed, facts, nic)),
            Strategy::Irq0Rps => proposed.each(nics, |proposed, nic| irq0_rps(proposed, model, nic)),
            Strategy::RpsRfs => {
                proposed.each(nics, |proposed, nic| steer(proposed, model, nic, &model.receiving(nic)));
            }
            Strategy::Spread => proposed.each(nics, |proposed, nic| spread(proposed, model, nic)),
            Strategy::Xps => proposed.each(nics, |proposed, nic| xps(proposed, model, nic)),
            Strategy::Queues => proposed.each(nics, |proposed, nic| queues::more(proposed, model, nic)),
            Strategy::Rings => proposed.each(nics, |proposed, nic| queues::longer(proposed, facts, nic)),
            Strategy::Coalesce => proposed.each(nics, queues::gather),
            Strategy::Defer20 => proposed.each(nics, |proposed, nic| defer(proposed, facts, nic, 20_000)),
            Strategy::Defer50 => proposed.each(nics, |proposed, nic| defer(proposed, facts, nic, 50_000)),
            Strategy::BusyPoll => busy_poll(&mut proposed, facts),
            Strategy::SchedSlice => turns::slice(&mut proposed, facts),
            Strategy::SchedFifo => turns::fifo(&mut proposed, model, turns::Reach::Apart),
        }
        proposed
    }
}

/// The services' threads before all others, also where they may take every CPU.
pub(crate) fn first_at_risk(model: &CpuModel) -> ProposedChanges {
    let mut proposed =
        ProposedChanges { asked_by: Strategy::SchedFifo.name().to_owned(), ..ProposedChanges::default() };
    turns::fifo(&mut proposed, model, turns::Reach::Everywhere);
    proposed
}

const MOVE_IRQ: Reason = Reason {
    why: "each interrupt on a core of its own, on the interface's NUMA node, keeps one CPU from doing all the work",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::BusiestNetRx, Moves::Falls)],
};
const GATHER_IRQ: Reason = Reason {
    why: "with all interrupts on one CPU the others are free for packets and programs",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::BusiestInterrupts, Moves::Rises)],
};
const STEER: Reason = Reason {
    why: "there are fewer queues than CPUs: other CPUs of the node can take over work from those with interrupts",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::SteeredTo, Moves::Grows),
        ExpectedSignals::figure(Figure::BusiestSoftirq, Moves::Falls),
    ],
};
const FLOWS: Reason = Reason {
    why: "packets go to the CPU where the application reads them, so its cache has them",
    risk: Risk::Low,
    signal: &[
        ExpectedSignals::words("p99 latency falls"),
        ExpectedSignals::figure(Figure::BusyTimePerPacket, Moves::DoesNotRise),
    ],
};
const NO_STEERING: Reason = Reason {
    why: "without steering, packets are handled on the CPUs that take their interrupts, without a hop to another",
    risk: Risk::Moderate,
    signal: &[ExpectedSignals::figure(Figure::Steered, Moves::StandsStill)],
};
const SEND: Reason = Reason {
    why: "a CPU sends through the queue whose completions are handled on it or near it, and shares it with few",
    risk: Risk::Low,
    signal: &[ExpectedSignals::figure(Figure::BusyTimePerPacket, Moves::Falls)],
};
const PUT_OFF: Reason = Reason {
    why: "while packets keep coming, they are fetched in batches rather than with an interrupt each",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
        ExpectedSignals::words("p99 latency falls under load and may rise when idle"),
    ],
};
const POLL: Reason = Reason {
    why: "a reader that finds nothing looks at the interface's queue itself before it sleeps",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::words("latency falls"),
        ExpectedSignals::figure(Figure::BusyTime, Moves::Rises),
    ],
};
pub(crate) const LEFT_ALONE: Reason = Reason {
    why: "irqbalance would move these interrupts back in its next round, every ten seconds",
    risk: Risk::Low,
    signal: &[ExpectedSignals::words("the affinities still hold after ten seconds (evenkeel tune status)")],
};

fn irqbalance(proposed: &mut ProposedChanges, facts: &Facts, nic: &Nic) {
    if !facts.agents.iter().any(|agent| agent.name == "irqbalance" && agent.pid.is_some()) {
        return proposed.refuse(&nic.name, "irqbalance does not run; start it first");
    }
    steer_to(proposed, nic, &CpuSet::new(), 0, NO_STEERING);
}

/// Packets handled where their interrupts arrive.
pub(crate) fn unsteered(nics: &[&Nic]) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    nics.iter().for_each(|nic| steer_to(&mut proposed, nic, &CpuSet::new(), 0, NO_STEERING));
    proposed
}

/// Packets that are steered to the wrong CPUs steered to the right ones; to none, where there are none, or where the
/// CPUs with interrupts have the time for all of them.
pub(crate) fn resteered(model: &CpuModel, nics: &[&Nic]) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    for nic in nics {
        let irqs = model.receiving(nic);
        match masks::rps(model, nic, &irqs) {
            Ok(_) if model.needs_steering(nic) => steer(&mut proposed, model, nic, &irqs),
            _ => steer_to(&mut proposed, nic, &CpuSet::new(), 0, NO_STEERING),
        }
    }
    proposed
}

fn irq0_rps(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
    let facts = model.facts;
    if is_fought_over(proposed, facts, nic) {
        return;
    }
    let places = masks::gathered(model, nic);
    let irqs = places.iter().flatten().fold(CpuSet::new(), |cpus, (_, cpu)| cpus.or(cpu));
    match (places, masks::rps(model, nic, &irqs)) {
        // Interrupts are gathered only if the packets can go elsewhere: otherwise it would make the bottleneck.
        (Ok(places), Ok(_)) => {
            move_irqs(proposed, facts, places, GATHER_IRQ);
            steer(proposed, model, nic, &irqs);
            proposed.irq_cpus = proposed.irq_cpus.or(&irqs);
            keep_off(proposed, model, &irqs);
        }
        (Err(why), _) | (_, Err(why)) => proposed.refuse(&nic.name, why.to_string()),
    }
}

/// A CPU that takes all interrupts is the slowest for a program, and slows it down (scylla-operator #2017).
pub(crate) fn keep_off(proposed: &mut ProposedChanges, model: &CpuModel, irqs: &CpuSet) {
    let may_run =
        |service: &&Service| service.threads.iter().any(|thread| !thread.affinity.and(irqs).is_empty());
    for service in model.facts.services.iter().filter(may_run) {
        let others = model.for_service(service, irqs);
        let remedy = match others.without(irqs).is_empty() {
            true => "its cpuset has no others: give it some".to_owned(),
            false => format!("keep it to {others} (AllowedCPUs=)"),
        };
        let advice = format!("{service} may run on CPUs {irqs}, which take all interrupts then: {remedy}");
        if !proposed.advice.contains(&advice) {
            proposed.advice.push(advice);
        }
    }
}

fn spread(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
    if is_fought_over(proposed, model.facts, nic) {
        return;
    }
    match masks::spread(model, nic) {
        Ok(places) => move_irqs(proposed, model.facts, places, MOVE_IRQ),
        Err(why) => proposed.refuse(&nic.name, why.to_string()),
    }
}

fn is_fought_over(proposed: &mut ProposedChanges, facts: &Facts, nic: &Nic) -> bool {
    let fighter = facts.agents.iter().find(|agent| agent.name == "irqbalance").and_then(|agent| agent.pid);
    // One that answers is configured to leave them alone, see `plan`.
    let Some(pid) = fighter.filter(|_| facts.irqbalance.is_none()) else { return false };
    let reason = format!(
        "irqbalance (PID {pid}) would move its interrupts back, and does not answer on its socket: ban them there first"
    );
    proposed.refuse(&nic.name, reason);
    true
}

fn move_irqs(proposed: &mut ProposedChanges, facts: &Facts, places: Vec<(u32, CpuSet)>, reason: Reason) {
    for (number, cpus) in places {
        let now = facts.interrupts.iter().find(|irq| irq.irq == number).map(|irq| irq.affinity.mask());
        let setting = Setting::mask(format!("/proc/irq/{number}/smp_affinity"));
        proposed.propose(Stage::Affinity, setting, now.unwrap_or_default(), cpus.mask(), reason);
    }
}

const ENTRIES: &str = "net.core.rps_sock_flow_entries";

/// Packets to the CPU of their reader, whatever the masks are.
pub(crate) fn flows(facts: &Facts, nics: &[&Nic]) -> ProposedChanges {
    let mut proposed = ProposedChanges::default();
    let Some(now) = facts.sysctl(ENTRIES) else { return proposed };
    let wanted = now.max(FLOW_ENTRIES.into());
    for nic in nics {
        let setting = Setting::sysctl(ENTRIES, Holds::Number);
        proposed.propose(Stage::Steering, setting, now.to_string(), wanted.to_string(), FLOWS);
        let flows = masks::flows_per_queue(wanted as u32, nic.rx.len());
        for (queue, rx) in nic.rx.iter().enumerate() {
            remember(&mut proposed, nic, queue, rx.flows, flows, FLOWS);
        }
    }
    proposed
}

fn remember(proposed: &mut ProposedChanges, nic: &Nic, queue: usize, now: u32, flows: u32, reason: Reason) {
    let count = Setting::number(format!("/sys/class/net/{}/queues/rx-{queue}/rps_flow_cnt", nic.name));
    proposed.propose(Stage::Steering, count, now.to_string(), flows.to_string(), reason);
}

fn steer(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic, irqs: &CpuSet) {
    let mask = match masks::rps(model, nic, irqs) {
        Ok(mask) => mask,
        Err(why) => return proposed.refuse(&nic.name, why.to_string()),
    };
    if let Some(now) = model.facts.sysctl(ENTRIES) {
        let wanted = now.max(FLOW_ENTRIES.into());
        let setting = Setting::sysctl(ENTRIES, Holds::Number);
        proposed.propose(Stage::Steering, setting, now.to_string(), wanted.to_string(), FLOWS);
        steer_to(proposed, nic, &mask, masks::flows_per_queue(wanted as u32, nic.rx.len()), STEER);
    } else {
        proposed
            .refuse(&nic.name, format!("{ENTRIES} cannot be read, so packets cannot follow their readers"));
        steer_to(proposed, nic, &mask, 0, STEER);
    }
}

fn steer_to(proposed: &mut ProposedChanges, nic: &Nic, mask: &CpuSet, flows: u32, reason: Reason) {
    for (queue, rx) in nic.rx.iter().enumerate() {
        let directory = format!("/sys/class/net/{}/queues/rx-{queue}", nic.name);
        let cpus = Setting::mask(format!("{directory}/rps_cpus"));
        proposed.propose(Stage::Steering, cpus, rx.rps.mask(), mask.mask(), reason);
        remember(proposed, nic, queue, rx.flows, flows, if flows == 0 { reason } else { FLOWS });
    }
}

fn xps(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
    let sets = match masks::xps(model, nic) {
        Ok(sets) => sets,
        Err(why) => return proposed.refuse(&nic.name, why.to_string()),
    };
    for (queue, (tx, cpus)) in nic.tx.iter().zip(sets).enumerate() {
        let setting = Setting::mask(format!("/sys/class/net/{}/queues/tx-{queue}/xps_cpus", nic.name));
        let now = tx.xps.as_ref().map(CpuSet::mask).unwrap_or_default();
        proposed.propose(Stage::Steering, setting, now, cpus.mask(), SEND);
    }
}

fn defer(proposed: &mut ProposedChanges, facts: &Facts, nic: &Nic, timeout_ns: u64) {
    // `napi_defer_hard_irqs` came with Linux 5.8.
    let (Some(defer), Some(timeout), true) =
        (nic.defer_hard_irqs, nic.gro_flush_timeout_ns, facts.kernel.version >= (5, 8))
    else {
        return proposed.refuse(&nic.name, "its interrupts cannot be put off: it takes Linux 5.8 and NAPI");
    };
    let file = |name: &str| Setting::number(format!("/sys/class/net/{}/{name}", nic.name));
    // The timer first: without it, deferred interrupts are taken late.
    let timer = file("gro_flush_timeout");
    proposed.propose(Stage::Coalescing, timer, timeout.to_string(), timeout_ns.to_string(), PUT_OFF);
    let count = file("napi_defer_hard_irqs");
    proposed.propose(Stage::Coalescing, count, defer.to_string(), DEFER_HARD_IRQS.to_string(), PUT_OFF);
}

fn busy_poll(proposed: &mut ProposedChanges, facts: &Facts) {
    for name in ["net.core.busy_read", "net.core.busy_poll"] {
        match facts.sysctl(name) {
            Some(now) => {
                let wanted = now.max(BUSY_POLL_US.into()).to_string();
                proposed.propose(
                    Stage::Sysctl,
                    Setting::sysctl(name, Holds::Number),
                    now.to_string(),
                    wanted,
                    POLL,
                );
            }
            None => proposed.refuse("kernel", format!("it has no {name}")),
        }
    }
}

#[cfg(test)]
mod tests;
