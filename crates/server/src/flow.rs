//! Continuation of a connection after a step of a long operation.

use net::CloseReason;

/// How a connection goes on.
pub(crate) enum Flow {
    /// At once: with the next request, once the step was the last one.
    Go,
    /// When more input has arrived.
    Wait,
    /// After others had their turn.
    Yield,
    /// At the next tick, or when more input has arrived.
    Later,
    /// When it is woken; until then nothing more is read.
    Sleep,
    /// Not at all: it is closed once its output is sent.
    Close(CloseReason),
    /// With the next request, behind so many bytes that belong to a refused one.
    Swallow(usize),
}
