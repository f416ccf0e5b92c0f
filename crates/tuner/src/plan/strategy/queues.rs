//! Queue strategies: the number and length of an interface's queues, and their interrupt coalescing.

use super::spread;
use crate::observe::cpu_model::CpuModel;
use crate::observe::ethtool::Knob;
use crate::observe::facts::{Channels, Coalescing, Facts, Nic};
use crate::plan::change::{Change, Risk, Setting, Stage};
use crate::plan::proposal::{ProposedChanges, Reason};
use crate::plan::signal::{ExpectedSignals, Figure, Moves};

/// Receive descriptors that hold a burst; the ENA driver's guide recommends them against overruns.
const RX_RING: u32 = 4096;

/// Longer rings may cost at most one part in this many of the memory (proposal).
const MEMORY_PARTS: u64 = 100;

/// Bytes that a driver adds to a packet in its buffer: headroom and the kernel's data at its end.
const BUFFER_EXTRA: u32 = 512;

/// The minimum per packet in any driver.
const BUFFER_MIN: u32 = 2048;

/// Ethernet's MTU, if the MTU is unknown.
const MTU_USUAL: u32 = 1500;

/// Microseconds of gathering, where a driver cannot adapt them: as long as the `defer-50` strategy waits.
const RX_USECS: u32 = 50;

/// Drivers with adaptive moderation, from their sources (`supported_coalesce_params`).
const ADAPTIVE: [&str; 10] =
    ["ena", "mlx5_core", "mlx4_en", "i40e", "iavf", "ice", "bnxt_en", "hns3", "enic", "nfp"];

const MORE: &[ExpectedSignals] = &[ExpectedSignals::figure(Figure::BusiestNetRx, Moves::Falls)];
const LONGER: &[ExpectedSignals] =
    &[ExpectedSignals::words("rx_missed_errors, rx_overruns and their like stand still (ethtool -S)")];
const GATHERED: Reason = Reason {
    why: "no moderation is in effect: the device can gather packets for some microseconds before it interrupts",
    risk: Risk::Moderate,
    signal: &[
        ExpectedSignals::figure(Figure::InterruptsPerPacket, Moves::Falls),
        ExpectedSignals::words("latency may rise when idle"),
    ],
};

/// One queue for each core near it, up to the device's maximum, and an interrupt on each. Never fewer than now.
pub(super) fn more(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
    let Some(kinds) = kinds(nic) else {
        return proposed.refuse(&nic.name, "its driver does not say how many queues it has");
    };
    let cores = model.cores(nic) as u32;
    let wanted = |(now, max): (u32, u32)| cores.min(max).max(now);
    let (now, to_be) = match kinds.combined.1 > 0 {
        true => (kinds.combined, format!("combined={}", wanted(kinds.combined))),
        false => (kinds.rx, format!("rx={} tx={}", wanted(kinds.rx), wanted(kinds.tx))),
    };
    let is = match kinds.combined.1 > 0 {
        true => format!("combined={}", kinds.combined.0),
        false => format!("rx={} tx={}", kinds.rx.0, kinds.tx.0),
    };
    let why = format!(
        "it receives on {} of {} queues, and {cores} cores are near it: the device itself can spread packets over more",
        now.0, now.1
    );
    let setting = Setting::Device { nic: nic.name.clone(), knob: Knob::Channels };
    proposed.propose_with(Stage::Queues, setting, is, to_be, why, Risk::Blink, MORE);
    // Without movable interrupts (virtual interfaces), more queues are the only change.
    if model.facts.interrupts_of(&nic.name).next().is_some() {
        spread(proposed, model, nic);
    }
}

/// A captured host may have only a sum.
fn kinds(nic: &Nic) -> Option<Channels> {
    let combined = || Some(Channels { combined: (nic.channels?, nic.channels_max?), ..Channels::default() });
    nic.channel_kinds.or_else(combined)
}

/// A receive ring that holds bursts, and that fits into the memory.
pub(super) fn longer(proposed: &mut ProposedChanges, facts: &Facts, nic: &Nic) {
    let Some((now, max)) = nic.rx_ring else {
        return proposed.refuse(&nic.name, "its driver has no ring that can be set");
    };
    // A repeated request, because packets are still dropped, gets a longer ring.
    let wanted = if now < RX_RING { RX_RING } else { now.saturating_mul(2) }.min(max);
    if wanted <= now {
        return proposed.refuse(&nic.name, format!("its receive ring is as long as can be: {now} of {max}"));
    }
    let cost = ring_bytes(nic, wanted - now);
    if cost > facts.memory_bytes / MEMORY_PARTS {
        let reason = format!(
            "{} more descriptors for each of {} queues would take {} MiB, more than 1 % of the memory",
            wanted - now,
            nic.rx.len(),
            cost >> 20
        );
        return proposed.refuse(&nic.name, reason);
    }
    let why = format!(
        "bursts fit into a longer ring; with {} queues it takes up to {} MiB more memory",
        nic.rx.len(),
        (cost >> 20).max(1)
    );
    let setting = Setting::Device { nic: nic.name.clone(), knob: Knob::Rings };
    proposed.propose_with(
        Stage::Queues,
        setting,
        format!("rx={now}"),
        format!("rx={wanted}"),
        why,
        Risk::Blink,
        LONGER,
    );
}

/// Rings that are long enough already: a request for every start does not ask for more each time.
pub(crate) fn as_long_as_now(proposed: &mut ProposedChanges) {
    let rings = |change: &&mut Change| matches!(change.setting, Setting::Device { knob: Knob::Rings, .. });
    for change in proposed.changes.iter_mut().filter(rings) {
        let now = change.now.strip_prefix("rx=").and_then(|now| now.parse::<u32>().ok());
        if now.is_some_and(|now| now >= RX_RING) {
            change.wanted.clone_from(&change.now);
        }
    }
}

/// The cost of this many more descriptors in each queue: a buffer each.
fn ring_bytes(nic: &Nic, descriptors: u32) -> u64 {
    let packet = nic.mtu.unwrap_or(MTU_USUAL).saturating_add(BUFFER_EXTRA);
    let buffer = packet.max(BUFFER_MIN).checked_next_power_of_two().unwrap_or(u32::MAX);
    u64::from(descriptors) * nic.rx.len() as u64 * u64::from(buffer)
}

/// Packets gathered by the device: for as long as the driver chooses, where it can adapt.
pub(super) fn gather(proposed: &mut ProposedChanges, nic: &Nic) {
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
