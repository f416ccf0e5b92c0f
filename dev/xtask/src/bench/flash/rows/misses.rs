//! The row `misses`: misses of published workloads, at the same memory and the same flash.
//!
//! Every item is stored once before, so that the servers are full and no get misses because its item is new. Then clients store what they
//! miss, as applications do. All items together are twice as large as memory and flash, where that makes no more than [`KEYS_MAX`]. Each
//! server's group has half as much memory again as `-m`, with the page cache. Few requests are in flight: between a miss and its refill others
//! of the same key miss, too, and the more the longer a server's batches are.

use anyhow::{Context, Result, bail, ensure};
use stdx::statistics::median;

use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{FlashServer, Setup, start_all, start_ours};

const MEGABYTES: u64 = 64;
const FLASH_MEGABYTES: u64 = 1024;
/// More would take the load generator minutes to store.
const KEYS_MAX: u64 = 6_000_000;
/// Of keys and values, and of what a server needs for each item beside them.
const BYTES: u64 = 2 * ((MEGABYTES + FLASH_MEGABYTES) << 20);
const ITEM_BYTES: u64 = 50;

/// A workload of `load`.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    /// Of a key and a value.
    bytes: u64,
    requests: &'static str,
}

const fn workload(name: &'static str, bytes: u64, requests: &'static str) -> Workload {
    Workload { name, bytes, requests }
}

/// Those that ask for items.
const WORKLOADS: [Workload; 13] = [
    workload("etc", 330, "1000000"),
    workload("twitter:c9", 71, "1000000"),
    workload("twitter:c12", 1074, "1000000"),
    workload("twitter:c14", 510, "1000000"),
    workload("twitter:c18", 55, "1000000"),
    workload("twitter:c22", 58, "1000000"),
    workload("twitter:c25", 77, "1000000"),
    workload("twitter:c27", 74, "1000000"),
    workload("twitter:c29", 835, "1000000"),
    workload("twitter:c37", 20_206, "300000"),
    workload("twitter:c44", 47, "1000000"),
    workload("twitter:c50", 67_503, "100000"),
    workload("twitter:c52", 293, "1000000"),
];

const SETUP: Setup = Setup {
    megabytes: MEGABYTES,
    flash_megabytes: FLASH_MEGABYTES,
    page_megabytes: 8,
    group_percent: Some(150),
};
/// The least item on flash: memcached's default, and for ours what suits all workloads. It would not help the peer, whose header of a
/// small item is as large as the item.
const ITEM_SIZE: &str = "512";
const SMALL_ITEM_SIZE: &str = "64";

/// The shares of a workload: the peer's, if there is one, and ours by the least item on flash.
struct Shares {
    peer: Option<f64>,
    ours: [f64; 2],
}

/// Prints the table. A workload that cannot be measured is named with the cause, and the others have their rows.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("share of gets that missed, -m {MEGABYTES}, {FLASH_MEGABYTES} MB of flash; one run");
    println!("{:<12} {:>10} {:>17} {:>17}   ratios", "ext_item_size", "peer", ITEM_SIZE, SMALL_ITEM_SIZE);
    let mut ratios: [Vec<f64>; 2] = Default::default();
    let mut failed = Vec::new();
    for workload in wanted(arguments)? {
        match shares(arguments, workload) {
            Ok(shares) => {
                let of_workload = shares.ratios();
                ratios.iter_mut().zip(of_workload).for_each(|(ratios, ratio)| ratios.extend(ratio));
                print_row(workload, &shares);
            }
            Err(error) => {
                println!("{:<12} not measured: {error:#}", workload.name);
                failed.push(workload.name);
            }
        }
    }
    for (item_size, ratios) in [ITEM_SIZE, SMALL_ITEM_SIZE].into_iter().zip(&ratios) {
        if !ratios.is_empty() {
            println!("median of the ratios with ext_item_size={item_size}: {:.2}", median(ratios));
        }
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// The workloads that the command line names, or all.
fn wanted(arguments: &Arguments) -> Result<Vec<Workload>> {
    let names = &arguments.workloads;
    if let Some(name) = names.iter().find(|name| WORKLOADS.iter().all(|workload| workload.name != **name)) {
        let known = WORKLOADS.map(|workload| workload.name).join(", ");
        bail!("expected workloads among {known}; found {name}");
    }
    let is_wanted = |workload: &Workload| names.is_empty() || names.iter().any(|name| name == workload.name);
    Ok(WORKLOADS.into_iter().filter(is_wanted).collect())
}

fn shares(arguments: &Arguments, workload: Workload) -> Result<Shares> {
    let servers = start_all(arguments, |_| SETUP)?;
    let with_peer = servers.iter().map(|server| misses(server, workload)).collect::<Result<Vec<f64>>>()?;
    drop(servers);
    let small = format!("ext_item_size={SMALL_ITEM_SIZE}");
    let small = misses(&start_ours(arguments, SETUP, &["-o", &small])?, workload)?;
    Ok(Shares { peer: with_peer.get(1).copied(), ours: [with_peer[0], small] })
}

impl Shares {
    /// Ours to the peer's.
    fn ratios(&self) -> [Option<f64>; 2] {
        self.ours.map(|ours| self.peer.map(|peer| ours / peer.max(f64::MIN_POSITIVE)))
    }
}

fn print_row(workload: Workload, shares: &Shares) {
    let peer = shares.peer.map_or("-".to_owned(), |share| format!("{share:.4}"));
    print!("{:<12} {peer:>11} {:>17.4} {:>17.4}  ", workload.name, shares.ours[0], shares.ours[1]);
    shares.ratios().iter().flatten().for_each(|ratio| print!(" {ratio:.2}"));
    println!();
}

/// The share of the gets that miss, after all items have been stored, and as many requests as are counted.
fn misses(server: &FlashServer, workload: Workload) -> Result<f64> {
    let Workload { name, bytes, requests } = workload;
    let keys = (BYTES / (bytes + ITEM_BYTES)).min(KEYS_MAX).to_string();
    let words = ["--workload", name, "--keys", &keys, "--connections", "4"];
    let words = [&words[..], &["--backfill", "--requests", requests]].concat();
    let load = |more: &[&str]| {
        server.load_workload(&[&words, more].concat()).with_context(|| format!("{name} on {}", server.name))
    };
    // memcached refuses some sets while a client is faster than its flash. The misses of these are its own.
    if let Err(error) = load(&["--seed", "1", "--prefill"]) {
        let cause = format!("{error:#}");
        ensure!(cause.contains(" refused, for example "), "{cause}");
        println!("{cause}; measured with the others");
        load(&["--seed", "1"])?;
    }
    let summary = load(&["--seed", "2"])?;
    Ok(figure(&summary, "/misses")? / figure(&summary, "/keys_asked")?)
}
