//! `cargo xtask bench deploy`: servers that end and start again with their items, and the price of a memory file.
//!
//! * `restart`: a server with `-e` is filled and ended; the next one starts. Timed are the end, and the start until the first reply; all
//!   items have to be there.
//! * `takeover`: a server is taken over by the next one in the middle of an open loop of 20,000 requests a second; the same without is the
//!   comparison. Nothing may be lost, missed or refused.
//! * `memory`: the same server with a memory file and without, side by side as in `bench serve`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::Turns;

mod memory;
mod restart;
mod served;
mod takeover;

/// Restarts with all items, take-overs under load, and the price of a memory file
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    turns: Turns,
    /// Only these: restart, takeover, memory
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Megabytes of items, for the row restart
    #[arg(long, default_value_t = 1024, value_name = "MB")]
    megabytes: u64,
    /// Items, for the row takeover
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000], value_name = "N,N")]
    items: Vec<u64>,
    /// Keys, for the row memory
    #[arg(long, default_value_t = 4_000_000, value_name = "N")]
    keys: u64,
    /// Length of each measurement of the row memory
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    window_ms: u64,
    /// Folder on tmpfs for memory files; what is made there is removed
    #[arg(long, default_value = "/dev/shm", value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs it, and prints the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.turns.rounds > 0, "expected at least one round");
    println!("evenkeel: {}", super::process::build()?.display());
    if super::is_wanted("restart", &arguments.only) {
        restart::run(arguments).context("restart")?;
    }
    if super::is_wanted("takeover", &arguments.only) {
        takeover::run(arguments).context("takeover")?;
    }
    if super::is_wanted("memory", &arguments.only) {
        memory::run(arguments).context("memory")?;
    }
    Ok(())
}
