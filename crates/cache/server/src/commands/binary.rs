//! The binary protocol: each request has the same effect, counts and log lines as its twin in text.

mod execute;
mod plan;
mod sasl;
mod stats;
mod storage;
mod topic;

pub(crate) use plan::{BinaryTail, PlannedPacket, plan};
pub(crate) use sasl::Sasl;
pub(crate) use storage::joins;
pub(crate) use topic::stats_topic;
