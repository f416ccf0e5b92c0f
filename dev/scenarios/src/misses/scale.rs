//! The load of the database while a cluster grows from four to six slots and shrinks back, or the other way round: at once, and by phases.
//!
//! Clients look aside, as in `misses`: a get that misses is answered by the database and followed by a set. An application
//! beside them deletes keys by one router and looks for them by another one: what is found is an old value.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};

use super::MissSeconds;
use super::client::{AsideClient, KeyPicker};
use super::deleting::DeletingApplication;
use crate::figures::ScenarioFigures;
use crate::fleet::of_ours;

const FEWER: usize = 4;
const MORE: usize = 6;
const HOSTS: usize = MORE;
/// Each has clients.
const ROUTERS: usize = 2;
const CLIENTS_PER_ROUTER: usize = 2;
/// Time in which clients fill the cache and see how it is usually.
const BEFORE: Duration = Duration::from_secs(40);
/// Time from each resize in which misses are counted: longer than it takes.
const COUNTED_S: usize = 120;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Warm-up by phases: what is asked for meanwhile is copied.
const WARM_UP_S: &str = "60";

/// How the cluster is resized.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum ResizeWay {
    /// All routers get the other number of slots, and nothing else is done
    Now,
    /// By phases
    Phases,
}

/// Grows, and shrinks back; or shrinks first. A cluster that shrinks back at once finds the keys that it had: old values, and no misses.
pub(crate) fn measure(how: ResizeWay, shrinks_first: bool) -> Result<ScenarioFigures> {
    let (first, other) = if shrinks_first { (MORE, FEWER) } else { (FEWER, MORE) };
    let fleet = fleet(first);
    let keys = KeyPicker::new();
    let seconds = Arc::new(MissSeconds::new());
    let places: Vec<SocketAddr> =
        fleet.hosts.iter().filter_map(|host| Some(host.router.as_ref()?.address())).collect();
    ensure!(places.len() == ROUTERS, "{} routers", places.len());
    let mut clients: Vec<JoinHandle<std::io::Result<()>>> = Vec::new();
    for number in 0..ROUTERS * CLIENTS_PER_ROUTER {
        let client =
            AsideClient::new(places[number % ROUTERS], number as u64, keys.clone(), Arc::clone(&seconds));
        clients.push(std::thread::Builder::new().spawn(move || client.run()).context("start a thread")?);
    }
    let ends = Arc::new(AtomicBool::new(false));
    let mut application = DeletingApplication::begin(&places)?;
    let stop = Arc::clone(&ends);
    let deleting =
        std::thread::Builder::new().spawn(move || application.run(&stop)).context("start a thread")?;
    clock::pass(BEFORE);
    let before = seconds.now();
    let [gets, misses] = seconds.sums(before - 10..before);
    ensure!(gets > 0.0, "no client has asked for anything");
    let usual = misses / gets;
    let (mut extra, mut took) = ([0.0; 2], [0.0; 2]);
    for slots in [other, first] {
        let (began, generation) = (seconds.now(), fleet.generation().context("a generation")?);
        let wanted = slots.to_string();
        let mut words = vec!["scale", "web", &wanted, "--apply", "--why", "measured"];
        match how {
            ResizeWay::Now => words.push("--now"),
            ResizeWay::Phases => words.extend(["--warm-up-s", WARM_UP_S]),
        }
        fleet.control(&words);
        if how == ResizeWay::Now {
            // Its lane has waves of minutes, in which each router has keys of its own.
            fleet.control(&["rollout", "hurry", "--why", "measured"]);
        }
        let last = generation + if how == ResizeWay::Now { 1 } else { 4 };
        while fleet.generation() != Some(last) || !fleet.has_loaded(last) {
            ensure!(seconds.now() < began + COUNTED_S, "to {slots} slots takes longer: {}", fleet.status());
            clock::pass(LOOK_EVERY);
        }
        let done = seconds.now();
        clock::pass_until(seconds.began + Duration::from_secs((began + COUNTED_S) as u64 + 1));
        let found = seconds.extra(usual, began..began + COUNTED_S);
        eprintln!("scale: to {slots} slots in {} s; {found:.0} extra misses in {COUNTED_S} s", done - began);
        let which = usize::from(slots == FEWER);
        (extra[which], took[which]) = (found, (done - began) as f64);
    }
    seconds.ends.store(true, Ordering::Relaxed);
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().map_err(|_| anyhow::anyhow!("a client's thread ended"))?.context("a client")?;
    }
    let counts = deleting
        .join()
        .map_err(|_| anyhow::anyhow!("a thread ended"))?
        .context("the application that deletes")?;
    eprintln!(
        "scale: {:.0} gets/s, usually {usual:.4} of them miss; {} deletes, and {} old values found",
        gets / 10.0,
        counts.deletes,
        counts.stale
    );
    Ok(vec![
        ("extra_misses_growing", extra[0]),
        ("extra_misses_shrinking", extra[1]),
        ("extra_misses", extra[0] + extra[1]),
        ("growing_s", took[0]),
        ("shrinking_s", took[1]),
        ("deletes", counts.deletes as f64),
        ("old_values", counts.stale as f64),
    ])
}

fn fleet(slots: usize) -> Fleet {
    let mut fleet = of_ours(DecisionStore::Directory);
    fleet.controller(1, 1);
    for host in 1..=HOSTS {
        fleet.host_with(host, HostKind { has_no_router: host > ROUTERS, ..HostKind::default() });
    }
    fleet.begin(&format!(
        "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = {slots}\n[[view]]\nname = \"main\"\nroutes = '''\n{{\"route\": \"PoolRoute|web\"}}\n'''\n",
    ));
    fleet
}
