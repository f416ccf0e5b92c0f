//! `cargo xtask bench flash`: items on flash, beside memcached's extstore.
//!
//! Both servers have one thread for clients, the same memory limit, a file of their own on the same file system, and each a control
//! group that limits its memory, page cache included, to 1.25 times `-m`: page cache is memory, too.
//!
//! * `hit`: gets of random keys, nearly all of them on flash, one per request, in pipelines of 16, and 16 keys per request. Both servers
//!   are filled once; in each round each has its turn, in a random order. The figure is gets per CPU-second of all threads of the server.
//! * `cached`: the same, and the peer may keep all of its file in the page cache.
//! * `lost`: items stored at full speed that are not there afterwards.
//! * `memory`: resident memory per item on flash, from the empty server to the full one.
//! * `amplification`: bytes written to the device for each byte that left memory, on flash that is full, with a third of overwrites.

use anyhow::{Context, Result, ensure};

mod amplification;
mod arguments;
mod hit;
mod lost;
mod memory;
mod memory_group;
mod server;

pub(crate) use arguments::Arguments;

/// Runs it, and prints the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.turns.rounds > 0, "expected at least one round");
    println!("evenkeel: {}", super::process::build()?.display());
    type Row = fn(&Arguments) -> Result<()>;
    let rows: [(&str, Row); 5] = [
        ("hit", |arguments| hit::run(arguments, hit::PeerCache::Limited)),
        ("cached", |arguments| hit::run(arguments, hit::PeerCache::All)),
        ("lost", lost::run),
        ("memory", memory::run),
        ("amplification", amplification::run),
    ];
    for (name, row) in rows {
        if super::is_wanted(name, &arguments.only) {
            row(arguments).context(name)?;
        }
    }
    Ok(())
}
