//! Probes as they are asked for, and whose figures are whose.

/// Connections that ask how slow the server is, besides the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes {
    pub(crate) connections: usize,
    /// Requests per second of all of them together.
    pub(crate) rate: f64,
}

/// Whose requests it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The load's.
    Load,
    /// Those of connections that ask how slow the server is meanwhile.
    Probes,
}
