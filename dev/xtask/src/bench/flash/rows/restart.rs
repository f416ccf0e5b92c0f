//! The row `restart`: a clean restart with a memory file, until the first get of an item on flash is answered, and the items still there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use stdx::statistics::median;

use super::hit;
use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::cleanup::ScratchFile;
use crate::bench::flash::generator::figure;
use crate::bench::flash::server::{FlashServer, Setup, start_ours};

const MEGABYTES: u64 = 512;
/// Gets of random keys, the same ones before and after a restart.
const SAMPLE: &str = "50000";
/// Between two attempts: as exact as the times are.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Keys that are tried until one of them is found on flash.
const CANDIDATES: u64 = 1000;
const MUST_SECONDS: f64 = 1.0;
const MUST_FOUND: f64 = 0.99;

/// Prints the table, for ours alone: memcached cannot restart with items on flash.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let items = arguments.restart_items;
    // Half as much again as the items need, so that none is dropped.
    let flash_megabytes = (items * 4096 * 3 / 2) >> 20;
    let setup = Setup { megabytes: MEGABYTES, flash_megabytes, page_megabytes: 64, group_percent: None };
    let memory = ScratchFile::new(&arguments.memory_folder, "memory")?;
    let word = memory.path().to_str().context("a folder whose name is UTF-8")?;
    let mut server = start_ours(arguments, setup, &["-e", word])?;
    let keys = items.to_string();
    hit::fill(&server, &keys)?;
    let key = key_on_flash(&server, items)?;
    let gigabytes = server.statistics()?.get("extstore_bytes_used").copied().unwrap_or_default() / 1e9;
    let mut found = sample(&server, &keys)?;
    let [mut ends_s, mut starts_s, mut shares]: [Vec<f64>; 3] = Default::default();
    for round in 1..=arguments.turns.rounds {
        let began = clock::now();
        server.end()?;
        let ended_s = began.elapsed().as_secs_f64();
        let began = clock::now();
        server.start_again()?;
        while !server.has(&key).unwrap_or(false) {
            ensure!(began.elapsed() < clock::PATIENCE, "no hit of {key} after a restart");
            clock::pass(LOOK_EVERY);
        }
        let started_s = began.elapsed().as_secs_f64();
        let of_flash = server.statistics()?.get("get_extstore").copied().unwrap_or_default();
        ensure!(of_flash >= 1.0, "{key} was not on flash after a restart");
        let before = std::mem::replace(&mut found, sample(&server, &keys)?);
        let share = found / before;
        eprintln!(
            "round {round}: end {ended_s:.3} s, first hit on flash after {started_s:.3} s, {found} of {before} found"
        );
        ends_s.push(ended_s);
        starts_s.push(started_s);
        shares.push(share);
    }
    println!("restart with {gigabytes:.1} GB on flash ({items} items stored), median (lowest to highest)");
    let low = shares.iter().copied().fold(f64::MAX, f64::min);
    println!("signal → process ended      {} s", range(&ends_s));
    println!(
        "start → first hit on flash  {} s, must be ≤ {MUST_SECONDS}: {}",
        range(&starts_s),
        met(median(&starts_s) <= MUST_SECONDS)
    );
    println!(
        "still found of {SAMPLE} keys {:.2} %, at least {:.2} %, must be ≥ {}: {}",
        median(&shares) * 100.0,
        low * 100.0,
        MUST_FOUND * 100.0,
        met(low >= MUST_FOUND)
    );
    Ok(())
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT MET" }
}

fn range(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    format!("{:.3} ({low:.3}–{high:.3})", median(values))
}

/// Keys of a sample that are found, and have the right value: a wrong one fails the run.
fn sample(server: &FlashServer, keys: &str) -> Result<f64> {
    let words = ["--keys", keys, "--value-size", "4000", "--requests", SAMPLE, "--warm-up", "0s", "--verify"];
    figure(&server.load(&words)?, "/hits")
}

/// The key of an item that is read from flash.
fn key_on_flash(server: &FlashServer, items: u64) -> Result<String> {
    let reads = || Ok::<f64, anyhow::Error>(server.statistics()?.get("get_extstore").copied().unwrap_or(0.0));
    for candidate in 0..CANDIDATES {
        let key = format!("key:{:016}", candidate * items / CANDIDATES);
        let before = reads()?;
        if server.has(&key)? && reads()? > before {
            return Ok(key);
        }
    }
    anyhow::bail!("none of {CANDIDATES} keys is on flash")
}
