//! Lines of a server for the operator: refusals, and what is noticed.

use std::io::ErrorKind;

use server::flags;

use crate::failure::Failure;
use crate::terminal::log;

/// A command line that was refused, with its hint.
pub(crate) fn refused(error: flags::Error) -> Failure {
    let hint = error.hint();
    Failure::usage(error, hint)
}

/// Something that an operator should look at.
pub(super) fn notice(line: &str) {
    log::warning("serve", line);
}

/// With a hint if the system has no threads or memory left.
pub(super) fn hint_at_limits(failure: Failure) -> Failure {
    let exhausted =
        failure.io_kind().is_some_and(|kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::OutOfMemory));
    match exhausted {
        true => failure.hint("raise `ulimit -u` and `ulimit -v`, or ask for fewer threads with -t"),
        false => failure,
    }
}
