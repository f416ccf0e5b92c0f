//! Tests of the audit log: every fault and where it is, full disks, torn ends, hostile texts.

use super::*;
use crate::identity::FleetIdentity;
use crate::service::authorise::ControlVerb;
use crate::testing::Scratch;
use std::fs;
use std::io;
use stdx::prng::Prng;

const NOON_S: u64 = 1_800_000_000;

fn ann() -> FleetIdentity {
    "evenkeel://prod/operator/ann".parse().expect("an identity")
}

fn entry(why: &str) -> AuditEntry {
    let plan = Some(PlanDigest::of(b"a plan"));
    AuditEntry::new(ann(), ControlVerb::Apply, AuditReach::Members, plan, why).expect("an entry")
}

/// A disk in memory that can be full, or fail to sync or to cut.
#[derive(Debug, Default)]
struct TestDisk {
    bytes: Vec<u8>,
    room: Option<usize>,
    fails_sync: bool,
    fails_cut: bool,
}

impl AuditDisk for TestDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.room.unwrap_or(usize::MAX).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..written]);
        if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.fails_sync { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.fails_cut {
            return Err(io::Error::other("the disk is gone"));
        }
        self.bytes.truncate(len as usize);
        Ok(())
    }
}

fn on(disk: TestDisk) -> AuditLog<TestDisk> {
    let verified = verify(&*disk.bytes, &AuditHead::START, None).expect("a log without a fault");
    AuditLog::resume(disk, &verified)
}

/// A log of so many records, its lines and its head.
fn written(records: u64) -> (Vec<String>, AuditHead) {
    let mut log = on(TestDisk::default());
    for number in 1..=records {
        log.append(&entry(&format!("reason {number}")), &AuditResult::Done, NOON_S + number).expect("room");
    }
    let text = String::from_utf8(log.disk().bytes.clone()).expect("text");
    (text.split_inclusive('\n').map(str::to_owned).collect(), log.head())
}

/// What a verifier says about a log of five records after this was done to its lines.
#[track_caller]
fn check(change: impl FnOnce(&mut Vec<String>), expected: &str) {
    let (mut lines, head) = written(5);
    change(&mut lines);
    let found = match verify(lines.concat().as_bytes(), &AuditHead::START, Some(&head)) {
        Ok(verified) => format!("whole to {}, {} beyond", verified.head.number, verified.beyond_kept),
        Err(fault) => fault.to_string(),
    };
    assert!(found.contains(expected), "{found}");
}

#[test]
fn a_log_as_it_was_written_has_no_fault() {
    check(|_| {}, "whole to 5, 0 beyond");
    assert_eq!(verify(&b""[..], &AuditHead::START, None).expect("an empty log").head, AuditHead::START);
}

#[test]
fn a_record_is_a_line_of_json() {
    let line = &written(1).0[0];
    let zeros = "0".repeat(64);
    let plan = PlanDigest::of(b"a plan");
    let expected = format!(
        "{{\"number\":1,\"at_s\":1800000001,\"who\":\"evenkeel://prod/operator/ann\",\"verb\":\"apply\",\
         \"reach\":\"members\",\"plan\":\"{plan}\",\"why\":\"reason 1\",\"result\":\"done\",\
         \"before\":\"{zeros}\",\"hash\":\""
    );
    assert!(line.starts_with(&expected), "{line}");
    serde_json::from_str::<serde_json::Value>(line).expect("JSON");
}

#[test]
fn missing_records_are_found() {
    check(|lines| drop(lines.remove(2)), "line 3 has record 4, expected 3: records are missing");
    check(|lines| drop(lines.remove(0)), "line 1 has record 2, expected 1: records are missing");
    check(|lines| drop(lines.drain(1..4)), "line 2 has record 5, expected 2");
}

#[test]
fn a_cut_end_is_found_by_the_kept_head() {
    check(|lines| drop(lines.pop()), "ends with record 4, and there was a record 5");
    check(|lines| lines.clear(), "ends with record 0, and there was a record 5");
}

#[test]
fn records_in_another_order_or_twice_are_found() {
    check(|lines| lines.swap(1, 2), "line 2 has record 3, expected 2");
    check(|lines| lines.insert(3, lines[2].clone()), "line 4 has record 3, expected 4: it is out of order");
}

