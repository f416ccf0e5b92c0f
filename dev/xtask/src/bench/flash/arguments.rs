//! The command line of `bench flash`.

use std::path::PathBuf;

use super::super::Turns;

/// Items on flash: CPU, latency, memory, losses, writes and restarts, beside memcached's extstore
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) turns: Turns,
    /// A memcached with extstore to compare with [default: none]
    #[arg(long, value_name = "PATH")]
    pub(super) peer: Option<PathBuf>,
    /// Only these: hit, cached, latency, mix, hang, restart, lost, memory, amplification, misses
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Only these workloads, for the row misses: etc, twitter:c9 and so on
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(super) workloads: Vec<String>,
    /// Folder for the files of the servers, on the disk to be measured; what is made there is removed
    #[arg(long, default_value = "target", value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    /// Items of 4000 bytes, for the rows hit, cached, latency, mix and hang
    #[arg(long, default_value_t = 340_000, value_name = "N")]
    pub(super) items: u64,
    /// Memory limit of the servers in megabytes, for the same rows
    #[arg(long, default_value_t = 128, value_name = "MB")]
    pub(super) megabytes: u64,
    /// Items of 4000 bytes, for the row restart
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub(super) restart_items: u64,
    /// Folder on tmpfs for the memory file of the row restart; what is made there is removed
    #[arg(long, default_value = "/dev/shm", value_name = "FOLDER")]
    pub(super) memory_folder: PathBuf,
    /// Length of each measurement, except around a hang
    #[arg(long, default_value_t = 3000, value_name = "MS")]
    pub(super) window_ms: u64,
}
