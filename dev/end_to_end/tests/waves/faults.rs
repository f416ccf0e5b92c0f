//! Changes of hosts while something is killed, stopped, full, started again or off by minutes: each goes on or goes back, and no host is half.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind, etcd_program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stdx::prng::Prng;

use crate::fleet::changing::{BEGIN, ChangingFleet, UNJUDGED};

const HOSTS: usize = 8;
/// Rounds over all faults. `EVENKEEL_TEST_ROUNDS` names another number.
const ROUNDS: usize = 2;
/// All of a change's steps are within this time, so that a fault at a random moment meets each of them.
const STEPS_MS: u64 = 9_000;
/// All hosts are as before after it was said, whatever has happened.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// What happens in the middle of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The controller that decides is killed, and started again later.
    Controller,
    /// The member of etcd that leads is killed, and started again later.
    Leader,
    /// An agent is stopped for some seconds.
    Stopped,
    /// An agent is stopped until the change is over.
    StoppedLong,
    /// A host is started again, without its settings.
    Reboot,
    /// The disk of an agent is full.
    FullDisk,
}

const FAULTS: [Fault; 6] =
    [Fault::Controller, Fault::Leader, Fault::Stopped, Fault::StoppedLong, Fault::Reboot, Fault::FullDisk];

fn new_fleet() -> ChangingFleet {
    let mut fleet = Fleet::new(DecisionStore::Etcd(3));
    (1..=3).for_each(|number| fleet.controller(number, 3));
    let zone = |number| Some(if number % 2 == 0 { "a" } else { "b" });
    let kind = |number| HostKind { zone: zone(number), has_no_router: true, ..HostKind::default() };
    ChangingFleet::new(fleet, HOSTS, kind)
}

fn signal(fleet: &ChangingFleet, host: usize, signal: Signal) {
    let pid = fleet.fleet.hosts[host - 1].agent.as_ref().expect("an agent").pid();
    kill_process(Pid::from_raw(pid.cast_signed()).expect("a process"), signal).expect("it is there");
}

/// Puts a host's agent on a disk without room, with what it had.
fn fill(fleet: &mut ChangingFleet, host: usize) {
    let folder = fleet.fleet.path(&format!("agent{host}")).display().to_string();
    let script = format!(
        "mkdir -p {folder}.full && mount -t tmpfs -o size=256k tmpfs {folder}.full && cp -a {folder}/. {folder}.full/ \
         && (cat /dev/zero > {folder}.full/filler; mount --bind {folder}.full {folder}) && exec \"$0\" \"$@\""
    );
    fleet.fleet.restart_agent_behind(host - 1, &["unshare", "--mount", "sh", "-c", &script]);
}

#[test]
fn a_change_goes_on_or_goes_back_whatever_happens_in_its_middle() {
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    let rounds = std::env::var("EVENKEEL_TEST_ROUNDS").map_or(ROUNDS, |text| text.parse().expect("a number"));
    let mut fleet = new_fleet();
    let (mut lot, mut number, mut slowest) = (Prng::new(rounds as u64), 0, Duration::ZERO);
    for (round, fault) in (0..rounds).flat_map(|round| FAULTS.map(|fault| (round, fault))) {
        let (host, moment) = (1 + lot.below(HOSTS as u64) as usize, lot.below(STEPS_MS));
        number += 1;
        let what = format!("round {round}: {fault:?} of host {host} after {moment} ms in change {number}");
        let begun = fleet.apply("all", &[&UNJUDGED[..], &BEGIN].concat());
        assert!(begun.as_ref().is_ok_and(|said| said.contains("has begun")), "{what}: {begun:?}");
        clock::pass(Duration::from_millis(moment));
        match fault {
            Fault::Controller => fleet.fleet.kill_controller(1),
            Fault::Leader => {
                let at = fleet.fleet.etcd_leader().unwrap_or_else(|| panic!("{what}: nobody leads"));
                fleet.fleet.etcd[at] = None;
            }
            Fault::Stopped | Fault::StoppedLong => signal(&fleet, host, Signal::STOP),
            Fault::Reboot => fleet.reboot(host, number as usize + 1),
            Fault::FullDisk => fill(&mut fleet, host),
        }
        if fault == Fault::Stopped {
            clock::pass(Duration::from_secs(3));
            signal(&fleet, host, Signal::CONT);
        }
        let over = fleet.until(number, &["done", "undone", "halted"]);
        if fault == Fault::StoppedLong {
            signal(&fleet, host, Signal::CONT);
        }
        check_whole(&fleet, &over, host, fault, &what);
        let state = over["state"].as_str().unwrap_or_default().to_owned();
        let took = match &*state {
            "undone" => Duration::ZERO,
            _ => fleet.undo(number),
        };
        println!("{what}: {state}, and {took:.1?} after it was taken back every host was as before");
        slowest = slowest.max(took);
        match fault {
            Fault::Controller => fleet.fleet.controller(1, 3),
            Fault::Leader => fleet.fleet.start_etcd(),
            Fault::FullDisk => fleet.fleet.restart_agent(host - 1),
            Fault::Stopped | Fault::StoppedLong | Fault::Reboot => {}
        }
        fleet.until_heard(HOSTS);
    }
    println!("the slowest way back of {number} changes took {slowest:.1?}");
    assert!(slowest < BACK_WITHIN, "{slowest:?}");
}

