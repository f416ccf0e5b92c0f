//! Named scenarios: a fleet, a script of faults, and the figures that are expected.

mod decisions;
mod random;

use crate::bug::PlantedBug;
use crate::fault::FleetFault;
use crate::shape::{FleetShape, ZONES};
use crate::world::{FleetRun, FleetWorld};
pub use random::{hunt, hunted, seeds_to_find};

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Faults begin when everything has been observed: a window of a minute, and the probers' minute of comparison.
const BEGIN_MS: u64 = 3 * MINUTE_MS;

/// A scenario.
#[derive(Clone, Debug)]
pub struct FleetScenario {
    /// Its name on a command line.
    pub name: &'static str,
    /// What happens, and what is expected, in a sentence.
    pub summary: &'static str,
    /// The fleet.
    pub shape: FleetShape,
    /// Faults with their times in milliseconds.
    pub script: Vec<(u64, FleetFault)>,
    /// How long it takes, in milliseconds.
    pub length_ms: u64,
    check: fn(&FleetRun) -> Result<(), String>,
}

impl FleetScenario {
    /// Plays it.
    pub fn play(&self, seed: u64, bugs: &[PlantedBug]) -> FleetRun {
        self.world(seed, bugs).run(self.length_ms)
    }

    /// Plays it until an invariant breaks.
    pub fn play_until_found(&self, seed: u64, bugs: &[PlantedBug]) -> FleetRun {
        self.world(seed, bugs).stopping_at_a_violation().run(self.length_ms)
    }

    fn world(&self, seed: u64, bugs: &[PlantedBug]) -> FleetWorld {
        FleetWorld::new(seed, self.shape.clone(), self.script.clone(), bugs)
    }

    /// Compares the run with the expected figures and the invariants.
    pub fn check(&self, run: &FleetRun) -> Result<(), String> {
        match &run.violation {
            Some(violation) => Err(violation.to_string()),
            None => (self.check)(run),
        }
    }
}

/// The scenarios for a fleet of this shape. Only the faults of the random ones depend on the seed.
pub fn all(shape: &FleetShape, seed: u64) -> Vec<FleetScenario> {
    vec![
        slack(shape),
        zone_loss(shape),
        register_day_off(shape),
        thundering_routers(shape),
        silent_agents(shape),
        lying_probes(shape),
        dead_hosts(shape),
        cluster_loss(shape),
        flapping_host(shape),
        flapping_member(shape),
        one_controller_zone(shape),
        operator(shape),
        slow_servers(shape),
        decisions::register_restored(shape),
        decisions::clocks_off(shape),
        decisions::deadly_routes(shape),
        decisions::silent_routers(shape),
        decisions::two_desks(shape),
        decisions::power_loss(shape),
        random::faults(shape, seed),
        random::decisions(shape, seed),
    ]
}

fn expect(holds: bool, run: &FleetRun, what: &str) -> Result<(), String> {
    let replaced = run.replaced;
    let (frozen, database, errors) = (run.frozen_max(), run.database_max(), run.errors_max());
    let figures = format!(
        "{replaced} replaced, {} by an operator, {} by a backup, database {database:.2} ×, errors {errors:.4}, {frozen} scopes \
         frozen, loaded p99 {:?} ms, all heard {:?} ms, {} routers crashed, {} behind, drained in {:?} ms",
        run.voluntary,
        run.restored,
        run.loaded_p99_ms,
        run.all_heard_ms,
        run.crashed,
        run.behind,
        run.drained_ms
    );
    if holds { Ok(()) } else { Err(format!("expected {what}; found {figures}")) }
}

fn slack(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "slack-2-22-22",
        summary: "agents restart on 25 % of the hosts: nothing is replaced, databases get at most 1.05 × of the usual",
        // Spares for each host that could be taken as dead.
        shape: FleetShape { spares: shape.servers() / ZONES / 3, ..shape.clone() },
        script: vec![(BEGIN_MS, FleetFault::AgentsRestart { percent: 25, for_ms: 5 * MINUTE_MS })],
        length_ms: 15 * MINUTE_MS,
        check: |run| {
            let holds = run.replaced == 0 && run.database_max() <= 1.05 && run.frozen_max() > 0;
            expect(holds, run, "0 replaced, a frozen scope, database at most 1.05 ×")
        },
    }
}

