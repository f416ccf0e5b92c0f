//! Options of a replay, and where its lines and steps go.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use stdx::log_level::LogLevel;

/// Receives lines for the operator.
pub(crate) type ReplayNotice = fn(LogLevel, &str);

/// What is replayed, and how.
pub struct ReplayOptions {
    /// The folder of the log.
    pub async_dir: PathBuf,
    /// The address of a router for deletes whose record names a pool; without it they go to the server that it names, too.
    pub router: Option<String>,
    /// Goes on with what comes.
    pub follow: bool,
    /// Deletes in a second, to all servers together.
    pub rate: Option<u32>,
    /// Deletes of each server on their way at a time.
    pub window: usize,
    /// Time to connect to a server, and for its replies to what is on its way.
    pub timeout: Duration,
    /// Without `follow`, the end comes when nothing could be sent for so long.
    pub give_up_after: Duration,
    /// Settings of encrypted connections.
    pub tls: Option<Arc<ClientConfig>>,
    /// Lines for the operator.
    pub notice: ReplayNotice,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// The log has so many bytes.
    Listed {
        /// All files together.
        len: u64,
    },
    /// A file is being read.
    Reading {
        /// So many bytes of it are.
        offset: u64,
        /// Deletes of it that were sent.
        sent: u64,
    },
    /// The pass over a file has ended.
    Read {
        /// Its bytes.
        len: u64,
        /// Deletes of it that were sent.
        sent: u64,
    },
}
