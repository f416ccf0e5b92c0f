//! Records of deletes that did not reach their server, in the formats of mcrouter's async log.
//!
//! One line for each. Replayed later, they keep a server that was away from serving what has been deleted meanwhile.
//!
//! Source: mcrouter/AsyncLog.cpp.

mod error;
mod pending;
mod queue;
mod read;
mod scan;
mod write;

pub(crate) use pending::Spooling;
#[cfg(test)]
pub(crate) use queue::WAITING_MAX;
pub use queue::{SpoolQueue, WaitingDelete};
pub use read::{SpooledDelete, read_record};
pub(crate) use write::SpoolRecord;
pub use write::{SpoolFormat, write_record};
