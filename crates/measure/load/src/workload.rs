//! Workload: the plan of a run, its items, and the conversations about them.
//!
//! `plan` is derived from the description, with the items and commands of `asked`; `chooser` draws items, `compose`
//! and `request` make requests of them, `conversation` reads replies. A `trace` is replayed (`replay`) or recorded
//! (`recording`).

pub(crate) mod asked;
pub(crate) mod chooser;
pub(crate) mod compose;
pub(crate) mod conversation;
pub(crate) mod items;
pub(crate) mod keyspace;
pub(crate) mod plan;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod trace;
pub(crate) mod zipf;
