//! The command line of `bench deploy`.

use std::path::PathBuf;

use super::super::Turns;

/// Restarts with all items, take-overs under load, and the price of a memory file
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) turns: Turns,
    /// Only these: restart, takeover, memory
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Megabytes of items, for the row restart
    #[arg(long, default_value_t = 1024, value_name = "MB")]
    pub(super) megabytes: u64,
    /// Items, for the row takeover
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000], value_name = "N,N")]
    pub(super) items: Vec<u64>,
    /// Keys, for the row memory
    #[arg(long, default_value_t = 4_000_000, value_name = "N")]
    pub(super) keys: u64,
    /// Length of each measurement of the row memory
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    pub(super) window_ms: u64,
    /// Folder on tmpfs for memory files; what is made there is removed
    #[arg(long, default_value = "/dev/shm", value_name = "FOLDER")]
    pub(super) folder: PathBuf,
}
