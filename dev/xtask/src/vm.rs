//! `cargo xtask test --vm`: the tuner on a machine with more CPUs than the one at hand, and items on disks that fail.
//!
//! QEMU in software emulation boots Debian's cloud kernel with an initramfs of busybox and our binary. Every step of the
//! conversations in `dev/vm` runs in there, in order and after one boot; their answers come back over a serial port
//! and are compared here. Nothing is installed but QEMU, and nothing of the host is changed: the machine's network ends
//! in a namespace of its own. `evenkeel lab` then boots machines of its own from the same parts.

mod answer;
mod conversation;
mod initramfs;
mod lab;
mod machine;
mod modules;
mod packages;

use crate::binaries;
use crate::steps::{TestSteps, cargo, run};
use answer::FailedStep;
use anyhow::{Context, Result, ensure};
use checkout::{target_directory, workspace};
use conversation::Conversation;
use os::clock::Stopwatch;
use std::fs;
use std::path::{Path, PathBuf};

/// The lane alone; whether it held.
pub(crate) fn test() -> Result<bool> {
    let mut steps = TestSteps::default();
    if std::env::var_os("EVENKEEL_BIN").is_none() {
        steps.step("Release build", |_| run(cargo(&["build", "--release", "--package", "evenkeel"])));
    }
    step(&mut steps, true);
    Ok(steps.run())
}

/// The lane as one of several steps: one boot, and with `thorough` those of the lab, too.
pub(crate) fn step(steps: &mut TestSteps, thorough: bool) {
    let labs = if thorough { "; the lab with kernels, disks and interrupts" } else { "" };
    steps.step(
        &format!(
            "Virtual machines: the tuner with 8 CPUs, 2 NUMA nodes, 4 queues; flash on disks that fail{labs}"
        ),
        move |results| lane(thorough, results),
    );
}

/// Where the packages are not available it reports that and succeeds.
fn lane(thorough: bool, results: &mut Vec<String>) -> Result<()> {
    let binary = std::env::var_os("EVENKEEL_BIN").map_or_else(|| binaries::program(thorough), PathBuf::from);
    let folder = target_directory().join("vm");
    let parts = match packages::obtain(&folder)? {
        Ok(parts) => parts,
        Err(why) => {
            println!("left out: {why}");
            results.push(format!("virtual machine: LEFT OUT, {why}"));
            return Ok(());
        }
    };
    converse(&parts, &binary, &folder, results)?;
    if thorough {
        lab::run(&parts, &binary, &folder)?;
        results.push(
            "virtual machine: two of the lab's with command lines of their own, two with disks, and two with interrupts"
                .to_owned(),
        );
    }
    Ok(())
}

/// A machine in software emulation on CPUs that others use, too, is slow enough for a time limit to strike: there is a second
/// boot, and what fails in both, fails.
fn converse(parts: &packages::Parts, binary: &Path, folder: &Path, results: &mut Vec<String>) -> Result<()> {
    let conversations = conversations()?;
    let archive = folder.join("initramfs");
    let content = initramfs::pack(parts, binary, &conversations)?;
    fs::write(&archive, content).with_context(|| format!("write {}", archive.display()))?;
    let first = once(parts, folder, &archive, &conversations, results);
    let before = match &first {
        Ok(failed) if failed.is_empty() => return Ok(()),
        Ok(failed) => reasons(failed),
        Err(error) => format!("{error:#}"),
    };
    results.push(format!("virtual machine: failed once, tried again: {before}"));
    let second = once(parts, folder, &archive, &conversations, results)?;
    // A boot that ended without answers has no step that held.
    let has_failed_before = |step: &FailedStep| {
        first.as_ref().map_or(true, |failed| failed.iter().any(|one| one.name == step.name))
    };
    let (twice, once_only): (Vec<FailedStep>, Vec<FailedStep>) =
        second.into_iter().partition(has_failed_before);
    results.extend(
        once_only.iter().map(|step| format!("virtual machine: failed at the second boot only: {}", step.why)),
    );
    let console = folder.join(machine::CONSOLE);
    ensure!(twice.is_empty(), "{}\n(the kernel's log is {})", reasons(&twice), console.display());
    Ok(())
}

fn reasons(failed: &[FailedStep]) -> String {
    failed.iter().map(|step| step.why.as_str()).collect::<Vec<_>>().join("\n")
}

/// Boots, and compares: the steps that failed.
fn once(
    parts: &packages::Parts,
    folder: &Path,
    archive: &Path,
    conversations: &[Conversation],
    results: &mut Vec<String>,
) -> Result<Vec<FailedStep>> {
    let started = Stopwatch::start();
    let said = machine::run(&parts.kernel, archive, folder)?;
    let took = started.passed().as_secs_f64();
    let booted = answer::booted_after_s(&said).with_context(|| {
        format!("the machine did not boot; see {}", folder.join(machine::CONSOLE).display())
    })?;
    let failed: Vec<FailedStep> =
        conversations.iter().flat_map(|conversation| answer::judge(conversation, &said)).collect();
    let count: usize = conversations.iter().map(|conversation| conversation.steps.len()).sum();
    results.push(format!(
        "virtual machine: {} of {count} steps as expected, booted in {booted} s, {took:.1} s in all",
        count - failed.len()
    ));
    Ok(failed)
}

/// The files of `dev/vm`, in the order of their names.
fn conversations() -> Result<Vec<Conversation>> {
    let folder = workspace().join("dev/vm");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("list {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
            Conversation::parse(&name, &text)
        })
        .collect()
}
