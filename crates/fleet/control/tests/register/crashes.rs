//! A directory's writer that is killed at any moment: what it acknowledged is there, whole, and the directory opens.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use control::register::{
    DirectoryReader, DirectoryRegister, Register, RegisterEntry, RegisterKey, Revision, Transaction,
    TransactionOutcome,
};
use stdx::prng::Prng;

use crate::register::{Scratch, key, prefix};

/// How often the writer is killed; `EVENKEEL_TEST_ROUNDS` says how often else.
const ROUNDS: u64 = 200;
/// Keys that are written in turn, so that each round writes over earlier ones.
const KEYS: u64 = 64;
/// Writes after which the writer compacts: often enough to be killed there.
const WRITES_PER_COMPACTION: u64 = 23;
/// Says to this test that it is the writer, and of which directory.
const WRITER: &str = "EVENKEEL_TEST_REGISTER_WRITER";
const ITSELF: &str =
    "register::crashes::a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged";

#[test]
fn a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged() {
    if let Some(folder) = std::env::var_os(WRITER) {
        write(Path::new(&folder));
    }
    let folder = Scratch::new();
    drop(DirectoryRegister::open(&folder.0).expect("a directory"));
    let given = std::env::var("EVENKEEL_TEST_ROUNDS").ok();
    let rounds = given.map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let mut prng = Prng::new(1);
    let mut last = 0;
    for round in 0..rounds {
        let acknowledged = kill_a_writer(&folder.0, &mut prng).unwrap_or(last);
        let mut reader = DirectoryReader::open(&folder.0).unwrap_or_else(|error| panic!("{round}: {error}"));
        let found = check(&reader.range(&prefix("/")).expect("an answer").entries, round);
        // The one after it may be durable, and its acknowledgement not written.
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{round}: {acknowledged}, found {found}");
        assert!(found >= last, "{round}: a write of an earlier round is lost");
        last = found;
        // In the other rounds the next writer finds all that this one has left.
        if round % 2 == 0 {
            let register =
                DirectoryRegister::open(&folder.0).unwrap_or_else(|error| panic!("{round}: {error}"));
            let entries = register.range(&prefix("/")).expect("an answer").entries;
            assert_eq!(check(&entries, round), last, "{round}: opened to write");
            assert!(entries.iter().all(|entry| entry.lease.is_none()), "{round}: its lease ended with it");
        }
    }
    assert!(last > rounds, "hardly anything was written: {last}");
    println!("{rounds} writers were killed in {last} writes");
}

/// Starts a writer and kills it; returns the last write that it acknowledged.
fn kill_a_writer(folder: &Path, prng: &mut Prng) -> Option<u64> {
    let itself = std::env::current_exe().expect("own path");
    let mut writer = Command::new(itself);
    writer.args(["--exact", ITSELF, "--nocapture"]).env(WRITER, folder);
    let mut writer = writer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a writer");
    let mut lines = BufReader::new(writer.stdout.take().expect("a pipe"));
    // One in four is killed while it opens the directory, or before.
    let acknowledged = match prng.below(4) {
        0 => None,
        _ => next(&mut lines, 1 + prng.below(12)),
    };
    os::clock::pause(Duration::from_micros(prng.below(8000)));
    end(&mut writer);
    next(&mut lines, u64::MAX).or(acknowledged)
}

fn end(writer: &mut Child) {
    writer.kill().expect("kill");
    let status = writer.wait().expect("its end");
    assert_eq!(status.signal(), Some(9), "the writer has ended by itself: {status}");
}

/// Reads up to so many acknowledgements; returns the last one.
fn next(lines: &mut BufReader<ChildStdout>, count: u64) -> Option<u64> {
    let (mut last, mut seen, mut line) = (None, 0, String::new());
    while seen < count && lines.read_line(&mut line).expect("a pipe") > 0 {
        // Of the harness there are other lines; one that was cut off has no end.
        let number = line.strip_prefix("acknowledged ").and_then(|rest| rest.strip_suffix('\n'));
        if let Some(number) = number {
            last = Some(number.parse().expect("a number"));
            seen += 1;
        }
        line.clear();
    }
    last
}

/// Writes until it is killed.
fn write(folder: &Path) -> ! {
    let register = DirectoryRegister::open(folder).expect("a directory");
    let entries = register.range(&prefix("/")).expect("an answer").entries;
    let mut last = check(&entries, 0);
    let lease = register.grant(Duration::from_secs(3600)).expect("a lease").id;
    let revision =
        |key: &RegisterKey| register.get(key).expect("an answer").map_or(Revision::ABSENT, |it| it.revision);
    loop {
        last += 1;
        let (counter, leased) = (key("/last"), key("/leased"));
        let transaction = Transaction::if_revision(counter.clone(), revision(&counter))
            .put(counter, last.to_string())
            .put(slot(last), text(last))
            .put_leased(leased, "", lease);
        let TransactionOutcome::Committed(at) = register.put_if(&transaction).expect("an answer") else {
            panic!("nobody else writes")
        };
        println!("acknowledged {last}");
        if last.is_multiple_of(WRITES_PER_COMPACTION) {
            register.compact(at).expect("it is there");
        }
    }
}

fn slot(number: u64) -> RegisterKey {
    key(&format!("/slots/{}", number % KEYS))
}

/// A text that no other number has: from some bytes to some pages.
fn text(number: u64) -> String {
    let mut text = String::new();
    for at in 0..=number * 7919 % 500 {
        let _ = write!(text, "{number}.{at} ");
    }
    text
}

/// The last number that was written, if all of it and of those before is there.
#[track_caller]
fn check(entries: &[RegisterEntry], round: u64) -> u64 {
    let value = |key: RegisterKey| {
        let found = entries.iter().find(|entry| entry.key == key);
        found.map(|entry| String::from_utf8(entry.value.to_vec()).expect("text"))
    };
    let last: u64 = value(key("/last")).map_or(0, |text| text.parse().expect("a number"));
    for number in last.saturating_sub(KEYS - 1).max(1)..=last {
        assert_eq!(value(slot(number)), Some(text(number)), "{round}: of the last write {last}");
    }
    last
}
