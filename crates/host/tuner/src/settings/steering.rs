//! Steering of packets: receive steering (RPS), flows to their readers (RFS), transmit queues (XPS).

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::Nic;
use crate::settings::change::{Holds, Risk, Setting, Stage};
use crate::settings::masks::{self, FLOW_ENTRIES};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};
use os::CpuSet;

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

pub(crate) const ENTRIES: &str = "net.core.rps_sock_flow_entries";

/// Packets to the node's other CPUs, and there to the programs that read them.
pub(crate) fn steer(proposed: &mut ProposedChanges, scope: &Scope) {
    let model = scope.then;
    proposed.each(scope, |proposed, nic| steer_of(proposed, model, nic, &model.receiving(nic)));
}

/// Packets that are steered to the wrong CPUs steered to the right ones; to none, where there are none, or where the
/// CPUs with interrupts have the time for all of them.
pub(crate) fn resteer(proposed: &mut ProposedChanges, scope: &Scope) {
    let model = scope.then;
    for nic in scope.named_nics() {
        let irqs = model.receiving(nic);
        match masks::rps(model, nic, &irqs) {
            Ok(_) if model.needs_steering(nic) => steer_of(proposed, model, nic, &irqs),
            _ => steer_to(proposed, nic, &CpuSet::new(), 0, NO_STEERING),
        }
    }
}

/// Packets handled where their interrupts arrive.
pub(crate) fn no_steering(proposed: &mut ProposedChanges, scope: &Scope) {
    scope.named_nics().for_each(|nic| steer_to(proposed, nic, &CpuSet::new(), 0, NO_STEERING));
}

/// No steering, and interrupts where irqbalance moves them.
pub(crate) fn left_to_irqbalance(proposed: &mut ProposedChanges, scope: &Scope) {
    let is_there =
        |name: &str| scope.facts().agents.iter().any(|agent| agent.name == name && agent.pid.is_some());
    proposed.each(scope, |proposed, nic| match is_there("irqbalance") {
        true => steer_to(proposed, nic, &CpuSet::new(), 0, NO_STEERING),
        false => proposed.refuse(&nic.name, "irqbalance does not run; start it first"),
    });
}

/// Packets to the CPU of their reader, whatever the masks are.
pub(crate) fn flows(proposed: &mut ProposedChanges, scope: &Scope) {
    let Some(now) = scope.facts().sysctl(ENTRIES) else { return };
    let wanted = now.max(FLOW_ENTRIES.into());
    for nic in scope.named_nics() {
        let setting = Setting::sysctl(ENTRIES, Holds::Number);
        proposed.propose(Stage::Steering, setting, now.to_string(), wanted.to_string(), FLOWS);
        let flows = masks::flows_per_queue(wanted as u32, nic.rx.len());
        for (queue, rx) in nic.rx.iter().enumerate() {
            remember(proposed, nic, queue, rx.flows, flows, FLOWS);
        }
    }
}

/// A transmit queue near each CPU.
pub(crate) fn send_near(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| send_near_of(proposed, scope.then, nic));
}

pub(super) fn steer_of(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic, irqs: &CpuSet) {
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

fn remember(proposed: &mut ProposedChanges, nic: &Nic, queue: usize, now: u32, flows: u32, reason: Reason) {
    let count = Setting::number(format!("/sys/class/net/{}/queues/rx-{queue}/rps_flow_cnt", nic.name));
    proposed.propose(Stage::Steering, count, now.to_string(), flows.to_string(), reason);
}

fn send_near_of(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
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
