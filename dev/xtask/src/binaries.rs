//! Test binaries: built by cargo in one go, then run in two lanes.
//!
//! As `cargo test` runs them, except that one lane begins with those which mostly wait for seconds to pass, more of their
//! tests at a time, and the other with those which compute. Each goes on to what is left. The time of each is told, so that
//! a slow one is seen.

use crate::lints::linting_cargo;
use crate::steps::{run_tests, show};
use crate::thorough::{LONG_TESTS, MORE_SEEDS, MoreSeeds};
use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use os::clock::Stopwatch;
use serde::Deserialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Test binaries that wait rather than compute: they start programs and look at them for seconds. The longest is the first.
const WAITING: [&str; 4] = ["end_to_end/main", "evenkeel/main", "load/runs", "control/main"];

/// So many tests of a binary that waits run at a time.
const WAITING_THREADS: &str = "4";

/// Of the slowest binaries, this many are named.
const SLOWEST_SHOWN: usize = 10;

/// A line of what cargo says with `--message-format=json`.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A test binary.
#[derive(Debug, PartialEq)]
struct Binary {
    /// Its crate and its own name.
    name: String,
    /// The folder of its package, where its tests expect to be.
    folder: PathBuf,
    executable: PathBuf,
}

/// What came of binaries that have run.
#[derive(Default)]
struct Outcome {
    results: Vec<String>,
    failed: Vec<String>,
    took: Vec<(Duration, String)>,
}

impl Outcome {
    fn and(mut self, other: Outcome) -> Outcome {
        self.results.extend(other.results);
        self.failed.extend(other.failed);
        self.took.extend(other.took);
        self
    }
}

/// Builds the tests of the workspace, and the program that they start, without running any.
pub(crate) fn build() -> Result<()> {
    built().map(drop)
}

/// Runs all of them; what is built already is not built again. A run that is not `thorough` leaves out what
/// `thorough.rs` lists.
pub(crate) fn run(thorough: bool, results: &mut Vec<String>) -> Result<()> {
    let binaries = built()?;
    ensure!(!binaries.is_empty(), "cargo has built no tests");
    let place =
        |binary: &&Binary| WAITING.iter().position(|name| *name == binary.name).unwrap_or(WAITING.len());
    let mut left: VecDeque<&Binary> = binaries.iter().collect();
    left.make_contiguous().sort_by_key(place);
    let left = Mutex::new(left);
    let mut outcome = std::thread::scope(|threads| {
        let from_front = threads.spawn(|| lane(&left, VecDeque::pop_front, thorough));
        let from_back = lane(&left, VecDeque::pop_back, thorough);
        from_front.join().expect("it only runs programs").and(from_back)
    });
    println!("\n{}", slowest(&mut outcome.took));
    for more in MORE_SEEDS.iter().filter(|_| thorough) {
        let named = binaries.iter().find(|binary| binary.name == more.binary);
        let binary = named.with_context(|| format!("{} is no test binary", more.binary))?;
        outcome = outcome.and(binary.run(binary.more(more)));
    }
    results.append(&mut outcome.results);
    if let Err(error) = run_tests(linting_cargo(&["test", "--workspace", "--doc"]), "examples", results) {
        outcome.failed.push(format!("{error:#}"));
    }
    ensure!(outcome.failed.is_empty(), "{}", outcome.failed.join("\n"));
    Ok(())
}

/// Runs one after the other, until none is left.
fn lane<'a>(
    left: &Mutex<VecDeque<&'a Binary>>,
    take: fn(&mut VecDeque<&'a Binary>) -> Option<&'a Binary>,
    thorough: bool,
) -> Outcome {
    let next = || take(&mut left.lock().expect("nothing panics while it is locked"));
    std::iter::from_fn(next)
        .fold(Outcome::default(), |outcome, binary| outcome.and(binary.run(binary.all(thorough))))
}

