//! The cost of a large fleet: this program plays all its agents, each with a connection, a certificate and turns of its own, and
//! all its servers, which three controllers probe.
//!
//! As many members as a fleet has servers and routers: a fifth of the hosts has a server, and the others have a router.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet};
use end_to_end::process::cpu_time;
use serde_json::json;

use super::figure::ControlFigure;
use super::operator::Operator;
use super::rest::anonymous_mb;

mod agents;
mod player;
mod servers;

use agents::Part;
use player::Player;

pub(super) use player::play_part;

/// Controllers that share the members.
const CONTROLLERS: usize = 3;
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

/// Agents of one process: as many connections as it may have files, which are 20,000 on some machines.
const AGENTS_PER_PROCESS: usize = 12_500;

/// What the agents of a process have seen.
#[derive(Default)]
struct TurnCounts {
    connected: AtomicU64,
    turns: AtomicU64,
    /// Answers that were none, and connections that have ended.
    failed: AtomicU64,
    /// Generations that routers have got.
    loaded: AtomicU64,
}

impl TurnCounts {
    fn all(&self) -> [u64; 4] {
        [&self.connected, &self.turns, &self.failed, &self.loaded].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Plays a fleet of this size for a minute.
pub(super) fn measure(members: usize) -> Result<Vec<ControlFigure>> {
    let mut fleet = Fleet::new(DecisionStore::Etcd(1));
    ensure!(!fleet.etcd.is_empty(), "there is no etcd (Debian: etcd-server)");
    (1..=CONTROLLERS).for_each(|number| fleet.controller(number, CONTROLLERS));
    let servers = servers::begin(&fleet, members.div_ceil(HOSTS_PER_SERVER))?;
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
    let pids: Vec<u32> = (1..=CONTROLLERS).filter_map(|number| fleet.controller_pid(number)).collect();
    let cpu = || pids.iter().map(|pid| cpu_time(*pid)).collect::<Result<Vec<Duration>>>();
    let (before, [_, turns_before, failed_before, _]) = (cpu()?, counts());
    let began = clock::now();
    clock::pass(MEASURED);
    let passed_s = began.elapsed().as_secs_f64();
    let used =
        cpu()?.into_iter().zip(before).map(|(after, before)| (after - before).as_secs_f64() / passed_s);
    let [_, turns, failed, _] = counts();
    let memory = pids.iter().map(|pid| anonymous_mb(*pid)).collect::<Result<Vec<f64>>>()?;
    let status = fleet.status();
    let heard = status.lines().filter(|line| line.contains("answers within")).count();
    ensure!(heard > 0, "no server is probed: {}", status.lines().next().unwrap_or_default());
    let worst = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let row = |name: String, value: f64, unit| ControlFigure::new("members", name, value, unit);
    let of = format!("{members} members at three controllers");
    Ok(vec![
        row(format!("{of}: CPU of the busiest"), worst(&mut used.into_iter()), "cores").at_most(0.5),
        row(format!("{of}: anonymous memory of the largest"), worst(&mut memory.into_iter()), "MB")
            .at_most(400.0),
        row("turns".to_owned(), (turns - turns_before) as f64 / passed_s, "1/s"),
        row("turns without an answer".to_owned(), (failed - failed_before) as f64, "turns").at_most(0.0),
        row("all agents connected after".to_owned(), connected_s, "s"),
        row(format!("first generation committed → got by {routers} routers"), loaded_s, "s"),
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

/// The host, zone and member of a number.
fn names(number: usize) -> (String, String) {
    (format!("h{number}"), format!("z{}", number % CONTROLLERS + 1))
}
