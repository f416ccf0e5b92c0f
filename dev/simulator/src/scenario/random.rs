//! Random scripts of faults, and the hunt for planted bugs with them.

use stdx::prng::Prng;

use super::{BEGIN_MS, FleetScenario, MINUTE_MS, SECOND_MS};
use crate::bug::PlantedBug;
use crate::fault::FleetFault;
use crate::register::RoutesKind;
use crate::shape::{FleetShape, ZONES};
use crate::world::FleetRun;

/// Faults of a random script.
const FAULTS: usize = 10;
/// A drain ends within twice its fence, and canaries of routes have ten minutes.
const DECIDED_MS: u64 = 15 * MINUTE_MS;

/// Faults of hosts, zones, routers and controllers.
pub(super) fn faults(shape: &FleetShape, seed: u64) -> FleetScenario {
    let mut prng = Prng::new(seed);
    let mut script = Vec::new();
    let mut at_ms = BEGIN_MS;
    for _ in 0..FAULTS {
        let for_ms = MINUTE_MS + prng.below(4 * MINUTE_MS);
        let fault = match prng.below(12) {
            0 => FleetFault::AgentsRestart { percent: prng.below(40), for_ms },
            1 => FleetFault::ProbesLie { percent: prng.below(40), for_ms },
            2 => FleetFault::RoutersRestart,
            3 => FleetFault::ServersSlow(prng.below(4) as usize),
            4 => FleetFault::OperatorReplaces(1 + prng.below(3) as usize),
            5 => FleetFault::ControllersStop,
            6 => FleetFault::RegisterStops,
            7 => FleetFault::ZoneDies(prng.below(ZONES as u64) as usize),
            8 => FleetFault::DeadHostsReturn,
            9 => {
                flap(&mut script, shape, at_ms, prng.below(shape.slots as u64) as usize);
                continue;
            }
            _ => FleetFault::AnyHostsDie(1 + prng.below(shape.servers() as u64 / 50 + 1) as usize),
        };
        push(&mut script, at_ms, for_ms, fault);
        at_ms += prng.below(3 * MINUTE_MS);
    }
    // Last, so that the fault before has ended, and what was drawn before stays as it was.
    at_ms += 6 * MINUTE_MS;
    let host = prng.below(shape.servers() as u64) as usize;
    let for_ms = 2 * MINUTE_MS + prng.below(3 * MINUTE_MS);
    script.push((at_ms, FleetFault::HostFlaps { host, down_ms: 5_000, up_ms: 4_000, for_ms }));
    FleetScenario {
        name: "random-faults",
        summary: "faults of all kinds, one upon the other: no invariant breaks",
        shape: FleetShape { has_replicas: true, ..shape.clone() },
        script,
        length_ms: at_ms + DECIDED_MS,
        check: |_| Ok(()),
    }
}

/// A host is lost twice, and after each return another one of its zone, whose slot it may take.
fn flap(script: &mut Vec<(u64, FleetFault)>, shape: &FleetShape, at_ms: u64, host: usize) {
    let in_cluster = |cluster: usize| host + cluster % shape.clusters * shape.slots;
    let dies = |host: usize| FleetFault::HostsDie(vec![host]);
    script.extend([
        (at_ms, dies(host)),
        (at_ms + 2 * MINUTE_MS, FleetFault::DeadHostsReturn),
        (at_ms + 3 * MINUTE_MS, dies(in_cluster(1))),
        (at_ms + 5 * MINUTE_MS, dies(host)),
        (at_ms + 7 * MINUTE_MS, FleetFault::DeadHostsReturn),
        (at_ms + 8 * MINUTE_MS, dies(in_cluster(2))),
    ]);
}

