//! Experiment as its file defines it: one question, its subjects, its load, its factors.
//!
//! TOML, and strict: an unknown key is an error with its line, because an experiment with a setting that is silently
//! ignored is a different experiment. A parsed experiment can be carried out as it is; names in braces (`{port}`) are
//! filled in by each trial.

pub(crate) mod contrast;
pub mod design;
pub(crate) mod difference;
pub mod matrix;
pub mod placeholders;
pub mod rounds;
mod types;

use self::rounds::RoundPlan;
use self::types::ROUNDS_MIN;
pub use self::types::{
    Error, Experiment, Factor, FileSystem, GuestDisks, GuestKernel, Level, Measure, Parser, Ready, Repeat,
    Subject, TrialLoad,
};

/// Cells times rounds of one experiment: a week of trials of a minute.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// A trial is repeated at most this often: where that is not enough, use another host, or another hour.
const DOUBTFUL_MAX: u32 = 10;

/// Where more trials than that are lost, the host is not suitable for an experiment.
const LOST_MAX: f64 = 0.5;

/// The limit of a tap (`MAX_TAP_QUEUES` of drivers/net/tun.c).
const QUEUES_MAX: u32 = 256;

/// Each takes a slot of the machine's PCI bus, which has 32 with those of other devices.
const DISKS_MAX: u32 = 16;

impl Experiment {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Experiment, Error> {
        let wrong = |error: toml::de::Error| Error::Notation(error.to_string().trim_end().to_owned());
        let mut experiment: Experiment = toml::from_str(text).map_err(wrong)?;
        experiment.check()?;
        let keys: toml::Table = text.parse().map_err(wrong)?;
        if keys.get("repeat").and_then(|repeat| repeat.get("rounds")).is_none()
            && let Some(plan) = RoundPlan::of(&experiment)
        {
            experiment.repeat.rounds = plan.rounds.max(ROUNDS_MIN);
            experiment.check()?;
        }
        Ok(experiment)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |place: &str, what: &str| Err(Error::Sense { place: place.into(), what: what.into() });
        if self.subjects.is_empty() {
            return wrong("subject", "there is none; at least one [[subject]] with name and start is needed");
        }
        distinct("subject", self.subjects.iter().map(|subject| &subject.name))?;
        distinct("factor", self.factors.iter().map(|factor| &factor.name))?;
        self.factors.iter().try_for_each(Factor::check)?;
        distinct("measure.also", self.measure.also.iter())?;
        match self.subjects.iter().filter(|subject| subject.pinned).count() {
            0 => {}
            1 if self.subjects.len() > 1 => {}
            1 => return wrong("subject: pinned", "there is no other subject to be measured by it"),
            _ => return wrong("subject: pinned", "one subject at most is what the others are measured by"),
        }
        if self.workload.seconds <= self.workload.warm_up_s {
            return wrong(
                "workload.warm_up_s",
                "everything is dropped: it must be less than workload.seconds",
            );
        }
        if self.repeat.rounds == 0 {
            return wrong("repeat.rounds", "it must be at least 1");
        }
        if self.repeat.doubtful > DOUBTFUL_MAX {
            return wrong("repeat.doubtful", &format!("it must be at most {DOUBTFUL_MAX}"));
        }
        if !(0.0..=LOST_MAX).contains(&self.repeat.lost) {
            return wrong("repeat.lost", &format!("it is a share from 0 to {LOST_MAX}: 0.05 is 5 %"));
        }
        if !(0.0..1.0).contains(&self.measure.equivalent) {
            return wrong("measure.equivalent", "it is a share from 0 to below 1: 0.02 is 2 %");
        }
        let cells =
            self.factors.iter().map(|factor| factor.levels.len()).product::<usize>() * self.subjects.len();
        if cells * self.repeat.rounds as usize > TRIALS_MAX {
            return wrong(
                "repeat.rounds",
                &format!("{cells} cells times rounds are more than {TRIALS_MAX} trials"),
            );
        }
        Ok(())
    }
}

impl Factor {
    fn check(&self) -> Result<(), Error> {
        let place = format!("factor {:?}", self.name);
        if self.levels.len() < 2 {
            let what = "it has fewer than two levels, so nothing is varied".to_owned();
            return Err(Error::Sense { place, what });
        }
        distinct(&place, self.levels.iter().map(|level| &level.name))?;
        self.levels.iter().try_for_each(|level| level.check(&format!("{place}: level {:?}", level.name)))
    }
}

impl Level {
    fn check(&self, place: &str) -> Result<(), Error> {
        let wrong = |key: &str, what: String| Err(Error::Sense { place: format!("{place}: {key}"), what });
        let cpus = self.kernel.as_ref().map(|kernel| ("kernel.cpus", kernel.cpus));
        let queues = self.kernel.as_ref().and_then(|it| Some(("kernel.queues", it.queues?)));
        let size_mb = self.file_system.as_ref().map(|it| ("file_system.size_mb", it.size_mb));
        let disks = self.kernel.as_ref().and_then(|kernel| kernel.disks);
        let disk_count = disks.map(|disks| ("kernel.disks.count", disks.count));
        let disk_mb = disks.map(|disks| ("kernel.disks.size_mb", disks.size_mb));
        let sample_s = self.kernel.as_ref().map(|kernel| ("kernel.sample_s", kernel.sample_s));
        let counts = [cpus, queues, sample_s, size_mb, disk_count, disk_mb].into_iter().flatten();
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return wrong(key, "it must be at least 1".to_owned());
        }
        if queues.is_some_and(|(_, queues)| queues > QUEUES_MAX) {
            return wrong(
                "kernel.queues",
                format!("it must be at most {QUEUES_MAX}, which is what a tap has"),
            );
        }
        if let Some((key, _)) = disk_count.filter(|(_, count)| *count > DISKS_MAX) {
            return wrong(key, format!("it must be at most {DISKS_MAX}"));
        }
        Ok(())
    }
}

fn distinct<'n>(place: &str, names: impl Iterator<Item = &'n String>) -> Result<(), Error> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let what = if name.trim().is_empty() {
            "a name is empty".to_owned()
        } else if name.contains(char::is_control) {
            format!("the name {name:?} has control characters")
        } else if !seen.insert(name) {
            format!("the name {name:?} is there twice")
        } else {
            continue;
        };
        return Err(Error::Sense { place: place.to_owned(), what });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
