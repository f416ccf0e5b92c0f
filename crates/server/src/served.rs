//! Outcome of a request, and the steps that are left for it.

use net::CloseReason;

use crate::join::Joining;
use crate::reports::Report;
use crate::retrieve::RestOfKeys;

/// How a request has been served.
pub(crate) enum Served {
    /// Wholly.
    Done,
    /// It was the last one: the connection is closed once its output is sent.
    Close(CloseReason),
    /// It was refused; so many bytes belong to it still.
    Refused(usize),
    /// But for the keys that are left of its line: the last `unread` bytes, and the line end.
    Keys { rest: Box<RestOfKeys>, unread: usize },
    /// A large value has to be joined first.
    Join(Box<Joining>),
    /// A report has to be made.
    Report(Box<Report>),
    /// Log lines are sent from now on.
    Watch,
}
