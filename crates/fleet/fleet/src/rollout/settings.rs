//! Durations and shares of the lanes.

use serde::{Deserialize, Serialize};

use super::{RolloutLane, RolloutWave};

/// No wave lasts longer than a day.
const WAVE_MS_MAX: u64 = 86_400_000;
/// Shares of a lane.
const SHARES_MAX: usize = 8;

/// A setting outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use {name} = {found}: {accepted}")]
pub struct RolloutSettingsError {
    name: &'static str,
    found: String,
    accepted: String,
}

/// How long waves last and how many routers they reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
        }
    }
}

impl RolloutSettings {
    /// Refuses figures with which a rollout has no canaries, or never ends.
    ///
    /// # Errors
    /// Names the first that is outside its bounds.
    pub fn check(&self) -> Result<(), RolloutSettingsError> {
        let rows = [
            ("canary_percent", self.canary_percent.into(), 1, 50),
            ("route_canaries", self.route_canaries as u64, 1, 1_000),
            ("slot_hold_ms", self.slot_hold_ms, 100, WAVE_MS_MAX),
            ("weights_hold_ms", self.weights_hold_ms, 1_000, WAVE_MS_MAX),
            // An agent puts a file back within 30 s.
            ("routes_hold_ms", self.routes_hold_ms, 30_000, WAVE_MS_MAX),
            ("routes_wave_ms", self.routes_wave_ms, 1_000, WAVE_MS_MAX),
            ("silence_ms", self.silence_ms, 5_000, 300_000),
            ("fence_ms", self.fence_ms, 30_000, WAVE_MS_MAX),
        ];
        let outside = rows.into_iter().find(|(_, found, least, most)| !(least..=most).contains(&found));
        if let Some((name, found, least, most)) = outside {
            let accepted = format!("accepted are {least} to {most}");
            return Err(RolloutSettingsError { name, found: found.to_string(), accepted });
        }
        let is_growing = self.shares.is_sorted_by(|one, next| one < next);
        let is_share = self.shares.iter().all(|share| (1..100).contains(share));
        if self.shares.len() > SHARES_MAX || !is_growing || !is_share {
            let accepted = format!(
                "accepted are at most {SHARES_MAX} shares from 1 to 99, each larger than the one before"
            );
            return Err(RolloutSettingsError {
                name: "shares",
                found: format!("{:?}", self.shares),
                accepted,
            });
        }
        Ok(())
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut RolloutSettings), expected: &str) {
        let mut settings = RolloutSettings::default();
        change(&mut settings);
        let found = settings.check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "{found:?}");
    }

    #[test]
    fn figures_that_would_skip_the_canaries_are_refused() {
        check(|_| (), "");
        check(|settings| settings.routes_hold_ms = 60_000, "");
        check(|settings| settings.shares.clear(), "");
        check(|settings| settings.routes_hold_ms = 0, "use routes_hold_ms = 0: accepted are 30000 to");
        check(|settings| settings.route_canaries = 0, "use route_canaries = 0");
        check(
            |settings| settings.shares = vec![25, 5],
            "use shares = [25, 5]: accepted are at most 8 shares",
        );
        check(|settings| settings.shares = vec![100], "from 1 to 99");
    }
}
