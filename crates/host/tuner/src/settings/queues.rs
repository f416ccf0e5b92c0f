//! Queues of interfaces: their number and length.

use crate::observe::cpu_load::BUSY_PERCENT;
use crate::observe::cpu_model::CpuModel;
use crate::observe::ethtool::Knob;
use crate::observe::facts::{Channels, Nic};
use crate::settings::change::{Risk, Setting, Stage};
use crate::settings::interrupts;
use crate::settings::proposal::ProposedChanges;
use crate::settings::scope::Scope;
use crate::settings::signal::{ExpectedSignals, Figure, Moves};
use os::CpuSet;

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

const MORE: &[ExpectedSignals] = &[ExpectedSignals::figure(Figure::BusiestNetRx, Moves::Falls)];
const LONGER: &[ExpectedSignals] =
    &[ExpectedSignals::words("rx_missed_errors, rx_overruns and their like stand still (ethtool -S)")];

/// One queue for each core near an interface, up to the device's maximum, and an interrupt on each. Never fewer than now.
pub(crate) fn more(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| more_of(proposed, scope.then, nic));
}

/// The same, where the CPUs of the present queues have no time.
pub(crate) fn more_if_busy(proposed: &mut ProposedChanges, scope: &Scope) {
    match scope.finding.filter(|finding| finding.is_note) {
        Some(finding) => proposed.refuse(
            finding.name,
            "the fewest queues that do not overflow are the most efficient, and its CPUs have time",
        ),
        None => more(proposed, scope),
    }
}

fn more_of(proposed: &mut ProposedChanges, model: &CpuModel, nic: &Nic) {
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
    let above = model.facts.nics.iter().find(|above| above.lower.contains(&nic.name));
    let why = match above {
        Some(above) => {
            format!("{why}; {} above it loses this link for as long as the driver takes", above.name)
        }
        None => why,
    };
    let setting = Setting::Device { nic: nic.name.clone(), knob: Knob::Channels };
    proposed.propose_with(Stage::Queues, setting, is, to_be, why, Risk::Blink, MORE);
    // Without movable interrupts (virtual interfaces), more queues are the only change.
    if model.facts.interrupts_of(&nic.name).next().is_some() {
        interrupts::spread_of(proposed, model, nic);
    }
}

/// A captured host may have only a sum.
fn kinds(nic: &Nic) -> Option<Channels> {
    let combined = || Some(Channels { combined: (nic.channels?, nic.channels_max?), ..Channels::default() });
    nic.channel_kinds.or_else(combined)
}

/// Receive rings that hold bursts, and that fit into the memory.
pub(crate) fn longer(proposed: &mut ProposedChanges, scope: &Scope) {
    proposed.each(scope, |proposed, nic| longer_of(proposed, scope, nic));
}

/// The same, where the CPUs that empty the rings have time to do so.
pub(crate) fn longer_if_idle(proposed: &mut ProposedChanges, scope: &Scope) {
    let cpus = scope.nics.iter().fold(CpuSet::new(), |cpus, nic| cpus.or(&scope.now.receiving(nic)));
    let busiest = cpus.iter().filter_map(|cpu| scope.now.interrupts_percent().get(&cpu)).max();
    match (scope.finding, busiest.filter(|percent| f64::from(**percent) >= BUSY_PERCENT)) {
        (Some(finding), Some(percent)) => proposed.refuse(
            finding.name,
            format!(
                "the CPU that empties its ring is busy with interrupts ({percent} %): a longer ring would only \
                 delay the drops, so spread its packets first"
            ),
        ),
        _ => longer(proposed, scope),
    }
}

fn longer_of(proposed: &mut ProposedChanges, scope: &Scope, nic: &Nic) {
    let Some((now, max)) = nic.rx_ring else {
        return proposed.refuse(&nic.name, "its driver has no ring that can be set");
    };
    // A repeated request, because packets are still dropped, gets a longer ring.
    let wanted = if now < RX_RING { RX_RING } else { now.saturating_mul(2) }.min(max);
    if wanted <= now {
        return proposed.refuse(&nic.name, format!("its receive ring is as long as can be: {now} of {max}"));
    }
    let cost = ring_bytes(nic, wanted - now);
    if cost > scope.facts().memory_bytes / MEMORY_PARTS {
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
    // A request for every start does not ask for more each time.
    let wanted = if scope.whole && now >= RX_RING { now } else { wanted };
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

/// The cost of this many more descriptors in each queue: a buffer each.
fn ring_bytes(nic: &Nic, descriptors: u32) -> u64 {
    let packet = nic.mtu.unwrap_or(MTU_USUAL).saturating_add(BUFFER_EXTRA);
    let buffer = packet.max(BUFFER_MIN).checked_next_power_of_two().unwrap_or(u32::MAX);
    u64::from(descriptors) * nic.rx.len() as u64 * u64::from(buffer)
}
