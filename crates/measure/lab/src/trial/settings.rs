//! Host settings of one trial: sysctls, files, strategies. They are in tuner's journal before they are made, read
//! back afterwards, and undone when the trial is over; a journal that is still unfinished belongs to a lab that was
//! killed.

use crate::error::Error;
use crate::experiment::{Experiment, Level};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tuner::apply::host::{FileHost, HostAccess};
use tuner::apply::journal::{BootAndNamespace, Journal, Journals, Lock, PlanState};
use tuner::apply::obstacle::Obstacle;
use tuner::apply::rollback::{Elsewhere, check_place, undo};
use tuner::apply::try_out;
use tuner::apply::undoable::{EXPERIMENT, is_of_an_experiment};
use tuner::plan::PlanRequest;
use tuner::plan::change::{Change, Holds, Risk, Stage};
use tuner::plan::signal::ExpectedSignal;
use tuner::plan::strategy::Strategy;
use tuner::verify::{Holding, holding};
use tuner::{Facts, Root, Setting};

/// Exclusive access to the host's settings.
#[derive(Debug)]
pub(crate) struct HostSettings {
    journals: Journals,
    here: BootAndNamespace,
    host: FileHost,
    journal: Option<Journal>,
    _lock: Lock,
}

/// Whether an experiment changes anything of the host through a journal.
pub(crate) fn are_changed_by(experiment: &Experiment) -> bool {
    let levels = experiment.factors.iter().flat_map(|factor| &factor.levels);
    levels.into_iter().any(|it| !it.sysctl.is_empty() || !it.file.is_empty() || it.strategy.is_some())
}

/// Errors that can be found before anything runs.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Error> {
    // It only knows which settings the kernel sets together.
    let host = FileHost::new(Root::new("/"));
    let mut askers: BTreeMap<Setting, &str> = BTreeMap::new();
    let (mut owners, mut steered) = (BTreeMap::new(), Vec::new());
    for factor in &experiment.factors {
        let also = |other: &str| format!("factor {other:?} sets it, too");
        for level in &factor.levels {
            let place = place(&factor.name, level);
            for (key, setting, _) in wanted(&place, level)? {
                let together = host.reset_by(&setting).into_iter().chain([setting.clone()]);
                let mut others = together.filter_map(|setting| askers.get(&setting));
                if let Some(other) = others.find(|other| **other != factor.name) {
                    return Err(Error::place(key, also(other)));
                }
                askers.insert(setting, &factor.name);
            }
            for key in own_keys(level) {
                let other = *owners.entry(key.clone()).or_insert(&factor.name);
                if *other != factor.name {
                    return Err(Error::place(format!("{place}: {key}"), also(other)));
                }
            }
            if let Some(name) = &level.strategy {
                let key = format!("{place}: strategy");
                named(&key, name)?;
                let is_other = |(other, nic): &&(&String, Option<&String>)| {
                    **other != factor.name
                        && (nic.is_none() || level.nic.is_none() || *nic == level.nic.as_ref())
                };
                if let Some((other, _)) = steered.iter().find(is_other) {
                    return Err(Error::place(
                        key,
                        format!("factor {other:?} has one, too, for the same interface"),
                    ));
                }
                steered.push((&factor.name, level.nic.as_ref()));
            }
            if let Some(name) = level.kernel.as_ref().and_then(|kernel| kernel.strategy.as_ref()) {
                named(&format!("{place}: kernel.strategy"), name)?;
            }
        }
    }
    Ok(())
}

/// Settings that only one factor can have: of two, the last one would win, and the other factor would have no effect.
fn own_keys(level: &Level) -> Vec<String> {
    let single = [
        ("cpus", level.cpus.is_some()),
        ("scheduler", level.scheduler.is_some()),
        ("file_system", level.file_system.is_some()),
    ];
    let single = single.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key.to_owned());
    let words = level.set.keys().map(|name| format!("set.{name}"));
    words.chain(level.env.keys().map(|name| format!("env.{name}"))).chain(single).collect()
}

/// The name of a level in error messages.
pub(crate) fn place(factor: &str, level: &Level) -> String {
    format!("factor {factor:?}: level {:?}", level.name)
}

fn named(key: &str, name: &str) -> Result<Strategy, Error> {
    let names = || Strategy::ALL.map(Strategy::name).join(", ");
    let unknown = || Error::place(key, format!("{name:?} is none of {}", names()));
    Strategy::named(name).ok_or_else(unknown)
}

