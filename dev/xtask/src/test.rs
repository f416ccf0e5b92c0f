//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{TestSteps, cargo, run};
use crate::tidy;
use crate::{binaries, first_server, tools, vm};
use anyhow::{Result, ensure};
use end_to_end::subject::{target_directory, workspace};

/// Everything; whether it all held.
pub(crate) fn test() -> Result<bool> {
    let mut steps = TestSteps::default();
    steps.step("Tools for the tests", |_| tools::install());
    quick(&mut steps);
    steps.step("Release build", |_| {
        run(cargo(&["build", "--release", "--package", "evenkeel"]))?;
        first_server::check_binary(&target_directory().join("release/evenkeel"))
    });
    steps.step("Build of the tests", |_| binaries::build());
    steps.step("Tests: units, transcripts, clients, survival, fuzzing with a fixed seed", binaries::run);
    vm::step(&mut steps);
    Ok(steps.run())
}

/// The quick part.
pub(crate) fn ci() -> Result<bool> {
    let mut steps = TestSteps::default();
    quick(&mut steps);
    Ok(steps.run())
}

/// What runs for its user alone, on files that this user names, or is for development.
const FOR_THEIR_USER: [&str; 6] = ["lab", "load", "simulator", "transcript", "end_to_end", "xtask"];

/// Libraries and programs without their tests, by the stricter rules of `dev/xtask/shipped/clippy.toml`.
fn shipped_lints() -> std::process::Command {
    let mut command = cargo(&["clippy", "--no-deps", "--workspace", "--lib", "--bins"]);
    FOR_THEIR_USER.iter().for_each(|package| _ = command.args(["--exclude", package]));
    command.args(["--", "-D", "warnings", "-D", "clippy::disallowed_methods"]);
    command.env("CLIPPY_CONF_DIR", workspace().join("dev/xtask/shipped"));
    command
}

fn quick(steps: &mut TestSteps) {
    steps.step("Tidy", |_| {
        ensure!(tidy::tidy()?, "see above");
        Ok(())
    });
    steps.step("Formatting", |_| run(cargo(&["fmt", "--all", "--check"])));
    steps.step("Lints", |_| run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])));
    steps.step("Lints of what ships: nothing is changed by path", |_| run(shipped_lints()));
}
