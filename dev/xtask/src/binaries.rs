//! Test binaries: built by cargo in one go, then run one after the other.
//!
//! As `cargo test` runs them, except that those which mostly wait for seconds to pass run more of their tests at a time,
//! and that the time of each is told, so that a slow one is seen.

use crate::steps::{cargo, run_tests, show};
use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use end_to_end::subject::target_directory;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Test binaries that wait rather than compute: they start programs that look at a host for seconds.
const WAITING: [&str; 11] = [
    "howto",
    "load_live",
    "pages",
    "tune",
    "tune_folded",
    "tune_listeners",
    "tune_persist",
    "tune_refused",
    "tune_waiting",
    "transcripts",
    "watch",
];

/// So many tests of a binary that waits run at a time. All 24 of `tune` together take 2 s of CPU time.
const WAITING_THREADS: &str = "6";

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
    name: String,
    /// The folder of its package, where its tests expect to be.
    folder: PathBuf,
    executable: PathBuf,
}

/// Builds the tests of the workspace, without running any.
pub(crate) fn build() -> Result<()> {
    built().map(drop)
}

/// Runs all of them; what is built already is not built again.
pub(crate) fn run(results: &mut Vec<String>) -> Result<()> {
    let binaries = built()?;
    ensure!(!binaries.is_empty(), "cargo has built no tests");
    let (mut failed, mut took) = (Vec::new(), Vec::new());
    for binary in &binaries {
        println!("\n{} ({})", binary.name, binary.executable.display());
        let started = clock::now();
        if let Err(error) = run_tests(command(binary), results) {
            failed.push(format!("{error:#}"));
        }
        took.push((started.elapsed(), binary.name.as_str()));
    }
    println!("\n{}", slowest(&mut took));
    if let Err(error) = run_tests(cargo(&["test", "--workspace", "--doc"]), results) {
        failed.push(format!("{error:#}"));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn built() -> Result<Vec<Binary>> {
    let mut build =
        cargo(&["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
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
            binaries.push(Binary { name: target.name, folder, executable });
        }
    }
    binaries.sort_by(|a, b| (&a.folder, &a.name).cmp(&(&b.folder, &b.name)));
    Ok(binaries)
}

fn command(binary: &Binary) -> Command {
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.folder).stdin(Stdio::null());
    command.env("EVENKEEL_BIN", target_directory().join("release/evenkeel"));
    if WAITING.contains(&binary.name.as_str()) {
        command.args(["--test-threads", WAITING_THREADS]);
    }
    command
}

/// A line with the binaries that took the longest.
fn slowest(took: &mut [(Duration, &str)]) -> String {
    took.sort_unstable_by(|a, b| b.cmp(a));
    let shown = took.iter().take(SLOWEST_SHOWN).map(|(took, name)| format!("{name} {} s", took.as_secs()));
    format!("the slowest of {}: {}", took.len(), shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_the_messages_of_cargo() {
        let test = |name: &str, is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/{name}/Cargo.toml","target":{{"name":"{name}"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            test("b", true, r#""/t/b-1""#),
            test("lib", false, "null"),
            test("program", false, r#""/t/program""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            test("a", true, r#""/t/a-1""#),
        ];
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            folder: format!("/w/{name}").into(),
            executable: format!("/t/{name}-1").into(),
        };
        assert_eq!(binaries(&messages.join("\n")).expect("messages"), [binary("a"), binary("b")]);
    }

    #[test]
    fn the_slowest_come_first() {
        let mut took = [(Duration::from_secs(1), "a"), (Duration::from_secs(3), "b")];
        assert_eq!(slowest(&mut took), "the slowest of 2: b 3 s, a 1 s");
    }

    #[test]
    fn every_binary_that_waits_is_there() {
        let folders = ["../../crates/evenkeel/tests", "../end_to_end/tests"];
        let exists = |name: &str| {
            folders.iter().any(|folder| PathBuf::from(folder).join(name).with_extension("rs").exists())
        };
        WAITING.iter().for_each(|name| assert!(exists(name), "{name}"));
    }
}
