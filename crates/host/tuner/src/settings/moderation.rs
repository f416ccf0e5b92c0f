//! Moderation of interrupts: deferred by the kernel, or coalesced by the device.

use crate::observe::ethtool::Knob;
use crate::observe::facts::{Coalescing, Facts, Nic};
use crate::observe::napi::InterruptDeferral;
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

/// Nanoseconds for which a program that polls keeps interrupts off, and after which packets are looked for without it: those
/// of "suspend20" in the same measurements. The first is a safety net for a program that stops polling; it is served by the
/// second meanwhile.
const IRQ_SUSPEND_TIMEOUT_NS: u64 = 20_000_000;
const SUSPENDED_FLUSH_NS: u64 = 20_000;

const SUSPENDED: Reason = Reason {
    why: "while a cache polls the queue and finds packets, it takes no interrupt; when the cache sleeps, it does",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
        ExpectedSignals::words("p99 latency falls under load"),
    ],
};

/// Interrupts of each queue suspended while a cache polls it.
pub(crate) fn suspend(proposed: &mut ProposedChanges, scope: &Scope) {
    let facts = scope.facts();
    if facts.kernel.version < (6, 13) {
        return proposed.refuse("kernel", "interrupts can be suspended since Linux 6.13");
    }
    // Without a program that polls, they would only be deferred.
    if !facts.services.iter().any(|service| service.polls) {
        let reason = "no cache that polls runs here: start `evenkeel serve` with --busy-poll first";
        return proposed.refuse("services", reason);
    }
    proposed.each(scope, suspend_of);
}

fn suspend_of(proposed: &mut ProposedChanges, nic: &Nic) {
    if nic.napis.is_empty() {
        let reason = "it shows no NAPI, so there are no interrupts to suspend";
        return proposed.refuse(&nic.name, reason);
    }
    let wanted = InterruptDeferral {
        defer_hard_irqs: DEFER_HARD_IRQS,
        gro_flush_timeout_ns: SUSPENDED_FLUSH_NS,
        irq_suspend_timeout_ns: IRQ_SUSPEND_TIMEOUT_NS,
    };
    for (number, now) in &nic.napis {
        let setting = Setting::Napi { nic: nic.name.clone(), number: *number };
        proposed.propose(Stage::Coalescing, setting, now.to_string(), wanted.to_string(), SUSPENDED);
    }
}

/// Interrupts deferred for up to 20 µs.
pub(crate) fn defer_20(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| defer_of(proposed, scope.facts(), nic, 20_000));
}

/// Interrupts deferred for up to 50 µs.
pub(crate) fn defer_50(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| defer_of(proposed, scope.facts(), nic, 50_000));
}

/// Packets gathered by the device before it interrupts: for as long as the driver chooses, where it can adapt.
pub(crate) fn coalesce(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, coalesce_of);
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
