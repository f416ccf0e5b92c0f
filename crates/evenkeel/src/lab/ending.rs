//! Exit statuses that several jobs share, and the reading of a run, which may end with one of them.

use std::path::Path;

use lab::run::results::{self, Results};

use crate::failure::Failure;

/// There is nothing to judge, keep, compare or report: the exit status for too little input.
pub(super) const UNSEEN: u8 = 20;

/// Meanings of the statuses that jobs share.
pub(super) const USAGE: (&str, &str) = ("64", "The command line is wrong.");
pub(super) const SYSTEM: (&str, &str) = ("71", "The system refused: a file cannot be read or written.");
pub(super) const SYSTEM_OR_SERVER: (&str, &str) =
    ("71", "The system refused: a file cannot be read or written, a server not reached.");

/// Reads a run's directory. One without a trial has no result yet.
pub(super) fn read(run: &Path) -> Result<Results, Failure> {
    Results::read(run).map_err(|error| match error {
        results::Error::Empty { .. } => Failure::other(error).with_status(UNSEEN),
        error => Failure::other(error),
    })
}
