//! Durations and shares of the lanes.

use super::{RolloutLane, RolloutWave};

/// How long waves last and how many routers they reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// Canaries of a slot change and of weights, percent of a view.
    pub canary_percent: u8,
    /// Canaries of changed routes: at least this many of each view.
    pub route_canaries: usize,
    /// How long the canaries of a slot change run.
    pub slot_hold_ms: u64,
    /// How long the canaries and shares of changed weights run.
    pub weights_hold_ms: u64,
    /// How long the canaries of changed routes run.
    pub routes_hold_ms: u64,
    /// How long a share or a zone of changed routes runs.
    pub routes_wave_ms: u64,
    /// The growing shares between canaries and zones, percent.
    pub shares: Vec<u8>,
    /// After this time a silent router does not hold up a wave.
    pub silence_ms: u64,
    /// After this time a router that lives and has not answered halts the rollout.
    pub fence_ms: u64,
    /// So long after its start a controller lets routers become known before it goes on with the rollout that it finds. One that
    /// does not wait may draw other canaries than the others; then each waits for the other's routers until the fence.
    pub hears_ms: u64,
}

impl Default for RolloutSettings {
    fn default() -> RolloutSettings {
        RolloutSettings {
            canary_percent: 1,
            // One of each kind of host, most likely, and few enough to lose.
            route_canaries: 8,
            // A dead server's slot waits for it. A poisonous text kills a router as it is parsed.
            slot_hold_ms: 2_000,
            // Weights move keys: long enough to see misses.
            weights_hold_ms: 60_000,
            routes_hold_ms: 600_000,
            // Longer than the 30 s in which an agent puts a file back.
            routes_wave_ms: 60_000,
            shares: vec![5, 25],
            // A turn lasts at most 20 s, and 5 s more make silence.
            silence_ms: 25_000,
            fence_ms: 300_000,
            // A slot change goes on at once. To know all routers takes the time after which they are silent.
            hears_ms: 0,
        }
    }
}

impl RolloutSettings {
    /// How long a wave runs after all have loaded the text.
    pub(super) fn hold_ms(&self, lane: RolloutLane, wave: &RolloutWave) -> u64 {
        match (lane, wave) {
            (RolloutLane::Rollback, _) => 0,
            (RolloutLane::SlotChange, _) => self.slot_hold_ms,
            (RolloutLane::Weights, _) => self.weights_hold_ms,
            (RolloutLane::Routes, RolloutWave::Canaries) => self.routes_hold_ms,
            (RolloutLane::Routes, _) => self.routes_wave_ms,
        }
    }

    /// Canaries of a view with this many living routers: at least one, and one is kept back where there are two.
    pub(super) fn canaries(&self, lane: RolloutLane, live: usize) -> usize {
        let wanted = match lane {
            RolloutLane::Routes => self.route_canaries,
            _ => share(live, self.canary_percent),
        };
        wanted.max(1).min(if live > 1 { live - 1 } else { live })
    }

    /// The shares after the canaries.
    pub(super) fn shares(&self, lane: RolloutLane) -> &[u8] {
        match lane {
            RolloutLane::Routes => &self.shares,
            RolloutLane::Weights => &self.shares[self.shares.len().saturating_sub(1)..],
            RolloutLane::SlotChange | RolloutLane::Rollback => &[],
        }
    }
}

/// A share of some routers, rounded up.
pub(super) fn share(count: usize, percent: u8) -> usize {
    (count * usize::from(percent)).div_ceil(100).min(count)
}
