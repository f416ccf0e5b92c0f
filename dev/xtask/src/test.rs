//! `cargo xtask test`: what continuous integration runs, and what a newcomer runs.

use crate::steps::{TestSteps, cargo, run};
use crate::{binaries, lints, thorough, tools, vm};
use anyhow::{Result, bail, ensure};

/// Everything, or all of it that is for every change; whether it all held.
pub(crate) fn test(thorough: bool) -> Result<bool> {
    let mut steps = TestSteps::default();
    steps.step("Tools for the tests", |_| tools::install());
    quick(&mut steps);
    if thorough {
        steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    }
    steps.step("Build of the tests", |_| binaries::build());
    if thorough {
        steps.step("Tests: units, transcripts, clients, survival, fuzzing", |results| {
            binaries::run(true, results)
        });
        vm::step(&mut steps);
    } else {
        steps.step("Tests: units, transcripts, clients, survival, fuzzing, a virtual machine", |results| {
            beside(|results| binaries::run(false, results), |results| vm::lane(false, results), results)
        });
        steps.leave_out(thorough::left_out());
    }
    Ok(steps.run())
}

/// Does both at the same time: neither keeps all CPUs busy. The results of the second follow those of the first.
fn beside(
    first: impl FnOnce(&mut Vec<String>) -> Result<()> + Send,
    second: impl FnOnce(&mut Vec<String>) -> Result<()>,
    results: &mut Vec<String>,
) -> Result<()> {
    let (first, more, second) = std::thread::scope(|threads| {
        let first = threads.spawn(|| first(results));
        let mut more = Vec::new();
        let second = second(&mut more);
        (first.join().expect("it only runs programs"), more, second)
    });
    results.extend(more);
    match (first, second) {
        (Err(first), Err(second)) => bail!("{first:#}\n{second:#}"),
        (first, second) => first.and(second),
    }
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
    steps.step("Lints", |_| lints::lint());
}
