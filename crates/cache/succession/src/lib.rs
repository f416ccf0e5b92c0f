//! One server or router after another: what it leaves to the next one, over a socket while both run, or in a file.
//!
//! ```text
//!  takeover.rs      the next server asks for it, and the one before gives it: sockets, connections, memory, clock
//!  routers.rs       the next router asks for it, and the one before gives it: sockets, connections
//!  memory_file.rs   a server that has ended leaves its items in a file, with FILE.meta beside it
//! ```
//!
//! Those of servers give [`server`] a [`Memory`](server::Memory) with items in it. No request is served here, nothing is printed (lines
//! for the operator go to a [`Notice`](server::Notice)), and no command line is read.

mod error;
pub mod memory_file;
pub mod routers;
pub mod takeover;

pub use error::Error;
