//! Remaining work of a request after its execution.

use net::CloseReason;
use protocol::binary::{ReplyStatus, ReplyTo};

use crate::commands::join::Joining;
use crate::commands::retrieve::RestOfKeys;
use crate::reports::Report;

/// The remaining work of a request.
pub(crate) enum Remaining {
    /// None: the connection is closed once its output is sent.
    Close(CloseReason),
    /// It was refused; this many bytes of it are to be dropped.
    Refused(usize),
    /// It was refused: this many bytes of it are to be dropped; then the error is sent, and the connection closed.
    Leave { to: ReplyTo, status: ReplyStatus, rest: usize },
    /// The unserved keys of its line: its last `unread` bytes before the line end.
    Keys { rest: Box<RestOfKeys>, unread: usize },
    /// A large value has to be joined first.
    Join(Box<Joining>),
    /// A report has to be produced.
    Report(Box<Report>),
    /// Log lines are sent from now on.
    Watch,
}
