//! Output into a closed pipe (`| head`): every verb ends with its usual status, without a message about the pipe.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::running::Running;
use crate::support::until::until;

/// Runs the program with that standard output.
fn run(words: &[&str], output: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(words).stdin(Stdio::null()).stdout(output).output().unwrap()
}

/// Checks that it ends with this status into a closed pipe, too, and prints nothing else.
#[track_caller]
fn check(words: &[&str], status: i32) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for output in [run(words, Stdio::null()), run(words, writer)] {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(status), ""), "{words:?}: {}", output.status);
    }
}

/// A file or directory, removed with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("cargo's directory is text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_versions_licences_man_pages_and_completions_end_quietly() {
    for words in [
        ["--help"].as_slice(),
        &["--version"],
        &["serve", "--help"],
        &["serve", "-h"],
        &["serve", "-V"],
        &["serve", "-i"],
        &["load", "--help"],
        &["tune", "check", "--help"],
        &["lab", "run", "--help"],
        &["man", "serve"],
        &["man"],
        &["completions", "bash"],
        &["tune", "explain"],
    ] {
        check(words, 0);
    }
}

#[test]
fn the_findings_decide_the_status_of_a_check_even_if_its_output_is_not_read() {
    let scratch = Scratch::new("closed-check");
    let host = scratch.path("host");
    check(&["tune", "check", "--seconds", "1", "--save", &host], 0);
    let read = run(&["tune", "check", "--root", &host, "--fail-on", "note"], Stdio::null());
    check(
        &["tune", "check", "--root", &host, "--fail-on", "note"],
        read.status.code().expect("it has ended"),
    );
    check(&["tune", "check", "--root", &host, "--json"], 0);
}

#[test]
fn the_status_of_a_load_does_not_depend_on_whether_its_output_is_read() {
    let scratch = Scratch::new("closed-load");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["serve", "-s", "socket", "-m", "16"]).current_dir(&scratch.0).stderr(Stdio::null());
    let _server = Running(command.spawn().unwrap());
    // By a short name: the address of a unix socket has at most 107 bytes.
    let socket = format!("/proc/{}/cwd/socket", _server.0.id());
    until("a server", || UnixStream::connect(&socket).is_ok());
    let words = ["load", "--socket", &socket, "--duration", "100ms", "--warm-up", "0", "--keys", "100"];
    check(&words, 0);
}

#[test]
fn a_full_disk_is_reported() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for words in [["--help"].as_slice(), &["man"], &["completions", "bash"], &["serve", "-i"]] {
        let output = run(words, full());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(71) && said.contains("write to standard output: No space"),
            "{said}"
        );
    }
}
