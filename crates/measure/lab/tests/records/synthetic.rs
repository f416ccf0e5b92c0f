//! Runs that are made up from a seed, with known effects.

use std::collections::BTreeMap;
use std::path::Path;

use lab::experiment::Experiment;
use lab::experiment::design::{Cell, Design};
use lab::record::{CpuShares, Sample, TrialRecord};
use lab::run::results::Results;
use stdx::prng::Prng;

/// A host that drifts, and what each cell makes of it.
pub(crate) struct Host {
    /// Standard deviation of a trial's logarithm.
    pub(crate) noise: f64,
    /// How much it drifts from trial to trial.
    pub(crate) drift: f64,
    /// What a cell's requests per CPU-second are multiplied by.
    pub(crate) effect: fn(&Cell) -> f64,
    /// Offered requests per second.
    pub(crate) rate: fn(&Cell) -> f64,
    /// Samples of each trial.
    pub(crate) seconds: u32,
}

/// Nearly normal: the sum of twelve uniform numbers.
pub(crate) fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// A run of the experiment on that host.
pub(crate) fn run(notation: &str, host: &Host, seed: u64) -> Results {
    let experiment = Experiment::parse(notation).expect("an experiment");
    let design = Design::of(&experiment);
    let mut prng = Prng::new(seed);
    let mut drift: f64 = 0.0;
    let mut records = Vec::new();
    for round in 0..experiment.repeat.rounds {
        for cell in &design.cells {
            drift = 0.9 * drift + host.drift * normal(&mut prng);
            let place = records.len() as u32;
            records.push(trial(cell, host, (round, place), drift, &mut prng));
        }
    }
    Results { experiment, notation: notation.to_owned(), records, profiles: Vec::new() }
}

fn trial(cell: &Cell, host: &Host, (round, place): (u32, u32), drift: f64, prng: &mut Prng) -> TrialRecord {
    let efficiency = 120_000.0 * (host.effect)(cell) * (drift + host.noise * normal(prng)).exp();
    let rate = (host.rate)(cell);
    let busy = (rate / efficiency / 4.0).min(0.98);
    let p99 = 150.0 / (1.0 - busy) * (0.05 * normal(prng)).exp();
    let samples = (1..=host.seconds).map(|second| sample(second, cell, busy, rate, p99, prng)).collect();
    let metrics = [
        ("requests_per_cpu_second", efficiency),
        ("requests_per_second", rate),
        ("p50_us", p99 * 0.3),
        ("p90_us", p99 * 0.6),
        ("p99_us", p99),
        ("p999_us", p99 * 2.5),
        ("steal_share", 0.0),
    ];
    TrialRecord {
        round,
        place,
        subject: cell.subject.clone(),
        levels: cell.levels.clone(),
        began_unix_s: 1_790_000_000 + u64::from(place) * 40,
        kernel: "6.18.5".into(),
        host: "made-up".into(),
        version: Some(format!("{} 1.0", cell.subject)),
        metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        samples,
        ..TrialRecord::default()
    }
}

fn sample(second: u32, cell: &Cell, busy: f64, rate: f64, p99: f64, prng: &mut Prng) -> Sample {
    let warm = if second <= 5 { 0.5 + 0.1 * f64::from(second) } else { 1.0 };
    let on_one = cell.name().contains("one core");
    let cpus = (0..8).map(|cpu: u32| {
        let softirq = if on_one { if cpu == 0 { 0.9 } else { 0.0 } } else { 0.1 * busy };
        let user = busy * warm * (0.5 + 0.05 * normal(prng)).clamp(0.0, 0.6);
        let system = (busy * warm * 0.3).min(1.0 - softirq - user).max(0.0);
        CpuShares {
            user,
            system,
            softirq,
            idle: (1.0 - user - system - softirq).max(0.0),
            ..Default::default()
        }
    });
    let cpus = cpus.collect();
    let load = BTreeMap::from([
        ("requests_per_second".to_owned(), rate * warm * (0.03 * normal(prng)).exp()),
        ("p99_us".to_owned(), p99 / warm * (0.15 * normal(prng)).exp()),
    ]);
    Sample { at_s: f64::from(second), load, cpus, ..Default::default() }
}

/// Writes a run as trials leave it behind.
pub(crate) fn write(results: &Results, directory: &Path) {
    let trials = directory.join("trials");
    if directory.exists() {
        std::fs::remove_dir_all(directory).expect("an earlier run can go");
    }
    std::fs::create_dir_all(&trials).expect("a directory");
    std::fs::write(directory.join("experiment.toml"), &results.notation).expect("written");
    for record in &results.records {
        let json = serde_json::to_string(record).expect("json");
        std::fs::write(trials.join(format!("{:04}.json", record.place)), json).expect("written");
    }
}
