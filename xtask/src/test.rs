//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{Steps, cargo, run, run_tests};
use crate::{tidy, tools, vm};
use anyhow::{Result, ensure};
use end_to_end::subject::target_directory;

/// Features that are off by default: PostgreSQL's client for `lab history`.
const SHARED_HISTORY: &str = "evenkeel/shared-history";

/// Everything; whether it all held.
pub(crate) fn test() -> Result<bool> {
    let mut steps = Steps::default();
    steps.step("Tools for the tests", |_| tools::install());
    quick(&mut steps);
    steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    steps.step("Tests: units, transcripts, clients, survival, fuzzing with a fixed seed", |results| {
        let mut tests = cargo(&["test", "--workspace", "--no-fail-fast", "--features", SHARED_HISTORY]);
        tests.env("EVENKEEL_BIN", target_directory().join("release/evenkeel"));
        run_tests(tests, results)
    });
    steps.step("Tests: the lab without a shared history, as it is built by default", |results| {
        run_tests(cargo(&["test", "--package", "evenkeel", "--test", "lab", "--no-fail-fast"]), results)
    });
    vm::step(&mut steps);
    Ok(steps.run())
}

/// The quick part.
pub(crate) fn ci() -> Result<bool> {
    let mut steps = Steps::default();
    quick(&mut steps);
    Ok(steps.run())
}

fn quick(steps: &mut Steps) {
    steps.step("Tidy", |_| {
        ensure!(tidy::tidy()?, "see above");
        Ok(())
    });
    steps.step("Formatting", |_| run(cargo(&["fmt", "--all", "--check"])));
    steps.step("Lints", |_| run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
    steps.step("Lints of the shared history", |_| {
        let words = [
            "clippy",
            "--package",
            "evenkeel",
            "--package",
            "lab",
            "--all-targets",
            "--features",
            SHARED_HISTORY,
        ];
        run(cargo(&[&words[..], &["--", "-D", "warnings"]].concat()))
    });
}
