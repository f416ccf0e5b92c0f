//! Lines and exit statuses of a router.

use router::flags::Error;

use crate::failure::Failure;
use crate::log;

/// Another start may succeed: a port is taken, a file is missing.
pub(super) const TRANSIENT: u8 = 2;
/// The same start fails again: flags or the configuration are wrong.
pub(super) const UNRECOVERABLE: u8 = 3;

/// A command line that was refused, with its hint.
pub(crate) fn refused(error: Error) -> Failure {
    let hint = error.hint();
    Failure::usage(error, hint).with_status(UNRECOVERABLE)
}

/// The system refused `what` for now.
pub(super) fn transient(what: &str, why: impl Into<anyhow::Error>) -> Failure {
    Failure::system(what, why).with_status(TRANSIENT)
}

/// A line about something that the operator should look at.
pub(super) fn notice(line: &str) {
    log::warning("route", line);
}

/// A line about something that the operator may want to know.
pub(super) fn inform(line: &str) {
    log::info("route", line);
}

/// A number and what it counts.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
