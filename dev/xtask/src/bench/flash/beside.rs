//! Probes of items in memory, and the load beside them that keeps flash busy.

use std::collections::HashMap;

use anyhow::Result;
use end_to_end::clock;

use super::arguments::Arguments;
use super::generator::figure;
use super::server::FlashServer;
use super::windows::{P99, reasons};

/// Of the load beside: sets of 4000 bytes at 50 MB/s, and gets.
pub(super) const SETS_PER_S: f64 = 12_500.0;
pub(super) const GETS_PER_S: f64 = 10_000.0;
/// A load with less than this share of its requests shows nothing.
const SHARE_MIN: f64 = 0.9;

/// Of the gets, with memory that has room for a tenth of the items.
const FLASH_SHARE_MIN: f64 = 0.5;

/// Few items, used so often that they stay in memory, and too small for flash.
const HOT: [&str; 6] = ["--keys", "1000", "--key-size", "16", "--value-size", "100"];
/// So few that they stay in memory: what the same load costs without flash.
const IN_MEMORY: [&str; 4] = ["--keys", "1000", "--key-size", "18"];
/// Of probes: so few that the generator is not the limit.
const PROBES_PER_S: &str = "2000";

/// The load beside the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// Gets and sets of items in memory.
    Memory,
    /// The same of items on flash.
    Flash,
}

/// One window of probes, and what the server did meanwhile.
pub(super) struct Probed {
    pub(super) p99: P99,
    /// What makes it INVALID.
    pub(super) reasons: Vec<String>,
    pub(super) misses: f64,
    pub(super) set_megabytes_per_s: f64,
    pub(super) flash_gets_per_s: f64,
    /// Growth of the server's statistics.
    pub(super) grown: HashMap<String, f64>,
}

impl Probed {
    /// Makes it INVALID if few of the gets beside were answered from flash: the server has left the device alone, for example.
    pub(super) fn with_flash(mut self) -> Probed {
        if self.flash_gets_per_s < GETS_PER_S * FLASH_SHARE_MIN {
            self.reasons.push("flash-at-rest".to_owned());
            self.p99.is_valid = false;
        }
        self
    }

    /// One line for standard error.
    pub(super) fn line(&self) -> String {
        format!(
            "p99 {:>6.0} µs, misses {:.0}; beside: {:>5.1} MB/s of sets, {:>6.0} gets/s from flash{}",
            self.p99.us,
            self.misses,
            self.set_megabytes_per_s,
            self.flash_gets_per_s,
            super::windows::mark(&self.reasons)
        )
    }
}

/// Stores the items that stay in memory.
pub(super) fn fill_memory(server: &FlashServer) -> Result<()> {
    let prefill = ["--prefill", "--requests", "1000"];
    server.load(&[&HOT[..], &prefill].concat())?;
    server.load(&[&IN_MEMORY[..], &["--value-size", "4000"], &prefill].concat())?;
    Ok(())
}

/// Gets of items in memory for `window_ms`, beside such a load. `meanwhile` is called when it has begun.
pub(super) fn probe(
    arguments: &Arguments,
    server: &FlashServer,
    beside: Beside,
    window_ms: u64,
    meanwhile: impl FnOnce() -> Result<()> + Send,
) -> Result<Probed> {
    let (keys, rate) = (arguments.items.to_string(), (GETS_PER_S + SETS_PER_S).to_string());
    let gets = (GETS_PER_S / (GETS_PER_S + SETS_PER_S)).to_string();
    let mut words = vec!["--rate", &rate, "--gets", &gets, "--connections", "16", "--depth", "16"];
    words.extend(["--keys", &keys, "--value-size", "4000"]);
    if beside == Beside::Memory {
        words.extend(IN_MEMORY);
    }
    let load = (beside != Beside::Nothing).then(|| server.load_beside(&words)).transpose()?;
    let window = format!("{window_ms}ms");
    let hot = ["--rate", PROBES_PER_S, "--connections", "16", "--kernel-timestamps", "--backfill"];
    let hot = [&HOT[..], &hot, &["--warm-up", "1s", "--duration", &window]].concat();
    let (began, before) = (clock::now(), server.statistics()?);
    let summary = std::thread::scope(|scope| {
        let other = scope.spawn(meanwhile);
        // Not in a thread of its own, with whose end the kernel would end the generator.
        let summary = server.probe(&hot);
        other.join().expect("no panic").and(summary)
    })?;
    let (after, seconds) = (server.statistics()?, began.elapsed().as_secs_f64());
    drop(load);
    let grown: HashMap<String, f64> = after
        .into_iter()
        .map(|(name, value)| {
            let grown = value - before.get(&name).copied().unwrap_or_default();
            (name, grown)
        })
        .collect();
    let per_s = |name: &str| grown.get(name).copied().unwrap_or_default() / seconds;
    let mut reasons = reasons(&summary);
    let is_slow = (per_s("cmd_set") < SETS_PER_S * SHARE_MIN) && beside != Beside::Nothing;
    reasons.extend(is_slow.then(|| "load-beside-missing".to_owned()));
    Ok(Probed {
        p99: P99 { us: figure(&summary, "/latency/p99_us")?, is_valid: reasons.is_empty() },
        reasons,
        misses: figure(&summary, "/misses")?,
        set_megabytes_per_s: per_s("cmd_set") * 4000.0 / 1e6,
        flash_gets_per_s: per_s("get_extstore"),
        grown,
    })
}
