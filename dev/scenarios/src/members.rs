//! The cost of a large fleet: this program plays all its agents, each with a connection, a certificate and turns of its own, and
//! all its servers, which three controllers probe.
//!
//! As many members as a fleet has servers and routers: each with a host of its own, of which a fifth has a server and the others have a
//! router, or several on one host. All have figures in their turns, and a look at their host that differs from all others.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet};
use end_to_end::process::{cpu_time, raise_open_files};
use serde_json::{Value, json};

use crate::clients::operator::Operator;
use crate::figures::{ScenarioFigures, worst};
use crate::fleet::of_ours;
use crate::rest::{anonymous_mb, resident_mb};

mod agents;
mod change;
mod consoles;
mod counts;
mod layout;
mod player;
mod servers;
mod tuner;

use agents::Part;
use consoles::ConsoleCost;
use counts::COUNTS;
use layout::{CONTROLLERS, FleetLayout, names};
use player::Player;

pub(crate) use player::play_part;

/// Servers with a slot; the others are spares.
const SLOTS_PERCENT: usize = 80;
/// Until all have connected: a handshake costs both sides a millisecond.
const CONNECTED_WITHIN: Duration = Duration::from_secs(240);
/// Members that one request names: each is a write, and a busy machine has some hundred in the time of an answer.
const MEMBERS_PER_REQUEST: usize = 100;
/// Attempts to add members, while the register does not answer in time.
const ATTEMPTS: usize = 5;

/// Open files of this program, and of each that plays agents.
pub(crate) const FILES: u64 = 20_000;

/// Agents of one process: as many connections as it may have files, which are 20,000 on some machines.
const AGENTS_PER_PROCESS: usize = 12_500;

/// What is played.
#[derive(clap::Args)]
pub(crate) struct LargeFleet {
    /// Servers and routers: five for each server
    #[arg(long, default_value_t = 25_000, value_name = "N")]
    members: usize,
    /// On each host: a server or a router if it is one, otherwise a server and routers
    #[arg(long, default_value_t = 1, value_name = "N")]
    per_host: usize,
    /// Begin a change of all hosts, which goes through them meanwhile
    #[arg(long)]
    change: bool,
    /// Clusters that share the slots
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    clusters: u16,
    /// Compare with so many consoles that are open at the first controller: one shows a cluster, the others the fleet
    #[arg(long, default_value_t = 0, value_name = "N")]
    consoles: usize,
    /// How long CPU time is counted: all agents have their turn in 30 s
    #[arg(long, default_value_t = 45, value_name = "S")]
    seconds: u64,
}

/// Plays a large fleet.
pub(crate) fn measure(wanted: &LargeFleet) -> Result<ScenarioFigures> {
    raise_open_files(FILES)?;
    let mut fleet = of_ours(DecisionStore::Etcd(1));
    ensure!(!fleet.etcd.is_empty(), "there is no etcd (Debian: etcd-server)");
    if wanted.consoles > 0 {
        fleet.controller_flags.extend(consoles::FLAGS.map(str::to_owned));
    }
    (1..=CONTROLLERS).for_each(|number| fleet.controller(number, CONTROLLERS));
    let layout = FleetLayout::new(wanted.members, wanted.per_host);
    let (hosts, servers) = (layout.hosts(), layout.servers());
    add_members(&fleet, servers, servers::begin()?)?;
    eprintln!("members: {hosts} agents connect, {servers} servers are probed");
    let began = clock::now();
    let players = begin(&fleet, layout)?;
    let counts = || {
        players.iter().fold([0; COUNTS], |mut sum: [u64; COUNTS], player| {
            sum.iter_mut().zip(player.counts()).for_each(|(sum, of_one)| *sum += of_one);
            sum
        })
    };
    while counts()[0] < hosts as u64 {
        let [connected, _, failed, ..] = counts();
        ensure!(
            began.elapsed() < CONNECTED_WITHIN,
            "{connected} of {hosts} agents have connected, {failed} attempts have failed"
        );
        clock::pass(Duration::from_millis(100));
    }
    let connected_s = began.elapsed().as_secs_f64();
    eprintln!("members: all have connected after {connected_s:.0} s");
    let routers = layout.routers() as u64;
    let loaded_s = publish(&fleet, servers, wanted.clusters, || counts()[3] >= routers)?;
    eprintln!("members: {routers} routers have the first generation after {loaded_s:.1} s");
    // Their turns wait again.
    clock::pass(Duration::from_secs(20));
    if wanted.consoles > 0 {
        return console_cost(&fleet, wanted);
    }
    let change = if wanted.change { Some(change::begin(&fleet, hosts)?) } else { None };
    let pid = |number| fleet.controller_pid(number).context("a controller");
    let pids = (1..=CONTROLLERS).map(pid).collect::<Result<Vec<u32>>>()?;
    let cpu = || pids.iter().map(|pid| cpu_time(*pid)).collect::<Result<Vec<Duration>>>();
    let (before, [_, turns_before, failed_before, ..]) = (cpu()?, counts());
    let began = clock::now();
    clock::pass(Duration::from_secs(wanted.seconds));
    let passed_s = began.elapsed().as_secs_f64();
    let cores = |(after, before): (Duration, Duration)| (after - before).as_secs_f64() / passed_s;
    let used: Vec<f64> = cpu()?.into_iter().zip(before).map(cores).collect();
    let [_, turns, failed, _, changed] = counts();
    let of_all =
        |memory: fn(u32) -> Result<f64>| pids.iter().map(|pid| memory(*pid)).collect::<Result<Vec<f64>>>();
    let anonymous = of_all(anonymous_mb)?;
    let resident = pids.iter().map(|pid| resident_mb(*pid)).collect::<Result<Vec<_>>>()?;
    eprintln!(
        "members: cores {used:.2?}, anonymous MB {anonymous:.0?}, resident MB now and at most {resident:.0?}"
    );
    let status = fleet.status();
    let heard = status.lines().filter(|line| line.contains("answers within")).count();
    ensure!(heard * 10 >= servers * 9, "{heard} of {servers} servers answer their probes");
    ensure!(turns - turns_before >= hosts as u64, "agents are missing: {} turns", turns - turns_before);
    let figures = known_figures(&fleet)?;
    ensure!(figures == [servers, layout.routers()], "figures are known of {figures:?} servers and routers");
    if let Some(number) = change {
        eprintln!("members: the change is {}; {changed} hosts have kept it", change::state(&fleet, number)?);
        ensure!(changed > 0, "no host was changed");
    }
    let peaks: Vec<f64> = resident.into_iter().map(|(_, peak)| peak).collect();
    Ok(vec![
        ("controller_cores", worst(&used)),
        ("controller_anonymous_mb", worst(&anonymous)),
        ("controller_peak_resident_mb", worst(&peaks)),
        ("turns_per_second", (turns - turns_before) as f64 / passed_s),
        ("failed_turns", (failed - failed_before) as f64),
        ("connected_s", connected_s),
        // From the commit of the first generation until all routers have got it.
        ("got_s", loaded_s),
    ])
}

