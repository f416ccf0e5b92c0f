//! Moderation of interrupts: deferred by the kernel, or coalesced by the device.

use crate::observe::ethtool::Knob;
use crate::observe::facts::{Coalescing, Facts, Nic};
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::proposal::{ProposedChanges, Reason};
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};

/// Interrupts deferred in a row before one is taken anyway; from the memcached measurements in the cover letter of
/// "Suspend IRQs during application busy periods" (2024).
const DEFER_HARD_IRQS: u32 = 100;

/// Microseconds of gathering, where a driver cannot adapt them: as long as [`defer_50`] waits.
const RX_USECS: u32 = 50;

/// Drivers with adaptive moderation, from their sources (`supported_coalesce_params`).
const ADAPTIVE: [&str; 10] =
    ["ena", "mlx5_core", "mlx4_en", "i40e", "iavf", "ice", "bnxt_en", "hns3", "enic", "nfp"];

const PUT_OFF: Reason = Reason {
    why: "while packets keep coming, they are fetched in batches rather than with an interrupt each",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
        ExpectedSignals::words("p99 latency falls under load and may rise when idle"),
    ],
};
const GATHERED: Reason = Reason {
    why: "no moderation is in effect: the device can gather packets for some microseconds before it interrupts",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
        ExpectedSignals::words("latency may rise when idle"),
    ],
};

/// Interrupts deferred for up to 20 µs.
pub(crate) fn defer_20(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(&scope.nics, |proposed, nic| defer_of(proposed, scope.facts(), nic, 20_000));
}

/// Interrupts deferred for up to 50 µs.
pub(crate) fn defer_50(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(&scope.nics, |proposed, nic| defer_of(proposed, scope.facts(), nic, 50_000));
}

/// Packets gathered by the device before it interrupts: for as long as the driver chooses, where it can adapt.
pub(crate) fn coalesce(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(&scope.nics, coalesce_of);
}

/// Deferred interrupts or, where these are not to be had, coalesced ones, which are requested by the name of their
/// strategy: a search for the strategy behind the rule finds the former.
pub(crate) fn defer_or_coalesce(proposed: &mut ProposedChanges, scope: &Scope) {
    let deferred = ProposedChanges::of(&proposed.asked_by, &[defer_50], scope);
    let coalesced = ProposedChanges::of(COALESCE, &[coalesce], scope);
    proposed.extend(match deferred.changes.is_empty() && !coalesced.changes.is_empty() {
        true => coalesced,
        false => deferred,
    });
}

/// The strategy that coalesces.
const COALESCE: &str = "coalesce";

fn defer_of(proposed: &mut ProposedChanges, facts: &Facts, nic: &Nic, timeout_ns: u64) {
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

fn coalesce_of(proposed: &mut ProposedChanges, nic: &Nic) {
    let reason = match nic.coalescing {
        None => "its driver does not moderate interrupts".to_owned(),
        Some(Coalescing { adaptive_rx: true, .. }) => "its driver adapts its moderation already".to_owned(),
        Some(Coalescing { rx_usecs: 1.., .. }) if !is_adaptive(nic) => {
            "it moderates its interrupts already; measure before changing rx-usecs by hand".to_owned()
        }
        Some(now) => {
            let setting = Setting::Device { nic: nic.name.clone(), knob: Knob::Coalescing };
            let (is, wanted) = match is_adaptive(nic) {
                true => ("adaptive-rx=0".to_owned(), "adaptive-rx=1".to_owned()),
                false => (format!("rx-usecs={}", now.rx_usecs), format!("rx-usecs={RX_USECS}")),
            };
            return proposed.propose(Stage::Coalescing, setting, is, wanted, GATHERED);
        }
    };
    proposed.refuse(&nic.name, reason);
}

fn is_adaptive(nic: &Nic) -> bool {
    nic.driver.as_deref().is_some_and(|driver| ADAPTIVE.contains(&driver))
}
