//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{TestSteps, cargo, run};
use crate::tidy::{self, SHARED_HISTORY};
use crate::{binaries, tools, vm};
use anyhow::{Result, ensure};

/// Everything; whether it all held.
pub(crate) fn test() -> Result<bool> {
    let mut steps = TestSteps::default();
    steps.step("Tools for the tests", |_| tools::install());
    quick(&mut steps);
    steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    steps.step("Build of the tests", |_| binaries::build(SHARED_HISTORY));
    steps.step("Tests: units, transcripts, clients, survival, fuzzing with a fixed seed", |results| {
        binaries::run(SHARED_HISTORY, results)
    });
    vm::step(&mut steps);
    Ok(steps.run())
}

/// The quick part.
pub(crate) fn ci() -> Result<bool> {
    let mut steps = TestSteps::default();
    quick(&mut steps);
    Ok(steps.run())
}

fn quick(steps: &mut TestSteps) {
    steps.step("Tidy", |_| {
        ensure!(tidy::tidy()?, "see above");
        Ok(())
    });
    steps.step("Formatting", |_| run(cargo(&["fmt", "--all", "--check"])));
    steps.step("Lints", |_| run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
    // Of the whole workspace, although most of it has no such feature: see tidy/selections.rs.
    steps.step("Lints of the shared history", |_| {
        let words = ["clippy", "--workspace", "--all-targets", "--features", SHARED_HISTORY];
        run(cargo(&[&words[..], &["--", "-D", "warnings"]].concat()))
    });
}
