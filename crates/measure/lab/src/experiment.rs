//! Experiment as its file defines it: one question, its subjects, its load, its factors.
//!
//! TOML, and strict: an unknown key is an error with its line, because an experiment with a setting that is silently
//! ignored is a different experiment. A parsed experiment can be carried out as it is; names in braces (`{port}`) are
//! filled in by each trial.

pub mod adapted;
pub(crate) mod contrast;
pub(crate) mod derived;
pub mod design;
pub(crate) mod difference;
pub mod matrix;
pub mod placeholders;
pub mod rounds;
pub(crate) mod standing;
mod types;

use self::design::is_condition;
use self::rounds::RoundPlan;
use self::types::ROUNDS_MIN;
pub use self::types::{
    Aim, BesideCommand, Error, Experiment, Factor, FileSystem, GuestDisks, GuestKernel, Level, Measure,
    Parser, Ready, Repeat, Subject, TrialLoad,
};
use crate::record::quantity;

/// A shorter window is not measured: the kernel's count of a thread's CPU time can be 4 ms old at both of its ends.
const SECONDS_MIN: f64 = 0.01;

/// A month.
const SECONDS_MAX: f64 = 31.0 * 86_400.0;

/// Cells times rounds of one experiment: a week of trials of a minute.
pub(crate) const TRIALS_MAX: usize = 10_000;

/// More combinations than that are not even looked at.
const COMBINATIONS_MAX: usize = 10 * TRIALS_MAX;

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
        let (experiment, has_rounds) = Experiment::unplanned(text)?;
        experiment.planned(has_rounds)
    }

    /// As the text has it, and whether it has a number of rounds.
    fn unplanned(text: &str) -> Result<(Experiment, bool), Error> {
        let wrong = |error: toml::de::Error| Error::Notation(error.to_string().trim_end().to_owned());
        let mut experiment: Experiment = toml::from_str(text).map_err(wrong)?;
        experiment.factors.iter_mut().for_each(Factor::give_words);
        let keys: toml::Table = text.parse().map_err(wrong)?;
        Ok((experiment, keys.get("repeat").and_then(|repeat| repeat.get("rounds")).is_some()))
    }

    /// Checked, with as many rounds as its comparisons need if it has no number of them.
    fn planned(mut self, has_rounds: bool) -> Result<Experiment, Error> {
        self.check()?;
        if let Some(plan) = RoundPlan::of(&self).filter(|_| !has_rounds) {
            self.repeat.rounds = plan.rounds.max(ROUNDS_MIN);
            self.check()?;
        }
        Ok(self)
    }

    /// Removes from its levels the names of subjects that it does not have.
    fn drop_names_of_others(&mut self) {
        let known = |name: &String| self.subjects.iter().any(|subject| subject.name == *name);
        for factor in &mut self.factors {
            let before = factor.levels.len();
            factor.levels.retain_mut(|level| {
                let is_for_all = level.subjects.is_empty();
                level.subjects.retain(known);
                level.must.retain(|name, _| known(name));
                // One that nobody is left for is not one for all.
                is_for_all || !level.subjects.is_empty()
            });
            factor.restricted |= factor.levels.len() < before;
        }
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |place: &str, what: &str| Err(Error::Sense { place: place.into(), what: what.into() });
        if self.subjects.is_empty() {
            return wrong("subject", "there is none; at least one [[subject]] with name and start is needed");
        }
        distinct("subject", self.subjects.iter().map(|subject| &subject.name))?;
        distinct("factor", self.factors.iter().map(|factor| &factor.name))?;
        self.factors.iter().try_for_each(Factor::check)?;
        self.check_names()?;
        distinct("measure.also", self.measure.also.iter())?;
        distinct("measure.expected", self.measure.expected.iter())?;
        distinct("workload.stats", self.workload.stats.iter())?;
        match self.subjects.iter().filter(|subject| subject.pinned).count() {
            0 => {}
            1 if self.subjects.len() > 1 => {}
            1 => return wrong("subject: pinned", "there is no other subject to be measured by it"),
            _ => return wrong("subject: pinned", "one subject at most is what the others are measured by"),
        }
        let TrialLoad { seconds, warm_up_s, .. } = self.workload;
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
            return wrong("workload.seconds", &format!("it must be from {SECONDS_MIN} to {SECONDS_MAX}"));
        }
        if !(0.0..=SECONDS_MAX).contains(&warm_up_s) {
            return wrong("workload.warm_up_s", "it must be 0 or more");
        }
        if self.workload.measured_s() < SECONDS_MIN {
            let what = format!(
                "everything is dropped: it must be less than workload.seconds, by {SECONDS_MIN} or more"
            );
            return wrong("workload.warm_up_s", &what);
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
        let combinations = self.factors.iter().map(|factor| factor.levels.len());
        let most = combinations.fold(self.subjects.len(), usize::saturating_mul);
        let cells = if most > COMBINATIONS_MAX { most } else { matrix::cells(self).len() };
        if cells == 0 {
            return wrong("factor", "no subject takes part in any combination of levels");
        }
        if cells.saturating_mul(self.repeat.rounds as usize) > TRIALS_MAX {
            return wrong(
                "repeat.rounds",
                &format!("{cells} cells times rounds are more than {TRIALS_MAX} trials"),
            );
        }
        standing::check(self)
    }

    /// Checks what names subjects.
    fn check_names(&self) -> Result<(), Error> {
        self.subjects.iter().try_for_each(Subject::check)?;
        if self.subjects[0].optional {
            let what = "the first subject is what the others are compared with".to_owned();
            return Err(Error::Sense {
                place: format!("subject {:?}: optional", self.subjects[0].name),
                what,
            });
        }
        for (factor, level) in
            self.factors.iter().flat_map(|it| it.levels.iter().map(move |level| (it, level)))
        {
            for (key, names) in [
                ("subjects", level.subjects.iter().collect()),
                ("must", level.must.keys().collect::<Vec<_>>()),
            ] {
                let place = format!("factor {:?}: level {:?}: {key}", factor.name, level.name);
                let is_known = |name: &&&String| self.subjects.iter().any(|subject| subject.name == ***name);
                distinct(&place, names.iter().copied())?;
                if let Some(name) = names.iter().find(|name| !is_known(name)) {
                    let known: Vec<&str> = self.subjects.iter().map(|subject| &*subject.name).collect();
                    let what = format!("{name:?} is none of the subjects {}", known.join(", "));
                    return Err(Error::Sense { place, what });
                }
            }
            // The first level of a treatment is the baseline, whatever it asks of the subjects.
            if !level.must.is_empty() && factor.levels.len() > 1 && !is_condition(factor, self) {
                return Err(Error::Sense {
                    place: format!("factor {:?}: level {:?}: must", factor.name, level.name),
                    what: "subjects differ with this factor, so they are compared across its levels, and an aim would be about \
                           two levels: say that it is a condition (`condition = true` in its [[factor]])"
                        .to_owned(),
                });
            }
            for (name, aim) in &level.must {
                let place = format!("factor {:?}: level {:?}: must.{name}", factor.name, level.name);
                aim.check(&self.measure).map_err(|what| Error::Sense { place, what })?;
            }
        }
        Ok(())
    }
}

