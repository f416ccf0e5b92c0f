//! Measurement: what workers count, of which shape it is, and whether to believe it.
//!
//! No connection and no plan here: figures in, figures out.

pub(crate) mod backlog;
pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod packed;
pub(crate) mod seconds;
pub(crate) mod tally;
pub(crate) mod verdict;
