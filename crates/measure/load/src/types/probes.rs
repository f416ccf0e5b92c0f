//! Probes as the flags describe them, and the two kinds of figures: the load's and theirs.

/// Connections that measure latency beside the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes {
    pub(crate) connections: usize,
    /// Requests per second of all of them together.
    pub(crate) rate: f64,
}

/// The connections that figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// The load's.
    Load,
    /// Those of the connections that measure latency beside it.
    Probes,
}
