//! Members of a real etcd that are killed or stopped: decisions go on, and no change is missed.

use std::time::Duration;

use control::register::{
    EtcdLimits, Register, RegisterError, Revision, Transaction, TransactionOutcome, WatchStep,
};
use os::clock::Stopwatch;
use rustix::process::Signal;

use crate::register::cluster::Cluster;
use crate::register::{PATIENCE, create, key, prefix};

/// How often the leader is lost; `EVENKEEL_TEST_ROUNDS` says how often else.
const ROUNDS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Stopped,
}

/// Loses the leader again and again; prints how long it took to decide.
#[track_caller]
fn check(loss: Loss) {
    let Some(mut cluster) = Cluster::start(3) else { return };
    // A watch at a stopped member asks after a minute of silence: here, sooner.
    let limits = EtcdLimits { silence: Duration::from_secs(3), ..EtcdLimits::default() };
    let register = cluster.register_with(limits);
    let given = std::env::var("EVENKEEL_TEST_ROUNDS").ok();
    let rounds = given.map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let mut revision = match register.put_if(&create("/target", "0")).expect("an answer") {
        TransactionOutcome::Committed(revision) => revision,
        other => panic!("{other:?}"),
    };
    let mut watch = register.watch(&prefix("/"), revision);
    assert_eq!(watch.next(Duration::ZERO).expect("an answer"), WatchStep::Quiet);
    let mut took = Vec::new();
    for round in 1..=rounds {
        let leader = cluster.leader();
        match loss {
            Loss::Killed => cluster.kill(leader),
            Loss::Stopped => cluster.signal(leader, Signal::STOP),
        }
        let passed = Stopwatch::start();
        revision = decide(&register, &round.to_string(), revision);
        took.push(passed.passed());
        assert!(passed.passed() < PATIENCE, "{loss:?}: {:?}", passed.passed());
        // The watch tells it, whichever member it was at.
        let value = loop {
            match watch.next(PATIENCE) {
                Ok(WatchStep::Changes(changes)) => break changes.last().expect("never none").value.clone(),
                Ok(WatchStep::Quiet) | Err(RegisterError::Unavailable(_)) => {}
                other => panic!("{other:?}"),
            }
            assert!(passed.passed() < PATIENCE * 3, "the change is not told");
        };
        assert_eq!(value.as_deref(), Some(round.to_string().as_bytes()));
        match loss {
            Loss::Killed => cluster.restart(leader),
            Loss::Stopped => cluster.signal(leader, Signal::CONT),
        }
        cluster.wait();
    }
    took.sort_unstable();
    let ms: Vec<u128> = took.iter().map(Duration::as_millis).collect();
    println!("{loss:?}: decided again after {ms:?} ms, at worst {:?}", took.last());
}

/// As a controller does it: after an answer in doubt it reads, and tries again.
fn decide(register: &dyn Register, value: &str, mut revision: Revision) -> Revision {
    let passed = Stopwatch::start();
    while passed.passed() < PATIENCE {
        let transaction = Transaction::if_revision(key("/target"), revision).put(key("/target"), value);
        match register.put_if(&transaction) {
            Ok(TransactionOutcome::Committed(revision)) => return revision,
            Ok(other) => panic!("nobody else writes: {other:?}"),
            Err(RegisterError::Unavailable(_) | RegisterError::Unsettled { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if let Ok(Some(entry)) = register.get(&key("/target")) {
            if &*entry.value == value.as_bytes() {
                return entry.revision;
            }
            revision = entry.revision;
        }
    }
    panic!("no decision within {PATIENCE:?}");
}

#[test]
fn decisions_go_on_when_the_leader_of_three_is_killed() {
    check(Loss::Killed);
}

#[test]
fn decisions_go_on_when_the_leader_of_three_is_stopped() {
    check(Loss::Stopped);
}

#[test]
fn a_watch_goes_on_where_it_was_when_its_only_etcd_was_away() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let register = cluster.register();
    let mut watch = register.watch(&prefix("/"), Revision::FIRST);
    let step = |watch: &mut dyn control::register::RegisterWatch| loop {
        match watch.next(PATIENCE) {
            Ok(WatchStep::Changes(changes)) => {
                return changes.into_iter().map(|change| change.key.to_string()).collect::<Vec<_>>();
            }
            Ok(WatchStep::Quiet) => panic!("a change is missed"),
            Err(RegisterError::Unavailable(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    crate::register::committed(&register, &create("/a", ""));
    assert_eq!(step(&mut *watch), ["/a"]);
    cluster.kill(0);
    crate::register::check_failure(watch.next(Duration::ZERO), "reach the register");
    crate::register::check_failure(register.get(&key("/a")), "reach the register");
    crate::register::check_failure(register.put_if(&create("/b", "")), "reach the register");
    cluster.restart(0);
    cluster.wait();
    crate::register::committed(&register, &create("/b", ""));
    assert_eq!(step(&mut *watch), ["/b"]);
}
