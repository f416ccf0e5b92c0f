//! A scenario of the simulated fleet, played with the decisions that ship, and drawn as a timeline.

mod small;
mod timeline;
mod waves;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use os::cpu_time::CpuTime;
use simulator::scenario::{self, FleetScenario};
use simulator::world::FleetRun;
use simulator::{FleetShape, PlantedBug};

/// Plays scenarios of a simulated fleet.
#[derive(Debug, Parser)]
#[command(name = "simulator")]
struct Arguments {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// One scenario; without it all but the day without etcd
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// 288 servers and 900 routers
    #[arg(long, conflicts_with = "small")]
    few: bool,
    /// The small world instead: real routers, servers and controllers, from `--seed` on
    #[arg(long, conflicts_with = "scenario")]
    small: bool,
    /// So many seeds of the small world
    #[arg(long, default_value_t = 1, value_name = "N", requires = "small")]
    seeds: u64,
    /// Changes of hosts instead: how often so many of them are judged rightly
    #[arg(long, conflicts_with_all = ["scenario", "small"], value_name = "RUNS", num_args = 0..=1, default_missing_value = "2000")]
    tuning: Option<usize>,
    /// One tuning of so many hosts instead, with four routers on each, faults, and a cluster that grows and shrinks back
    #[arg(long, requires = "tuning", conflicts_with = "hunt", value_name = "N")]
    hosts: Option<usize>,
    /// Look for every planted bug with so many seeds, instead of scenarios
    #[arg(long, value_name = "SEEDS", conflicts_with = "scenario")]
    hunt: Option<u64>,
    /// Directory for the timelines
    #[arg(long, default_value = "target/sim", value_name = "DIR")]
    out: PathBuf,
}

/// A day of 25,000 agents takes minutes; it is played if it is named.
const LONG: &str = "etcd-day-off";

pub(crate) fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays them. False if figures or invariants are not as expected.
fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(runs) = arguments.tuning {
        return Ok(match (arguments.hunt, arguments.hosts) {
            (Some(seeds), _) => waves::hunt(seeds),
            (None, Some(hosts)) => waves::many(arguments.seed, hosts),
            (None, None) => waves::run(arguments.seed, runs),
        });
    }
    match arguments.hunt {
        Some(seeds) if arguments.small => return Ok(small::hunt(seeds)),
        Some(seeds) => return Ok(hunt(seeds)),
        None if arguments.small => return Ok(small::run(arguments.seed, arguments.seeds)),
        None => {}
    }
    let shape = if arguments.few { FleetShape::small() } else { FleetShape::published() };
    let all = scenario::all(&shape, arguments.seed);
    let names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
    let is_chosen = |scenario: &&FleetScenario| match &arguments.scenario {
        Some(name) => scenario.name == name,
        None => scenario.name != LONG,
    };
    let chosen: Vec<&FleetScenario> = all.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        bail!("find a scenario of that name: there are {}", names.join(", "));
    }
    std::fs::create_dir_all(&arguments.out).with_context(|| format!("create {}", arguments.out.display()))?;
    let mut is_well = true;
    for scenario in chosen {
        is_well &= play(scenario, arguments)?;
    }
    Ok(is_well)
}

/// False if a bug is not found with any of the seeds.
fn hunt(seeds: u64) -> bool {
    let mut is_well = true;
    println!("seeds until a planted bug is found: median, and at most, of {seeds}");
    for bug in PlantedBug::ALL {
        let needed = scenario::seeds_to_find(bug, seeds);
        match (needed.get(needed.len() / 2), needed.last()) {
            (Some(median), Some(most)) => println!("{bug:?}: {median}, {most}"),
            _ => {
                println!("{bug:?}: NOT FOUND");
                is_well = false;
            }
        }
    }
    is_well
}

fn play(scenario: &FleetScenario, arguments: &Arguments) -> Result<bool> {
    let before = CpuTime::of_this_process();
    let run = scenario.play(arguments.seed, &[]);
    let now = CpuTime::of_this_process();
    let cpu_s = (now.user + now.system - before.user - before.system).as_secs_f64();
    let path = arguments.out.join(format!("{}-{}.svg", scenario.name, arguments.seed));
    let title = format!("{} (seed {}): {}", scenario.name, arguments.seed, scenario.summary);
    std::fs::write(&path, timeline::draw(&title, &run.samples))
        .with_context(|| format!("write {}", path.display()))?;
    let outcome = scenario.check(&run);
    let minutes = scenario.length_ms as f64 / 60_000.0;
    println!("{}: {}", scenario.name, figures(&run));
    println!("  {minutes:.0} min, {} events in {cpu_s:.2} CPU-s; {}", run.events, path.display());
    if let Err(error) = &outcome {
        println!("  WRONG: {error}");
    }
    Ok(outcome.is_ok())
}

fn figures(run: &FleetRun) -> String {
    let delay = |ms: Option<u64>| ms.map_or("-".to_owned(), |ms| format!("{ms} ms"));
    format!(
        "{} replaced (the first after {}), {} by the operator, database at most {:.2} x, {} frozen scopes, loaded p99 {}, all heard after {}",
        run.replaced,
        delay(run.first_replaced_ms),
        run.voluntary,
        run.database_max(),
        run.frozen_max(),
        delay(run.loaded_p99_ms),
        delay(run.all_heard_ms)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_pages_is_accepted() {
        let typed = transcript::pages::run_by_cargo("simulator");
        assert!(typed.len() >= 8, "commands are missed: {typed:?}");
        for typed in typed {
            if let Err(error) = Arguments::try_parse_from(&typed.words) {
                panic!("{}:{}: `{}`: {error}", typed.page, typed.line, typed.text());
            }
        }
    }
}
