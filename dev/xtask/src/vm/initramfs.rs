//! The machine's file system: an archive that the kernel unpacks.

use super::conversation::Conversation;
use super::modules;
use super::packages::Parts;
use crate::steps::command;
use anyhow::{Context, Result, ensure};
use checkout::workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use stdx::newc::Archive;

/// Where the machine's first program finds things.
const FOLDERS: [&str; 12] =
    ["dev", "proc", "sys", "tmp", "run", "etc", "bin", "sbin", "var", "tls", "modules", "steps"];

/// This system's, from the package of `ip`.
const TC: &str = "/usr/sbin/tc";
/// This system's, too.
const DMSETUP: &str = "/usr/sbin/dmsetup";

/// An archive with our binary, the kernel's modules, and the conversations as one script for each step.
pub(super) fn pack(parts: &Parts, binary: &Path, conversations: &[Conversation]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.folder(folder));
    let sources = workspace().join("dev/vm");
    for (name, path) in [("init", sources.join("init.sh")), ("functions.sh", sources.join("functions.sh"))] {
        archive.add(name, &read(&path)?);
    }
    archive.add("bin/busybox", &read(&parts.busybox)?);
    archive.add("bin/ethtool", &read(&parts.ethtool)?);
    archive.add("bin/evenkeel", &stripped(binary, &parts.folder)?);
    // Busybox has a program of that name in bin, which knows no netem.
    let [tc, dmsetup] = [TC, DMSETUP].map(PathBuf::from);
    archive.add("sbin/tc", &read(&tc)?);
    archive.add("bin/dmsetup", &read(&dmsetup)?);
    for library in libraries(&[binary, &parts.ethtool, &tc, &dmsetup])? {
        archive.add(&library.to_string_lossy()[1..], &read(&library)?);
    }
    let certificates = workspace().join("crates/base/tls/tests/certificates");
    for name in ["cert.pem", "key.pem"] {
        archive.add(&format!("tls/{name}"), &read(&certificates.join(name))?);
    }
    for (number, module) in modules::in_order(&parts.modules)?.iter().enumerate() {
        archive.add(&format!("modules/{number:02}"), &read(module)?);
    }
    let steps = conversations
        .iter()
        .flat_map(|conversation| conversation.steps.iter().map(move |step| (&conversation.name, step)));
    for (number, (name, step)) in steps.enumerate() {
        let script = format!("# {name}:{}\n{}\n", step.line, step.command);
        archive.add(&format!("steps/{number:03}"), script.as_bytes());
    }
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

/// Without what only debuggers read: the machine unpacks it into its memory.
fn stripped(binary: &Path, folder: &Path) -> Result<Vec<u8>> {
    let copy = folder.join("evenkeel");
    let arguments = ["--strip-all", "-o", &copy.to_string_lossy(), &binary.to_string_lossy()];
    crate::steps::run(command("strip", &arguments))?;
    read(&copy)
}

/// The shared libraries of programs, and the one that loads them.
fn libraries(programs: &[&Path]) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        let output = command("ldd", &[&program.to_string_lossy()]).output().context("run ldd")?;
        ensure!(output.status.success(), "ldd {}: {}", program.display(), output.status);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!text.contains("not found"), "ldd {}: {text}", program.display());
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(PathBuf::from));
    }
    Ok(libraries)
}