fn zone_loss(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "zone-loss",
        summary: "a zone is away for 20 minutes: replicas answer, nothing is replaced; then it returns empty",
        shape: FleetShape { has_replicas: true, ..shape.clone() },
        script: vec![
            (BEGIN_MS, FleetFault::ZoneDies(0)),
            (BEGIN_MS + 20 * MINUTE_MS, FleetFault::ZoneReturns(0)),
        ],
        length_ms: 24 * MINUTE_MS,
        check: |run| {
            let at_loss = run.samples.iter().filter(|sample| sample.at_s < 23.0 * 60.0);
            let database = at_loss.map(|sample| sample.database).fold(0.0, f64::max);
            let holds = run.replaced == 0 && database <= 1.05 && run.frozen_max() > 0;
            expect(holds, run, "0 replaced, a frozen scope, database at most 1.05 × until the zone returns")
        },
    }
}

fn register_day_off(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "etcd-day-off",
        summary: "etcd is away for 24 hours in which hosts die: no generation; afterwards they are replaced",
        shape: FleetShape { has_replicas: true, ..shape.clone() },
        script: vec![
            (BEGIN_MS, FleetFault::RegisterStops),
            (BEGIN_MS + HOUR_MS, FleetFault::HostsDie(vec![1])),
            (BEGIN_MS + 24 * HOUR_MS, FleetFault::RegisterStarts),
        ],
        length_ms: BEGIN_MS + 24 * HOUR_MS + 2 * MINUTE_MS,
        check: |run| {
            let end_s = (BEGIN_MS + 24 * HOUR_MS) as f64 / 1000.0;
            let early = run
                .samples
                .iter()
                .filter(|sample| sample.at_s < end_s)
                .map(|sample| sample.replacements)
                .max();
            let holds =
                early == Some(0) && run.replaced == 1 && run.first_replaced_ms.is_some_and(|ms| ms <= 30_000);
            // Routers change once: for the host that is replaced afterwards.
            let holds = holds && run.errors_max() == 0.0 && run.generation == 2;
            expect(holds, run, "0 replaced and no error in the 24 hours, 1 replaced within 30 s afterwards")
        },
    }
}

fn thundering_routers(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "thundering-routers",
        summary: "all routers restart at once, then a host dies: all had a turn within 30 s, its spare is loaded within 2 s",
        shape: shape.clone(),
        script: vec![
            (BEGIN_MS, FleetFault::HostsDie(vec![5])),
            (BEGIN_MS + 5 * MINUTE_MS, FleetFault::RoutersRestart),
        ],
        length_ms: 10 * MINUTE_MS,
        check: |run| {
            let holds = run.replaced == 1
                && run.all_heard_ms.is_some_and(|ms| ms <= 30_000)
                && run.loaded_p99_ms.is_some_and(|ms| ms <= 2_000);
            expect(holds, run, "1 replaced, loaded p99 at most 2,000 ms, all heard within 30,000 ms")
        },
    }
}

fn silent_agents(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "silent-agents",
        summary: "one agent in fifty is away, and later all controllers restart: nothing is replaced",
        shape: shape.clone(),
        script: vec![
            (BEGIN_MS, FleetFault::AgentsRestart { percent: 2, for_ms: 3 * MINUTE_MS }),
            (10 * MINUTE_MS, FleetFault::ControllersStop),
            (11 * MINUTE_MS, FleetFault::ControllersStart),
        ],
        length_ms: 14 * MINUTE_MS,
        check: |run| expect(run.replaced == 0 && run.database_max() <= 1.05, run, "0 replaced"),
    }
}

fn lying_probes(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "lying-probes",
        summary: "probes of one server in a hundred fail, although it works: nothing is replaced",
        shape: shape.clone(),
        script: vec![(BEGIN_MS, FleetFault::ProbesLie { percent: 1, for_ms: 5 * MINUTE_MS })],
        length_ms: 12 * MINUTE_MS,
        check: |run| expect(run.replaced == 0 && run.database_max() <= 1.05, run, "0 replaced"),
    }
}