/// What is said of hosts is how they are: those that are counted have it, byte for byte, and all others are as before.
#[track_caller]
fn check_whole(fleet: &ChangingFleet, over: &Value, host: usize, fault: Fault, what: &str) {
    let half: Vec<usize> =
        fleet.hosts().filter(|at| !fleet.is_changed(*at) && !fleet.is_as_before(*at)).collect();
    assert!(half.is_empty(), "{what}: {half:?} are half: {over}");
    let changed = fleet.changed();
    match over["state"].as_str() {
        Some("undone") => assert!(changed.is_empty(), "{what}: {changed:?}, {over}"),
        Some("done") => {
            let others: Vec<usize> =
                fleet.hosts().filter(|at| *at != host && !changed.contains(at)).collect();
            let is_one =
                matches!(fault, Fault::Stopped | Fault::StoppedLong | Fault::Reboot | Fault::FullDisk);
            assert!(others.is_empty(), "{what}: {others:?} do not have it: {over}");
            assert!(is_one || changed.contains(&host), "{what}: host {host} does not have it: {over}");
        }
        _ => panic!("{what}: {over}"),
    }
}

/// A library that tells a process another time of day, from another file than it was built of.
fn skewed(folder: &std::path::Path, seconds: i64) -> PathBuf {
    let (source, library) = (folder.join("skew.c"), folder.join(format!("skew{seconds}.so")));
    let text = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <time.h>\n\
        int clock_gettime(clockid_t id, struct timespec *at) {\n\
        static int (*real)(clockid_t, struct timespec *);\n\
        if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, \"clock_gettime\");\n\
        int status = real(id, at);\n\
        if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += SKEW;\n\
        return status;\n}\n";
    std::fs::write(&source, text).expect("a file");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", &format!("-DSKEW={seconds}"), "-o"]).arg(&library);
    command.arg(&source).arg("-ldl");
    assert!(command.status().expect("a compiler, which Rust links with, too").success());
    library
}

#[test]
fn clocks_that_are_off_by_five_minutes_change_nothing() {
    if etcd_program().is_none() {
        return eprintln!("left out: there is no etcd (Debian: etcd-server)");
    }
    let mut fleet = new_fleet();
    let folder = fleet.fleet.path("clocks");
    std::fs::create_dir(&folder).expect("a folder");
    for (number, (controller_s, agent_s)) in (1..).zip([(300, -300), (-300, 300)]) {
        let preload = |seconds| format!("LD_PRELOAD={}", skewed(&folder, seconds).display());
        fleet.fleet.kill_controller(1);
        fleet.fleet.controller_behind(1, 3, &["env", &preload(controller_s)]);
        fleet.fleet.restart_agent_behind(0, &["env", &preload(agent_s)]);
        fleet.until_heard(HOSTS);
        let begun = fleet.apply("all", &[&UNJUDGED[..], &BEGIN].concat());
        assert!(begun.is_ok(), "{begun:?}");
        let done = fleet.until(number, &["done", "undone", "halted"]);
        assert_eq!((&done["state"], fleet.changed().len()), (&Value::from("done"), HOSTS), "{done}");
        let took = fleet.undo(number);
        println!("controller off by {controller_s} s, agent by {agent_s} s: as before after {took:.1?}");
    }
    // That controller has had another time: it is the first by name, and has begun the changes.
}