/// Decisions of operators, and faults of what carries them.
pub(super) fn decisions(shape: &FleetShape, seed: u64) -> FleetScenario {
    let mut prng = Prng::new(seed);
    let mut script = vec![(BEGIN_MS, FleetFault::RegisterIsBackedUp)];
    // What was decided after a backup is gone with it: then operators decide nothing here.
    let is_restored = prng.below(4) == 0;
    let mut at_ms = BEGIN_MS + MINUTE_MS;
    for _ in 0..FAULTS {
        let for_ms = MINUTE_MS + prng.below(6 * MINUTE_MS);
        let fault = match prng.below(12) {
            0 | 1 if is_restored => FleetFault::RoutersRestart,
            0 => FleetFault::OperatorReplaces(1 + prng.below(3) as usize),
            1 => FleetFault::OperatorChangesRoutes(routes(&mut prng)),
            2 => FleetFault::OperatorDrains(prng.below(shape.servers() as u64) as usize),
            3 => FleetFault::RoutersCutOff { percent: 1 + prng.below(20), for_ms },
            4 => FleetFault::RoutersLosePower,
            5 => FleetFault::RegisterStops,
            6 => FleetFault::ControllerStops(prng.below(ZONES as u64) as usize),
            7 => FleetFault::DeskLags { for_ms },
            8 => FleetFault::ClockJumps { controller: prng.below(3) as usize, by_ms: 5 * MINUTE_MS },
            _ => FleetFault::AnyHostsDie(1),
        };
        push(&mut script, at_ms, for_ms, fault);
        at_ms += prng.below(2 * MINUTE_MS);
    }
    if is_restored {
        script.push((at_ms + 30 * SECOND_MS, FleetFault::RegisterIsRestored));
    }
    FleetScenario {
        name: "random-decisions",
        summary: "decisions of operators under faults of the register, the controllers and the routers: no invariant breaks",
        shape: FleetShape { hit_ratio: 0.9, routers: shape.routers.min(90), ..shape.clone() },
        script,
        length_ms: at_ms + DECIDED_MS,
        check: |_| Ok(()),
    }
}

fn routes(prng: &mut Prng) -> RoutesKind {
    match prng.below(4) {
        0 => RoutesKind::Wrong,
        1 => RoutesKind::Deadly,
        _ => RoutesKind::Good,
    }
}

fn push(script: &mut Vec<(u64, FleetFault)>, at_ms: u64, for_ms: u64, fault: FleetFault) {
    let end = match fault {
        FleetFault::ControllersStop => Some(FleetFault::ControllersStart),
        FleetFault::ControllerStops(controller) => Some(FleetFault::ControllerStarts(controller)),
        FleetFault::RegisterStops => Some(FleetFault::RegisterStarts),
        FleetFault::ZoneDies(zone) => Some(FleetFault::ZoneReturns(zone)),
        _ => None,
    };
    script.push((at_ms, fault));
    script.extend(end.map(|end| (at_ms + for_ms, end)));
}

/// The random scenarios of a seed, for a fleet that is small enough for many of them.
pub fn hunted(seed: u64) -> [FleetScenario; 2] {
    // Controllers that are soon busy, as three of them are with 25,000 agents.
    let shape =
        FleetShape { clusters: 4, slots: 24, spares: 6, routers: 90, admitted: 8, ..FleetShape::small() };
    [faults(&shape, seed), decisions(&shape, seed)]
}

/// The first of these seeds with which a planted bug breaks an invariant, and the run.
pub fn hunt(bug: PlantedBug, seeds: impl IntoIterator<Item = u64>) -> Option<(u64, FleetRun)> {
    seeds.into_iter().find_map(|seed| {
        let runs = hunted(seed).into_iter().map(|scenario| scenario.play_until_found(seed, &[bug]));
        let found = runs.into_iter().find(|run| run.violation.is_some());
        found.map(|run| (seed, run))
    })
}

/// Of a number of seeds, from each on: how many it takes until the bug is found, in order. A seed after the last find is left out.
pub fn seeds_to_find(bug: PlantedBug, count: u64) -> Vec<u64> {
    let (mut needed, mut first) = (Vec::new(), 1);
    while let Some((found, _)) = hunt(bug, first..=count) {
        needed.extend((first..=found).map(|from| found - from + 1));
        first = found + 1;
    }
    needed.sort_unstable();
    needed
}
