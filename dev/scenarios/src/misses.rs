//! The load of the database after the loss of a server: misses beyond the usual ones, with nothing, with a gutter, and with another copy.
//!
//! Clients look aside: a get that misses or fails is answered by the database and followed by a set. A quarter of all keys is
//! lost with one of four servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};

use crate::figures::ScenarioFigures;
use crate::fleet::of_ours;

mod client;
mod deleting;
pub(crate) mod scale;

use client::{AsideClient, KeyPicker};

const HOSTS: usize = 10;
/// Each has clients.
const ROUTERS: usize = 2;
const CLIENTS_PER_ROUTER: usize = 2;
/// Time in which clients and controllers see how it is usually.
const BEFORE: Duration = Duration::from_secs(65);
/// Time after the loss in which misses are counted.
const COUNTED_S: usize = 75;
/// Longest run in seconds.
const SECONDS_MAX: usize = 600;
const HEALTH: &str = "observation_window_ms = 30000\nprobe_zones_min = 1\n";

/// What answers for a lost member.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Help {
    /// Clients get a miss until a spare has the slot
    Nothing,
    /// A gutter has what was asked for meanwhile
    Gutter,
    /// The gutter, and another copy, from which the spare is warmed up
    Copy,
}

/// Gets of each second, and those that the database has answered.
pub(crate) struct MissSeconds {
    began: Instant,
    gets: Vec<AtomicU64>,
    misses: Vec<AtomicU64>,
    ends: AtomicBool,
}

impl MissSeconds {
    fn new() -> MissSeconds {
        let zeros = || (0..SECONDS_MAX).map(|_| AtomicU64::new(0)).collect();
        MissSeconds { began: clock::now(), gets: zeros(), misses: zeros(), ends: AtomicBool::new(false) }
    }

    fn now(&self) -> usize {
        (self.began.elapsed().as_secs() as usize).min(SECONDS_MAX - 1)
    }

    fn note(&self, is_miss: bool) {
        let second = self.now();
        self.gets[second].fetch_add(1, Ordering::Relaxed);
        self.misses[second].fetch_add(u64::from(is_miss), Ordering::Relaxed);
    }

    fn sums(&self, seconds: std::ops::Range<usize>) -> [f64; 2] {
        let sum = |counts: &[AtomicU64]| -> f64 {
            counts[seconds.clone()].iter().map(|count| count.load(Ordering::Relaxed) as f64).sum()
        };
        [sum(&self.gets), sum(&self.misses)]
    }

    /// Misses of this time beyond what they were before, as a part of all gets.
    fn extra(&self, usual: f64, seconds: std::ops::Range<usize>) -> f64 {
        let [gets, misses] = self.sums(seconds);
        misses - usual * gets
    }
}

/// Loses a server.
pub(crate) fn measure(help: Help) -> Result<ScenarioFigures> {
    let mut fleet = fleet(help);
    let keys = KeyPicker::new();
    let seconds = Arc::new(MissSeconds::new());
    let mut clients = Vec::new();
    for number in 0..ROUTERS * CLIENTS_PER_ROUTER {
        let router = fleet.hosts[number % ROUTERS].router.as_ref().context("a router")?;
        let client = AsideClient::new(router.address(), number as u64, keys.clone(), Arc::clone(&seconds));
        clients.push(std::thread::Builder::new().spawn(move || client.run()).context("start a thread")?);
    }
    clock::pass(BEFORE);
    let before = seconds.now();
    let [gets, misses] = seconds.sums(before - 20..before);
    ensure!(gets > 0.0, "no client has asked for anything");
    let usual = misses / gets;
    // A host without a router: all routers are waited for.
    let number = fleet.host_with_slot("web", ROUTERS + 1..=HOSTS);
    let number = number.context("a member of web on a host without a router")?;
    let target = fleet.generation().context("a generation")?;
    let lost = seconds.now();
    fleet.hosts[number - 1].agent = None;
    fleet.hosts[number - 1].server.kill()?;
    fleet.until(|fleet| fleet.has_loaded(target + 1));
    let replaced = seconds.now();
    let end = lost + COUNTED_S;
    ensure!(replaced < end && end < SECONDS_MAX, "it is replaced after {} s", replaced - lost);
    clock::pass_until(seconds.began + Duration::from_secs(end as u64 + 1));
    seconds.ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().map_err(|_| anyhow::anyhow!("a client's thread ended"))?.context("a client")?;
    }
    let from_loss = seconds.extra(usual, lost..end);
    eprintln!(
        "misses: {:.0} gets/s, usually {usual:.4} of them miss; replaced after {} s; {from_loss:.0} extra misses",
        gets / 20.0,
        replaced - lost,
    );
    Ok(vec![
        ("extra_misses", from_loss),
        ("extra_misses_after_replacement", seconds.extra(usual, replaced..end)),
        ("replaced_s", (replaced - lost) as f64),
    ])
}

fn fleet(help: Help) -> Fleet {
    let mut fleet = of_ours(DecisionStore::Directory);
    fleet.write("health.toml", HEALTH);
    fleet.controller_flags = ["--health", "health.toml"].map(str::to_owned).to_vec();
    fleet.controller(1, 1);
    for host in 1..=HOSTS {
        fleet.host_with(host, HostKind { has_no_router: host > ROUTERS, ..HostKind::default() });
    }
    fleet.begin(&policy(help));
    fleet
}

fn policy(help: Help) -> String {
    let (substitutes, route) = match help {
        Help::Nothing => ("", r#""PoolRoute|web""#),
        Help::Gutter => ("gutter = { cluster = \"gutter\", exptime_s = 300 }\n", r#""web""#),
        Help::Copy => (
            "gutter = { cluster = \"gutter\", exptime_s = 300 }\nwarm_up = { cluster = \"copy\", exptime_s = 3600 }\n",
            r#"{"type": "OperationSelectorRoute", "default_policy": "web", "operation_policies": {
                "set": {"type": "AllSyncRoute", "children": ["web", "PoolRoute|copy"]},
                "delete": {"type": "AllSyncRoute", "children": ["web", "PoolRoute|copy"]}}}"#,
        ),
    };
    format!(
        "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 4\n{substitutes}\
         [[cluster]]\nname = \"copy\"\nslots = 4\n[[cluster]]\nname = \"gutter\"\nslots = 1\n\
         [[view]]\nname = \"main\"\nroutes = '''\n{{\"route\": {route}}}\n'''\n"
    )
}