fn dead_hosts(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "dead-hosts",
        summary: "a host of each of two clusters dies: both are replaced within a minute",
        shape: shape.clone(),
        script: vec![(BEGIN_MS, FleetFault::HostsDie(vec![3, shape.slots + 7]))],
        length_ms: HOUR_MS,
        check: |run| {
            let holds = run.replaced == 2 && run.first_replaced_ms.is_some_and(|ms| ms <= MINUTE_MS);
            expect(holds, run, "2 replaced within a minute")
        },
    }
}

fn cluster_loss(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "cluster-loss",
        summary: "half of a cluster dies at once: the cluster is frozen, a person decides",
        shape: shape.clone(),
        // Less than the fleet may lose in the small fleet of the tests.
        script: vec![(BEGIN_MS, FleetFault::HostsDie((0..shape.slots / 2).collect()))],
        length_ms: 10 * MINUTE_MS,
        check: |run| expect(run.replaced == 0 && run.frozen_max() > 0, run, "0 replaced, a frozen scope"),
    }
}

fn flapping_host(shape: &FleetShape) -> FleetScenario {
    // Hosts of one zone in four clusters, so that no cluster comes to its limit.
    let host = |cluster: usize| cluster * shape.slots + (3 - cluster * shape.slots % 3 % 3) % 3;
    let (flapping, second, third) = (host(0), host(1), host(2));
    let at = |minutes: u64| BEGIN_MS + minutes * MINUTE_MS;
    FleetScenario {
        name: "flapping-host",
        summary: "a host dies twice within an hour, and is well again: it gets no third slot",
        shape: shape.clone(),
        script: vec![
            (at(0), FleetFault::HostsDie(vec![flapping])),
            (at(4), FleetFault::HostsReturn(vec![flapping])),
            (at(6), FleetFault::HostsDie(vec![second])),
            (at(10), FleetFault::HostsDie(vec![flapping])),
            (at(14), FleetFault::HostsReturn(vec![flapping])),
            (at(16), FleetFault::HostsDie(vec![third])),
        ],
        length_ms: at(20),
        check: |run| expect(run.replaced >= 3, run, "at least 3 replaced"),
    }
}

fn flapping_member(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "flapping-member",
        summary: "a host is away for 4 s of 9, for five minutes: it is replaced within a minute",
        shape: shape.clone(),
        script: vec![(
            BEGIN_MS,
            FleetFault::HostFlaps { host: 5, down_ms: 4_500, up_ms: 4_000, for_ms: 5 * MINUTE_MS },
        )],
        length_ms: BEGIN_MS + 10 * MINUTE_MS,
        check: |run| {
            let holds = run.replaced == 1 && run.first_replaced_ms.is_some_and(|ms| ms <= MINUTE_MS);
            expect(holds, run, "1 replaced within a minute")
        },
    }
}

fn one_controller_zone(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "one-controller-zone",
        summary: "all controllers are in one zone, and a host dies in each zone: all are replaced",
        shape: FleetShape { controller_zones: 1, ..shape.clone() },
        script: vec![(BEGIN_MS, FleetFault::HostsDie((0..ZONES).map(|at| at * (shape.slots + 1)).collect()))],
        length_ms: BEGIN_MS + 5 * MINUTE_MS,
        check: |run| {
            let holds = run.replaced == ZONES && run.first_replaced_ms.is_some_and(|ms| ms <= MINUTE_MS);
            expect(holds, run, "3 replaced within a minute")
        },
    }
}

fn operator(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "operator",
        summary: "an operator replaces six members of a cluster with a hit ratio of 0.9: never more cold than the headroom has",
        shape: FleetShape { hit_ratio: 0.9, ..shape.clone() },
        script: vec![(BEGIN_MS, FleetFault::OperatorReplaces(6))],
        length_ms: 30 * MINUTE_MS,
        check: |run| {
            expect(run.voluntary >= 2 && run.errors_max() == 0.0, run, "at least 2 replaced, no errors")
        },
    }
}

fn slow_servers(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "slow-servers",
        summary: "some servers become ten times slower: they are reported, and not replaced",
        shape: FleetShape { has_replicas: true, ..shape.clone() },
        script: vec![(BEGIN_MS, FleetFault::ServersSlow(5))],
        length_ms: 10 * MINUTE_MS,
        check: |run| expect(run.replaced == 0 && run.database_max() <= 1.05, run, "0 replaced"),
    }
}

#[cfg(test)]
mod tests;
