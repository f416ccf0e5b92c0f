//! Registers against each other, against a real etcd, and against a scripted one.

mod cluster;
mod crashes;
mod directory;
mod disk;
mod faults;
mod outages;
mod real;
mod restored;
mod script;
mod scripted;
mod traps;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use control::register::{KeyPrefix, Register, RegisterKey, Revision, Transaction, TransactionOutcome};

/// How long a test waits for what must happen: long, so that it does not fail on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(text: &str) -> RegisterKey {
    text.parse().expect("a key")
}

fn prefix(text: &str) -> KeyPrefix {
    text.parse().expect("a prefix")
}

fn create(text: &str, value: &str) -> Transaction {
    Transaction::if_revision(key(text), Revision::ABSENT).put(key(text), value)
}

#[track_caller]
fn committed(register: &dyn Register, transaction: &Transaction) -> Revision {
    match register.put_if(transaction).expect("an answer") {
        TransactionOutcome::Committed(revision) => revision,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_failure<T: std::fmt::Debug, E: std::fmt::Display>(answer: Result<T, E>, expected: &str) {
    match answer {
        Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        Ok(answer) => panic!("{answer:?}, expected: {expected}"),
    }
}

/// Tries until there is an answer, or the patience is over.
#[track_caller]
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let watch = os::clock::Stopwatch::start();
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        assert!(watch.passed() < PATIENCE, "in vain: {what}");
        os::clock::pause(Duration::from_millis(5));
    }
}

/// A new directory, which goes with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-register-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it fails, the rest is in the directory of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
