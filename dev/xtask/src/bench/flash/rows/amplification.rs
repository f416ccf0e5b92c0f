//! The row `amplification`: bytes written to the device for each byte that left memory.

use anyhow::Result;

use super::hit;
use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{Setup, start_all};

/// 95 % of the flash, at 4096 bytes each.
const ITEMS: &str = "232000";
const SETUP: Setup = Setup { megabytes: 128, flash_megabytes: 960, page_megabytes: 16, group_percent: None };

/// Prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("bytes written to flash that is 95 % full, with 30 % overwrites, one run");
    for server in start_all(arguments, |_| SETUP)? {
        hit::fill(&server, ITEMS)?;
        let (before, kernel_before) = (server.statistics()?, server.device_written_bytes()?);
        let words = ["--keys", ITEMS, "--value-size", "4000", "--gets", "0.7", "--backfill"];
        let summary = server.load(&[&words[..], &["--requests", "1000000"]].concat())?;
        let (after, kernel_after) = (server.statistics()?, server.device_written_bytes()?);
        let grown = |name: &str| {
            after.get(name).copied().unwrap_or_default() - before.get(name).copied().unwrap_or_default()
        };
        let written = grown("extstore_bytes_written");
        let rescued = grown("extstore_compact_bytes_rescued").max(grown("extstore_compact_rescues") * 4096.0);
        let from_memory = (written - rescued).max(1.0);
        let by_kernel = kernel_after - kernel_before;
        println!(
            "{:<10} {:.0} MiB written, of which {:.0} MiB again: {:.3} for each byte from memory; by the kernel's count {:.0} MiB: \
             {:.3}; {:.1} % misses",
            server.name,
            written / 1048576.0,
            rescued / 1048576.0,
            written / from_memory,
            by_kernel / 1048576.0,
            by_kernel / from_memory,
            figure(&summary, "/misses")? / figure(&summary, "/keys_asked")? * 100.0
        );
    }
    Ok(())
}
