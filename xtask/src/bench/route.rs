//! `cargo xtask bench route`: ours, its peers and a proxy that does nothing, between one load and four servers.
//!
//! All proxies run at the same time, each with one worker on one core, before the same four servers; the servers and the
//! load have the other core. In every round each row visits each proxy, in a new random order. The figure is keys per
//! CPU-second of the proxy's process.

mod proxy;
mod rows;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use stdx::prng::Prng;
use stdx::statistics::median;

use super::report::interval;
use super::{Turns, is_wanted, shuffled};
use proxy::{BackEnds, Proxy, ProxyKind};
use rows::{ROUTE_ROWS, RouteRow};

/// Compare proxies by keys per CPU-second of the proxy
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Proxy to compare with: nutcracker, memcached with its proxy built in, or another evenkeel, known by the file name
    #[arg(long, value_name = "PATH")]
    peer: Vec<PathBuf>,
    #[command(flatten)]
    turns: Turns,
    /// Only rows whose name contains one of these
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Length of each measurement
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    window_ms: u64,
}

/// Runs the comparison and prints its table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let rows: Vec<&RouteRow> = ROUTE_ROWS.iter().filter(|row| is_wanted(row.name, &arguments.only)).collect();
    if rows.is_empty() {
        bail!("no row matches; there are: {}", ROUTE_ROWS.each_ref().map(|row| row.name).join(", "));
    }
    println!("evenkeel: {}", super::process::build()?.display());
    super::process::build_null_proxy()?;
    let back_ends = BackEnds::start(arguments.turns.load_cpu)?;
    let mut kinds = vec![ProxyKind::Evenkeel, ProxyKind::Null];
    for path in &arguments.peer {
        kinds.push(ProxyKind::of_peer(path)?);
    }
    let start = |kind: ProxyKind| Proxy::start(kind, &back_ends, arguments.turns.server_cpu);
    let proxies = kinds.into_iter().map(start).collect::<Result<Vec<Proxy>>>()?;
    proxies[0].prefill(arguments.turns.load_cpu)?;
    let mut figures: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); proxies.len()]; rows.len()];
    let mut prng = Prng::new(arguments.turns.seed);
    for round in 1..=arguments.turns.rounds {
        for (row, figures) in rows.iter().zip(&mut figures) {
            for index in shuffled(proxies.len(), &mut prng) {
                let proxy = &proxies[index];
                if !proxy.kind.serves(row) {
                    continue;
                }
                let figure = proxy.keys_per_cpu_second(row, arguments.turns.load_cpu, arguments.window_ms);
                let figure = figure.with_context(|| format!("{} through {}", row.name, proxy.name()))?;
                eprintln!("round {round} {:<14} {:<12} {figure:>10.0} /CPU-s", row.name, proxy.name());
                figures[index].push(figure);
            }
        }
    }
    println!("{}", table(&rows, &proxies, &figures));
    Ok(())
}

/// Medians, and ours divided by the others of the same round, with its interval of 95 %.
fn table(rows: &[&RouteRow], proxies: &[Proxy], figures: &[Vec<Vec<f64>>]) -> String {
    let mut text = String::from("| work |");
    for proxy in proxies {
        text += &format!(" {} |", proxy.name());
    }
    for proxy in &proxies[1..] {
        text += &format!(" ÷ {} (95 %) |", proxy.name());
    }
    text += "\n|---|";
    text += &"---|".repeat(2 * proxies.len() - 1);
    for (row, figures) in rows.iter().zip(figures) {
        text += &format!("\n| {} |", row.name);
        for of_proxy in figures {
            text += &if of_proxy.is_empty() {
                " – |".to_owned()
            } else {
                format!(" {:.0} k |", median(of_proxy) / 1e3)
            };
        }
        for others in &figures[1..] {
            let ratios: Vec<f64> = figures[0].iter().zip(others).map(|(ours, other)| ours / other).collect();
            text += &if ratios.is_empty() {
                " – |".to_owned()
            } else {
                let (low, high) = interval(&ratios);
                format!(" {:.2} ({low:.2}–{high:.2}) |", median(&ratios))
            };
        }
    }
    text
}
