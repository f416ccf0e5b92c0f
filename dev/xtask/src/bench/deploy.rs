//! `cargo xtask bench deploy`: servers that end and start again with their items, and the price of a memory file.
//!
//! * `restart`: a server with `-e` is filled and ended; the next one starts. Timed are the end, and the start until the first reply; all
//!   items have to be there.
//! * `takeover`: a server is taken over by the next one in the middle of an open loop of 20,000 requests a second; the same without is the
//!   comparison. Nothing may be lost, missed or refused.
//! * `memory`: the same server with a memory file and without, side by side as in `bench serve`.

use anyhow::{Context, Result, ensure};

mod arguments;
mod memory;
mod restart;
mod served;
mod takeover;

pub(crate) use arguments::Arguments;

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