#[test]
fn a_changed_record_is_found() {
    let edit = |from: &'static str, to: &'static str| {
        move |lines: &mut Vec<String>| lines[2] = lines[2].replacen(from, to, 1)
    };
    check(edit("reason 3", "reason 8"), "line 3 was changed");
    check(edit("/ann", "/bob"), "line 3 was changed");
    check(edit("\"done\"", "\"failed\""), "line 3 was changed");
    check(edit("{\"number\"", "{ \"number\""), "line 3 was changed");
    check(edit("\"why\":\"reason 3\",", ""), "line 3 was changed");
    check(edit("\"hash\":\"", "\"hash\":\"0"), "line 3 is no record");
    check(|lines| lines[2] = "\n".to_owned(), "line 3 is no record");
    check(|lines| lines[2] = "x".repeat(10_000_000) + "\n", "line 3 is no record");
}

#[test]
fn every_changed_byte_is_found() {
    let (lines, head) = written(3);
    let whole = lines.concat().into_bytes();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(verify(&*changed, &AuditHead::START, Some(&head)).is_err(), "byte {at}");
    }
}

#[test]
fn a_log_that_was_written_anew_is_found_by_the_kept_head() {
    let anew = |records: u64, why: &str| {
        let mut log = on(TestDisk::default());
        for number in 1..=records {
            log.append(&entry(why), &AuditResult::Done, NOON_S + number).expect("room");
        }
        vec![String::from_utf8(log.disk().bytes.clone()).expect("text")]
    };
    check(|lines| *lines = anew(5, "another"), "record 5 is another one");
    check(|lines| *lines = anew(9, "another"), "record 5 is another one");
    // From its middle on, with a chain of its own.
    let (lines, _) = written(2);
    let mut log = on(TestDisk { bytes: lines.concat().into_bytes(), ..TestDisk::default() });
    for _ in 0..3 {
        log.append(&entry("another"), &AuditResult::Done, NOON_S).expect("room");
    }
    let text = String::from_utf8(log.disk().bytes.clone()).expect("text");
    check(|lines| *lines = vec![text], "record 5 is another one");
}

#[test]
fn a_record_of_another_log_does_not_fit() {
    let mut other = on(TestDisk::default());
    for _ in 0..5 {
        other.append(&entry("another"), &AuditResult::Done, NOON_S).expect("room");
    }
    let text = String::from_utf8(other.disk().bytes.clone()).expect("text");
    let third = text.split_inclusive('\n').nth(2).expect("a line").to_owned();
    check(|lines| lines[2] = third, "line 3 does not follow on the one before");
}

#[test]
fn records_after_the_kept_head_are_counted() {
    let (lines, _) = written(5);
    let (_, kept) = written(4);
    let verified = verify(lines.concat().as_bytes(), &AuditHead::START, Some(&kept)).expect("no fault");
    assert_eq!((verified.head.number, verified.beyond_kept), (5, 1));
}

#[test]
fn a_second_file_follows_on_the_first() {
    let (_, first) = written(3);
    let scratch = Scratch::new();
    let path = scratch.path("audit-2.jsonl");
    let (mut log, _) = AuditLog::open(&path, &first, Some(&first)).expect("a log");
    let head = log.append(&entry("more"), &AuditResult::Done, NOON_S).expect("room");
    drop(log);
    assert_eq!(head.number, 4);
    assert!(AuditLog::open(&path, &first, Some(&head)).is_ok());
    assert!(matches!(
        AuditLog::open(&path, &AuditHead::START, Some(&head)),
        Err(AuditError::Fault(AuditFault::Gap { line: 1, expected: 1, found: 4 }))
    ));
}

#[test]
fn a_torn_end_is_found_wherever_it_is_torn() {
    let (lines, _) = written(3);
    let whole = lines.concat();
    let begin = lines[0].len() + lines[1].len();
    for end in begin + 1..whole.len() {
        let fault = verify(&whole.as_bytes()[..end], &AuditHead::START, None).expect_err("torn");
        let AuditFault::Torn { line: 3, at, len } = fault else { panic!("{fault}") };
        assert_eq!((at, len), (begin as u64, (end - begin) as u64));
    }
    let zeros = [whole.as_bytes(), &[0; 100_000]].concat();
    let fault = verify(&*zeros, &AuditHead::START, None).expect_err("zeros");
    assert!(matches!(fault, AuditFault::Torn { line: 4, len: 100_000, .. }), "{fault}");
}

