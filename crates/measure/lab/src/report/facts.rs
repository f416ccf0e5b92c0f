//! Conditions of a run: machines, kernels, versions, dates.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stdx::calendar::utc;

use crate::record::TrialRecord;
use crate::run::results::Results;

/// Under which conditions a run was made, from its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunFacts {
    /// Names of the hosts.
    pub hosts: BTreeSet<String>,
    /// CPUs that were online there; `None`: no record has samples of them.
    pub cpus: Option<usize>,
    /// Kernels of the hosts.
    pub kernels: BTreeSet<String>,
    /// Kernels of virtual machines that subjects ran in, each with its accelerator.
    pub guests: BTreeSet<String>,
    /// Models of the hosts' CPUs, where the kernel names one.
    pub cpu_models: BTreeSet<String>,
    /// Versions of each subject, as its command printed them.
    pub versions: BTreeMap<String, BTreeSet<String>>,
    /// SHA-256 of each subject's executables.
    pub programs: BTreeMap<String, BTreeSet<String>>,
    /// When the first trial began, in seconds since 1970.
    pub began_unix_s: u64,
    /// When the last trial began.
    pub last_began_unix_s: u64,
    /// All trials, those that do not count included.
    pub trials: usize,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Seconds of load in a trial, and how many of them are dropped.
    pub seconds: [f64; 2],
    /// Seed of the order of trials.
    pub seed: u64,
}

impl RunFacts {
    /// The conditions of a run.
    pub fn of(results: &Results) -> RunFacts {
        let experiment = &results.experiment;
        let mut facts = RunFacts {
            began_unix_s: results.began_unix_s(),
            last_began_unix_s: results.records.iter().map(|record| record.began_unix_s).max().unwrap_or(0),
            trials: results.records.len(),
            rounds: experiment.repeat.rounds,
            seconds: [experiment.workload.seconds, experiment.workload.warm_up_s].map(f64::from),
            seed: experiment.repeat.seed,
            ..RunFacts::default()
        };
        results.records.iter().for_each(|record| facts.add(record));
        facts
    }

    fn add(&mut self, record: &TrialRecord) {
        let cpus = record.samples.iter().map(|sample| sample.cpus.len()).max().filter(|cpus| *cpus > 0);
        self.cpus = self.cpus.max(cpus);
        self.hosts.insert(record.host.clone());
        self.kernels.insert(record.kernel.clone());
        self.cpu_models.extend(record.cpu_model.clone());
        let guest = record.guest.as_ref().filter(|guest| !guest.kernel.is_empty());
        self.guests.extend(guest.map(|guest| format!("{} ({})", guest.kernel, guest.accelerator)));
        let of_subject = |all: &mut BTreeMap<String, BTreeSet<String>>, fact: &Option<String>| {
            if let Some(fact) = fact {
                all.entry(record.subject.clone()).or_default().insert(fact.clone());
            }
        };
        of_subject(&mut self.versions, &record.version);
        of_subject(&mut self.programs, &record.program);
    }

    /// Name and value of each that is known, for people.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        let versions = self.versions.iter().map(|(subject, all)| format!("{subject}: {}", join(all)));
        let [seconds, warm_up] = self.seconds;
        let rows = [
            (
                "first and last trial began",
                format!("{}, {}", utc(self.began_unix_s), utc(self.last_began_unix_s)),
            ),
            ("host", join(&self.hosts)),
            ("CPUs", self.cpus.map_or(String::new(), |cpus| cpus.to_string())),
            ("model of the CPUs", join(&self.cpu_models)),
            ("kernel", join(&self.kernels)),
            ("kernels of virtual machines", join(&self.guests)),
            ("versions", versions.collect::<Vec<_>>().join("; ")),
            ("a trial", format!("{seconds} s of load, of which the first {warm_up} s are dropped")),
            ("rounds", self.rounds.to_string()),
            ("seed of the order", self.seed.to_string()),
        ];
        rows.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}
