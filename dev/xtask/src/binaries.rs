//! Test binaries: built by cargo in one go, then run in two lanes.
//!
//! As `cargo test` runs them, except that one lane begins with those which mostly wait for seconds to pass, more of their
//! tests at a time, and the other with those which compute. Each goes on to what is left. The time of each is told, so that
//! a slow one is seen.

use crate::lints::linting_cargo;
use crate::steps::{TEST_FAILED, TEST_RESULT, run_tests, show};
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

/// A binary that waits may have so many tests that fail beside others: each is run once more, by itself.
const RETRIED_TESTS: usize = 3;

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
struct Outcome<'a> {
    results: Vec<String>,
    failed: Vec<Failure<'a>>,
    took: Vec<(Duration, String)>,
}

/// A binary that has ended with a failure.
struct Failure<'a> {
    binary: &'a Binary,
    error: String,
    /// Names of its tests that failed: none if it has not come to its end.
    tests: Vec<String>,
}

impl<'a> Outcome<'a> {
    fn and(mut self, other: Outcome<'a>) -> Outcome<'a> {
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
    results.append(&mut outcome.results);
    let mut failed: Vec<String> =
        outcome.failed.into_iter().filter_map(|failure| failure.stands(thorough, results)).collect();
    for more in MORE_SEEDS.iter().filter(|_| thorough) {
        let named = binaries.iter().find(|binary| binary.name == more.binary);
        let binary = named.with_context(|| format!("{} is no test binary", more.binary))?;
        let mut outcome = binary.run(binary.more(more));
        results.append(&mut outcome.results);
        // Nothing runs beside these: a seed that failed has failed.
        failed.extend(outcome.failed.into_iter().map(|failure| failure.error));
    }
    if let Err(error) = run_tests(linting_cargo(&["test", "--workspace", "--doc"]), "examples", results) {
        failed.push(format!("{error:#}"));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

impl Failure<'_> {
    /// The error, unless all that failed passes by itself now that nothing else runs: where four fleets share two CPUs, a
    /// server can be away for the seconds after which it counts as lost. What failed is told in any case.
    fn stands(self, thorough: bool, results: &mut Vec<String>) -> Option<String> {
        let Failure { binary, error, tests } = self;
        if !binary.waits() || !(1..=RETRIED_TESTS).contains(&tests.len()) {
            return Some(error);
        }
        let mut errors = Vec::new();
        for test in tests {
            let mut again = binary.run(binary.alone(&test, thorough));
            results.append(&mut again.results);
            match again.failed.pop() {
                None => results
                    .push(format!("{}: {test} failed beside other tests, and passed by itself", binary.name)),
                Some(second) => errors.push(second.error),
            }
        }
        (!errors.is_empty()).then(|| errors.join("\n"))
    }
}

/// Names of the tests that failed, from the lines that are told again; none of a program that was ended before its summary.
fn failed_tests(results: &[String]) -> Vec<String> {
    if !results.iter().any(|line| line.contains(TEST_RESULT)) {
        return Vec::new();
    }
    let names = results.iter().filter_map(|line| {
        let (_, test) = line.strip_suffix(TEST_FAILED)?.split_once(": test ")?;
        Some(test.to_owned())
    });
    names.collect()
}

/// Runs one after the other, until none is left.
fn lane<'a>(
    left: &Mutex<VecDeque<&'a Binary>>,
    take: fn(&mut VecDeque<&'a Binary>) -> Option<&'a Binary>,
    thorough: bool,
) -> Outcome<'a> {
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

    fn run(&self, command: Command) -> Outcome<'_> {
        let mut outcome = Outcome::default();
        let started = Stopwatch::start();
        if let Err(error) = run_tests(command, &self.name, &mut outcome.results) {
            let tests = failed_tests(&outcome.results);
            outcome.failed.push(Failure { binary: self, error: format!("{error:#}"), tests });
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

    /// One of its tests.
    fn alone(&self, test: &str, thorough: bool) -> Command {
        let mut command = self.command(thorough);
        command.args(["--exact", test]);
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
    fn what_fails_beside_others_and_passes_by_itself_does_not_stand() {
        let stands = |name: &str, program: &str, tests: &[&str], results: &mut Vec<String>| {
            let binary = Binary { name: name.to_owned(), folder: ".".into(), executable: program.into() };
            let tests = tests.iter().map(|&test| test.to_owned()).collect();
            Failure { binary: &binary, error: "it failed".to_owned(), tests }.stands(false, results)
        };
        let (waits, mut results) = (WAITING[0], Vec::new());
        assert_eq!(stands(waits, "/bin/true", &["b"], &mut results), None);
        assert_eq!(results, [format!("{waits}: b failed beside other tests, and passed by itself")]);
        let again = stands(waits, "/bin/false", &["b"], &mut results);
        assert!(again.is_some_and(|error| error.contains("--exact b")));
        // A binary that computes, one that ended without a failed test, and too many of them.
        for (name, tests) in [("stdx", &["b"][..]), (waits, &[]), (waits, &["b"; RETRIED_TESTS + 1])] {
            assert_eq!(stands(name, "/bin/true", tests, &mut results).as_deref(), Some("it failed"));
        }
        let told =
            ["c/main: test a::b ... FAILED", "c/main: thread 'a::b' panicked at a.rs:1:", "c/main: left: 1"];
        let mut told = told.map(str::to_owned).to_vec();
        assert!(failed_tests(&told).is_empty(), "it was ended before it told its result");
        told.push("c/main: test result: FAILED. 3 passed; 1 failed".to_owned());
        assert_eq!(failed_tests(&told), ["a::b"]);
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
