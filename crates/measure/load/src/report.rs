//! Reports: the result of a run, and its progress for those who follow it.
//!
//! `summary` is the result, for people and as JSON (`json`); a `follower` gets each second: a line on a terminal, the
//! `live` view, HdrHistogram's log (`hdr_log`).

pub(crate) mod figures;
pub(crate) mod follower;
pub(crate) mod hdr_log;
pub(crate) mod interruptible;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod summary;
