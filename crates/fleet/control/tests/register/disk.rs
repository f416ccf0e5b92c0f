//! A directory register on a disk that is full or read-only: it says so, keeps what it has, and goes on when it can.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use control::register::{
    DirectoryReader, DirectoryRegister, Register, RegisterEntry, RegisterError, Revision, Transaction,
    TransactionOutcome,
};

use crate::register::{Scratch, committed, create, key, prefix};

/// Bytes that a file system of memory gives out at a time.
const PAGE: u64 = 4096;

fn open(folder: &Path) -> DirectoryRegister {
    DirectoryRegister::open(folder).expect("a directory")
}

/// Runs `test` with a file system of its own of this size, mounted where nobody else sees it. Where none can be mounted the
/// test is left out, which is said.
fn with_a_disk(size: &'static str, test: impl FnOnce(&Path) + Send + 'static) {
    // The thread of the test may be used for others, too.
    let thread = std::thread::spawn(move || {
        #[expect(deprecated, reason = "unsafe only where file descriptors are unshared")]
        if let Err(error) = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS) {
            eprintln!("left out: no mounts of a test's own are possible here: {error}");
            return;
        }
        let folder = Scratch::new();
        let path = folder.0.to_str().expect("text").to_owned();
        run("mount", &["--make-rprivate", "/"]);
        let size = format!("size={size}");
        if let Err(why) = attempt("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &path]) {
            eprintln!("left out: no file system can be mounted here: {why}");
            return;
        }
        test(&folder.0);
        run("umount", &[&path]);
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn attempt(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    attempt(program, arguments).unwrap_or_else(|said| panic!("{program}: {said}"));
}

#[track_caller]
fn check_disk_error(error: &RegisterError, expected: &str) {
    let cause = std::error::Error::source(error).expect("a cause").to_string();
    assert!(matches!(error, RegisterError::Disk { .. }) && cause.contains(expected), "{error}: {cause}");
}

fn all(register: &DirectoryRegister) -> (Vec<RegisterEntry>, Revision) {
    let range = register.range(&prefix("/")).expect("an answer");
    (range.entries, range.revision)
}

/// What somebody else has on the disk, which grows until all is full.
fn fill(path: &Path) -> File {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    while file.write_all(&[b'x'; PAGE as usize]).is_ok() {}
    file
}

#[test]
fn a_full_disk_is_told_and_changes_nothing() {
    with_a_disk("256k", |folder| {
        let register = open(folder);
        let mut written = 0;
        let error = loop {
            let value = "v".repeat(10_000);
            match register.put_if(&create(&format!("/k{written}"), &value)) {
                Ok(TransactionOutcome::Committed(_)) => written += 1,
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
            assert!(written < 100, "the disk never gets full");
        };
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(
            error.to_string().starts_with("write ") && cause.contains("No space left"),
            "{error}: {cause}"
        );
        let check = |register: &DirectoryRegister| {
            let range = register.range(&prefix("/")).expect("an answer");
            assert_eq!((range.entries.len(), range.revision), (written, Revision(written as u64 + 1)));
        };
        check(&register);
        drop(register);
        let register = open(folder);
        check(&register);
        // With room again it goes on.
        run("mount", &["-o", "remount,size=1m", folder.to_str().expect("text")]);
        committed(&register, &create("/more", ""));
    });
}

#[test]
fn a_read_only_disk_is_told_and_can_be_read() {
    with_a_disk("256k", |folder| {
        let register = open(folder);
        committed(&register, &create("/a", ""));
        drop(register);
        run("mount", &["-o", "remount,ro", folder.to_str().expect("text")]);
        let error = DirectoryRegister::open(folder).map(drop).expect_err("read-only");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("Read-only file system"), "{error}: {cause}");
        let mut reader = DirectoryReader::open(folder).expect("a register");
        assert_eq!(reader.range(&prefix("/")).expect("an answer").entries.len(), 1);
    });
}

#[test]
fn on_a_disk_with_any_room_left_a_write_is_done_or_has_changed_nothing() {
    with_a_disk("64k", |disk| {
        let (folder, other) = (disk.join("register"), disk.join("other"));
        let register = open(&folder);
        committed(&register, &create("/first", "text"));
        drop(register);
        let (mut done, mut failed) = (0, 0);
        // Writes of three pages: the file does not fit, or only a part of it, or it does.
        for room in 0..6 {
            let register = open(&folder);
            let file = fill(&other);
            let len = file.metadata().expect("a file").len();
            file.set_len(len.saturating_sub(room * PAGE)).expect("less");
            // Open, it would keep its room when it is removed.
            drop(file);
            let before = all(&register);
            let name = format!("/room{room}");
            match register.put_if(&create(&name, &"v".repeat(10_000))) {
                Ok(TransactionOutcome::Committed(revision)) => {
                    done += 1;
                    assert_eq!(revision, before.1.next());
                    // All room is gone again, so that no later state fits.
                    fill(&other);
                    check_disk_error(&register.compact(revision).expect_err("no room"), "No space left");
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    failed += 1;
                    check_disk_error(&error, "No space left");
                    assert_eq!(all(&register), before);
                    // What was written of the file is given back.
                    let room_is_kept = register.put_if(&create(&format!("/small{room}"), ""));
                    assert_eq!(room_is_kept.is_ok(), room > 0, "{room} pages are left: {room_is_kept:?}");
                }
            }
            let now = all(&register);
            let mut reader = DirectoryReader::open(&folder).expect("a register");
            assert_eq!(reader.range(&prefix("/")).expect("an answer").entries, now.0);
            drop(register);
            // Opened while the disk is full.
            fill(&other);
            assert_eq!(all(&open(&folder)), now);
            fs::remove_file(&other).expect("remove");
            // With room again: a state takes the place of all commits.
            let register = open(&folder);
            assert_eq!(all(&register), now);
            committed(&register, &create(&format!("/again{room}"), ""));
            if let Some(entry) = register.get(&key(&name)).expect("an answer") {
                let delete = Transaction::if_revision(key(&name), entry.revision);
                committed(&register, &delete.delete(key(&name)));
            }
            register.compact(all(&register).1).expect("there is room");
        }
        assert!(done > 0 && failed > 0, "{done} were done, {failed} failed");
    });
}

#[test]
fn a_disk_that_becomes_read_only_under_its_writer_is_told_and_goes_on_later() {
    with_a_disk("64k", |folder| {
        let register = open(folder);
        committed(&register, &create("/a", "text"));
        let before = all(&register);
        // Above the open lock, which would keep the disk itself from becoming read-only.
        let path = folder.to_str().expect("text");
        run("mount", &["--bind", path, path]);
        run("mount", &["-o", "remount,bind,ro", path]);
        for _ in 0..2 {
            let error = register.put_if(&create("/b", "")).expect_err("read-only");
            check_disk_error(&error, "Read-only file system");
            let error = register.compact(before.1).expect_err("read-only");
            check_disk_error(&error, "Read-only file system");
            assert_eq!(all(&register), before);
        }
        let mut reader = DirectoryReader::open(folder).expect("a register");
        assert_eq!(reader.range(&prefix("/")).expect("an answer").entries, before.0);
        run("umount", &[path]);
        committed(&register, &create("/b", ""));
        drop(register);
        assert_eq!(all(&open(folder)).0.len(), 2);
    });
}
