//! Measurement: counts and latencies of workers, their steadiness, and a verdict on whether they can be believed.
//!
//! No connection and no plan here: figures in, figures out.

pub(crate) mod backlog;
pub(crate) mod failures;
pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod packed;
pub(crate) mod seconds;
pub(crate) mod tally;
pub(crate) mod verdict;
