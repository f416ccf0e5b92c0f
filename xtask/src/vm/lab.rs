//! `evenkeel lab` with a subject in a machine of its own, whose kernel has a command line for each level.

use super::packages::Parts;
use crate::steps::command;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Two machines of two CPUs, one of which is told to leave one alone.
const EXPERIMENT: &str = r#"
question = "What is a second CPU good for?"
[[subject]]
name = "ours"
start = "echo CPUs: $(nproc); exec BINARY serve --port {port} --listen 127.0.0.1 -u nobody"
ready_within_s = 300
[[factor]]
name = "cpus"
[[factor.level]]
name = "two"
kernel = { image = "IMAGE", modules = "MODULES", cpus = 2, sysctl = { "net.core.somaxconn" = "777" } }
[[factor.level]]
name = "one"
kernel = { image = "IMAGE", modules = "MODULES", cpus = 2, append = "maxcpus=1" }
[workload]
run = "BINARY load --port {port} --connections 2 --duration {seconds}s --json {output}"
parser = "evenkeel-load"
seconds = 2
[measure]
primary = "requests_per_cpu_second"
better = "higher"
[repeat]
rounds = 1
"#;

/// Runs it, and looks at what it leaves.
pub(super) fn run(parts: &Parts, binary: &Path, folder: &Path) -> Result<()> {
    let folder = folder.join("lab");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let words = [("BINARY", binary), ("IMAGE", &parts.kernel), ("MODULES", &parts.modules)];
    let text = words
        .iter()
        .fold(EXPERIMENT.to_owned(), |text, (name, path)| text.replace(name, &path.to_string_lossy()));
    fs::write(folder.join("it.toml"), text)?;
    let mut lab = command(&binary.to_string_lossy(), &["lab", "run", "it.toml", "--state", "state"]);
    // The packages' busybox, which needs no libraries.
    let programs = parts.busybox.parent().context("busybox is in a directory")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()].into_iter().chain(std::env::split_paths(&path));
    lab.current_dir(&folder).env("PATH", std::env::join_paths(path)?);
    crate::steps::run(lab)?;
    ["0000", "0001"].iter().try_for_each(|place| check(&folder.join("it.run"), place))
}

/// A record says which kernel there was, and the subject how many CPUs that gave it.
fn check(run: &Path, place: &str) -> Result<()> {
    let read = |path: String| fs::read_to_string(run.join(&path)).with_context(|| format!("read {path}"));
    let record = read(format!("trials/{place}.json"))?;
    let log = read(format!("logs/{place}/subject.log"))?;
    let cpus = if record.contains(r#""cpus": "one""#) { "CPUs: 1" } else { "CPUs: 2" };
    ensure!(
        log.lines().any(|line| line.trim() == cpus),
        "{place}: no {cpus:?} in what the subject said: {log}"
    );
    let release = log.lines().find_map(|line| line.strip_prefix("guest: Linux ")).context("a release")?;
    let guest = format!(r#""kernel": "{}""#, release.trim());
    let metric = r#""requests_per_cpu_second": "#;
    ensure!(record.contains(&guest) && record.contains(metric), "{place}: {guest}, {metric}: {record}");
    Ok(())
}
