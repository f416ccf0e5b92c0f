//! `cargo xtask first-server`: what a newcomer waits for, from a clean clone with an empty registry to the binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use checkout::workspace;
use os::clock::Stopwatch;
use os::cpu_time;

use crate::steps::{command, run};

/// Seconds from the clone to the binary, on two CPUs that do nothing else (decision 0076).
const SECONDS_MAX: f64 = 120.0;
/// CPU-seconds of that build: two CPUs for as long.
const CPU_SECONDS_MAX: f64 = 2.0 * SECONDS_MAX;
/// Bytes of the binary, as it is built from a checkout.
const BINARY_LEN_MAX: u64 = 25 << 20;

/// Measure the build of a clean clone with an empty registry
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the clone, the registry and the build, which must not be there yet
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// What a build took and gave.
struct FirstBuild {
    units: usize,
    seconds: f64,
    cpu_seconds: f64,
    stolen: f64,
    binary_len: u64,
}

/// Builds what is committed, and prints the figures; whether all are within their limits.
pub(crate) fn first_server(arguments: &Arguments) -> Result<bool> {
    let folder = arguments.folder.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("evenkeel-first-server-{}", std::process::id()))
    });
    fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
    let outcome = build(&folder);
    fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    let build = outcome?;
    println!(
        "{} units, {:.0} % of the time stolen by the host's other guests",
        build.units,
        build.stolen * 100.0
    );
    let rows = build.rows();
    for (row, _) in &rows {
        println!("{row}");
    }
    Ok(rows.iter().all(|(_, is_within)| *is_within))
}

fn build(folder: &Path) -> Result<FirstBuild> {
    let clone = folder.join("clone");
    let mut git = command("git", &["clone", "--quiet"]);
    git.arg(workspace()).arg(&clone);
    run(git)?;
    let (started, host) = (Stopwatch::start(), cpu_time::of_host());
    let before = cpu_time::of_ended_children_s()?;
    let words = ["build", "--release", "--message-format", "json"];
    let mut cargo = command(&std::env::var("CARGO").unwrap_or("cargo".to_owned()), &words);
    cargo.current_dir(&clone).env("CARGO_HOME", folder.join("registry")).env_remove("CARGO_TARGET_DIR");
    let output = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
    ensure!(output.status.success(), "cargo build --release: {}", output.status);
    let seconds = started.passed().as_secs_f64();
    let binary = clone.join("target/release/evenkeel");
    let binary_len = fs::metadata(&binary).with_context(|| format!("look at {}", binary.display()))?.len();
    Ok(FirstBuild {
        units: units(&String::from_utf8_lossy(&output.stdout)),
        seconds,
        cpu_seconds: cpu_time::of_ended_children_s()? - before,
        stolen: cpu_time::of_host().stolen_since(host),
        binary_len,
    })
}

/// Crates and build scripts among cargo's messages.
fn units(messages: &str) -> usize {
    let reasons = ["{\"reason\":\"compiler-artifact\"", "{\"reason\":\"build-script-executed\""];
    messages.lines().filter(|line| reasons.iter().any(|reason| line.starts_with(reason))).count()
}

fn size(len: u64) -> (String, bool) {
    row("MiB of the binary", len as f64 / f64::from(1 << 20), (BINARY_LEN_MAX >> 20) as f64)
}

/// A figure beside its limit, and whether it is within.
fn row(name: &str, found: f64, most: f64) -> (String, bool) {
    let is_within = found <= most;
    let verdict = if is_within { "ok" } else { "TOO MUCH" };
    (format!("{found:>7.1} {name}, at most {most:.0}: {verdict}"), is_within)
}

impl FirstBuild {
    fn rows(&self) -> [(String, bool); 3] {
        [
            row("seconds", self.seconds, SECONDS_MAX),
            row("CPU-seconds", self.cpu_seconds, CPU_SECONDS_MAX),
            size(self.binary_len),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_limit_is_too_much() {
        let build = |seconds, cpu_seconds, mib: u64| {
            let build = FirstBuild { units: 1, seconds, cpu_seconds, stolen: 0.0, binary_len: mib << 20 };
            build.rows().map(|(_, is_within)| is_within)
        };
        assert_eq!(build(120.0, 240.0, 25), [true; 3]);
        assert_eq!(build(120.1, 240.1, 26), [false; 3]);
        assert_eq!(row("seconds", 192.0, 120.0).0, "  192.0 seconds, at most 120: TOO MUCH");
    }

    #[test]
    fn units_are_crates_and_build_scripts() {
        let messages = "{\"reason\":\"compiler-artifact\",\"x\":1}\n{\"reason\":\"compiler-message\"}\n\
             {\"reason\":\"build-script-executed\"}\n{\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(units(messages), 2);
    }
}
