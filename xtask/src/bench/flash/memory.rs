//! The row `memory`: resident memory for each item on flash.

use anyhow::Result;

use super::arguments::Arguments;
use super::server::{Setup, start_all};

/// Of items: short values show what an item costs beside its value.
const SIZES: [(&str, u64); 2] = [("1000", 2_000_000), ("4000", 1_000_000)];

/// Prints the table.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    println!("resident memory for each item on flash, beside the items in memory; -m 512, one run");
    for (value_len, items) in SIZES {
        let flash_megabytes = (items * (value_len.parse::<u64>()? + 200) * 5 / 4) >> 20;
        let setup = Setup { megabytes: 512, flash_megabytes, page_megabytes: 64, group_percent: None };
        let share = (items / 5).to_string();
        for server in start_all(arguments, |_| setup)? {
            let keys = items.to_string();
            // The first fifth fills memory; from then on each further item is one more on flash.
            let mut points = Vec::new();
            for keys in [&share, &keys] {
                let words = ["--keys", keys, "--value-size", value_len, "--prefill", "--requests", "1000"];
                server.load(&words)?;
                let statistics = server.statistics()?;
                let of = |name: &str| statistics.get(name).copied().unwrap_or_default();
                let on_flash = of("extstore_objects_used");
                points.push((on_flash, server.resident_bytes()? as f64, of("bytes"), of("curr_items")));
            }
            let (first, last) = (points[0], points[1]);
            println!(
                "{:<10} values of {value_len}: {:.0} items on flash, resident {:.1} → {:.1} MiB",
                server.name,
                last.0,
                first.1 / 1048576.0,
                last.1 / 1048576.0
            );
            println!("           {:.1} bytes of -m for each item on flash", 512.0 * 1048576.0 / last.0);
        }
    }
    Ok(())
}
