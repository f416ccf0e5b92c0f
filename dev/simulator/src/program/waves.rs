//! Figures of changes of hosts: how often they are judged rightly.

use std::collections::BTreeMap;

use fleet::waves::WaveSettings;
use os::cpu_time::CpuTime;
use simulator::waves::{PlantedEffect, TrialFleet, WaveBug, play_many, play_trials, play_waves};

/// A row of the table: a fleet, and what is expected.
struct Row {
    what: &'static str,
    fleet: TrialFleet,
    /// Of the runs that are asked for, one in so many.
    one_in: usize,
    expected: Expected,
}

#[derive(Clone, Copy)]
enum Expected {
    /// At most 5 % halted and 5 % said to be better.
    Nothing,
    /// At least this share halted in the canaries.
    Harm(f64),
    /// At least this share is better, and at most 5 % halted.
    Gain(f64),
}

fn rows() -> Vec<Row> {
    let fleet =
        |clusters, hosts, classes, effect| TrialFleet { clusters, hosts, classes, sigma: 0.02, effect };
    let requests = |requests| PlantedEffect { requests, ..PlantedEffect::default() };
    let p99 = |p99| PlantedEffect { p99, ..PlantedEffect::default() };
    let none = PlantedEffect::default();
    let first = |requests| PlantedEffect { requests, first_class_only: true, ..none };
    let row = |what, one_in, fleet, expected| Row { what, fleet, one_in, expected };
    vec![
        row("nothing, 1,000 hosts of one class", 1, fleet(20, 50, 1, none), Expected::Nothing),
        row("nothing, 1,000 hosts of two classes", 1, fleet(20, 50, 2, none), Expected::Nothing),
        row("nothing, 24 hosts", 1, fleet(2, 12, 1, none), Expected::Nothing),
        row("nothing, 12 hosts", 1, fleet(1, 12, 1, none), Expected::Nothing),
        row("nothing, 5,000 hosts of two classes", 20, fleet(70, 71, 2, none), Expected::Nothing),
        row("5 % fewer requests, 1,000 hosts", 1, fleet(20, 50, 1, requests(0.05)), Expected::Harm(0.8)),
        row("10 % fewer requests, 1,000 hosts", 1, fleet(20, 50, 1, requests(0.1)), Expected::Harm(0.99)),
        row("p99 + 5 %, 1,000 hosts", 1, fleet(20, 50, 1, p99(0.05)), Expected::Harm(0.8)),
        row("p99 + 10 %, 1,000 hosts", 1, fleet(20, 50, 1, p99(0.1)), Expected::Harm(0.99)),
        row("5 % fewer requests of one class of two", 1, fleet(20, 50, 2, first(0.05)), Expected::Harm(0.8)),
        row("10 % fewer requests of one class of two", 1, fleet(20, 50, 2, first(0.1)), Expected::Harm(0.99)),
        row("10 % fewer requests, 24 hosts", 1, fleet(2, 12, 1, requests(0.1)), Expected::Harm(0.99)),
        row("10 % fewer requests, 12 hosts", 1, fleet(1, 12, 1, requests(0.1)), Expected::Harm(0.99)),
        row(
            "10 % fewer requests of one class, 5,000 hosts",
            10,
            fleet(70, 71, 2, first(0.1)),
            Expected::Harm(0.99),
        ),
        row("5 % more requests, 1,000 hosts", 1, fleet(20, 50, 1, requests(-0.05)), Expected::Gain(0.8)),
    ]
}

