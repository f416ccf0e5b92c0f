//! Faults of a fleet, as a script names them.

use crate::register::RoutesKind;

/// One fault, or its end.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetFault {
    /// The agents of a part of the hosts are away for a time; the servers beside them go on.
    AgentsRestart {
        /// Part of the hosts, in percent.
        percent: u64,
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// These hosts die: agent and server.
    HostsDie(Vec<usize>),
    /// So many hosts with slots die, chosen at random.
    AnyHostsDie(usize),
    /// A host dies and starts again, over and over, for a time.
    HostFlaps {
        /// Which.
        host: usize,
        /// How long it is away each time, in milliseconds.
        down_ms: u64,
        /// How long it works between, in milliseconds.
        up_ms: u64,
        /// How long this goes on, in milliseconds.
        for_ms: u64,
    },
    /// These hosts start again, with empty servers.
    HostsReturn(Vec<usize>),
    /// All hosts, routers and the controller of a zone are away.
    ZoneDies(usize),
    /// They are back; the servers are empty.
    ZoneReturns(usize),
    /// All hosts that are dead start again, with empty servers.
    DeadHostsReturn,
    /// A controller stops.
    ControllerStops(usize),
    /// It starts, and knows nothing.
    ControllerStarts(usize),
    /// All controllers stop.
    ControllersStop,
    /// They start, and know nothing.
    ControllersStart,
    /// The register does not answer.
    RegisterStops,
    /// It answers again.
    RegisterStarts,
    /// All routers restart at once, and their agents with them.
    RoutersRestart,
    /// Servers of so many hosts, chosen at random, answer ten times slower.
    ServersSlow(usize),
    /// Probes of the servers of a part of the hosts fail, although they work, for a time.
    ProbesLie {
        /// Part of the hosts, in percent.
        percent: u64,
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// An operator wants other members in so many slots of the first cluster.
    OperatorReplaces(usize),
    /// An operator wants other routes.
    OperatorChangesRoutes(RoutesKind),
    /// An operator drains the member of this slot.
    OperatorDrains(usize),
    /// The controller that takes operators' wishes does not hear of new generations for a time.
    DeskLags {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// The agents of a part of the routers do not reach any controller for a time; the routers go on.
    RoutersCutOff {
        /// Part of the routers, in percent.
        percent: u64,
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// All routers' hosts lose their power for a moment: what is on their disks is all that they have.
    RoutersLosePower,
    /// The register is backed up.
    RegisterIsBackedUp,
    /// The register is restored from the backup, and the controllers start again.
    RegisterIsRestored,
    /// The clock of a controller goes ahead by so many milliseconds: its host was stopped for that long, as it believes.
    ClockJumps {
        /// Which controller.
        controller: usize,
        /// How far.
        by_ms: u64,
    },
}
