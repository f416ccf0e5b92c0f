//! Faults of the small world, drawn from its seed.

use stdx::prng::Prng;

use super::shape::{CALM_MS, CONTROLLERS, FAULTS_FROM_MS, FAULTS_UNTIL_MS, ROUTERS, SLOTS, SLOTS_GROWN};

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
    /// Somebody writes into the router's file, and puts it back later.
    FileEdited {
        router: usize,
    },
    /// An operator has the member of a slot replaced.
    MemberReplaced {
        slot: usize,
    },
    /// An operator gives the cluster so many slots, or gives that up if it is on its way from there.
    Resized {
        slots: usize,
        at_once: bool,
    },
    /// A person halts the rollout that is going on, and lets it go on later.
    RolloutHalted,
    /// An operator publishes other routes.
    RoutesChanged {
        kind: RoutesText,
    },
}

impl SmallFault {
    /// Whether a router may lose a server by it.
    pub(super) fn parts(&self, at: usize, other: usize) -> bool {
        match *self {
            SmallFault::ServerStops { server } | SmallFault::HostCutOff { server } => server == other,
            SmallFault::PathCut { router, server }
            | SmallFault::PathLossy { router, server }
            | SmallFault::PathReset { router, server } => (router, server) == (at, other),
            _ => false,
        }
    }
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

/// Faults of a run: of any kind, with changes of slots by hand, or of what halts rollouts while a host is lost.
pub(super) fn script(prng: &mut Prng, seed: u64, servers: usize) -> Vec<Scheduled> {
    let count = 5 + prng.below(8);
    let mut all: Vec<Scheduled> = (0..count).map(|_| scheduled(prng, servers)).collect();
    // Lots of its own: the other faults of a seed stay what they are.
    let lots = &mut Prng::new(seed ^ 0x5107);
    match seed % 4 {
        0 => all.extend((0..1 + lots.below(3)).map(|_| change_of_slots(lots))),
        2 => all = lost_in_a_halt(lots),
        3 => all.extend(resizes(lots)),
        _ => {}
    }
    all
}

/// The cluster grows and shrinks back, and perhaps grows once more; one that comes early finds the one before on its way.
fn resizes(lots: &mut Prng) -> Vec<Scheduled> {
    let mut from_ms = FAULTS_FROM_MS + lots.below(3_000);
    let count = 2 + lots.below(2) as usize;
    let one = |slots: &usize| {
        let fault = SmallFault::Resized { slots: *slots, at_once: false };
        let found = Scheduled { from_ms, until_ms: from_ms, fault };
        from_ms = (from_ms + 5_000 + lots.below(16_000)).min(CALM_MS - 1_000);
        found
    };
    [SLOTS_GROWN, SLOTS, SLOTS_GROWN][..count].iter().map(one).collect()
}

fn change_of_slots(lots: &mut Prng) -> Scheduled {
    let from_ms = FAULTS_FROM_MS + lots.below(FAULTS_UNTIL_MS - FAULTS_FROM_MS);
    let fault = match lots.below(4) {
        0 => SmallFault::FileEdited { router: lots.below(ROUTERS as u64) as usize },
        _ => SmallFault::MemberReplaced { slot: lots.below(SLOTS as u64) as usize },
    };
    Scheduled { from_ms, until_ms: (from_ms + 2_000 + lots.below(8_000)).min(CALM_MS), fault }
}

/// A host that does not come back before the end, and what halts rollouts before and after.
fn lost_in_a_halt(lots: &mut Prng) -> Vec<Scheduled> {
    let lost_ms = FAULTS_FROM_MS + 3_000 + lots.below(6_000);
    let lost = SmallFault::HostCutOff { server: lots.below(SLOTS as u64) as usize };
    let halting = |lots: &mut Prng| {
        let from_ms = FAULTS_FROM_MS + lots.below(lost_ms + 8_000 - FAULTS_FROM_MS);
        let fault = match lots.below(5) {
            0 | 1 => SmallFault::FileEdited { router: lots.below(ROUTERS as u64) as usize },
            2 => SmallFault::RoutesChanged { kind: RoutesText::Good },
            3 => SmallFault::RoutesChanged { kind: RoutesText::Deadly },
            _ => SmallFault::RolloutHalted,
        };
        Scheduled { from_ms, until_ms: CALM_MS, fault }
    };
    let mut all: Vec<Scheduled> = (0..1 + lots.below(4)).map(|_| halting(lots)).collect();
    all.push(Scheduled { from_ms: lost_ms, until_ms: CALM_MS, fault: lost });
    all
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
