//! Hosts of a simulated fleet: what is true of them, whatever observers see.

use std::collections::VecDeque;

use fleet::{HostId, MemberId, ZoneName};

use crate::shape::{FleetShape, ZONES};

/// A host with one server.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedHost {
    pub(crate) id: HostId,
    pub(crate) member: MemberId,
    pub(crate) zone: usize,
    /// The host and its server work.
    pub(crate) works: bool,
    /// The agent is away until then.
    pub(crate) agent_away_until_ms: u64,
    /// Probes fail until then, although the server works.
    pub(crate) probes_lie_until_ms: u64,
    /// How many times slower than usual.
    pub(crate) slowness: f64,
    /// When it died, the last times.
    pub(crate) falls_ms: VecDeque<u64>,
    /// Flushes since the host exists.
    pub(crate) flushes: u64,
    /// It has values from a slot that it left: it has missed deletes since then.
    pub(crate) has_old_values: bool,
}

/// A planted bug hides failures that are shorter.
const HIDDEN_MS: u64 = 10_000;
/// Falls that are remembered, and the time in which so many are flapping.
const FALLS: usize = 3;
const FLAPPING_MS: u64 = 60_000;

impl SimulatedHost {
    /// It dies.
    pub(crate) fn falls(&mut self, now_ms: u64) {
        self.works = false;
        self.falls_ms.push_back(now_ms);
        if self.falls_ms.len() > FALLS {
            self.falls_ms.pop_front();
        }
    }

    /// It died again and again within the last minute.
    pub(crate) fn flaps(&self, now_ms: u64) -> bool {
        self.falls_ms.len() == FALLS && self.falls_ms.iter().all(|at| now_ms - at <= FLAPPING_MS)
    }

    /// It is away since some seconds only.
    pub(crate) fn fell_lately(&self, now_ms: u64) -> bool {
        self.falls_ms.back().is_some_and(|at| now_ms - at < HIDDEN_MS)
    }

    pub(crate) fn has_agent(&self, now_ms: u64) -> bool {
        self.works && now_ms >= self.agent_away_until_ms
    }

    pub(crate) fn answers_probes(&self, now_ms: u64) -> bool {
        self.works && now_ms >= self.probes_lie_until_ms
    }

    /// The agent is told to flush the server. One that is away does not.
    pub(crate) fn flush(&mut self, now_ms: u64) {
        if self.has_agent(now_ms) {
            self.flushes += 1;
            self.has_old_values = false;
        }
    }
}

/// The hosts of a fleet: first those with slots, in their order, then spares.
pub(crate) fn hosts(shape: &FleetShape) -> Vec<SimulatedHost> {
    let zone = |at: usize| match at.checked_sub(shape.servers()) {
        None => at % shape.slots % ZONES,
        Some(spare) => spare % ZONES,
    };
    let host = |at: usize| SimulatedHost {
        id: format!("h{at:05}").parse().expect("a name"),
        member: format!("m{at:05}").parse().expect("a name"),
        zone: zone(at),
        works: true,
        agent_away_until_ms: 0,
        probes_lie_until_ms: 0,
        slowness: 1.0,
        falls_ms: VecDeque::new(),
        flushes: 0,
        has_old_values: false,
    };
    (0..shape.hosts()).map(host).collect()
}

/// The names of the zones.
pub(crate) fn zone_names() -> [ZoneName; ZONES] {
    ["za", "zb", "zc"].map(|name| name.parse().expect("a name"))
}