/// Plays each row. False if one is not as expected.
pub(super) fn run(first: u64, runs: usize) -> bool {
    let mut is_well = true;
    println!("changes of hosts whose figures have a standard deviation of 2 %; shares in percent");
    println!(
        "{:<48} {:>5} {:>7} {:>9} {:>6} {:>7} {:>6} {:>8} {:>6}",
        "what the change does", "runs", "halted", "canaries", "harm", "better", "done", "reached", "CPU-s"
    );
    for row in rows() {
        let before = CpuTime::of_this_process();
        let found = play_trials(&row.fleet, &WaveSettings::default(), first, runs.div_ceil(row.one_in));
        let now = CpuTime::of_this_process();
        let cpu_s = (now.user + now.system - before.user - before.system).as_secs_f64();
        let percent = |count: usize| 100.0 * count as f64 / found.runs as f64;
        let is_expected = match row.expected {
            Expected::Nothing => percent(found.halted) <= 5.0 && percent(found.better) <= 5.0,
            Expected::Harm(least) => percent(found.in_canaries) >= 100.0 * least,
            Expected::Gain(least) => percent(found.better) >= 100.0 * least && percent(found.halted) <= 5.0,
        };
        println!(
            "{:<48} {:>5} {:>7.1} {:>9.1} {:>6.1} {:>7.1} {:>6.1} {:>8} {:>6.1}{}",
            row.what,
            found.runs,
            percent(found.halted),
            percent(found.in_canaries),
            percent(found.worse),
            percent(found.better),
            percent(found.done),
            found.reached_median,
            cpu_s,
            if is_expected { "" } else { "  WRONG" }
        );
        is_well &= is_expected;
    }
    is_well
}

/// Plays a tuning of many hosts that does nothing, and one that harms a class. False if they do not end as expected.
pub(super) fn many(seed: u64, hosts: usize) -> bool {
    let harm = PlantedEffect { p99: 0.1, first_class_only: true, ..PlantedEffect::default() };
    let tunings =
        [("nothing", PlantedEffect::default(), "done"), ("p99 + 10 % of one class", harm, "undone")];
    let mut is_well = true;
    println!("tunings of {hosts} hosts with faults, seed {seed}, while a cluster grows and shrinks back");
    for (what, effect, expected) in tunings {
        let before = CpuTime::of_this_process();
        let run = play_many(seed, hosts, effect);
        let now = CpuTime::of_this_process();
        let cpu_s = (now.user + now.system - before.user - before.system).as_secs_f64();
        println!(
            "{what}: {} after {} min, {} decisions, {} hosts had it at most, {} of 2 resizes done; {cpu_s:.0} CPU-s",
            run.end,
            run.took_s / 60,
            run.writes,
            run.reached,
            run.resizes
        );
        if let Some(found) = &run.violation {
            println!("  WRONG: second {}: {} {}", found.at_s, found.invariant, found.words);
        }
        is_well &= run.violation.is_none() && run.end == expected;
    }
    if let Some(peak_mb) = peak_mb() {
        println!("at most {peak_mb:.0} MB of memory");
    }
    is_well
}

/// The most memory that this process has had.
fn peak_mb() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// Looks for every planted bug of changes. False if one is not found with any of the seeds.
pub(super) fn hunt(seeds: u64) -> bool {
    let mut is_well = true;
    let mut ends = BTreeMap::<&str, u64>::new();
    for seed in 1..=seeds {
        let run = play_waves(seed, &[]);
        *ends.entry(run.end).or_default() += 1;
        if let Some(found) = run.violation {
            println!(
                "without a bug, seed {seed}, second {}: {} {}",
                found.at_s, found.invariant, found.words
            );
            is_well = false;
        }
    }
    println!(
        "without a bug: {}",
        ends.iter().map(|(end, count)| format!("{count} {end}")).collect::<Vec<_>>().join(", ")
    );
    println!("the first of {seeds} seeds that finds a planted bug");
    for bug in WaveBug::ALL {
        let found =
            (1..=seeds).find_map(|seed| play_waves(seed, &[bug]).violation.map(|found| (seed, found)));
        match found {
            Some((seed, found)) => println!("{bug:?}: seed {seed}, {} {}", found.invariant, found.words),
            None => {
                println!("{bug:?}: NOT FOUND");
                is_well = false;
            }
        }
    }
    is_well
}
