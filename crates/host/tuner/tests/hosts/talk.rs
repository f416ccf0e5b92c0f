//! A host, what happens there in thirty seconds, and what the tuner makes of it: as few lines as a screen holds.
//!
//! Situations are lines, most of them of CPUs or queues and amounts:
//!
//! ```text
//! cpu 0 user=5 softirq=88               percent of the window; the rest is idle
//! NET_RX 0=900000 1-15=100              soft interrupts
//! arrivals 84 0=900000                  of an interrupt, by CPU
//! count eth0 rx_packets=1500000         of an interface
//! count TcpExt.ListenOverflows=30       of a protocol
//! cgroup /system.slice throttled=60     of 300 periods
//! ```
//!
//! CPUs are lists everywhere, also where the kernel takes masks; equal values of several queues are given once:
//! `8×0-3`.

use std::collections::BTreeMap;
use std::fmt::Write;

use os::CpuSet;
use tuner::observe::cpu_model::{Choice, CpuModel, Measured};
use tuner::observe::facts::{Facts, Nic};
use tuner::observe::reading::CpuTimes;
use tuner::plan::change::Change;
use tuner::plan::strategy::Strategy;
use tuner::plan::{PlanRequest, plan};
use tuner::{Finding, Reading, RemedyStatus, Series, Severity, judge, probe, read};

use crate::hosts::tree::Tree;

/// Windows of ten seconds.
const WINDOWS: u64 = 3;

/// Compares the texts about a host with the expected ones, word by word.
#[track_caller]
pub(crate) fn check(tree: &Tree, load: &str, expected: &str) {
    let said = talk(tree, load);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&said) == words(expected), "the host says:\n{}", wrapped(&said));
}

/// Lines as they stand in a test.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut len = 0;
        for (i, word) in line.split(' ').enumerate() {
            if len + word.len() > COLUMNS && i > 0 {
                out += "\n                 ";
                len = 0;
            }
            out += if i == 0 { "         " } else { " " };
            out += word;
            len += word.len() + 1;
        }
        out += "\n";
    }
    out
}

const COLUMNS: usize = 100;

fn talk(tree: &Tree, load: &str) -> String {
    let facts = probe(&tree.root(), &[]).expect("probe");
    let first = read(&tree.root(), &facts, 0).expect("read");
    let series = series(&facts, first, load);
    let findings = judge(&facts, &series);
    let mut text = format!("host     {}\n", host(&facts));
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Note) {
        let _ = writeln!(
            text,
            "{:<8} {}: {}{}{}",
            finding.severity.word(),
            finding.rule,
            finding.cause,
            verdict(finding),
            also(finding)
        );
        for consequence in &finding.consequences {
            let _ = writeln!(
                text,
                "  causes {}: {}{}",
                consequence.rule,
                consequence.cause,
                verdict(consequence)
            );
        }
    }
    let notes = findings.iter().filter(|finding| finding.severity == Severity::Note);
    let mut notes: Vec<&str> = notes.map(|finding| finding.rule.as_str()).collect();
    notes.dedup();
    let _ = writeln!(text, "notes    {}", notes.join(", "));
    let measured = Measured::of(&series);
    let model = CpuModel::new(&facts, measured.clone(), Choice::default());
    let plan = plan(&facts, &PlanRequest { findings: &findings, measured, ..PlanRequest::default() });
    for line in layout(&plan.changes) {
        let _ = writeln!(text, "plan     {line}");
    }
    for refusal in &plan.refusals {
        let _ = writeln!(text, "refused  {}: {}", refusal.subject, refusal.reason);
    }
    for advice in &plan.advice {
        let _ = writeln!(text, "by hand  {advice}");
    }
    let nics: Vec<&Nic> = facts.nics.iter().filter(|nic| nic.is_wire()).collect();
    for strategy in [Strategy::Spread, Strategy::Irq0Rps, Strategy::RpsRfs, Strategy::Xps] {
        let proposed = strategy.changes(&model, &nics);
        let mut parts = layout(&proposed.changes);
        parts.extend(
            proposed.refusals.iter().map(|refusal| format!("{}: no, {}", refusal.subject, refusal.reason)),
        );
        let _ = writeln!(text, "{:<8} {}", strategy.name(), parts.join("; "));
    }
    text
}

fn host(facts: &Facts) -> String {
    let nics = facts.nics.iter().filter(|nic| nic.is_wire()).map(|nic| {
        format!("{} ({}, {} queues)", nic.name, nic.driver.as_deref().unwrap_or("?"), nic.rx.len())
    });
    let nics: Vec<String> = nics.collect();
    let nodes: CpuSet = facts.cpus.iter().map(|cpu| cpu.node).collect();
    let product = facts.guest.product.as_deref().unwrap_or("a host without firmware");
    let nics = if nics.is_empty() { "no interface".to_owned() } else { nics.join(", ") };
    format!(
        "{product}, Linux {}, CPUs {} on {} nodes, {}",
        facts.kernel.release,
        facts.online(),
        nodes.len(),
        nics
    )
}

fn also(finding: &Finding) -> String {
    let others: Vec<&str> = finding.alike.iter().map(|other| other.subject.as_str()).collect();
    if others.is_empty() { String::new() } else { format!(" [also {}]", others.join(", ")) }
}

