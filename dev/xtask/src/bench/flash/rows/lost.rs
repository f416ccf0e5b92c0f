//! The row `lost`: items stored at full speed that are not there afterwards.

use anyhow::Result;
use stdx::statistics::median;

use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{Setup, start_all};

const ITEMS: &str = "400000";
const SETUP: Setup = Setup { megabytes: 200, flash_megabytes: 3072, page_megabytes: 64, group_percent: None };

/// Prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut lost: Vec<(&str, Vec<f64>)> = Vec::new();
    for round in 1..=arguments.turns.rounds {
        for server in start_all(arguments, |_| SETUP)? {
            server.load(&["--keys", ITEMS, "--value-size", "4000", "--prefill", "--requests", "1000"])?;
            // Gets of random keys, so many that a share is known to 0.1 points.
            let words = ["--keys", ITEMS, "--value-size", "4000", "--requests", "200000", "--verify"];
            let summary = server.load(&words)?;
            let share = figure(&summary, "/misses")? / figure(&summary, "/keys_asked")? * 100.0;
            let wrong = figure(&summary, "/wrong_values")?;
            eprintln!("round {round} {:<10} {share:.2} % missing, {wrong} wrong", server.name);
            match lost.iter_mut().find(|(name, _)| *name == server.name) {
                Some((_, shares)) => shares.push(share),
                None => lost.push((server.name, vec![share])),
            }
        }
    }
    println!(
        "of {ITEMS} items of 4000 bytes stored at full speed, -m 200: missing; median of {} rounds",
        arguments.turns.rounds
    );
    lost.iter().for_each(|(name, shares)| println!("{name:<10} {:.2} %", median(shares)));
    Ok(())
}
