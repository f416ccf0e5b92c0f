//! Faults of a fleet, as a script names them.

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
    /// These hosts start again, with empty servers.
    HostsReturn(Vec<usize>),
    /// All hosts, routers and the controller of a zone are away.
    ZoneDies(usize),
    /// They are back; the servers are empty.
    ZoneReturns(usize),
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
}
