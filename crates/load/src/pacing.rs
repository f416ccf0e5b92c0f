//! Pacing: when requests are sent, on which connection, and when connections come and go.
//!
//! `feed` brings together `schedule`, which knows nothing of the server, and the connections that have room.

pub(crate) mod churn;
pub(crate) mod feed;
pub(crate) mod schedule;
pub(crate) mod waking;