/// The settings of a level with their keys and values, without its strategy.
fn wanted(place: &str, level: &Level) -> Result<Vec<(String, Setting, String)>, Error> {
    let sysctls = level.sysctl.iter().map(|(name, value)| {
        (format!("{place}: sysctl {name:?}"), Setting::sysctl(name, Holds::Words), value.clone())
    });
    let mut wanted: Vec<_> = sysctls.collect();
    for (path, value) in &level.file {
        let key = format!("{place}: file {path:?}");
        if !is_of_an_experiment(path) {
            return Err(Error::place(key, "it is not below /proc/sys, /proc/irq or /sys"));
        }
        let is_mask = ["_cpus", "_rxqs", "/smp_affinity", "/cpumask"].iter().any(|end| path.ends_with(end));
        let holds = if is_mask { Holds::Mask } else { Holds::Words };
        wanted.push((key, Setting::File { path: path.clone(), holds }, value.clone()));
    }
    Ok(wanted)
}

impl HostSettings {
    /// Prevents other processes from changing settings as long as it exists.
    pub(crate) fn enter(state: &Path) -> Result<HostSettings, Error> {
        let root = Root::new("/");
        let journals = Journals::new(state);
        let lock = journals.lock()?;
        let settings = HostSettings {
            here: BootAndNamespace::of(&root)?,
            host: FileHost::new(root),
            journals,
            journal: None,
            _lock: lock,
        };
        match Obstacle::find(&settings.journals.read()?.of_this_version(&settings.here)?, &settings.here) {
            None => Ok(settings),
            Some(obstacle) => {
                let what = format!("of the plans of `evenkeel tune`, {obstacle}: {}", obstacle.remedy());
                Err(Error::place("the factors", what))
            }
        }
    }

    /// Whether the settings of all levels exist and can be written: it is better to find out now than after an hour.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let levels =
            experiment.factors.iter().flat_map(|it| it.levels.iter().map(move |level| (&it.name, level)));
        for (factor, level) in levels {
            for (key, setting, _) in wanted(&place(factor, level), level)? {
                self.read(&key, &setting)?;
                let Setting::File { path, .. } = &setting else { continue };
                if access(path.as_str(), Access::WRITE_OK) == Err(Errno::ACCESS) {
                    return Err(Error::place(key, format!("write {setting}: not allowed: it takes root")));
                }
            }
        }
        Ok(())
    }

    fn read(&self, key: &str, setting: &Setting) -> Result<String, Error> {
        self.host.read(setting).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::place(key, format!("there is no {setting}")),
            _ => Error::place(key, format!("read {setting}: {error}")),
        })
    }

    /// Makes the settings of a level, without its strategy.
    pub(crate) fn apply(&mut self, factor: &str, level: &Level) -> Result<(), Error> {
        for (key, setting, value) in wanted(&place(factor, level), level)? {
            let now = self.read(&key, &setting)?;
            // Of a choice, the chosen word counts.
            let setting = match setting {
                Setting::File { path, .. } if now.contains('[') => Setting::choice(path),
                setting => setting,
            };
            let change = Change {
                stage: Stage::Sysctl,
                setting,
                now,
                wanted: value,
                why: "an experiment".to_owned(),
                asked_by: EXPERIMENT.to_owned(),
                risk: Risk::Moderate,
                signal: ExpectedSignal::default(),
            };
            self.make(&key, &[change])?;
        }
        Ok(())
    }

    /// Carries out a level's strategy for the host as it is now; returns the changes that are not possible here.
    pub(crate) fn lay_out(
        &mut self,
        factor: &str,
        level: &Level,
        facts: &Facts,
    ) -> Result<Vec<String>, Error> {
        let Some(name) = &level.strategy else { return Ok(Vec::new()) };
        self.follow(&format!("{}: strategy", place(factor, level)), name, level.nic.as_deref(), facts)
    }

    /// Carries out a strategy; returns the changes that are not possible here.
    pub(crate) fn follow(
        &mut self,
        key: &str,
        name: &str,
        nic: Option<&str>,
        facts: &Facts,
    ) -> Result<Vec<String>, Error> {
        let asked = PlanRequest { strategy: Some(named(key, name)?), nic, ..PlanRequest::default() };
        let mut plan = tuner::plan::plan(facts, &asked);
        let refusals =
            plan.refusals.iter().map(|refusal| format!("{name}: {}: {}", refusal.subject, refusal.reason));
        let refusals: Vec<String> = refusals.collect();
        if plan.changes.is_empty() && !refusals.is_empty() {
            return Err(Error::place(key, refusals.join("; ")));
        }
        plan.changes.iter_mut().for_each(|change| change.asked_by = EXPERIMENT.to_owned());
        let left = self.make(key, &plan.changes)?;
        Ok(refusals.into_iter().chain(left).collect())
    }

    /// Makes changes; returns those that were left out.
    fn make(&mut self, key: &str, changes: &[Change]) -> Result<Vec<String>, Error> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(self.journals.begin(&self.here, os::clock::unix_s(), None)?),
        };
        let applied =
            try_out(&mut self.host, changes, journal).map_err(|failed| Error::place(key, failed))?;
        Ok(applied.left.iter().map(|(setting, why)| format!("{setting}: {why}")).collect())
    }

    /// Settings that are no longer as they were made.
    pub(crate) fn moved(&self) -> Vec<String> {
        let steps = self.journal.iter().flat_map(Journal::steps).filter(|step| !step.left);
        let moved = steps.filter_map(|step| match holding(&self.host, &step, None) {
            Holding::No { found } => Some(format!(
                "{} was set to {:?}, but was {found:?} at the end",
                step.setting,
                step.wanted.trim()
            )),
            Holding::Yes | Holding::Pending => None,
        });
        moved.collect()
    }

    /// Restores everything.
    pub(crate) fn back(&mut self) -> Result<(), Error> {
        let Some(mut journal) = self.journal.take() else { return Ok(()) };
        undone(&mut self.host, &mut journal)
    }
}