#[test]
fn a_torn_end_is_repaired_when_asked_for_and_kept() {
    let scratch = Scratch::new();
    let path = scratch.path("audit.jsonl");
    let (lines, _) = written(3);
    let torn = [&lines[0], &lines[1], &lines[2][..40]].map(|text| text as &str).concat();
    fs::write(&path, &torn).expect("a file");
    let (_, kept) = written(2);
    let open = || AuditLog::open(&path, &AuditHead::START, Some(&kept));
    assert!(matches!(open(), Err(AuditError::Fault(AuditFault::Torn { line: 3, .. }))));
    assert_eq!(fs::read_to_string(&path).expect("a file"), torn, "opening changes nothing");

    let why = "the host lost power";
    let repair =
        AuditEntry::new(ann(), ControlVerb::AuditRepair, AuditReach::Nothing, None, why).expect("one");
    let (log, repaired) =
        AuditLog::repair(&path, &AuditHead::START, Some(&kept), &repair, NOON_S).expect("a repair");
    assert_eq!((log.head().number, repaired.torn_len), (3, 40));
    assert_eq!(
        fs::read_to_string(repaired.torn_file).expect("a file"),
        lines[2][..40].escape_default().to_string()
    );
    drop(log);
    let (_, verified) = open().expect("no fault");
    assert_eq!((verified.head.number, verified.beyond_kept), (3, 1));
    let again = AuditLog::repair(&path, &AuditHead::START, Some(&kept), &repair, NOON_S);
    assert!(matches!(again, Err(AuditError::NotTorn)));
}

#[test]
fn only_a_torn_end_is_repaired() {
    let scratch = Scratch::new();
    let path = scratch.path("audit.jsonl");
    let (mut lines, head) = written(3);
    lines[1] = lines[1].replace("reason", "treason");
    let text = lines.concat() + "{\"numb";
    fs::write(&path, &text).expect("a file");
    let repaired = AuditLog::repair(&path, &AuditHead::START, Some(&head), &entry("x"), NOON_S);
    assert!(matches!(repaired, Err(AuditError::Fault(AuditFault::Changed { line: 2 }))));
    assert_eq!(fs::read_to_string(&path).expect("a file"), text);
}

#[test]
fn two_processes_do_not_write_one_log() {
    let scratch = Scratch::new();
    let path = scratch.path("audit.jsonl");
    let open = || AuditLog::open(&path, &AuditHead::START, None);
    let first = open().expect("a log");
    assert!(matches!(open(), Err(AuditError::InUse { .. })));
    drop(first);
    assert!(open().is_ok());
    assert_eq!(crate::identity::private_file::others_mode(&path).ok(), Some(0));
}

#[test]
fn a_full_disk_leaves_the_log_as_it_was() {
    let (lines, _) = written(2);
    for room in 0..lines[1].len() {
        let mut log = on(TestDisk { bytes: lines[0].clone().into_bytes(), ..TestDisk::default() });
        log.disk().room = Some(room);
        let refused = log.append(&entry("reason 2"), &AuditResult::Done, NOON_S + 2);
        assert!(matches!(refused, Err(AuditError::Append(_))));
        assert_eq!(log.disk().bytes, lines[0].as_bytes(), "room for {room}");
        log.disk().room = None;
        log.append(&entry("reason 2"), &AuditResult::Done, NOON_S + 2).expect("room");
        assert_eq!(log.disk().bytes, lines.concat().as_bytes());
    }
}

#[test]
fn after_an_append_of_unknown_end_the_log_is_opened_again() {
    for (room, fails_sync) in [(Some(10), false), (None, true)] {
        let mut log = on(TestDisk { room, fails_sync, fails_cut: true, ..TestDisk::default() });
        let append = |log: &mut AuditLog<TestDisk>| log.append(&entry("x"), &AuditResult::Done, NOON_S);
        assert!(matches!(append(&mut log), Err(AuditError::Unsure(_))));
        *log.disk() = TestDisk::default();
        assert!(matches!(append(&mut log), Err(AuditError::WasUnsure)));
        assert_eq!(log.head(), AuditHead::START);
    }
}

