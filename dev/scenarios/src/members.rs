//! The cost of a large fleet: this program plays all its agents, each with a connection, a certificate and turns of its own, and
//! all its servers, which three controllers probe.
//!
//! As many members as a fleet has servers and routers: a fifth of the hosts has a server, and the others have a router.

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
use crate::rest::anonymous_mb;

mod agents;
mod counts;
mod player;
mod servers;

use agents::Part;
use counts::{CONTROLLERS, names};
use player::Player;

pub(crate) use player::play_part;

/// One host in so many has a server.
const HOSTS_PER_SERVER: usize = 5;
/// Servers with a slot; the others are spares.
const SLOTS_PERCENT: usize = 80;
/// All agents have their turn in this time.
const MEASURED: Duration = Duration::from_secs(45);
/// Until all have connected: a handshake costs both sides a millisecond.
const CONNECTED_WITHIN: Duration = Duration::from_secs(240);
/// Members that one request may name.
const MEMBERS_PER_REQUEST: usize = 500;

/// Open files of this program, and of each that plays agents.
pub(crate) const FILES: u64 = 20_000;

/// Agents of one process: as many connections as it may have files, which are 20,000 on some machines.
const AGENTS_PER_PROCESS: usize = 12_500;

/// Plays a fleet of this size for a minute.
pub(crate) fn measure(members: usize) -> Result<ScenarioFigures> {
    raise_open_files(FILES)?;
    let mut fleet = of_ours(DecisionStore::Etcd(1));
    ensure!(!fleet.etcd.is_empty(), "there is no etcd (Debian: etcd-server)");
    (1..=CONTROLLERS).for_each(|number| fleet.controller(number, CONTROLLERS));
    let servers = members.div_ceil(HOSTS_PER_SERVER);
    add_members(&fleet, servers, servers::begin()?)?;
    eprintln!("members: {members} agents connect, {servers} servers are probed");
    let began = clock::now();
    let players = begin(&fleet, members, servers)?;
    let counts = || {
        players.iter().fold([0; 4], |mut sum: [u64; 4], player| {
            sum.iter_mut().zip(player.counts()).for_each(|(sum, of_one)| *sum += of_one);
            sum
        })
    };
    while counts()[0] < members as u64 {
        let [connected, _, failed, _] = counts();
        ensure!(
            began.elapsed() < CONNECTED_WITHIN,
            "{connected} of {members} agents have connected, {failed} attempts have failed"
        );
        clock::pass(Duration::from_millis(100));
    }
    let connected_s = began.elapsed().as_secs_f64();
    eprintln!("members: all have connected after {connected_s:.0} s");
    let routers = (members - servers) as u64;
    let loaded_s = publish(&fleet, servers, || counts()[3] >= routers)?;
    eprintln!("members: {routers} routers have the first generation after {loaded_s:.1} s");
    // Their turns wait again.
    clock::pass(Duration::from_secs(20));
    let pid = |number| fleet.controller_pid(number).context("a controller");
    let pids = (1..=CONTROLLERS).map(pid).collect::<Result<Vec<u32>>>()?;
    let cpu = || pids.iter().map(|pid| cpu_time(*pid)).collect::<Result<Vec<Duration>>>();
    let (before, [_, turns_before, failed_before, _]) = (cpu()?, counts());
    let began = clock::now();
    clock::pass(MEASURED);
    let passed_s = began.elapsed().as_secs_f64();
    let cores = |(after, before): (Duration, Duration)| (after - before).as_secs_f64() / passed_s;
    let used: Vec<f64> = cpu()?.into_iter().zip(before).map(cores).collect();
    let [_, turns, failed, _] = counts();
    let memory = pids.iter().map(|pid| anonymous_mb(*pid)).collect::<Result<Vec<f64>>>()?;
    let status = fleet.status();
    let heard = status.lines().filter(|line| line.contains("answers within")).count();
    ensure!(heard * 10 >= servers * 9, "{heard} of {servers} servers answer their probes");
    ensure!(turns - turns_before >= members as u64, "agents are missing: {} turns", turns - turns_before);
    Ok(vec![
        ("controller_cores", worst(&used)),
        ("controller_anonymous_mb", worst(&memory)),
        ("turns_per_second", (turns - turns_before) as f64 / passed_s),
        ("failed_turns", (failed - failed_before) as f64),
        ("connected_s", connected_s),
        // From the commit of the first generation until all routers have got it.
        ("got_s", loaded_s),
    ])
}

/// Puts a policy in force, and returns how long it takes until all routers have got it: a first generation goes to all at once.
fn publish(fleet: &Fleet, servers: usize, is_loaded: impl Fn() -> bool) -> Result<f64> {
    let operator = Operator::of(fleet)?;
    let slots = servers * SLOTS_PERCENT / 100;
    let policy = format!(
        "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = {slots}\n[[view]]\nname = \"main\"\nroutes = '{{\"route\": \"PoolRoute|web\"}}'\n"
    );
    // Members are emptied before they can have a slot.
    let change = json!({"policy": policy});
    let mut trouble = String::new();
    let planned = clock::wait_for(|| match operator.planned(&change) {
        Ok(body) => Some(body),
        Err(error) => {
            trouble = format!("{error:#}");
            // Each plan is work for the controller.
            clock::pass(Duration::from_secs(1));
            None
        }
    });
    let body = planned.with_context(|| format!("there is no plan: {trouble}"))?;
    operator.post("/v1/apply", &body)?;
    let began = clock::now();
    while !is_loaded() {
        ensure!(began.elapsed() < CONNECTED_WITHIN, "not all routers have the generation");
        clock::pass(Duration::from_millis(10));
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Puts so many members into the inventory, all of them at this port.
fn add_members(fleet: &Fleet, count: usize, port: u16) -> Result<()> {
    let operator = Operator::of(fleet)?;
    let members: Vec<Value> = (0..count).map(|number| member(number, port)).collect();
    for part in members.chunks(MEMBERS_PER_REQUEST) {
        operator.post("/v1/members", &json!({"members": part, "remove": [], "why": "measured"}))?;
    }
    Ok(())
}

fn member(number: usize, port: u16) -> Value {
    let (host, zone) = names(number);
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32);
    json!({"id": format!("m{number}"), "host": host, "zone": zone, "address": format!("{address}:{port}")})
}

fn begin(fleet: &Fleet, members: usize, servers: usize) -> Result<Vec<Player>> {
    let controllers: Vec<_> = (1..=CONTROLLERS).map(|number| fleet.controller_address(number)).collect();
    (0..members)
        .step_by(AGENTS_PER_PROCESS)
        .map(|first| {
            let (authority, controllers) = (fleet.path("ca"), controllers.clone());
            let end = members.min(first + AGENTS_PER_PROCESS);
            let file = fleet.path(&format!("agents{first}"));
            Player::begin(&Part { authority, controllers, first, end, servers }, &file)
        })
        .collect()
}
