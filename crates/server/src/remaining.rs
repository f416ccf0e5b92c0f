//! Remaining steps of a request that has been executed.

use net::CloseReason;

use crate::join::Joining;
use crate::reports::Report;
use crate::retrieve::RestOfKeys;

/// What a request leaves to do.
pub(crate) enum Remaining {
    /// It was the last one: the connection is closed once its output is sent.
    Close(CloseReason),
    /// It was refused; so many bytes belong to it still.
    Refused(usize),
    /// Keys that are left of its line: the last `unread` bytes, and the line end.
    Keys { rest: Box<RestOfKeys>, unread: usize },
    /// A large value has to be joined first.
    Join(Box<Joining>),
    /// A report has to be made.
    Report(Box<Report>),
    /// Log lines are sent from now on.
    Watch,
}
