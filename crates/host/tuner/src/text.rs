//! Text for people and programs that several steps write: line breaks, folded lines.

pub(crate) mod folded;
pub(crate) mod wrap;

/// The first line of every file that `persist` writes. `observe` leaves out such files in its search for other
/// agents.
pub(crate) const HEADER: &str =
    "# Written by `evenkeel tune persist`; `evenkeel tune persist --remove` takes it away.";
