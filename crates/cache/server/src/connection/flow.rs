//! Continuation of a connection after a step of a long operation.

use net::CloseReason;

/// How a connection continues.
pub(crate) enum Flow {
    /// At once; with the next request if the step was the last one.
    Go,
    /// When more input has arrived.
    Wait,
    /// After the turns of other connections.
    Yield,
    /// At the next tick, or when more input has arrived.
    Later,
    /// When it is woken; until then nothing more is read.
    Sleep,
    /// It is closed once its output is sent.
    Close(CloseReason),
    /// With the next request, after this many bytes of a refused one.
    Swallow(usize),
}
