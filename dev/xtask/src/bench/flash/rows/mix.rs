//! The row `mix`: the 99th percentile of hits on flash beside 50 MB/s of writes, compared with fio's for the same reads and writes.

use anyhow::Result;
use stdx::prng::Prng;

use super::hit;
use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::beside::SETS_PER_S;
use crate::bench::flash::fio::{Fio, READS_PER_S};
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{FlashServer, start_all};
use crate::bench::flash::windows::{MUST_OF_LATENCY, P99, Verdicts, compared, mark, median_us, reasons};
use crate::bench::shuffled;

/// Prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(fio) = Fio::new(arguments)? else {
        println!("mix: left out, because there is no fio in PATH (apt-get install fio)");
        return Ok(());
    };
    let servers = start_all(arguments, |_| hit::setup(arguments, Some(125)))?;
    for server in &servers {
        hit::fill(server, &arguments.items.to_string())?;
    }
    let (mut prng, mut verdicts) = (Prng::new(arguments.turns.seed), Verdicts::default());
    // Those of fio come last.
    let mut figures: Vec<Vec<P99>> = vec![Vec::new(); servers.len() + 1];
    for round in 1..=arguments.turns.rounds {
        for place in shuffled(servers.len() + 1, &mut prng) {
            let p99 = match servers.get(place) {
                Some(server) => measure(arguments, server, round, &mut verdicts)?,
                None => {
                    let (us, reasons) = fio.p99_us(arguments)?;
                    verdicts.add(&reasons);
                    eprintln!("round {round} fio        p99 {us:>6.0} µs{}", mark(&reasons));
                    P99 { us, is_valid: reasons.is_empty() }
                }
            };
            figures[place].push(p99);
        }
    }
    let of_fio = figures.last().map(Vec::as_slice).unwrap_or_default();
    println!(
        "p99 of {READS_PER_S} gets/s from flash beside {SETS_PER_S:.0} sets/s of 4000 bytes; median of {} rounds",
        arguments.turns.rounds
    );
    println!(
        "fio        {:.0} µs for reads of 4 KiB at the same rate, beside writes of 1 MiB",
        median_us(of_fio)
    );
    for (server, figures) in servers.iter().zip(&figures) {
        let ratio = compared(figures, of_fio, Some(MUST_OF_LATENCY), arguments.turns.seed);
        println!("{:<10} {:.0} µs, ÷ fio {ratio}", server.name, median_us(figures));
    }
    verdicts.remark().into_iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Gets of random keys, nearly all on flash, while the same keys are stored again.
fn measure(
    arguments: &Arguments,
    server: &FlashServer,
    round: usize,
    verdicts: &mut Verdicts,
) -> Result<P99> {
    let (keys, sets, gets) = (arguments.items.to_string(), SETS_PER_S.to_string(), READS_PER_S.to_string());
    let window = format!("{}ms", arguments.window_ms);
    let items = ["--keys", &keys, "--value-size", "4000"];
    let writes = ["--rate", &sets, "--gets", "0", "--connections", "16", "--depth", "16"];
    let reads = ["--rate", &gets, "--connections", "64", "--kernel-timestamps"];
    let beside = server.load_beside(&[&items[..], &writes].concat())?;
    let before = server.statistics()?;
    let summary =
        server.probe(&[&items[..], &reads, &["--warm-up", "1s", "--duration", &window]].concat())?;
    let after = server.statistics()?;
    drop(beside);
    let grown = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let reasons = reasons(&summary);
    verdicts.add(&reasons);
    let p99 = P99 { us: figure(&summary, "/latency/p99_us")?, is_valid: reasons.is_empty() };
    eprintln!(
        "round {round} {:<10} p99 {:>6.0} µs, hits {:.1} %, of gets from flash {:.1} %, sets ÷ gets {:.2}{}",
        server.name,
        p99.us,
        figure(&summary, "/hits")? / figure(&summary, "/keys_asked")? * 100.0,
        // With the warm-up.
        grown("get_extstore") / grown("cmd_get") * 100.0,
        grown("cmd_set") / grown("cmd_get"),
        mark(&reasons)
    );
    Ok(p99)
}
