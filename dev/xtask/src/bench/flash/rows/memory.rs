//! The row `memory`: memory for each item on flash, which is the growth of the index.

use anyhow::Result;

use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::server::{Setup, start_all};

/// Of values, and the number of items.
const SIZES: [(&str, u64); 2] = [("1000", 2_000_000), ("4000", 1_000_000)];
const MEGABYTES: u64 = 512;

/// Prints the table, for ours alone: the peer's headers are items among others.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("memory for each item on flash; -m {MEGABYTES}, one run");
    for (value_len, items) in SIZES {
        let flash_megabytes = (items * (value_len.parse::<u64>()? + 200) * 5 / 4) >> 20;
        let setup = Setup { megabytes: MEGABYTES, flash_megabytes, page_megabytes: 64, group_percent: None };
        let servers = start_all(&Arguments { peer: None, ..arguments.clone() }, |_| setup)?;
        let server = &servers[0];
        let mut points = Vec::new();
        for step in 1..=4 {
            let keys = (items * step / 4).to_string();
            server.load(&["--keys", &keys, "--value-size", value_len, "--prefill", "--requests", "1000"])?;
            let statistics = server.statistics()?;
            let of = |name: &str| statistics.get(name).copied().unwrap_or_default();
            points.push((of("curr_items"), of("hash_bytes"), server.resident_bytes()? as f64));
        }
        let (first, last) = (points[0], points[3]);
        for (there, index, resident) in &points {
            println!(
                "values of {value_len}: {there:>8.0} items, index {:>5.1} MiB: {:.1} bytes per item; resident {:.0} MiB",
                index / 1_048_576.0,
                index / there,
                resident / 1_048_576.0
            );
        }
        println!("each further item: {:.1} bytes", (last.1 - first.1) / (last.0 - first.0));
    }
    Ok(())
}
