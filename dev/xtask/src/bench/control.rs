//! `cargo xtask bench control`: what a fleet's users see of its control plane, measured with real processes.
//!
//! Three members of etcd, three controllers, nine servers with an agent each, and six routers run at the same time, on two
//! cores if there are no more: times are upper bounds, and each row says what they are made of. Traffic is on the loopback alone.

mod commit;
mod failover;
mod figure;
mod leader;
mod loss;
mod members;
mod misses;
mod operator;
mod outage;
mod reply;
mod rest;
mod swaps;
mod traffic;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use serde_json::{Value, json};

use figure::{ControlFigure, HEALTH, ROUTERS, SERVERS, SLOTS};

/// Measure the control plane with real processes
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only rows whose name contains one of these: failover, rest, commit, swaps, outage, leader, loss, misses, members
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Servers that are killed, and servers that are stopped, for the row failover
    #[arg(long, default_value_t = 20, value_name = "N")]
    failures: usize,
    /// Generations that are published, for the row commit
    #[arg(long, default_value_t = 8, value_name = "N")]
    generations: usize,
    /// Agents of this program, each with a router that only reads its file, for the row commit
    #[arg(long, default_value_t = 194, value_name = "N")]
    agents: usize,
    /// Hosts that are lost, for the row loss; each takes a minute
    #[arg(long, default_value_t = 20, value_name = "N")]
    losses: usize,
    /// Processes that are lost on hosts that live, for the same row; each takes a minute and a half
    #[arg(long, default_value_t = 5, value_name = "N")]
    processes: usize,
    /// Generations that are published under load, for the row swaps; each takes some seconds
    #[arg(long, default_value_t = 100, value_name = "N")]
    swaps: usize,
    /// Time without etcd, for the row outage
    #[arg(long, default_value_t = 300, value_name = "S")]
    outage_s: u64,
    /// Length of the row rest
    #[arg(long, default_value_t = 60, value_name = "S")]
    rest_s: u64,
    /// Leaders of etcd that are killed, for the row leader
    #[arg(long, default_value_t = 20, value_name = "N")]
    leaders: usize,
    /// Members of the row members: each has an agent, and every fifth a server
    #[arg(long, default_value_t = 25_000, value_name = "N")]
    members: usize,
    /// Play the agents of the row members that this file names, as a part of it
    #[arg(long, hide = true, value_name = "FILE")]
    play: Option<PathBuf>,
    /// Write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the rows and prints their figures.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(part) = &arguments.play {
        return members::play_part(part);
    }
    let wants =
        |row: &str| arguments.only.is_empty() || arguments.only.iter().any(|text| row.contains(&**text));
    let mut figures = Vec::new();
    if ["failover", "rest", "commit", "swaps", "outage", "leader", "loss"].into_iter().any(wants) {
        let mut fleet = fleet()?;
        if wants("failover") {
            figures.extend(failover::measure(&mut fleet, arguments.failures)?);
        }
        if wants("rest") {
            figures.extend(rest::measure(&fleet, arguments.rest_s)?);
        }
        if wants("commit") {
            figures.extend(commit::measure(&mut fleet, arguments.agents, arguments.generations)?);
        }
        if wants("swaps") {
            figures.extend(swaps::measure(&mut fleet, arguments.swaps)?);
        }
        if wants("outage") {
            figures.extend(outage::measure(&mut fleet, arguments.outage_s)?);
        }
        if wants("leader") {
            figures.extend(leader::measure(&mut fleet, arguments.leaders)?);
        }
        if wants("loss") {
            figures.extend(loss::measure(&mut fleet, arguments.losses, arguments.processes)?);
        }
    }
    if wants("misses") {
        figures.extend(misses::measure()?);
    }
    if wants("members") {
        figures.extend(members::measure(arguments.members)?);
    }
    ensure!(
        !figures.is_empty(),
        "expected a row out of failover, rest, commit, swaps, outage, leader, loss, misses and members in --only"
    );
    show(&figures);
    if let Some(path) = &arguments.json {
        let json: Vec<Value> = figures.iter().map(ControlFigure::json).collect();
        std::fs::write(path, format!("{:#}\n", json!(json)))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// The fleet, with its first generation in all routers.
fn fleet() -> Result<Fleet> {
    let mut fleet = Fleet::new(DecisionStore::Etcd(3));
    ensure!(!fleet.etcd.is_empty(), "there is no etcd (Debian: etcd-server)");
    fleet.servers = ServerUnderTest::evenkeel(SocketDriver::Uring);
    fleet.write("health.toml", HEALTH);
    fleet.controller_flags = ["--health", "health.toml"].map(str::to_owned).to_vec();
    (1..=3).for_each(|number| fleet.controller(number, 3));
    eprintln!("three members of etcd and three controllers run; now {SERVERS} servers and {ROUTERS} routers");
    for host in 1..=SERVERS {
        fleet.host_with(host, HostKind { has_no_router: host > ROUTERS, ..HostKind::default() });
    }
    fleet.begin(&policy());
    Ok(fleet)
}

/// One cluster; a server that does not answer is replaced by one of the others, which follows from the key.
fn policy() -> String {
    let route = json!({"route": {
        "type": "FailoverRoute",
        "children": ["PoolRoute|web", "Pool|web"],
        "failover_policy": {
            "type": "DeterministicOrderPolicy", "max_tries": SLOTS + 1, "max_error_tries": SLOTS,
        },
    }});
    format!(
        "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = {SLOTS}\n[[view]]\nname = \"main\"\nroutes = '''\n{route}\n'''\n"
    )
}

fn show(figures: &[ControlFigure]) {
    println!("{:<9} {:<58} {:>10} {:<8} {:>8}", "ROW", "FIGURE", "MEASURED", "UNIT", "AT MOST");
    for figure in figures {
        let most = figure.most.map_or("-".to_owned(), |most| format!("{most}"));
        let verdict = match figure.most {
            Some(most) if figure.value > most => "  missed",
            _ => "",
        };
        let (row, name, unit) = (figure.row, &figure.name, figure.unit);
        println!("{row:<9} {name:<58} {:>10.3} {unit:<8} {most:>8}{verdict}", figure.value);
    }
}
