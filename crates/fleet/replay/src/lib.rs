//! The replay of an async log: deletes that a router could not send, brought to the servers that have missed them.
//!
//! ```text
//!  replayer.rs   passes over all files, oldest first ──► pass.rs   each line of one: sent, kept or refused
//!  folder.rs     the files of a log                      taken.rs  one file, and its companions, at every moment
//!  fleet.rs      servers: which answer, what waits  ───► courier.rs  a thread for each: a batch out, replies back
//!  dry.rs        what would be sent
//! ```
//!
//! A router writes the files. One process at a time has one, by its lock; what is done is zeros in it, what could not be sent stays.
//! So a replay may be killed at any point: a delete may be sent twice, but none is lost.
//!
//! Nothing is printed here: lines for the operator go to a function of the options, and steps to whoever shows them.

mod courier;
mod dry;
mod fleet;
mod folder;
mod lines;
mod options;
mod pace;
mod pass;
mod replayer;
mod taken;
mod tally;

pub use dry::dry_run;
pub use fleet::ServerTally;
pub use folder::REFUSED;
pub use options::{ReplayOptions, ReplayStep};
pub use replayer::replay;
pub use tally::ReplayTally;

use std::io;
use std::path::PathBuf;

/// Why a replay ends at once.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder of the log cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has no thread.
    #[error("start a thread for a server")]
    Thread(#[source] io::Error),
}
