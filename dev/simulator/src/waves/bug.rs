//! Planted bugs of changes of hosts: errors in what surrounds `fleet::waves`.

/// An error that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveBug {
    /// Hosts of all classes are planned as one kind: harm to one class is one among many.
    ClassUnseen,
    /// A host that could not apply the change is passed on as one that has it.
    FailureCounted,
    /// A host that has not heard its controller yet is passed on as one that keeps the change.
    LateCounted,
    /// A controller that starts does not read what has been decided.
    ControllerForgets,
    /// The register loses in which step a host was told, so all go back at once.
    StepsLost,
    /// A change begins without a comparison with those that are on their way.
    OverlapIgnored,
    /// Frozen scopes are not passed on.
    FrozenIgnored,
    /// A decision is written without a comparison of versions.
    CompareLeftOut,
    /// Orders follow from what is decided, before the register has it.
    ToldBeforeWritten,
    /// A host that is away is passed on as one that is as before.
    AwayIsAsBefore,
    /// Silence is not passed on: of a canary or of its pair, what it said last goes on to count.
    SilenceHidden,
    /// A change that restarts servers is planned as one that restarts nothing.
    RestartsHidden,
    /// Signals against the change are not passed on.
    SignalsHidden,
    /// A host on which the new version has lost items keeps it.
    LossUnseen,
    /// In a resize, a router that is silent is passed on as one that has loaded the routes.
    SilentRouterCounted,
    /// In a resize, a member is passed on as emptied or swept because it was asked.
    SweepAssumed,
}

impl WaveBug {
    /// All of them.
    pub const ALL: [WaveBug; 16] = [
        WaveBug::ClassUnseen,
        WaveBug::FailureCounted,
        WaveBug::LateCounted,
        WaveBug::ControllerForgets,
        WaveBug::StepsLost,
        WaveBug::OverlapIgnored,
        WaveBug::FrozenIgnored,
        WaveBug::CompareLeftOut,
        WaveBug::ToldBeforeWritten,
        WaveBug::AwayIsAsBefore,
        WaveBug::SilenceHidden,
        WaveBug::RestartsHidden,
        WaveBug::SignalsHidden,
        WaveBug::LossUnseen,
        WaveBug::SilentRouterCounted,
        WaveBug::SweepAssumed,
    ];
}
