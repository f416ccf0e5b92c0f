//! Flags from a file, the check of them, and whether a server is ready.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::running::Running;
use crate::support::until::until;

fn evenkeel(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel")).args(words).output().expect("it runs")
}

/// What it says on standard error.
fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// A file that is there for one test.
struct FlagFile(PathBuf);

impl FlagFile {
    fn new(name: &str, text: &str) -> FlagFile {
        let path = std::env::temp_dir().join(format!("evenkeel-serve-files-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a file");
        FlagFile(path)
    }

    /// As a word of a command line.
    fn word(&self) -> String {
        format!("@{}", self.0.display())
    }
}

impl Drop for FlagFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_server_that_takes_its_flags_from_a_file_is_ready_and_says_so_in_json() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let pages = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let file = FlagFile::new(
        "good",
        &format!(
            "# A comment\n-l 127.0.0.1\n-m 16\n--log json\n\n-p {port}\n--metrics-listen 127.0.0.1:{pages}\n"
        ),
    );
    let log = FlagFile::new("log", "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["serve", &file.word(), "-m", "32"]).stdin(Stdio::null());
    command.stderr(fs::File::create(&log.0).expect("a file"));
    let _server = Running(command.spawn().expect("a process"));
    let cache = format!("127.0.0.1:{port}");
    until("it is ready", || evenkeel(&["ready", &cache]).status.success());
    until("its page says so", || evenkeel(&["ready", &format!("http://127.0.0.1:{pages}")]).status.success());
    let wrong = evenkeel(&["ready", &format!("http://{cache}")]);
    assert_eq!(wrong.status.code(), Some(69), "{}", said(&wrong));
    let wrong = evenkeel(&["ready", &format!("127.0.0.1:{pages}")]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    assert!(said(&wrong).contains("ask it as http://"), "{}", said(&wrong));
    let lines = fs::read_to_string(&log.0).expect("lines");
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["level"], &first["verb"]), (&"info".into(), &"serve".into()), "{lines}");
    assert!(first["text"].as_str().is_some_and(|text| text.contains(": 32 MB for items")), "{lines}");
}

#[test]
fn a_wrong_line_of_a_file_is_named_and_nothing_starts() {
    let file = FlagFile::new("wrong", "-l 127.0.0.1\n--memroy 64\n");
    let path = file.0.display();
    let refused = evenkeel(&["serve", &file.word()]);
    assert_eq!(refused.status.code(), Some(64));
    assert_eq!(
        said(&refused),
        format!(
            "evenkeel: serve: {path} line 2: unknown flag `--memroy`\n  hint: did you mean `--memory-limit`?\n"
        )
    );
    // The format is known by the time that flags are read, so the refusal of their combination is a line of the log.
    let combined = evenkeel(&["serve", "--log", "json", "-Y", "/nowhere/users", "-U", "5"]);
    let line: serde_json::Value = serde_json::from_str(said(&combined).trim()).expect("JSON");
    assert_eq!((combined.status.code(), &line["level"]), (Some(64), &"error".into()), "{line}");
}

#[test]
fn a_check_starts_nothing() {
    let good = FlagFile::new("checked", "-m 64\n-p 1\n");
    let checked = evenkeel(&["serve", "--check", "-u", "root"]);
    assert_eq!((checked.status.code(), said(&checked)), (Some(0), String::new()));
    assert_eq!(evenkeel(&["serve", &good.word(), "--check"]).status.code(), Some(0));
    let wrong = evenkeel(&["serve", "--check", "-Y", "/nowhere/users"]);
    assert_eq!(wrong.status.code(), Some(64), "{}", said(&wrong));
}

#[test]
fn a_command_line_that_begins_with_a_flag_is_one_of_serve() {
    assert_eq!(evenkeel(&["-m", "64", "--check"]).status.code(), Some(0));
    let wrong = evenkeel(&["--memroy", "64"]);
    assert!(said(&wrong).starts_with("evenkeel: serve: unknown flag `--memroy`"), "{}", said(&wrong));
    assert!(evenkeel(&["-V"]).stdout.starts_with(b"evenkeel "));
}
