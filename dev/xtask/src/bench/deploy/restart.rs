//! The row `restart`: from the end of a server to the first reply of the next one, with all items.

use anyhow::{Result, ensure};
use end_to_end::clock;
use stdx::statistics::median;

use super::arguments::Arguments;
use super::served::{MemoryFolder, Served};

const PORT: u16 = 21_300;
/// Bytes of a value: with its key and header it takes a kilobyte.
const VALUE_LEN: u64 = 985;

/// Prints the table.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folder = MemoryFolder::new(&arguments.folder)?;
    let file = folder.0.join("items");
    let cpu = arguments.turns.server_cpu;
    let limit = arguments.megabytes + arguments.megabytes / 8 + 64;
    let start = || Served::start(PORT, cpu, limit, Some(("-e", &file)));
    let mut server = start()?;
    server.first_reply()?;
    let keys = arguments.megabytes * 1024;
    let words = ["--prefill", "--requests", "1000", "--key-size", "16"].map(str::to_owned);
    let sizes = ["--keys".to_owned(), keys.to_string(), "--value-size".to_owned(), VALUE_LEN.to_string()];
    server.load(arguments.turns.load_cpu, &[&words[..], &sizes].concat())?;
    let items = server.items()?;
    let (mut ends_s, mut starts_s) = (Vec::new(), Vec::new());
    for round in 1..=arguments.turns.rounds {
        let began = clock::now();
        server.stop()?;
        ends_s.push(began.elapsed().as_secs_f64());
        let began = clock::now();
        server = start()?;
        server.first_reply()?;
        starts_s.push(began.elapsed().as_secs_f64());
        let found = server.items()?;
        ensure!(found == items, "round {round}: {found} of {items} items");
        let last = starts_s.last().copied().unwrap_or_default();
        eprintln!("round {round}: {found} items, first reply after {last:.3} s");
    }
    println!("restart with {} MB of items ({items}), median (lowest to highest), s", arguments.megabytes);
    for (name, times_s) in [("signal → process ended", &ends_s), ("start → first reply", &starts_s)] {
        let low = times_s.iter().copied().fold(f64::MAX, f64::min);
        let high = times_s.iter().copied().fold(0.0, f64::max);
        println!("{name:<24} {:.3} ({low:.3}–{high:.3})", median(times_s));
    }
    server.stop()
}
