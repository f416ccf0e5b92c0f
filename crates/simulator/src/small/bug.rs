//! Planted bugs of the small world: errors in what surrounds the real code.

/// An error that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallBug {
    /// An agent says that it has emptied its server, and has not.
    FlushAssumed,
    /// Deletes that did not reach their server are acknowledged and put on a list that nobody replays.
    SpoolForgotten,
    /// An agent takes an order that is older than the text of its router.
    OlderTextTaken,
    /// An agent writes into the router's file, and not into another one that then takes its place.
    WrittenInPlace,
    /// An agent sorts the servers of a text by their names.
    ServersSorted,
    /// An agent acknowledges a text when it has the order, whether or not the router has loaded it.
    AckBeforeLoad,
}

impl SmallBug {
    /// All of them.
    pub const ALL: [SmallBug; 6] = [
        SmallBug::FlushAssumed,
        SmallBug::SpoolForgotten,
        SmallBug::OlderTextTaken,
        SmallBug::WrittenInPlace,
        SmallBug::ServersSorted,
        SmallBug::AckBeforeLoad,
    ];
}
