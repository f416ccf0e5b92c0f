//! Named scenarios of decisions: the register, routes, drains, and what routers have on their disks.

use super::{BEGIN_MS, FleetScenario, MINUTE_MS, SECOND_MS, expect};
use crate::fault::FleetFault;
use crate::register::RoutesKind;
use crate::shape::FleetShape;

/// A rollout of routes asks every router with each event; so many are enough to see what it does.
const ROUTERS_OF_A_ROLLOUT: usize = 90;
/// Canaries of changed routes.
const CANARIES: usize = 8;

fn at(minutes: u64) -> u64 {
    BEGIN_MS + minutes * MINUTE_MS
}

fn few_routers(shape: &FleetShape) -> FleetShape {
    FleetShape { routers: ROUTERS_OF_A_ROLLOUT, ..shape.clone() }
}

pub(super) fn register_restored(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "register-restored",
        summary: "etcd is restored from a backup that has not heard of a replacement: no router goes back, the host is replaced again",
        shape: shape.clone(),
        script: vec![
            (at(0), FleetFault::RegisterIsBackedUp),
            (at(1), FleetFault::HostsDie(vec![5])),
            (at(5), FleetFault::RegisterIsRestored),
        ],
        length_ms: at(12),
        check: |run| {
            let holds = run.restored == 1 && run.replaced == 2 && run.behind == 0;
            expect(holds, run, "1 slot as in the backup, 2 replaced, no router behind")
        },
    }
}

pub(super) fn clocks_off(shape: &FleetShape) -> FleetScenario {
    let host = |cluster: usize| cluster * shape.slots + cluster;
    let five_minutes = 5 * MINUTE_MS;
    FleetScenario {
        name: "clocks-off",
        summary: "the controllers' clocks differ by five and ten minutes, and the leader's jumps: hosts are replaced as ever",
        shape: shape.clone(),
        script: vec![
            (0, FleetFault::ClockJumps { controller: 1, by_ms: five_minutes }),
            (0, FleetFault::ClockJumps { controller: 2, by_ms: 2 * five_minutes }),
            (at(0), FleetFault::HostsDie(vec![host(0)])),
            (at(2), FleetFault::ControllerStops(0)),
            (at(4), FleetFault::HostsDie(vec![host(1)])),
            (at(6), FleetFault::ControllerStarts(0)),
            (at(8), FleetFault::ClockJumps { controller: 0, by_ms: five_minutes }),
            (at(8), FleetFault::ClockJumps { controller: 1, by_ms: five_minutes }),
            (at(10), FleetFault::HostsDie(vec![host(2)])),
        ],
        length_ms: at(14),
        check: |run| {
            let holds = run.replaced == 3 && run.behind == 0;
            expect(holds, run, "3 replaced, no router behind")
        },
    }
}

pub(super) fn deadly_routes(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "deadly-routes",
        summary: "routes that crash routers, and a leader that stops meanwhile: no more than the canaries have them",
        shape: few_routers(shape),
        script: vec![
            (at(0), FleetFault::OperatorChangesRoutes(RoutesKind::Wrong)),
            (at(1), FleetFault::RoutersCutOff { percent: 10, for_ms: 4 * MINUTE_MS }),
            (at(2), FleetFault::OperatorChangesRoutes(RoutesKind::Deadly)),
            // The new leader knows the routes that failed as the parent of the target only.
            (at(3), FleetFault::ControllerStops(0)),
            (at(9), FleetFault::OperatorChangesRoutes(RoutesKind::Good)),
        ],
        length_ms: at(40),
        check: |run| {
            let holds = (1..=CANARIES).contains(&run.crashed) && run.behind == 0 && run.errors_max() == 0.0;
            expect(holds, run, "1 to 8 routers crashed, no router behind, no errors")
        },
    }
}

pub(super) fn silent_routers(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "silent-routers",
        summary: "a member is drained while every tenth router is silent: it is fenced, and no delete is lost",
        shape: few_routers(shape),
        script: vec![
            (at(0), FleetFault::RoutersCutOff { percent: 10, for_ms: 20 * MINUTE_MS }),
            (at(1), FleetFault::OperatorDrains(3)),
        ],
        length_ms: at(25),
        check: |run| {
            // The first phase waits for the fence, the last one as long.
            let holds = run.drained_ms.is_some_and(|ms| (600 * SECOND_MS..=720 * SECOND_MS).contains(&ms));
            expect(holds, run, "drained in 600 to 720 s")
        },
    }
}

pub(super) fn two_desks(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "two-desks",
        summary: "an operator's controller does not hear of new generations while members are lost: no decision is overwritten",
        shape: FleetShape { hit_ratio: 0.9, ..shape.clone() },
        script: vec![
            (at(0), FleetFault::DeskLags { for_ms: 5 * MINUTE_MS }),
            (at(1), FleetFault::HostsDie(vec![shape.slots + 1])),
            (at(3), FleetFault::OperatorReplaces(2)),
        ],
        length_ms: at(10),
        check: |run| {
            let holds = run.replaced == 1 && run.voluntary == 2 && run.behind == 0;
            expect(holds, run, "1 replaced, 2 by an operator, no router behind")
        },
    }
}

pub(super) fn power_loss(shape: &FleetShape) -> FleetScenario {
    FleetScenario {
        name: "power-loss",
        summary: "all routers' hosts lose their power just after a host was replaced: none has an older generation afterwards",
        shape: shape.clone(),
        script: vec![
            (at(0), FleetFault::HostsDie(vec![5])),
            (at(0) + 30 * SECOND_MS, FleetFault::RoutersLosePower),
        ],
        length_ms: at(5),
        check: |run| expect(run.replaced == 1 && run.behind == 0, run, "1 replaced, no router behind"),
    }
}
