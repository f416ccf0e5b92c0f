//! Pacing: when requests are sent, on which connection, and when connections come and go.
//!
//! `feed` combines `schedule`, which does not depend on the server, with the connections that have room.

pub(crate) mod churn;
pub(crate) mod feed;
pub(crate) mod schedule;
pub(crate) mod waking;
