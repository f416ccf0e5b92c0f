//! `cargo xtask bench flash`: items on flash, beside memcached's extstore.
//!
//! Both servers have one thread for clients, the same memory limit, a file of their own on the same file system, and each a control
//! group that limits its memory, page cache included, to 1.25 times `-m`: page cache is memory, too.
//!
//! * `hit`: gets of random keys, nearly all of them on flash, one per request, in pipelines of 16, and 16 keys per request. Both servers
//!   are filled once; in each round each has its turn, in a random order. The figure is gets per CPU-second of all threads of the server.
//! * `cached`: the same, and the peer may keep all of its file in the page cache.
//! * `latency`: the 99th percentile of hits in memory, while other gets and sets keep flash busy, and at rest.
//! * `mix`: that of hits on flash beside 50 MB/s of sets, and fio's for the same reads and writes.
//! * `hang`: that of hits in memory while the device hangs for 10 s, and before.
//! * `restart`: the time to the first hit on flash after a clean restart with a memory file, and the share of items still there.
//! * `lost`: items stored at full speed that are not there afterwards.
//! * `memory`: resident memory per item on flash, from the empty server to the full one.
//! * `amplification`: bytes written to the device for each byte that left memory, on flash that is full, with a third of overwrites.
//! * `misses`: misses of published workloads whose items are twice as large as memory and flash, in the steady state.
//!
//! What they start and make ends and is removed with the program, also if that is interrupted or killed.

use anyhow::{Context, Result, ensure};

mod arguments;
mod beside;
mod cleanup;
mod control_group;
mod fio;
mod generator;
mod rows;
mod server;
mod windows;

pub(crate) use arguments::Arguments;

/// Runs it, and prints the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.turns.rounds > 0, "expected at least one round");
    println!("evenkeel: {}", super::process::build()?.display());
    type Row = fn(&Arguments) -> Result<()>;
    let rows: [(&str, Row); 10] = [
        ("hit", |arguments| rows::hit::run(arguments, rows::hit::PeerCache::Limited)),
        ("cached", |arguments| rows::hit::run(arguments, rows::hit::PeerCache::All)),
        ("latency", rows::latency::run),
        ("mix", rows::mix::run),
        ("hang", rows::hang::run),
        ("restart", rows::restart::run),
        ("lost", rows::lost::run),
        ("memory", rows::memory::run),
        ("amplification", rows::amplification::run),
        ("misses", rows::misses::run),
    ];
    for (name, row) in rows {
        if super::is_wanted(name, &arguments.only) {
            row(arguments).context(name)?;
        }
    }
    Ok(())
}