fn verdict(finding: &Finding) -> &'static str {
    match finding.verdict {
        RemedyStatus::Fixable => "",
        RemedyStatus::NotHere { .. } => " [cannot be fixed here]",
    }
}

/// What is set on what, the interrupts or queues of one interface in one line.
fn layout(changes: &[Change]) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for change in changes {
        let path = change.setting.to_string();
        let parts: Vec<&str> = path.split('/').collect();
        let kind = match parts[..] {
            ["", "proc", "irq", _, _] => "interrupts".to_owned(),
            ["", "sys", "class", "net", nic, "queues", _, file] => format!("{nic} {file}"),
            ["", "proc", "sys", ..] => parts[3..].join("."),
            _ => parts[parts.len().saturating_sub(2)..].join("/"),
        };
        let is_mask = path.ends_with("smp_affinity") || path.ends_with("_cpus");
        let value = match is_mask {
            true => CpuSet::parse_mask(&change.wanted).expect("a mask").to_string(),
            false => change.wanted.clone(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, values)) => values.push(value),
            None => kinds.push((kind, vec![value])),
        }
    }
    kinds.into_iter().map(|(kind, values)| format!("{kind} {}", alike(&values))).collect()
}

/// `0 1 2 3`, or `4×1-7` if all are alike.
fn alike(values: &[String]) -> String {
    let chunks = values.chunk_by(|one, other| one == other);
    let said = chunks.map(|chunk| match chunk.len() {
        1 => chunk[0].clone(),
        count => format!("{count}×{}", chunk[0]),
    });
    let said: Vec<String> =
        said.map(|value| if value.is_empty() { "none".to_owned() } else { value }).collect();
    let text = said.join(" ");
    match (text.len() > VALUES_LEN_MAX, said.first(), said.last()) {
        (true, Some(first), Some(last)) => format!("{first} … {last}"),
        _ => text,
    }
}

/// Longer ones are said by the first and the last.
const VALUES_LEN_MAX: usize = 100;

/// Readings of a host that was as the first says, and on which this happens.
fn series(facts: &Facts, first: Reading, load: &str) -> Series {
    let readings = (0..=WINDOWS).map(|window| {
        let mut reading = Reading { at_ms: 10_000 * window, ..first.clone() };
        for cpu in facts.online().iter() {
            reading.cpus.insert(cpu, CpuTimes { idle: 1000 * window, ..CpuTimes::default() });
        }
        for line in load.lines().map(str::trim).filter(|line| !line.is_empty()) {
            happen(&mut reading, window, line);
        }
        reading
    });
    Series::new(readings.collect()).expect("readings in order")
}

fn happen(reading: &mut Reading, window: u64, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pairs: Vec<(&str, u64)> = words
        .iter()
        .filter_map(|word| word.rsplit_once('='))
        .map(|(name, amount)| (name, amount.parse().expect(line)))
        .collect();
    let grown = |amount: u64| amount * window / WINDOWS;
    let set = |list: &str| CpuSet::parse_list(list).expect(line);
    match words[0] {
        "cpu" => {
            for cpu in set(words[1]).iter() {
                // A percent of ten seconds are ten ticks.
                let ticks = |name: &str| {
                    pairs.iter().find(|(key, _)| *key == name).map_or(0, |(_, percent)| percent * 10 * window)
                };
                let times = CpuTimes {
                    user: ticks("user"),
                    system: ticks("system"),
                    softirq: ticks("softirq"),
                    steal: ticks("steal"),
                    idle: 1000 * window - ticks("user") - ticks("system") - ticks("softirq") - ticks("steal"),
                    ..CpuTimes::default()
                };
                reading.cpus.insert(cpu, times);
            }
        }
        "NET_RX" => by_cpu(reading.softirqs.entry("NET_RX".into()).or_default(), &pairs, grown),
        "arrivals" => {
            for irq in set(words[1]).iter() {
                by_cpu(reading.interrupts.entry(irq).or_default(), &pairs, grown);
            }
        }
        "cgroup" => {
            let times = reading.cgroups.entry(words[1].to_owned()).or_default();
            times.periods += grown(300);
            times.throttled += grown(pairs[0].1);
            times.throttled_us += grown(pairs[0].1) * 10_000;
        }
        "count" if words[1].contains('=') => {
            pairs.iter().for_each(|(name, amount)| add(&mut reading.protocols, name, grown(*amount)));
        }
        "count" => {
            let counters = reading.nics.entry(words[1].to_owned()).or_default();
            pairs.iter().for_each(|(name, amount)| add(counters, name, grown(*amount)));
        }
        other => panic!("nothing like {other} happens"),
    }
}

fn add(counters: &mut BTreeMap<String, u64>, name: &str, amount: u64) {
    *counters.entry(name.to_owned()).or_default() += amount;
}

fn by_cpu(counts: &mut BTreeMap<u32, u64>, pairs: &[(&str, u64)], grown: impl Fn(u64) -> u64) {
    for (cpus, amount) in pairs {
        for cpu in CpuSet::parse_list(cpus).expect("CPUs").iter() {
            *counts.entry(cpu).or_default() += grown(*amount);
        }
    }
}
