//! Faults of the small world, drawn from its seed.

use stdx::prng::Prng;

use super::shape::{CALM_MS, CONTROLLERS, FAULTS_FROM_MS, FAULTS_UNTIL_MS, ROUTERS};

/// Something that goes wrong, or that an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SmallFault {
    /// A server's process ends, and is started again without values.
    ServerStops {
        server: usize,
    },
    /// A server's host reaches nobody, and comes back with its values.
    HostCutOff {
        server: usize,
    },
    /// No packet passes between a router and a server.
    PathCut {
        router: usize,
        server: usize,
    },
    /// A third of the packets are lost there.
    PathLossy {
        router: usize,
        server: usize,
    },
    /// All connections there are reset.
    PathReset {
        router: usize,
        server: usize,
    },
    ControllerKilled {
        controller: usize,
    },
    /// It is killed after so many writes to the register.
    ControllerKilledInWrite {
        controller: usize,
        writes: u64,
    },
    /// No controller works.
    ControllersAway,
    /// One controller, or every one, does not reach the register.
    RegisterCut {
        controller: Option<usize>,
    },
    /// The agent beside a router does nothing.
    AgentAway {
        router: usize,
    },
    /// It is killed while it writes the router's file.
    AgentKilledInWrite {
        router: usize,
    },
    DiskFull {
        router: usize,
    },
    RouterEnds {
        router: usize,
    },
    /// An order of the past arrives once more.
    OrderRepeated {
        router: usize,
    },
    /// An operator publishes other routes.
    RoutesChanged {
        kind: RoutesText,
    },
}

/// What routes an operator gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoutesText {
    Good,
    /// The check refuses them.
    Wrong,
    /// The check lets them pass, and a router ends with them.
    Deadly,
}

/// A fault with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheduled {
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    pub(super) fault: SmallFault,
}

/// Faults of a run.
pub(super) fn script(prng: &mut Prng, servers: usize) -> Vec<Scheduled> {
    let count = 5 + prng.below(8);
    (0..count).map(|_| scheduled(prng, servers)).collect()
}

fn scheduled(prng: &mut Prng, servers: usize) -> Scheduled {
    let from_ms = FAULTS_FROM_MS + prng.below(FAULTS_UNTIL_MS - FAULTS_FROM_MS);
    // A third of them are short, and the others long enough for members to be replaced.
    let length_ms = if prng.below(3) == 0 { 200 + prng.below(3_000) } else { 7_000 + prng.below(10_000) };
    let fault = fault(prng, servers);
    Scheduled { from_ms, until_ms: (from_ms + length_ms).min(CALM_MS), fault }
}

fn fault(prng: &mut Prng, servers: usize) -> SmallFault {
    let server = prng.below(servers as u64) as usize;
    let router = prng.below(ROUTERS as u64) as usize;
    let controller = prng.below(CONTROLLERS as u64) as usize;
    match prng.below(27) {
        0..3 => SmallFault::ServerStops { server },
        3..12 => SmallFault::HostCutOff { server },
        12 => SmallFault::PathCut { router, server },
        13 => SmallFault::PathLossy { router, server },
        14 => SmallFault::PathReset { router, server },
        15 => SmallFault::ControllerKilled { controller },
        16 => SmallFault::ControllerKilledInWrite { controller, writes: 1 + prng.below(3) },
        17 => SmallFault::ControllersAway,
        18 => SmallFault::RegisterCut { controller: (prng.below(2) == 0).then_some(controller) },
        19 => SmallFault::AgentAway { router },
        20 => SmallFault::AgentKilledInWrite { router },
        21 => SmallFault::DiskFull { router },
        22 => SmallFault::RouterEnds { router },
        23 | 24 => SmallFault::OrderRepeated { router },
        _ => {
            let kind = [RoutesText::Good, RoutesText::Wrong, RoutesText::Deadly][prng.below(3) as usize];
            SmallFault::RoutesChanged { kind }
        }
    }
}