/// A disk that fails in any way at any time: what was acknowledged is there, in order, and each fault of the disk is a torn
/// end at worst.
#[test]
fn what_was_acknowledged_is_in_the_log_after_any_failure() {
    for seed in 0..200 {
        let mut prng = Prng::new(seed);
        let mut log = on(TestDisk::default());
        let mut acknowledged = 0;
        for _ in 0..100 {
            let disk = log.disk();
            disk.room = (prng.below(4) == 0).then(|| prng.below(800) as usize);
            (disk.fails_sync, disk.fails_cut) = (prng.below(10) == 0, prng.below(2) == 0);
            match log.append(&entry("x"), &AuditResult::Done, NOON_S) {
                Ok(head) => acknowledged = head.number,
                Err(AuditError::Append(_)) => {}
                Err(AuditError::Unsure(_)) => {
                    let mut bytes = std::mem::take(&mut log.disk().bytes);
                    match verify(&*bytes, &AuditHead::START, None) {
                        Ok(verified) => assert!(verified.head.number >= acknowledged, "seed {seed}"),
                        Err(AuditFault::Torn { at, .. }) => bytes.truncate(at as usize),
                        Err(fault) => panic!("seed {seed}: {fault}"),
                    }
                    log = on(TestDisk { bytes, ..TestDisk::default() });
                    assert!(log.head().number >= acknowledged, "seed {seed}");
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        let verified = verify(&*log.disk().bytes, &AuditHead::START, None).expect("no fault");
        assert_eq!(verified.head, log.head());
    }
}

#[test]
fn a_change_of_routes_needs_a_reason() {
    let made = |reach, why| AuditEntry::new(ann(), ControlVerb::Apply, reach, None, why).err();
    let no_why = Some(AuditEntryError::NoWhy { verb: ControlVerb::Apply });
    for nothing in ["", " ", "\t\n", ".", "--", "…"] {
        assert_eq!(made(AuditReach::Routes, nothing), no_why, "{nothing:?}");
    }
    assert_eq!(made(AuditReach::Routes, "ticket 17"), None);
    assert_eq!(made(AuditReach::Routes, "新しいゾーン"), None);
    assert_eq!(made(AuditReach::Members, ""), None);
}

#[test]
fn a_reason_is_one_line_of_a_bounded_length() {
    let made = |why: &str| AuditEntry::new(ann(), ControlVerb::Apply, AuditReach::Routes, None, why).err();
    for control in ["\n", "\r\n", "\0", "\x1b[2J", "\u{7f}", "\u{85}", "\u{2028}", "\u{202e}", "\u{9b}2J"] {
        assert!(
            matches!(made(&format!("a{control}b")), Some(AuditEntryError::ControlledWhy { .. })),
            "{control:?}"
        );
    }
    assert_eq!(made(&"a".repeat(WHY_LEN_MAX)), None);
    assert!(matches!(made(&"a".repeat(WHY_LEN_MAX + 1)), Some(AuditEntryError::LongWhy { len: 1001, .. })));
    assert!(matches!(made(&"\n".repeat(10_000_000)), Some(AuditEntryError::NoWhy { .. })));
}

#[test]
fn a_hostile_text_cannot_make_a_second_record() {
    let forged = "\"}\n{\"number\":2,\"who\":\"evenkeel://prod/operator/bob\",\"hash\":\"00\"}\n";
    let mut log = on(TestDisk::default());
    let quotes = "\",\"hash\":\"".repeat(100);
    log.append(&entry(&quotes), &AuditResult::Failed(forged.repeat(1_000)), NOON_S).expect("room");
    log.append(
        &entry(&"\\".repeat(WHY_LEN_MAX)),
        &AuditResult::Refused("\u{202e}\x1b".repeat(1_000_000)),
        NOON_S,
    )
    .expect("room");
    let text = String::from_utf8(log.disk().bytes.clone()).expect("text");
    assert_eq!(text.lines().count(), 2);
    assert!(text.lines().all(|line| line.len() < RECORD_LEN_MAX && !line.contains(['\x1b', '\u{202e}'])));
    let verified = verify(text.as_bytes(), &AuditHead::START, None).expect("no fault");
    assert_eq!(verified.head, log.head());
}

#[test]
fn a_log_of_the_most_bytes_takes_no_more() {
    let verified = VerifiedLog { head: AuditHead::START, len: LOG_LEN_MAX, beyond_kept: 0 };
    let mut log = AuditLog::resume(TestDisk::default(), &verified);
    assert!(matches!(log.append(&entry("x"), &AuditResult::Done, NOON_S), Err(AuditError::Full)));
    assert!(log.disk().bytes.is_empty());
}
