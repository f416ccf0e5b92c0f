//! A directory register on a real disk: who may write, who may read, and what a bad disk does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use control::register::{
    DirectoryReader, DirectoryRegister, LeaseAnswer, Register, RegisterWatch, Revision, Transaction,
    TransactionOutcome, WatchStep,
};

use crate::register::{PATIENCE, Scratch, check_failure, committed, create, key, prefix};

fn open(folder: &Path) -> DirectoryRegister {
    DirectoryRegister::open(folder).expect("a directory")
}

#[track_caller]
fn check_refused(folder: &Path, expected: &str) {
    check_failure(DirectoryRegister::open(folder).map(drop), expected);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let folder = Scratch::new();
    let first = open(&folder.0);
    check_refused(&folder.0, &format!("process {} has it open", std::process::id()));
    committed(&first, &create("/a", ""));
    drop(first);
    assert!(open(&folder.0).get(&key("/a")).expect("an answer").is_some());
}

#[test]
fn what_was_committed_is_there_after_a_restart_and_what_leases_held_is_not() {
    let folder = Scratch::new();
    let register = open(&folder.0);
    committed(&register, &create("/a", "text"));
    let lease = register.grant(Duration::from_secs(3600)).expect("a lease").id;
    let leader =
        |lease| Transaction::if_revision(key("/l"), Revision::ABSENT).put_leased(key("/l"), "me", lease);
    committed(&register, &leader(lease));
    drop(register);
    let register = open(&folder.0);
    let range = register.range(&prefix("/")).expect("an answer");
    assert_eq!((range.entries.len(), range.entries[0].key.as_str(), range.revision), (1, "/a", Revision(4)));
    assert_eq!(register.keep_alive(lease).expect("an answer"), LeaseAnswer::Lost);
    assert_eq!(register.put_if(&leader(lease)).expect("an answer"), TransactionOutcome::LeaseLost);
    let next = register.grant(Duration::from_secs(3600)).expect("a lease").id;
    assert_ne!(next, lease, "a number is never given twice");
}

#[test]
fn a_lease_ends_while_somebody_watches() {
    let folder = Scratch::new();
    let register = open(&folder.0);
    let lease = register.grant(Duration::from_secs(2)).expect("a lease").id;
    let leader = Transaction::if_revision(key("/l"), Revision::ABSENT).put_leased(key("/l"), "me", lease);
    let since = committed(&register, &leader);
    let mut watch = register.watch(&prefix("/"), since);
    let WatchStep::Changes(changes) = watch.next(PATIENCE).expect("an answer") else { panic!("no change") };
    assert_eq!((changes.len(), &changes[0].value), (1, &None));
    assert_eq!(register.keep_alive(lease).expect("an answer"), LeaseAnswer::Lost);
}

#[test]
fn watches_of_the_writer_and_of_readers_see_each_change_once() {
    let folder = Scratch::new();
    let register = open(&folder.0);
    let reader = DirectoryReader::open(&folder.0).expect("a register");
    let mut reader_watch = reader.watch(&prefix("/"), Revision::FIRST).expect("a watch");
    let mut writer_watch = register.watch(&prefix("/"), Revision::FIRST);
    let follow = |watch: &mut dyn RegisterWatch| {
        let mut seen = Vec::new();
        while seen.len() < 600 {
            match watch.next(PATIENCE).expect("an answer") {
                WatchStep::Changes(changes) => seen.extend(changes.iter().map(|change| change.revision.0)),
                WatchStep::Quiet => panic!("a change is missed"),
                // Behind by more than what the directory keeps: a busy machine. The rest must follow.
                WatchStep::Compacted(_) => return None,
            }
        }
        Some(seen)
    };
    std::thread::scope(|scope| {
        let followers = [
            scope.spawn(move || follow(&mut *writer_watch)),
            scope.spawn(move || follow(&mut *reader_watch)),
        ];
        for number in 0..600 {
            committed(&register, &create(&format!("/k{number}"), ""));
        }
        for follower in followers {
            if let Some(seen) = follower.join().expect("no panic") {
                assert_eq!(seen, (2..602).collect::<Vec<u64>>());
            }
        }
    });
    // 600 commits: two states were written, and 256 to 511 commits are kept.
    let kept = names(&folder.0);
    assert_eq!(kept.iter().filter(|name| name.starts_with("state-")).count(), 1, "{kept:?}");
    assert!(kept.len() < 514, "{}", kept.len());
    let mut reader = DirectoryReader::open(&folder.0).expect("a register");
    assert_eq!(reader.range(&prefix("/")).expect("an answer").entries.len(), 600);
    let mut late = reader.watch(&prefix("/"), Revision::FIRST).expect("a watch");
    assert!(matches!(late.next(Duration::ZERO).expect("an answer"), WatchStep::Compacted(_)));
}

#[test]
fn a_torn_missing_or_foreign_file_is_named() {
    let folder = Scratch::new();
    let path = |name: &str| folder.0.join(name);
    let register = open(&folder.0);
    let revisions = ["/a", "/b", "/c"].map(|key| committed(&register, &create(key, "")).0);
    drop(register);
    let [second, third, fourth] = revisions.map(|revision| format!("commit-{revision:020}"));
    let check = |name: &str, change: &dyn Fn(&Path), expected: &str| {
        let kept = fs::read(path(name)).expect("a file");
        change(&path(name));
        check_refused(&folder.0, &format!("{}: {expected}", path(name).display()));
        check_failure(DirectoryReader::open(&folder.0).map(drop), name);
        fs::write(path(name), kept).expect("write");
        assert!(open(&folder.0).get(&key("/c")).expect("an answer").is_some());
    };
    let truncate = |path: &Path| fs::write(path, &fs::read(path).expect("a file")[..40]).expect("write");
    let remove = |path: &Path| fs::remove_file(path).expect("remove");
    let empty = |path: &Path| fs::write(path, "").expect("write");
    for name in [&second, &third, &fourth] {
        check(name, &truncate, "its first line has no end");
        check(name, &empty, "its first line has no end");
    }
    check(&second, &remove, "it is missing, although later ones are there");
    check(&third, &remove, "it is missing, although later ones are there");
    check(&format!("state-{:020}", 1), &remove, "it is missing, although later ones are there");
    fs::write(path("notes.txt"), "mine").expect("write");
    check_refused(&folder.0, "notes.txt: it is not a file of a register");
    fs::remove_file(path("notes.txt")).expect("remove");
    fs::create_dir(path("commit-00000000000000000009")).expect("a directory");
    check_refused(&folder.0, "commit-00000000000000000005: it is missing");
    fs::remove_dir(path("commit-00000000000000000009")).expect("remove");
    for name in names(&folder.0).iter().filter(|name| *name != "lock") {
        fs::remove_file(path(name)).expect("remove");
    }
    check_refused(&folder.0, "it is missing, although the directory was in use");
}

#[test]
fn a_reader_without_a_register_says_so() {
    let folder = Scratch::new();
    check_failure(DirectoryReader::open(&folder.0).map(drop), "there is no register in");
    check_failure(DirectoryReader::open(&folder.0.join("no")).map(drop), "list");
    check_refused(&folder.0.join("no/such"), "create");
}
