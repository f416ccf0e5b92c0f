//! The rows `hit` and `cached`: gets of items on flash, per CPU-second of the server.

use anyhow::Result;
use stdx::prng::Prng;
use stdx::statistics::{median, median_interval};

use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{FlashServer, Setup, start_all};
use crate::bench::flash::windows::{Verdicts, mark, reasons};
use crate::bench::shuffled;

/// The page cache that the peer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerCache {
    /// As much as the group of either server has beside `-m`.
    Limited,
    /// All that there is.
    All,
}

/// Requests of a measurement.
const SHAPES: [(&str, [&str; 4]); 3] = [
    ("one at a time", ["--depth", "1", "--connections", "64"]),
    ("16 in a pipeline", ["--depth", "16", "--connections", "64"]),
    ("16 keys at a time", ["--multiget", "16", "--connections", "64"]),
];

/// With fewer misses than this share, a server counts as filled.
const MISSES_MAX: f64 = 0.02;
/// Runs that store what is missing.
const FILLS_MAX: usize = 10;

/// Prints the table.
pub(crate) fn run(arguments: &Arguments, cache: PeerCache) -> Result<()> {
    let servers = start_all(arguments, |name| {
        setup(arguments, (cache == PeerCache::Limited || name == "evenkeel").then_some(125))
    })?;
    let keys = arguments.items.to_string();
    for server in &servers {
        fill(server, &keys)?;
    }
    let (mut prng, mut verdicts) = (Prng::new(arguments.turns.seed), Verdicts::default());
    let mut figures = vec![vec![Vec::new(); servers.len()]; SHAPES.len()];
    for round in 1..=arguments.turns.rounds {
        for (row, (shape, words)) in SHAPES.iter().enumerate() {
            for place in shuffled(servers.len(), &mut prng) {
                let server = &servers[place];
                let before = server.statistics()?;
                let summary = measure(arguments, server, &keys, words)?;
                let after = server.statistics()?;
                let from_flash =
                    after.get("get_extstore").unwrap_or(&0.0) - before.get("get_extstore").unwrap_or(&0.0);
                let asked = figure(&summary, "/keys_asked")?;
                let reasons = reasons(&summary);
                verdicts.add(&reasons);
                let figures_of = &mut figures[row][place];
                figures_of.push(figure(&summary, "/server/keys_per_cpu_second")?);
                eprintln!(
                    "round {round} {shape:<18} {:<10} {:>8.0} gets/CPU-s  {:>8.0} gets/s  hits {:.1} %  from flash {:.1} %  \
                     p50 {:.0} µs  p99 {:.0} µs{}",
                    server.name,
                    figures_of.last().copied().unwrap_or_default(),
                    figure(&summary, "/keys_per_second")?,
                    figure(&summary, "/hits")? / asked * 100.0,
                    // With some warm-up before the window.
                    from_flash / asked * 100.0,
                    figure(&summary, "/latency/p50_us")?,
                    figure(&summary, "/latency/p99_us")?,
                    mark(&reasons)
                );
            }
        }
    }
    println!(
        "gets of items on flash per CPU-second; the peer's page cache: {}; median of {} rounds",
        if cache == PeerCache::All { "all of its file" } else { "limited" },
        arguments.turns.rounds
    );
    for (row, (shape, _)) in SHAPES.iter().enumerate() {
        let of = |place: usize| median(&figures[row][place]);
        print!("{shape:<18} evenkeel {:>8.0} ({:.1} µs)", of(0), 1e6 / of(0));
        if servers.len() > 1 {
            let ratios = figures[row][0].iter().zip(&figures[row][1]).map(|(ours, peer)| ours / peer);
            let ratios: Vec<f64> = ratios.collect();
            let (low, high) = median_interval(&ratios, arguments.turns.seed);
            print!(
                "   memcached {:>8.0} ({:.1} µs)   ratio {:.2} (95 %: {low:.2}–{high:.2})",
                of(1),
                1e6 / of(1),
                median(&ratios)
            );
        }
        println!();
    }
    verdicts.remark().into_iter().for_each(|line| println!("{line} (figures per CPU-second mostly hold)"));
    Ok(())
}

/// A server of which nearly all items are on flash, with a limit on memory and page cache in percent of `-m`.
pub(crate) fn setup(arguments: &Arguments, group_percent: Option<u64>) -> Setup {
    let flash_megabytes = (arguments.items * 4096 * 3 / 2) >> 20;
    Setup { megabytes: arguments.megabytes, flash_megabytes, page_megabytes: 16, group_percent }
}

/// Stores all items, and again those that are not there.
pub(crate) fn fill(server: &FlashServer, keys: &str) -> Result<()> {
    server.load(&["--keys", keys, "--value-size", "4000", "--prefill", "--requests", "1000"])?;
    let mut missing = 1.0;
    for _ in 0..FILLS_MAX {
        let words = ["--keys", keys, "--value-size", "4000", "--backfill", "--requests", keys];
        let summary = server.load(&words)?;
        missing = figure(&summary, "/misses")? / figure(&summary, "/keys_asked")?;
        eprintln!("{}: {:.1} % missing", server.name, missing * 100.0);
        if missing <= MISSES_MAX {
            return Ok(());
        }
    }
    println!("{}: {:.1} % of the items are missing after {FILLS_MAX} fills", server.name, missing * 100.0);
    Ok(())
}

fn measure(
    arguments: &Arguments,
    server: &FlashServer,
    keys: &str,
    words: &[&str],
) -> Result<serde_json::Value> {
    let window = format!("{}ms", arguments.window_ms);
    let common = ["--keys", keys, "--value-size", "4000", "--warm-up", "300ms", "--duration", &window];
    server.load(&[&common[..], words].concat())
}
