//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{Steps, cargo, run, run_tests};
use crate::{tidy, tools, vm};
use anyhow::{Result, ensure};
use end_to_end::subject::target_directory;

/// Everything; whether it all held.
pub(crate) fn test() -> Result<bool> {
    let mut steps = Steps::new();
    steps.step("Tools for the tests", |_| tools::install());
    quick(&mut steps);
    steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    steps.step("Tests: units, transcripts, clients, survival, fuzzing with a fixed seed", |results| {
        let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
        tests.env("EVENKEEL_BIN", target_directory().join("release/evenkeel"));
        run_tests(tests, results)
    });
    vm::step(&mut steps);
    Ok(steps.finish())
}

/// The quick part.
pub(crate) fn ci() -> Result<bool> {
    let mut steps = Steps::new();
    quick(&mut steps);
    Ok(steps.finish())
}

fn quick(steps: &mut Steps) {
    steps.step("Tidy", |_| {
        ensure!(tidy::tidy()?, "see above");
        Ok(())
    });
    steps.step("Formatting", |_| run(cargo(&["fmt", "--all", "--check"])));
    steps.step("Lints", |_| run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
}
