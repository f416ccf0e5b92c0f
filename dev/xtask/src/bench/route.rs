//! `cargo xtask bench route`: ours, its peers and a proxy that does nothing, between one load and four servers.
//!
//! All proxies run at the same time, each with one worker on one core, before the same four servers; the servers and the
//! load have the other core. In every round each row visits each proxy, in a new random order. The figure is keys per
//! CPU-second of the proxy's process, or what the row says. Ours also runs with routes that do more than to choose a
//! server; these are compared with ours that does not.

mod measure;
mod proxy;
mod rows;

use std::mem::discriminant;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::process::raise_open_files;
use stdx::prng::Prng;
use stdx::statistics::median;

use super::report::interval;
use super::{Turns, is_wanted, shuffled};
use measure::{FILES, Measurement, number};
use proxy::{BackEnds, Proxy, ProxyKind};
use rows::{ConfiguredRoute, ROUTE_ROWS, RouteFigure, RouteRow};

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
    raise_open_files(FILES)?;
    let back_ends = BackEnds::start(arguments.turns.load_cpu)?;
    let mut kinds = vec![ProxyKind::Evenkeel(ConfiguredRoute::Pool), ProxyKind::Null];
    for path in &arguments.peer {
        let kind = ProxyKind::of_peer(path)?;
        let is_like = |other: &ProxyKind| discriminant(other) == discriminant(&kind);
        ensure!(
            !kinds.iter().any(is_like),
            "expected one peer of each kind, found a second: {}",
            path.display()
        );
        kinds.push(kind);
    }
    if rows.iter().any(|row| row.with_routes) {
        kinds.extend(ConfiguredRoute::ALL[1..].iter().map(|route| ProxyKind::Evenkeel(*route)));
    }
    let start = |kind: ProxyKind| Proxy::start(kind, &back_ends, arguments.turns.server_cpu);
    let proxies = kinds.into_iter().map(start).collect::<Result<Vec<Proxy>>>()?;
    proxies[0].prefill(arguments.turns.load_cpu)?;
    let measurement = Measurement {
        load_cpu: arguments.turns.load_cpu,
        window_ms: arguments.window_ms,
        half_load: half_load(&rows, &proxies, arguments.turns.load_cpu)?,
    };
    let mut figures: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); proxies.len()]; rows.len()];
    let mut prng = Prng::new(arguments.turns.seed);
    for round in 1..=arguments.turns.rounds {
        for (row, figures) in rows.iter().zip(&mut figures) {
            for index in shuffled(proxies.len(), &mut prng) {
                let proxy = &proxies[index];
                // Memory that idle clients have left is used again by the next ones.
                let is_again = row.figure == RouteFigure::IdleBytes && round > 1;
                if !proxy.kind.serves(row) || is_again {
                    continue;
                }
                let figure = measurement.of(proxy, row);
                let figure = figure.with_context(|| format!("{} through {}", row.name, proxy.name()))?;
                eprintln!("round {round} {:<14} {:<14} {}", row.name, proxy.name(), row.figure.shown(figure));
                figures[index].push(figure);
            }
        }
    }
    println!("{}", table(&rows, &proxies, &figures));
    Ok(())
}

/// Half of the requests per second with which the slowest proxy would use its whole CPU; 0 if no row needs it.
fn half_load(rows: &[&RouteRow], proxies: &[Proxy], cpu: usize) -> Result<f64> {
    let mut least = f64::INFINITY;
    if rows.iter().all(|row| row.figure != RouteFigure::ProbesP99Us) {
        return Ok(0.0);
    }
    for proxy in proxies {
        let words = ["--connections", "50", "--warm-up", "200ms", "--duration", "500ms"];
        least = least.min(number(&proxy.load_through(cpu, &words)?, "/server/keys_per_cpu_second")?);
    }
    eprintln!("half load: {:.0} requests/s", least / 2.0);
    Ok(least / 2.0)
}

/// Medians, and ours divided by the others of the same round, with its interval of 95 %. For our other routes it is the
/// other way round: their figure divided by that of the plain one.
fn table(rows: &[&RouteRow], proxies: &[Proxy], figures: &[Vec<Vec<f64>>]) -> String {
    let is_route = |proxy: &Proxy| matches!(proxy.kind, ProxyKind::Evenkeel(_));
    let mut text = String::from("| work |");
    for proxy in proxies {
        text += &format!(" {} |", proxy.name());
    }
    for proxy in &proxies[1..] {
        text += &match is_route(proxy) {
            true => format!(" {} ÷ evenkeel (95 %) |", proxy.name()),
            false => format!(" ÷ {} (95 %) |", proxy.name()),
        };
    }
    text += "\n|---|";
    text += &"---|".repeat(2 * proxies.len() - 1);
    for (row, figures) in rows.iter().zip(figures) {
        text += &format!("\n| {} |", row.name);
        for of_proxy in figures {
            text += &match of_proxy.is_empty() {
                true => " – |".to_owned(),
                false => format!(" {} |", row.figure.shown(median(of_proxy))),
            };
        }
        for (proxy, others) in proxies.iter().zip(figures).skip(1) {
            let ratio = |(ours, other): (&f64, &f64)| match is_route(proxy) {
                true => other / ours,
                false => ours / other,
            };
            let ratios: Vec<f64> = figures[0].iter().zip(others).map(ratio).collect();
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
