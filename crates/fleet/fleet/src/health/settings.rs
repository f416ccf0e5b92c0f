//! Thresholds of health, guard and flapping: defaults with their reasons, and the bounds that a file may set them to.

use serde::{Deserialize, Serialize};

/// Thresholds of the verdicts, as policy sets them. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthThresholds {
    /// Time after a start in which everything is unknown: all agents come within 30 s, and each is heard a second time.
    pub observation_window_ms: u64,
    /// An agent is silent after this: turns take up to 20 s, and 5 s are for the network.
    pub agent_silent_after_ms: u64,
    /// An agent whose turn a controller has ended is silent after this: it comes again within milliseconds.
    pub agent_return_ms: u64,
    /// A probe or the figures of a prober count for this long: ten probes.
    pub probe_fresh_ms: u64,
    /// Failed probes in a row that make a failure: one lost packet is none.
    pub probe_failures: u8,
    /// Zones that must have probed a member before probes say anything, as far as controllers are in so many.
    pub probe_zones_min: u8,
    /// A prober whose success fell below this part of a minute ago does not vote.
    pub prober_success_percent: u8,
    /// A prober with less success than this never votes, whatever it had before.
    pub prober_success_min_percent: u8,
    /// A router's report counts for this long: a turn of 20 s, and 10 s for the network.
    pub router_fresh_ms: u64,
    /// A member that is gone is replaced after this.
    pub suspect_ms: u64,
    /// A process that is down on a living host has this long to be started again by the host's service manager.
    pub restart_grace_ms: u64,
    /// An answer to a probe that takes longer is late: a cache answers within a millisecond, and a busy host within some ten.
    pub probe_late_ms: u64,
    /// A member whose answers to probes were late for this part of the last minute is slow.
    pub slow_percent: u8,
    /// Three falls within this make a member unsteady.
    pub flapping_window_ms: u64,
    /// An unsteady member that was away for this part of the last minute, as two kinds of observers have seen, is replaced.
    pub flapping_percent: u8,
    /// Longest announced restart that is believed.
    pub announced_max_ms: u64,
    /// A controller that made no pass for this long was stopped itself, and knows nothing.
    pub pass_gap_max_ms: u64,
    /// The mass-loss guard.
    pub guard: GuardSettings,
}

impl Default for HealthThresholds {
    fn default() -> HealthThresholds {
        HealthThresholds {
            observation_window_ms: 60_000,
            agent_silent_after_ms: 25_000,
            agent_return_ms: 5_000,
            probe_fresh_ms: 10_000,
            probe_failures: 3,
            probe_zones_min: 2,
            prober_success_percent: 80,
            prober_success_min_percent: 50,
            router_fresh_ms: 30_000,
            suspect_ms: 10_000,
            restart_grace_ms: 30_000,
            probe_late_ms: 100,
            slow_percent: 6,
            flapping_window_ms: 300_000,
            flapping_percent: 15,
            announced_max_ms: 600_000,
            pass_gap_max_ms: 10_000,
            guard: GuardSettings::default(),
        }
    }
}

/// Limits of the mass-loss guard. A scope may lose the larger one of its floor and its percentage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuardSettings {
    /// Losses count together within this.
    pub window_ms: u64,
    /// Replacements count together within this, so that a slow stream of losses ends at the same limit.
    pub replaced_window_ms: u64,
    /// Members of a cluster.
    pub cluster_floor: u32,
    /// Part of a cluster.
    pub cluster_percent: u8,
    /// Members of a zone.
    pub zone_floor: u32,
    /// Part of a zone.
    pub zone_percent: u8,
    /// Members of the fleet.
    pub fleet_floor: u32,
    /// Part of the fleet.
    pub fleet_percent: u8,
}

impl Default for GuardSettings {
    fn default() -> GuardSettings {
        GuardSettings {
            window_ms: 60_000,
            replaced_window_ms: 3_600_000,
            cluster_floor: 2,
            cluster_percent: 5,
            // Without a floor, the first loss in a zone of three would already freeze it.
            zone_floor: 2,
            zone_percent: 20,
            fleet_floor: 2,
            fleet_percent: 5,
        }
    }
}

