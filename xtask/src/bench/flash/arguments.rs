//! The command line of `bench flash`.

use std::path::PathBuf;

use super::super::Turns;

/// Items on flash: CPU, memory, losses and writes, beside memcached's extstore
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) turns: Turns,
    /// A memcached with extstore to compare with [default: none]
    #[arg(long, value_name = "PATH")]
    pub(super) peer: Option<PathBuf>,
    /// Only these: hit, cached, lost, memory, amplification
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Folder for the files of the servers, on the disk to be measured; what is made there is removed
    #[arg(long, default_value = "target", value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    /// Items of 4000 bytes, for the rows hit and cached
    #[arg(long, default_value_t = 340_000, value_name = "N")]
    pub(super) items: u64,
    /// Memory limit of the servers in megabytes, for the rows hit and cached
    #[arg(long, default_value_t = 128, value_name = "MB")]
    pub(super) megabytes: u64,
    /// Length of each measurement
    #[arg(long, default_value_t = 3000, value_name = "MS")]
    pub(super) window_ms: u64,
}