/// What consoles cost the first controller, beside all that the fleet does.
fn console_cost(fleet: &Fleet, wanted: &LargeFleet) -> Result<ScenarioFigures> {
    let figures = ConsoleCost::of(fleet, wanted.consoles, &cluster_name(0), wanted.seconds)?.measure()?;
    Ok(vec![
        ("consoles_cpu_percent", figures.percent),
        ("consoles_answers_per_second", figures.answers_per_s),
        ("consoles_known_share", figures.known_share),
        ("consoles_sent_bytes_per_second", figures.sent_bytes_per_s),
    ])
}

/// Servers and routers of which the first controller has figures of the last half minute.
fn known_figures(fleet: &Fleet) -> Result<[usize; 2]> {
    let answer = Operator::of(fleet)?.get("/v1/figures")?;
    let is_new = |row: &&Value| {
        row["points"][0]["age_s"].as_u64().is_some_and(|age| age <= 30)
            && row["points"][0]["requests_per_s"].is_number()
    };
    let count =
        |kind: &str| answer.json[kind].as_array().map_or(0, |rows| rows.iter().filter(is_new).count());
    Ok([count("servers"), count("routers")])
}

/// Puts a policy in force, and returns how long it takes until all routers have got it: a first generation goes to all at once.
fn publish(fleet: &Fleet, servers: usize, clusters: u16, is_loaded: impl Fn() -> bool) -> Result<f64> {
    let operator = Operator::of(fleet)?;
    let slots = servers * SLOTS_PERCENT / 100 / usize::from(clusters);
    let cluster = |number| format!("[[cluster]]\nname = \"{}\"\nslots = {slots}\n", cluster_name(number));
    let all: String = (0..clusters).map(cluster).collect();
    let policy = format!(
        "fleet = \"prod\"\n{all}[[view]]\nname = \"main\"\nroutes = '{{\"route\": \"PoolRoute|{}\"}}'\n",
        cluster_name(0)
    );
    // Members are emptied before they can have a slot, and the plan is another one with each that is.
    let change = json!({"policy": policy});
    let mut trouble = String::new();
    let applied = clock::wait_for(|| {
        let done = operator.planned(&change).and_then(|body| operator.post("/v1/apply", &body));
        done.map_err(|error| {
            trouble = format!("{error:#}");
            // Each plan is work for the controller.
            clock::pass(Duration::from_secs(1));
        })
        .ok()
    });
    applied.with_context(|| format!("there is no plan: {trouble}"))?;
    let began = clock::now();
    while !is_loaded() {
        ensure!(began.elapsed() < CONNECTED_WITHIN, "not all routers have the generation");
        clock::pass(Duration::from_millis(10));
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Routers ask the first one.
fn cluster_name(number: u16) -> String {
    if number == 0 { "web".to_owned() } else { format!("web{number}") }
}

/// Puts so many members into the inventory, all of them at this port.
fn add_members(fleet: &Fleet, count: usize, port: u16) -> Result<()> {
    let operator = Operator::of(fleet)?;
    let members: Vec<Value> = (0..count).map(|number| member(number, port)).collect();
    for part in members.chunks(MEMBERS_PER_REQUEST) {
        let wanted = json!({"members": part, "remove": [], "why": "measured"});
        let mut attempt = 1;
        while let Err(error) = operator.post("/v1/members", &wanted) {
            ensure!(attempt < ATTEMPTS, "{error:#}");
            attempt += 1;
            clock::pass(Duration::from_secs(1));
        }
    }
    Ok(())
}

fn member(number: usize, port: u16) -> Value {
    let (host, zone) = names(number);
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32);
    json!({"id": format!("m{number}"), "host": host, "zone": zone, "address": format!("{address}:{port}")})
}

fn begin(fleet: &Fleet, layout: FleetLayout) -> Result<Vec<Player>> {
    let controllers: Vec<_> = (1..=CONTROLLERS).map(|number| fleet.controller_address(number)).collect();
    (0..layout.hosts())
        .step_by(AGENTS_PER_PROCESS)
        .map(|first| {
            let (authority, controllers) = (fleet.path("ca"), controllers.clone());
            let end = layout.hosts().min(first + AGENTS_PER_PROCESS);
            let file = fleet.path(&format!("agents{first}"));
            Player::begin(&Part { authority, controllers, first, end, layout }, &file)
        })
        .collect()
}