impl Subject {
    fn check(&self) -> Result<(), Error> {
        let wrong = |key: &str, what: String| {
            Err(Error::Sense { place: format!("subject {:?}: {key}", self.name), what })
        };
        let Some(program) = &self.program else {
            return match self.optional {
                false => Ok(()),
                true => wrong("optional", "only a `program` can be looked for: name it".to_owned()),
            };
        };
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=^~".contains(c);
        if program.is_empty() || !program.chars().all(is_plain) {
            return wrong("program", format!("{program:?} is no path that is one word for the shell"));
        }
        let ready = if let Ready::Command(text) = &self.ready { Some(text) } else { None };
        let mut lines = self.prepare.iter().chain([&self.start]).chain(&self.version).chain(ready);
        match lines.any(|line| line.contains("{program}")) {
            true => Ok(()),
            false => wrong("program", "no command of it has {program}".to_owned()),
        }
    }
}

impl Factor {
    /// Gives its levels the words that are those of all.
    fn give_words(&mut self) {
        for (name, word) in std::mem::take(&mut self.set) {
            for level in &mut self.levels {
                level.set.entry(name.clone()).or_insert_with(|| word.clone());
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        let place = format!("factor {:?}", self.name);
        if self.levels.len() < 2 && !self.restricted {
            let what = "it has fewer than two levels, so nothing is varied".to_owned();
            return Err(Error::Sense { place, what });
        }
        distinct(&place, self.levels.iter().map(|level| &level.name))?;
        self.levels.iter().try_for_each(|level| level.check(&format!("{place}: level {:?}", level.name)))
    }
}

impl Aim {
    fn check(&self, measure: &Measure) -> Result<(), String> {
        let is_ratio = |ratio: &f64| {
            let is_good = ratio.is_finite() && *ratio > 0.0;
            is_good
                .then_some(())
                .ok_or_else(|| format!("{ratio} is no ratio: 1.25 is 25 % more than the baseline"))
        };
        match self {
            Aim::Equivalent(_) => Ok(()),
            Aim::Ratio(ratio) => is_ratio(ratio),
            Aim::Metrics(ratios) => ratios.iter().try_for_each(|(name, ratio)| {
                let known = std::iter::once(&measure.primary).chain(&measure.also);
                if !known.clone().any(|metric| metric == name) {
                    let known: Vec<&str> = known.map(String::as_str).collect();
                    return Err(format!("{name:?} is none of the metrics in measure: {}", known.join(", ")));
                }
                if *name != measure.primary && quantity::better(name).is_none() {
                    return Err(format!(
                        "the name of {name:?} does not show whether high or low values are good"
                    ));
                }
                is_ratio(ratio)
            }),
        }
    }
}

impl Level {
    /// Whether a subject takes part in it.
    pub(crate) fn takes(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|name| name == subject)
    }

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
