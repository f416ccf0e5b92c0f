//! Exit statuses that jobs have in common, and the reading of a run, which may end with one of them.

use std::path::Path;

use lab::run::results::{self, Results};

use crate::failure::Failure;

/// There is nothing to judge, keep, compare or report: what a job ends with when what it is given says too little.
pub(super) const UNSEEN: u8 = 20;

/// What jobs mean by the statuses that they have in common.
pub(super) const USAGE: (&str, &str) = ("64", "The command line is wrong.");
pub(super) const SYSTEM: (&str, &str) = ("71", "The system refused: a file cannot be read or written.");
pub(super) const SYSTEM_OR_SERVER: (&str, &str) =
    ("71", "The system refused: a file cannot be read or written, a server not reached.");

/// Reads a run's directory. One without a trial says nothing yet.
pub(super) fn read(run: &Path) -> Result<Results, Failure> {
    Results::read(run).map_err(|error| match error {
        results::Error::Empty { .. } => Failure::other(error).with_status(UNSEEN),
        error => Failure::other(error),
    })
}