/// A threshold outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use {name} = {found}: accepted are {least} to {most}; {hint}")]
pub struct HealthThresholdError {
    name: &'static str,
    found: u64,
    least: u64,
    most: u64,
    hint: &'static str,
}

/// A day: no threshold is longer.
const DAY_MS: u64 = 86_400_000;

impl HealthThresholds {
    /// Refuses values with which a healthy fleet would be replaced, or a dead one never.
    pub fn check(&self) -> Result<(), HealthThresholdError> {
        let guard = &self.guard;
        let turns = "shorter than a turn of an agent makes healthy hosts silent";
        let early = "a shorter time replaces members that only restart";
        let share = "more than half of a scope is never lost by chance";
        let rows = [
            ("observation_window_ms", self.observation_window_ms, 30_000, DAY_MS, turns),
            ("agent_silent_after_ms", self.agent_silent_after_ms, 3_000, DAY_MS, turns),
            ("agent_return_ms", self.agent_return_ms, 2_000, 60_000, "a busy host takes a second or two"),
            ("probe_fresh_ms", self.probe_fresh_ms, 3_000, 60_000, "probes come once a second"),
            ("probe_failures", self.probe_failures.into(), 2, 100, "one lost packet is no failure"),
            ("probe_zones_min", self.probe_zones_min.into(), 1, 3, "three zones are enough"),
            (
                "prober_success_percent",
                self.prober_success_percent.into(),
                50,
                100,
                "a prober that lost half of its answers is cut off itself",
            ),
            (
                "prober_success_min_percent",
                self.prober_success_min_percent.into(),
                10,
                100,
                "a prober without answers is cut off itself",
            ),
            ("router_fresh_ms", self.router_fresh_ms, 20_000, 300_000, turns),
            ("suspect_ms", self.suspect_ms, 1_000, DAY_MS, early),
            ("restart_grace_ms", self.restart_grace_ms, 1_000, DAY_MS, early),
            ("probe_late_ms", self.probe_late_ms, 1, 1_000, "a probe has a second"),
            ("slow_percent", self.slow_percent.into(), 1, 100, "one late answer is none"),
            ("flapping_window_ms", self.flapping_window_ms, 10_000, DAY_MS, early),
            ("flapping_percent", self.flapping_percent.into(), 5, 100, early),
            ("announced_max_ms", self.announced_max_ms, 1_000, DAY_MS, "drain a host that is away longer"),
            ("pass_gap_max_ms", self.pass_gap_max_ms, 2_000, 60_000, "passes come once a second"),
            ("guard.window_ms", guard.window_ms, 10_000, DAY_MS, early),
            ("guard.replaced_window_ms", guard.replaced_window_ms, guard.window_ms, 7 * DAY_MS, early),
            ("guard.cluster_floor", guard.cluster_floor.into(), 1, 1_000, share),
            ("guard.cluster_percent", guard.cluster_percent.into(), 0, 50, share),
            ("guard.zone_floor", guard.zone_floor.into(), 1, 1_000, share),
            ("guard.zone_percent", guard.zone_percent.into(), 0, 50, share),
            ("guard.fleet_floor", guard.fleet_floor.into(), 1, 1_000, share),
            ("guard.fleet_percent", guard.fleet_percent.into(), 0, 50, share),
        ];
        match rows.into_iter().find(|(_, found, least, most, _)| !(least..=most).contains(&found)) {
            Some((name, found, least, most, hint)) => {
                Err(HealthThresholdError { name, found, least, most, hint })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut HealthThresholds), expected: &str) {
        let mut settings = HealthThresholds::default();
        change(&mut settings);
        let found = settings.check().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "{found:?}");
    }

    #[test]
    fn the_defaults_are_accepted_and_dangerous_values_are_not() {
        check(|_| (), "");
        check(|settings| settings.suspect_ms = 0, "use suspect_ms = 0: accepted are 1000 to");
        check(|settings| settings.guard.cluster_percent = 100, "accepted are 0 to 50");
        check(|settings| settings.guard.replaced_window_ms = 30_000, "accepted are 60000 to");
        check(|settings| settings.probe_zones_min = 0, "accepted are 1 to 3");
        check(|settings| settings.flapping_percent = 0, "use flapping_percent = 0: accepted are 5 to");
        check(|settings| settings.agent_silent_after_ms = 2_999, "agent_silent_after_ms");
    }
}
