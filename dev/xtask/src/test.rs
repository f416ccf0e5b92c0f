//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{TestSteps, cargo, run};
use crate::{binaries, lints, thorough, tools, vm};
use anyhow::{Result, ensure};

/// Everything, or all of it that is for every change; whether it all held.
pub(crate) fn test(thorough: bool) -> Result<bool> {
    let mut steps = TestSteps::default();
    steps.step("Tools for the tests", |_| tools::install());
    form(&mut steps);
    if thorough {
        steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    }
    steps.step("Build of the tests, with lints", |_| binaries::build());
    steps.step("Tests: units, transcripts, clients, survival, fuzzing with a fixed seed", move |results| {
        binaries::run(thorough, results)
    });
    vm::step(&mut steps, thorough);
    if !thorough {
        steps.leave_out(thorough::left_out());
    }
    Ok(steps.run())
}

/// What is said of the code without running it.
pub(crate) fn ci() -> Result<bool> {
    let mut steps = TestSteps::default();
    form(&mut steps);
    steps.step("Lints", |_| lints::lint());
    Ok(steps.run())
}

fn form(steps: &mut TestSteps) {
    steps.step("Tidy", |_| {
        ensure!(tidy::tidy()?, "see above");
        Ok(())
    });
    steps.step("Formatting", |_| run(cargo(&["fmt", "--all", "--check"])));
}
