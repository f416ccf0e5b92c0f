//! Lines and exit statuses of a router.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use router::flags::Error;

use crate::failure::{Failure, say};
use crate::terminal::log;

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

/// The configuration is only checked: lines are for the person who has typed the command, and no log.
static IS_CHECK: AtomicBool = AtomicBool::new(false);

/// From now on lines are plain: without a time and a level.
pub(super) fn only_check() {
    IS_CHECK.store(true, Relaxed);
}

/// A line about something that the operator should look at.
pub(crate) fn notice(line: &str) {
    if IS_CHECK.load(Relaxed) {
        return say(format_args!("evenkeel: route: {line}"));
    }
    log::warning("route", line);
}

/// A line about something that the operator may want to know.
pub(super) fn inform(line: &str) {
    log::info("route", line);
}
