//! Strategies for a host's packet and thread placement: settings, by name.
//!
//! A strategy is a whole layout: it requests every value, and [`plan`](crate::plan) leaves out those in force. Which one
//! is best differs between hosts and has to be measured.

use serde::{Deserialize, Serialize};

use crate::observe::cpu_model::CpuModel;
use crate::observe::facts::Nic;
use crate::settings::proposal::{Propose, ProposedChanges};
use crate::settings::scope::Scope;
use crate::settings::{interrupts, moderation, queues, steering, sysctls, turns};

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
    /// Interrupts of a queue stay off for as long as a cache polls it.
    IrqSuspend,
    /// The services' threads get short time slices, and so get them sooner.
    SchedSlice,
    /// The services' threads run before all others.
    SchedFifo,
}

impl Strategy {
    /// All, in the order in which to try them.
    pub const ALL: [Strategy; 15] = [
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
        Strategy::IrqSuspend,
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
            Strategy::IrqSuspend => "irq-suspend",
            Strategy::SchedSlice => "sched-slice",
            Strategy::SchedFifo => "sched-fifo",
        }
    }

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its settings.
    pub(crate) fn settings(self) -> &'static [Propose] {
        match self {
            Strategy::None => &[],
            Strategy::Irqbalance => &[steering::left_to_irqbalance],
            Strategy::Irq0Rps => &[interrupts::gather],
            Strategy::RpsRfs => &[steering::steer],
            Strategy::Spread => &[interrupts::spread],
            Strategy::Xps => &[steering::send_near],
            Strategy::Queues => &[queues::more],
            Strategy::Rings => &[queues::longer],
            Strategy::Coalesce => &[moderation::coalesce],
            Strategy::Defer20 => &[moderation::defer_20],
            Strategy::Defer50 => &[moderation::defer_50],
            Strategy::BusyPoll => &[sysctls::busy_poll],
            Strategy::IrqSuspend => &[moderation::suspend],
            Strategy::SchedSlice => &[turns::slice],
            Strategy::SchedFifo => &[turns::fifo],
        }
    }

    /// Its changes for these interfaces and for all services.
    pub fn changes(self, model: &CpuModel, nics: &[&Nic]) -> ProposedChanges {
        ProposedChanges::of(self.name(), self.settings(), &Scope::all(model, nics))
    }
}

#[cfg(test)]
pub(super) mod tests;
