//! Planted bugs of the small world: errors in what surrounds the real code.

/// An error that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallBug {
    /// An agent says that it has emptied its server, and has not.
    FlushAssumed,
    /// A client is told that a delete was carried out which did not reach its server.
    DeleteErrorHidden,
    /// An agent takes an order that is older than the text of its router.
    OlderTextTaken,
    /// An agent writes into the router's file, and not into another one that then takes its place.
    WrittenInPlace,
    /// An agent sorts the servers of a text by their names.
    ServersSorted,
    /// A router asks a server that it has lost at intervals that grow without a bound.
    ProbesGrow,
    /// An agent stays with a controller that does not reach its register.
    AgentStays,
    /// A controller publishes nothing while a rollout is halted.
    HaltHoldsHealing,
    /// A member that lives leaves its slot at once when it is replaced by hand.
    ReplacedAtOnce,
    /// An agent says that it has swept its server, and has not.
    SweepAssumed,
    /// Whoever has a member replaced by hand publishes what the policy wants as well.
    SlotsBringRoutes,
    /// A lost member's replacement has the routes that are on their way also for routers whose turn has not come.
    ReplacementBringsRoutes,
}

impl SmallBug {
    /// All of them.
    pub const ALL: [SmallBug; 12] = [
        SmallBug::FlushAssumed,
        SmallBug::DeleteErrorHidden,
        SmallBug::OlderTextTaken,
        SmallBug::WrittenInPlace,
        SmallBug::ServersSorted,
        SmallBug::ProbesGrow,
        SmallBug::AgentStays,
        SmallBug::HaltHoldsHealing,
        SmallBug::ReplacedAtOnce,
        SmallBug::SweepAssumed,
        SmallBug::SlotsBringRoutes,
        SmallBug::ReplacementBringsRoutes,
    ];
}
