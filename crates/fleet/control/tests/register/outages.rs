//! Members of a real etcd that are lost under a writer, one and then two: no acknowledged write is lost with them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::register::{EtcdLimits, Register, RegisterError, Revision, Transaction, TransactionOutcome};
use os::clock::{Stopwatch, pause};
use rustix::process::Signal;

use crate::register::cluster::Cluster;
use crate::register::{PATIENCE, key, prefix, until};

/// Writes that are waited for in each state of the cluster.
const WRITES: usize = 20;
/// Time of a call. With a majority a write needs less, without one it fails then.
const OPERATION: Duration = Duration::from_secs(2);
/// When a call must have failed: its own time, the last attempt, and much for a busy machine.
const FAILED: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
enum Loss {
    Killed,
    Stopped,
}

impl Loss {
    fn begin(self, cluster: &mut Cluster, member: usize) {
        match self {
            Loss::Killed => cluster.kill(member),
            Loss::Stopped => cluster.signal(member, Signal::STOP),
        }
    }

    fn end(self, cluster: &mut Cluster, member: usize) {
        match self {
            Loss::Killed => cluster.restart(member),
            Loss::Stopped => cluster.signal(member, Signal::CONT),
        }
    }
}

/// Numbers that were acknowledged, in their order.
#[derive(Default)]
struct Acknowledged(Mutex<Vec<u64>>);

impl Acknowledged {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn add(&self, number: u64) {
        self.0.lock().expect("no panic").push(number);
    }

    /// Waits until there are more.
    #[track_caller]
    fn grow(&self, what: &str) {
        let before = self.count();
        until(what, || (self.count() >= before + WRITES).then_some(()));
    }
}

/// Writes one number after the other, each with a key of its own, until it is told to stop.
fn write(register: &dyn Register, acknowledged: &Acknowledged, stop: &AtomicBool) {
    let (last, mut number, mut revision) = (key("/last"), 1_u64, Revision::ABSENT);
    while !stop.load(Ordering::Relaxed) {
        let transaction = Transaction::if_revision(last.clone(), revision)
            .put(last.clone(), number.to_string())
            .put(key(&format!("/numbers/{number:08}")), number.to_string());
        match register.put_if(&transaction) {
            Ok(TransactionOutcome::Committed(at)) => {
                acknowledged.add(number);
                (number, revision) = (number + 1, at);
                pause(Duration::from_millis(2));
                continue;
            }
            // One of ours that was in doubt has happened since.
            Ok(TransactionOutcome::Conflict { .. }) => {}
            Err(RegisterError::Unavailable(_) | RegisterError::Unsettled { .. }) => {}
            other => panic!("{other:?}"),
        }
        match register.get(&last) {
            Ok(Some(entry)) if *entry.value == *number.to_string().as_bytes() => {
                // Nobody else writes this number.
                acknowledged.add(number);
                (number, revision) = (number + 1, entry.revision);
            }
            Ok(entry) => revision = entry.map_or(Revision::ABSENT, |entry| entry.revision),
            Err(RegisterError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[track_caller]
fn check_fails<T: std::fmt::Debug>(what: &str, call: impl FnOnce() -> Result<T, RegisterError>) {
    let passed = Stopwatch::start();
    match call() {
        Err(RegisterError::Unavailable(_) | RegisterError::Unsettled { .. }) => {}
        other => panic!("{what} without a majority: {other:?}"),
    }
    println!("{what} fails after {} ms", passed.passed().as_millis());
    assert!(passed.passed() < FAILED, "{what}: {:?}", passed.passed());
}

/// Ends the writer also if its test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn check(loss: Loss) {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let limits = EtcdLimits { operation: OPERATION, range: OPERATION, ..EtcdLimits::default() };
    let (writer, reader) = (cluster.register_with(limits), cluster.register_with(limits));
    let (acknowledged, stop) = (Acknowledged::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| write(&writer, &acknowledged, &stop));
        let _stop = Stop(&stop);
        acknowledged.grow("writes to three members");
        let first = cluster.leader();
        loss.begin(&mut cluster, first);
        acknowledged.grow("writes to two members");
        let second = (first + 1) % 3;
        loss.begin(&mut cluster, second);
        check_fails("a read", || reader.get(&key("/last")));
        check_fails("a range", || reader.range(&prefix("/")));
        let before = acknowledged.count();
        let update = Transaction::if_revision(key("/last"), Revision(1)).put(key("/last"), "never");
        check_fails("a write", || reader.put_if(&update));
        assert_eq!(acknowledged.count(), before, "one member is no majority");
        for member in [first, second] {
            loss.end(&mut cluster, member);
        }
        acknowledged.grow("writes to three members again");
        cluster.wait();
    });
    let found = until("a range", || reader.range(&prefix("/numbers/")).ok()).entries;
    let found: Vec<u64> = (found.iter())
        .map(|entry| std::str::from_utf8(&entry.value).expect("text").parse().expect("a number"))
        .collect();
    let acknowledged = acknowledged.0.into_inner().expect("no panic");
    assert!(acknowledged.len() >= 3 * WRITES, "{}", acknowledged.len());
    assert_eq!(acknowledged, (1..=acknowledged.len() as u64).collect::<Vec<_>>());
    // The last one may have happened without an answer.
    assert_eq!(found[..acknowledged.len()], acknowledged);
    assert!(found.len() <= acknowledged.len() + 1, "{} of {}", found.len(), acknowledged.len());
}

#[test]
fn no_acknowledged_write_is_lost_when_one_of_three_is_killed_and_then_two() {
    let passed = Stopwatch::start();
    check(Loss::Killed);
    assert!(passed.passed() < PATIENCE * 3, "{:?}", passed.passed());
}

#[test]
fn no_acknowledged_write_is_lost_when_one_of_three_is_stopped_and_then_two() {
    let passed = Stopwatch::start();
    check(Loss::Stopped);
    assert!(passed.passed() < PATIENCE * 3, "{:?}", passed.passed());
}