fn built() -> Result<Vec<Binary>> {
    let mut build =
        linting_cargo(&["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let shown = show(&build);
    println!("$ {shown}");
    let output = build.stderr(Stdio::inherit()).output().with_context(|| format!("run {shown}"))?;
    ensure!(output.status.success(), "{shown}: {}", output.status);
    binaries(&String::from_utf8_lossy(&output.stdout))
}

/// The test binaries among cargo's messages, in their order.
fn binaries(messages: &str) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("read a message of cargo's")?;
        let is_test = message.profile.is_some_and(|profile| profile.test);
        if let (true, Some(target), Some(executable), Some(manifest)) =
            (is_test, message.target, message.executable, message.manifest_path)
        {
            let folder = manifest.parent().context("a manifest lies in a folder")?.to_owned();
            let package =
                folder.file_name().context("a package is named after its folder")?.to_string_lossy();
            let name =
                if *target.name == *package { target.name } else { format!("{package}/{}", target.name) };
            binaries.push(Binary { name, folder, executable });
        }
    }
    binaries.sort_by(|a, b| (&a.folder, &a.name).cmp(&(&b.folder, &b.name)));
    Ok(binaries)
}

impl Binary {
    fn waits(&self) -> bool {
        WAITING.contains(&self.name.as_str())
    }

    fn run(&self, command: Command) -> Outcome {
        let mut outcome = Outcome::default();
        let started = Stopwatch::start();
        if let Err(error) = run_tests(command, &self.name, &mut outcome.results) {
            outcome.failed.push(format!("{error:#}"));
        }
        outcome.took.push((started.passed(), self.name.clone()));
        outcome
    }

    fn command(&self, thorough: bool) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env("EVENKEEL_BIN", program(thorough));
        if thorough {
            // What takes long runs, and what would be left out for want of a program fails.
            command.env("EVENKEEL_TEST_ALL", "1");
        }
        command
    }

    /// Its tests, but for those that only a thorough run has.
    fn all(&self, thorough: bool) -> Command {
        let mut command = self.command(thorough);
        if self.waits() {
            command.args(["--test-threads", WAITING_THREADS]);
        }
        for long in LONG_TESTS.iter().filter(|long| !thorough && long.binary == self.name) {
            command.args(["--skip", long.prefix]);
        }
        command
    }

    /// Some of its tests with more seeds.
    fn more(&self, MoreSeeds { prefix, seeds, .. }: &MoreSeeds) -> Command {
        let mut command = self.command(true);
        command.arg(prefix).env("EVENKEEL_TEST_SEEDS", seeds);
        command
    }
}

/// The program that tests start: what ships, or what cargo builds with the tests, whose assertions are checked.
pub(crate) fn program(thorough: bool) -> PathBuf {
    target_directory().join(if thorough { "release/evenkeel" } else { "debug/evenkeel" })
}

/// A line with the binaries that took the longest.
fn slowest(took: &mut [(Duration, String)]) -> String {
    took.sort_unstable_by(|a, b| b.cmp(a));
    let shown = took.iter().take(SLOWEST_SHOWN).map(|(took, name)| format!("{name} {} s", took.as_secs()));
    format!("the slowest of {}: {}", took.len(), shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_the_messages_of_cargo() {
        let test = |folder: &str, name: &str, is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/{folder}/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            test("b", "main", true, r#""/t/main-1""#),
            test("a", "a", false, "null"),
            test("a", "program", false, r#""/t/program""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            test("a", "a", true, r#""/t/a-1""#),
        ];
        let binary = |name: &str, folder: &str, executable: &str| Binary {
            name: name.to_owned(),
            folder: folder.into(),
            executable: executable.into(),
        };
        let expected = [binary("a", "/w/a", "/t/a-1"), binary("b/main", "/w/b", "/t/main-1")];
        assert_eq!(binaries(&messages.join("\n")).expect("messages"), expected);
    }

    #[test]
    fn the_slowest_come_first() {
        let mut took = [(Duration::from_secs(1), "a".to_owned()), (Duration::from_secs(3), "b".to_owned())];
        assert_eq!(slowest(&mut took), "the slowest of 2: b 3 s, a 1 s");
    }

    #[test]
    fn tests_that_only_a_thorough_run_has_are_left_out_by_name() {
        let name = LONG_TESTS[0].binary.to_owned();
        let binary = Binary { name, folder: ".".into(), executable: "t".into() };
        let waiting = ["--test-threads", WAITING_THREADS];
        assert!(binary.all(true).get_args().eq(waiting));
        let long = LONG_TESTS.iter().filter(|long| long.binary == binary.name);
        let skipped: Vec<&str> = long.flat_map(|long| ["--skip", long.prefix]).collect();
        assert!(skipped.len() >= 2 && binary.all(false).get_args().eq([&waiting[..], &skipped].concat()));
    }
}
