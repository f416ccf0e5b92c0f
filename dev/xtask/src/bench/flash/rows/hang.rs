//! The row `hang`: the 99th percentile of hits in memory while the device hangs, compared with before.

use std::time::Duration;

use anyhow::{Result, ensure};
use end_to_end::clock;

use super::hit;
use crate::bench::flash::arguments::Arguments;
use crate::bench::flash::beside::{self, Beside, Probed};
use crate::bench::flash::control_group::ControlGroup;
use crate::bench::flash::server::{FlashServer, start_ours};
use crate::bench::flash::windows::{MUST_OF_LATENCY, P99, Verdicts, compared, median_us};

const HANGS: Duration = Duration::from_secs(10);
/// From the start of the probes, which warm up for a second, to the hang.
const BEFORE: Duration = Duration::from_millis(1500);
/// Around the hang, so that its start is in it.
const WINDOW_MS: u64 = 11_000;

/// Prints the table, for ours alone: a group does not delay what the peer writes through the page cache.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let group = match ControlGroup::of_device("hang", &arguments.folder) {
        Ok(group) => group,
        Err(error) => {
            println!("hang: left out, because no device can be made to hang: {error:#}");
            return Ok(());
        }
    };
    let server = start_ours(arguments, hit::setup(arguments, None), &[])?;
    group.add(server.server_id())?;
    hit::fill(&server, &arguments.items.to_string())?;
    beside::fill_memory(&server)?;
    let mut verdicts = Verdicts::default();
    let [mut before, mut during]: [Vec<P99>; 2] = Default::default();
    for round in 1..=arguments.turns.rounds {
        until_flash_answers(arguments, &server)?;
        let probed = beside::probe(arguments, &server, Beside::Flash, WINDOW_MS, || Ok(()))?.with_flash();
        eprintln!("round {round} before  {}", probed.line());
        verdicts.add(&probed.reasons);
        before.push(probed.p99);
        let probed = hung(arguments, &server, &group)?;
        eprintln!("round {round} hanging {}", probed.line());
        verdicts.add(&probed.reasons);
        during.push(probed.p99);
    }
    println!(
        "p99 of hits in memory in the {} s around a hang of the device of {} s, median of {} rounds",
        WINDOW_MS / 1000,
        HANGS.as_secs(),
        arguments.turns.rounds
    );
    println!(
        "before {:.0} µs, hanging {:.0} µs; ratio {}",
        median_us(&before),
        median_us(&during),
        compared(&during, &before, Some(MUST_OF_LATENCY), arguments.turns.seed)
    );
    verdicts.remark().into_iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// A window in which the device hangs.
fn hung(arguments: &Arguments, server: &FlashServer, group: &ControlGroup) -> Result<Probed> {
    let hang = || {
        clock::pass(BEFORE);
        let hang = group.hang()?;
        clock::pass(HANGS);
        drop(hang);
        Ok(())
    };
    let probed = beside::probe(arguments, server, Beside::Flash, WINDOW_MS, hang)?;
    let aborted = probed.grown.get("get_aborted_extstore").copied().unwrap_or_default();
    ensure!(aborted > 0.0, "the device did not hang: no request waited in vain");
    Ok(probed)
}

/// Waits until items on flash are hits again: the tier leaves a device alone for some time that has not answered.
fn until_flash_answers(arguments: &Arguments, server: &FlashServer) -> Result<()> {
    let keys = arguments.items.to_string();
    let answers = || {
        let of = |statistics: &std::collections::HashMap<String, f64>| {
            statistics.get("get_extstore").copied().unwrap_or_default()
        };
        let before = of(&server.statistics().ok()?);
        server.load(&["--keys", &keys, "--value-size", "4000", "--requests", "1000"]).ok()?;
        (of(&server.statistics().ok()?) - before > 500.0).then_some(())
    };
    ensure!(clock::wait_for(answers).is_some(), "items on flash are misses long after the device hung");
    Ok(())
}
