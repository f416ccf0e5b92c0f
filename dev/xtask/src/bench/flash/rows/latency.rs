//! The row `latency`: the 99th percentile of hits in memory while flash is busy, compared with the same server at rest.

use anyhow::Result;
use stdx::prng::Prng;

use super::hit;
use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::beside::{self, Beside, GETS_PER_S, SETS_PER_S};
use crate::bench::flash::server::start_all;
use crate::bench::flash::windows::{MUST_OF_LATENCY, P99, Verdicts, compared, median_us};
use crate::bench::shuffled;

const LOADS: [(&str, Beside); 3] =
    [("nothing", Beside::Nothing), ("memory", Beside::Memory), ("flash", Beside::Flash)];

/// Prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let servers = start_all(arguments, |_| hit::setup(arguments, Some(125)))?;
    for server in &servers {
        hit::fill(server, &arguments.items.to_string())?;
        beside::fill_memory(server)?;
    }
    let (mut prng, mut verdicts) = (Prng::new(arguments.turns.seed), Verdicts::default());
    let mut figures: Vec<[Vec<P99>; LOADS.len()]> = vec![Default::default(); servers.len()];
    for round in 1..=arguments.turns.rounds {
        for turn in shuffled(servers.len() * LOADS.len(), &mut prng) {
            let (place, load) = (turn / LOADS.len(), turn % LOADS.len());
            let (server, (name, beside)) = (&servers[place], LOADS[load]);
            let probed = beside::probe(arguments, server, beside, arguments.window_ms, || Ok(()))?;
            let probed = if beside == Beside::Flash { probed.with_flash() } else { probed };
            eprintln!("round {round} {:<10} beside {name:<8} {}", server.name, probed.line());
            verdicts.add(&probed.reasons);
            figures[place][load].push(probed.p99);
        }
    }
    println!(
        "p99 of hits in memory, beside {GETS_PER_S:.0} gets/s and {SETS_PER_S:.0} sets/s of 4000 bytes; median of {} rounds",
        arguments.turns.rounds
    );
    for (server, [nothing, memory, flash]) in servers.iter().zip(&figures) {
        let [at_rest, in_memory, busy] = [nothing, memory, flash].map(|figures| median_us(figures));
        let seed = arguments.turns.seed;
        println!(
            "{:<10} at rest {at_rest:.0} µs, the same load on memory {in_memory:.0} µs, on flash {busy:.0} µs",
            server.name
        );
        println!("{:<10} flash ÷ rest   {}", "", compared(flash, nothing, Some(MUST_OF_LATENCY), seed));
        println!("{:<10} flash ÷ memory {}", "", compared(flash, memory, None, seed));
    }
    verdicts.remark().into_iter().for_each(|line| println!("{line}"));
    Ok(())
}
