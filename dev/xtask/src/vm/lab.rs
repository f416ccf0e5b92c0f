//! `evenkeel lab` with a subject in a machine of its own: one whose kernel has a command line for each level, one whose card
//! has interrupts of its own, for each level in another place, and one with disks.

use super::packages::Parts;
use crate::steps::command;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// What each asks, in the keys of an experiment: how ours starts, on which machines, and how the load reaches it.
struct Asked {
    question: &'static str,
    start: &'static str,
    factor: &'static str,
    /// The rest of a machine's keys, by level.
    levels: [(&'static str, &'static str); 2],
    load: &'static str,
    seconds: u32,
}

/// Two machines of two CPUs, one of which leaves one CPU unused.
const COMMAND_LINES: Asked = Asked {
    question: "What is a second CPU good for?",
    start: "echo CPUs: $(nproc); exec BINARY serve --port {port} --listen 127.0.0.1 -u nobody",
    factor: "cpus",
    levels: [
        ("two", r#"cpus = 2, sysctl = { "net.core.somaxconn" = "777" }"#),
        ("one", r#"cpus = 2, append = "maxcpus=1""#),
    ],
    load: "BINARY load --port {port} --connections 2",
    seconds: 2,
};

/// Four CPUs and a card of two queues, whose interrupts all come to one CPU or to several.
const INTERRUPTS: Asked = Asked {
    question: "Where do a card's interrupts go?",
    start: "exec BINARY serve --port {port} --listen 10.0.2.15 -u nobody",
    factor: "strategy",
    levels: [
        ("irq0-rps", r#"cpus = 4, queues = 2, strategy = "irq0-rps""#),
        ("spread", r#"cpus = 4, queues = 2, strategy = "spread", sample_s = 2"#),
    ],
    load: "exec nsenter --net --target {pid} BINARY load --host 10.0.2.15 --port {port} --connections 32",
    seconds: 6,
};

/// A machine with a disk for items, and one with two.
const DISKS: Asked = Asked {
    question: "What is a second disk good for?",
    start: "echo DISKS: $(ls /dev/nvme?n1 | wc -l); \
            exec BINARY serve --port {port} --listen 127.0.0.1 -u root -m 16 \
            -o $(printf ext_path=%s:48m, /dev/nvme?n1)ext_page_size=8",
    factor: "disks",
    levels: [("one", "disks = { count = 1, size_mb = 48 }"), ("two", "disks = { count = 2, size_mb = 48 }")],
    load: "BINARY load --port {port} --connections 2 --prefill --keys 6000 --value-size 4000 --verify",
    seconds: 2,
};

impl Asked {
    /// The experiment's file; words in capitals are paths that are not known yet.
    fn text(&self) -> String {
        let Asked { question, start, factor, levels, load, seconds } = self;
        let level = |(name, keys): &(&str, &str)| {
            format!(
                "[[factor.level]]\nname = \"{name}\"\nkernel = {{ image = \"IMAGE\", modules = \"MODULES\", {keys} }}\n"
            )
        };
        let levels: String = levels.iter().map(level).collect();
        format!(
            r#"question = "{question}"
[[subject]]
name = "ours"
start = "{start}"
ready_within_s = 300
[[factor]]
name = "{factor}"
{levels}[workload]
run = "{load} --duration {{seconds}}s --json {{output}}"
parser = "evenkeel-load"
seconds = {seconds}
[measure]
primary = "requests_per_cpu_second"
better = "higher"
[repeat]
rounds = 1
verdict = false
doubtful = 0
"#
        )
    }
}

/// Runs all of them, and looks at what they leave.
pub(super) fn run(parts: &Parts, binary: &Path, folder: &Path) -> Result<()> {
    let command_lines = run_one(&COMMAND_LINES, parts, binary, &folder.join("lab"))?;
    PLACES.iter().try_for_each(|place| check_command_line(&command_lines, place))?;
    let disks = run_one(&DISKS, parts, binary, &folder.join("lab-disks"))?;
    PLACES.iter().try_for_each(|place| check_disks(&disks, place))?;
    let interrupts = run_one(&INTERRUPTS, parts, binary, &folder.join("lab-interrupts"))?;
    PLACES.iter().try_for_each(|place| check_interrupts(&interrupts, place))
}

/// Of the two trials. Figures are not looked at, so that no trial is made again on a busy host.
const PLACES: [&str; 2] = ["0000", "0001"];

/// Runs it in a new directory; the directory of its records. An emulated machine may not come up at all, about once in a hundred times: then
/// all is done once more.
fn run_one(asked: &Asked, parts: &Parts, binary: &Path, folder: &Path) -> Result<PathBuf> {
    run_once(asked, parts, binary, folder).or_else(|error| {
        eprintln!("the lab failed once, tried again: {error:#}");
        run_once(asked, parts, binary, folder)
    })
}

fn run_once(asked: &Asked, parts: &Parts, binary: &Path, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let words = [("BINARY", binary), ("IMAGE", &parts.kernel), ("MODULES", &parts.modules)];
    let text =
        words.iter().fold(asked.text(), |text, (name, path)| text.replace(name, &path.to_string_lossy()));
    fs::write(folder.join("it.toml"), text)?;
    let mut lab = command(&binary.to_string_lossy(), &["lab", "run", "it.toml", "--state", "state"]);
    // The packages' busybox, which needs no libraries.
    let programs = parts.busybox.parent().context("busybox is in a directory")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()].into_iter().chain(std::env::split_paths(&path));
    lab.current_dir(folder).env("PATH", std::env::join_paths(path)?);
    crate::steps::run(lab)?;
    Ok(folder.join("it.run"))
}

/// With everything on CPU 0, its interrupts come only there and other CPUs handle packets, too; spread, several CPUs
/// have interrupts, and are sampled less often.
fn check_interrupts(run: &Path, place: &str) -> Result<()> {
    let path = run.join(format!("trials/{place}.json"));
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let record: Value = serde_json::from_str(&text)?;
    let samples = record["guest"]["samples"].as_array().context("the machine says what its CPUs do")?;
    let sums = |key: &str| -> Vec<u64> {
        let count = |sample: &Value, cpu: usize| sample[key][cpu].as_u64().unwrap_or(0);
        (0..4).map(|cpu| samples.iter().map(|sample| count(sample, cpu)).sum()).collect()
    };
    let (interrupts, packets) = (sums("interrupts"), sums("net_rx"));
    // One that was on its way when it was moved still comes where it came before.
    let is_at_work = |count: &&u64| **count > 20;
    let is_so = match record["levels"]["strategy"].as_str() {
        Some("irq0-rps") => {
            interrupts.iter().skip(1).all(|count| !is_at_work(&count))
                && interrupts.first().as_ref().is_some_and(is_at_work)
                && packets.iter().filter(is_at_work).count() > 1
        }
        _ => {
            let times: Vec<f64> = samples.iter().filter_map(|sample| sample["at_s"].as_f64()).collect();
            let is_slow = times
                .windows(2)
                .all(|pair| pair.iter().rev().copied().reduce(|to, from| to - from) > Some(1.9));
            ensure!(is_slow, "{place}: samples at {times:?} s, which are to be 2 s apart");
            interrupts.iter().filter(is_at_work).count() > 1
        }
    };
    ensure!(is_so, "{place}: {}: interrupts {interrupts:?}, packets {packets:?}", record["levels"]);
    Ok(())
}

/// A record has the kernel, and the subject's log the number of CPUs that it had.
fn check_command_line(run: &Path, place: &str) -> Result<()> {
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

/// The subject's log has the number of disks, and that it serves with all of them.
fn check_disks(run: &Path, place: &str) -> Result<()> {
    let read = |path: String| fs::read_to_string(run.join(&path)).with_context(|| format!("read {path}"));
    let record = read(format!("trials/{place}.json"))?;
    let log = read(format!("logs/{place}/subject.log"))?;
    let disks = if record.contains(r#""disks": "one""#) { "DISKS: 1" } else { "DISKS: 2" };
    ensure!(
        log.lines().any(|line| line.trim() == disks) && log.contains(" serves on "),
        "{place}: no {disks:?} in what the subject said: {log}"
    );
    ensure!(record.contains(r#""requests_per_cpu_second": "#), "{place}: no figures: {record}");
    Ok(())
}
