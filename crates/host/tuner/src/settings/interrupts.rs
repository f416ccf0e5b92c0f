//! Interrupts of interfaces: the CPUs that take them.

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::{Facts, Nic, Service};
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::masks;
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};
use crate::settings::steering;
use os::CpuSet;

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
pub(crate) const LEFT_ALONE: Reason = Reason {
    why: "irqbalance would move these interrupts back in its next round, every ten seconds",
    risk: Risk::Low,
    signal: &[ExpectedSignals::words("the affinities still hold after ten seconds (evenkeel tune status)")],
};

/// One interrupt per core.
pub(crate) fn spread(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| spread_of(proposed, scope.then, nic));
}

pub(super) fn spread_of(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
    if is_fought_over(proposed, model.facts, nic) {
        return;
    }
    match masks::spread(model, nic) {
        Ok(places) => move_irqs(proposed, model.facts, places, MOVE_IRQ),
        Err(why) => proposed.refuse(&nic.name, why.to_string()),
    }
}

/// All interrupts to one CPU, and packets steered to the others.
pub(crate) fn gather(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| gather_of(proposed, scope.then, nic));
}

fn gather_of(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
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
            steering::steer_of(proposed, model, nic, &irqs);
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
