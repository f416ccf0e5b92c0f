//! Sizes, names and times of the small world.

use fleet::health::{GuardSettings, HealthThresholds};
use fleet::rollout::RolloutSettings;

/// Slots of the only cluster.
pub(super) const SLOTS: usize = 4;
/// Slots of the only cluster when it has grown.
pub(super) const SLOTS_GROWN: usize = SLOTS + 1;
/// Routers, each with a client of its own.
pub(super) const ROUTERS: usize = 3;
/// Controllers: one in each zone.
pub(super) const CONTROLLERS: usize = 3;
/// Keys of all clients together.
pub(super) const KEYS: usize = 16;
/// The port of routers and servers.
pub(super) const PORT: u16 = 11211;
/// The only view.
pub(super) const VIEW: &str = "main";
/// The only fleet.
pub(super) const FLEET: &str = "small";

/// A controller's probes have a vote when they have a minute to compare with. Clients begin just before.
pub(super) const CLIENTS_FROM_MS: u64 = 60_500;
/// Faults begin within this time, and may last until [`CALM_MS`].
pub(super) const FAULTS_FROM_MS: u64 = 63_000;
pub(super) const FAULTS_UNTIL_MS: u64 = 100_000;
/// From here on nothing is broken any more.
pub(super) const CALM_MS: u64 = 106_000;
/// A host that is lost is replaced within this time, whatever has halted rollouts: it is suspect for some seconds, a rollout is waited for
/// 15 s, and so much is room.
pub(super) const HEALED_WITHIN_MS: u64 = 28_000;
/// An agent leaves a controller that has been without its register for this long: that asks it every 2 s, and an agent has its turn once
/// a second.
pub(super) const LEFT_WITHIN_MS: u64 = 6_000;
/// The longest time between two probes of a server that a router has lost.
pub(super) const PROBE_MAX_MS: u32 = 2_000;
/// A router asks a server again within this time after the last fault between them: an interval, half of it more at random, the time
/// for a connection, and the second after which its agent hears of it.
pub(super) const REFUSED_FOR_MS: u64 = PROBE_MAX_MS as u64 * 3 / 2 + 3_000;
/// After this, everything must be as it should be.
pub(super) const CONVERGED_WITHIN_MS: u64 = 60_000;

/// The zone of a host by its number.
pub(super) fn zone(number: usize) -> &'static str {
    ["a", "b", "c"][number % CONTROLLERS]
}

/// The name of a server's member and of its host.
pub(super) fn member(number: usize) -> String {
    format!("m{number}")
}

/// The name of a router.
pub(super) fn router(number: usize) -> String {
    format!("r{number}")
}

/// The policy, with these routes.
pub(super) fn policy(routes: &str) -> String {
    format!(
        "fleet = \"{FLEET}\"\n[[cluster]]\nname = \"web\"\nslots = {SLOTS}\n[[view]]\nname = \"{VIEW}\"\nroutes = '{routes}'\n"
    )
}

/// Shorter times than in a real fleet, so that a run is short. The guard is wide: the fleet world tests its limits.
pub(super) fn thresholds() -> HealthThresholds {
    let guard = GuardSettings {
        cluster_floor: 10,
        zone_floor: 10,
        fleet_floor: 10,
        window_ms: 10_000,
        replaced_window_ms: 10_000,
        ..GuardSettings::default()
    };
    HealthThresholds {
        observation_window_ms: 30_000,
        agent_return_ms: 3_000,
        probe_fresh_ms: 4_000,
        probe_failures: 2,
        // Of few servers, two that are away are many.
        prober_success_percent: 50,
        prober_success_min_percent: 10,
        router_fresh_ms: 20_000,
        suspect_ms: 1_000,
        restart_grace_ms: 3_000,
        guard,
        ..HealthThresholds::default()
    }
}

/// Shorter times than in a real fleet.
pub(super) fn rollout() -> RolloutSettings {
    RolloutSettings {
        route_canaries: 1,
        slot_hold_ms: 500,
        routes_hold_ms: 4_000,
        routes_wave_ms: 500,
        silence_ms: 8_000,
        // Silence is known after 25 s.
        fence_ms: 45_000,
        ..RolloutSettings::default()
    }
}