/// An interface that ends with its subject's network namespace refuses values for a while before it is gone: for this
/// long.
const TRIES_MAX: u32 = 20;
const TRY_AGAIN: Duration = Duration::from_millis(100);

#[expect(clippy::disallowed_methods, reason = "nothing tells when an interface is gone")]
fn undone(host: &mut FileHost, journal: &mut Journal) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        let undone = undo(host, journal, "the trial is over");
        if undone.is_whole() {
            break;
        }
        if tries == TRIES_MAX {
            return Err(Error::NotRestored(undone.failures().join("; ")));
        }
        tries += 1;
        std::thread::sleep(TRY_AGAIN);
    }
    if journal.is_damaged() {
        return Err(Error::NotRestored(format!(
            "settings of a run that {} names in lines that cannot be read; what can be read is as before",
            journal.path().display()
        )));
    }
    // The old values of many trials are useless: they are in force again.
    std::fs::remove_file(journal.path()).map_err(Error::io("remove", journal.path()))
}

/// Undoes the changes of a lab that was killed, and adds them to `restored`. Changes that cannot be undone do not
/// stop the rest.
pub(crate) fn restore(root: &Root, state: &Path, restored: &mut Vec<String>) -> Result<(), Error> {
    if !state.is_dir() {
        return Ok(());
    }
    let journals = Journals::new(state);
    let _lock = journals.lock()?;
    let here = BootAndNamespace::of(root)?;
    let mut host = FileHost::new(root.clone());
    // Those that are only stored do not name the requester.
    let is_ours = |journal: &Journal| {
        let is_asked = journal.steps().iter().all(|step| step.asked_by == EXPERIMENT || step.left);
        journal.state() == PlanState::Unfinished && is_asked
    };
    let journals = journals.read()?.of_this_version(&here)?.into_iter().rev().filter(is_ours);
    Error::all(journals.map(|journal| restore_one(&mut host, &here, journal, restored)).collect::<Vec<_>>())
}

fn restore_one(
    host: &mut FileHost,
    here: &BootAndNamespace,
    mut journal: Journal,
    restored: &mut Vec<String>,
) -> Result<(), Error> {
    let steps = journal.steps();
    match check_place(&journal, here) {
        Ok(()) => {}
        Err(Elsewhere::Rebooted) => return Ok(()),
        Err(why @ Elsewhere::Unknown) => {
            let path = journal.path().display();
            return Err(Error::NotRestored(format!("settings of a run that {path} names: {why}")));
        }
        Err(Elsewhere::Network(_)) if steps.iter().all(|step| step.undone) => return Ok(()),
        Err(Elsewhere::Network(network)) => {
            let left = steps.iter().filter(|step| !step.undone).map(|step| step.setting.to_string());
            let network = tuner::observe::network_namespace::name(&network);
            return Err(Error::NotRestored(format!(
                "settings of a run in the network namespace {network}, which can only be put back in there \
                 (`nsenter --net=… evenkeel lab restore`): {}; if it is gone, remove {}, which says what they were",
                left.collect::<Vec<_>>().join(", "),
                journal.path().display()
            )));
        }
    }
    let is_undone = undone(host, &mut journal);
    if journal.state() == PlanState::RolledBack {
        let steps = steps.iter().rev().filter(|step| !step.left);
        restored.extend(steps.map(|step| format!("{}: as before", step.setting)));
    }
    is_undone
}
