//! Planted bugs: errors that somebody could make in the control plane.
//!
//! Each is made in the simulator, at the seam between what is observed, what `fleet` decides, and what is carried out: a wrong
//! input, or a check that is left out. No shipped code has a switch for it.

/// An error that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A host whose lease expires loses its slot.
    LeaseExpiryReplaces,
    /// The guard has no limit for clusters and zones.
    GuardCountsFleetOnly,
    /// The guard has no limit at all.
    GuardOff,
    /// The silence of an agent is passed on as failed probes and routers' TKO.
    OneObserverSuffices,
    /// A new leader takes hosts that it has not heard as dead.
    UnknownIsDead,
    /// An operator's replacements are not compared with the backend's headroom.
    BudgetIgnored,
    /// Members in quarantine get slots.
    QuarantineIgnored,
    /// A generation becomes the target without a comparison of revisions.
    CompareLeftOut,
    /// A router's agent acknowledges a text that is not on its disk yet.
    AckBeforeDisk,
    /// A router takes a generation that is older than the one it has.
    OlderGenerationTaken,
    /// Routes that an operator gives are not checked.
    CheckOmitted,
    /// An agent's report that a text crashed its router is passed on as an acknowledgement.
    CrashTakenAsLoaded,
    /// The slots of a cluster are sorted by their members.
    SlotsSorted,
    /// A member is taken as flushed because it was asked to flush.
    FlushAssumed,
    /// A router that is silent is passed on as one that left the inventory.
    SilentRouterLeft,
    /// A drained member is not told to close and flush.
    OldMemberStaysOpen,
    /// A write to the register that had no answer is taken as done.
    TimeoutIsDone,
    /// A turn brings a router no generation; only those with an open poll get it.
    TurnsBringNoNews,
    /// An agent that was told "retry after" keeps its old timer beside the new one.
    RetryBesideTurn,
    /// The audit has what was tried, not what was done.
    AuditBeforeCommit,
    /// A failure that is over within some seconds is not passed on, neither by probes nor by routers.
    ShortFailuresHidden,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: [PlantedBug; 21] = [
        PlantedBug::LeaseExpiryReplaces,
        PlantedBug::GuardCountsFleetOnly,
        PlantedBug::GuardOff,
        PlantedBug::OneObserverSuffices,
        PlantedBug::UnknownIsDead,
        PlantedBug::BudgetIgnored,
        PlantedBug::QuarantineIgnored,
        PlantedBug::CompareLeftOut,
        PlantedBug::AckBeforeDisk,
        PlantedBug::OlderGenerationTaken,
        PlantedBug::CheckOmitted,
        PlantedBug::CrashTakenAsLoaded,
        PlantedBug::SlotsSorted,
        PlantedBug::FlushAssumed,
        PlantedBug::SilentRouterLeft,
        PlantedBug::OldMemberStaysOpen,
        PlantedBug::TimeoutIsDone,
        PlantedBug::TurnsBringNoNews,
        PlantedBug::RetryBesideTurn,
        PlantedBug::AuditBeforeCommit,
        PlantedBug::ShortFailuresHidden,
    ];
}
