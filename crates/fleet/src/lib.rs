//! Every decision of the control plane: which member has which slot, what routers read, who is dead, what goes out when.
//!
//! Nothing in here does I/O, reads a clock or draws a random number: time and seeds are arguments, and
//! every output is deterministic.

pub mod health;
mod names;

pub use names::{
    ClusterName, GenerationNumber, HostId, MemberId, NameError, RouterId, SlotId, ViewName, ZoneName,
};
