//! Runs: all trials of an experiment, one after the other, each saved when it ends.
//!
//! ```text
//! RUN/experiment.toml     the file as it is carried out
//! RUN/trials/0000.json    a record each, by the place in the order
//! RUN/profiles/0000.json  perf's samples of each cell, if the experiment asks for it
//! RUN/logs/0000/          the output of subject and load
//! RUN/work/               of the trial that runs
//! ```

mod neighbours;
pub mod results;

use crate::error::Error;
use crate::experiment::adapted::{Adaptation, Adapted};
use crate::experiment::difference;
use crate::experiment::matrix::{self, TrialTurn, cells, lost};
use crate::experiment::rounds::RoundPlan;
use crate::experiment::{Experiment, Measure};
use crate::guest::GuestMachine;
use crate::record::TrialRecord;
use crate::record::profile::{self, CpuProfile};
use crate::run::results::PROFILES;
use crate::trial::context::Site;
use crate::trial::halt::Halt;
use crate::trial::trace::{self, CleanupRecord};
use crate::trial::{check, program, settings};
use os::LockedFile;
use os::clock::Stopwatch;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tuner::Root;

/// The experiment, the directory of the run and of the state.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The experiment's file.
    pub text: String,
    /// Changes to it.
    pub adaptation: Adaptation,
    /// The directory of the run: a new one, or one to be continued.
    pub directory: PathBuf,
    /// The directory for the records of what has to be undone.
    pub state: PathBuf,
}

/// Progress of a run, for the caller to show.
#[derive(Debug)]
pub enum RunProgress<'a> {
    /// Subjects that are left out because their programs are not there.
    LeftOut(&'a [String]),
    /// Before the first trial: the needs of its comparisons, and the number of rounds.
    Planned(RoundPlan, u32),
    /// The remains of a run that was killed.
    Restored(&'a [String]),
    /// A trial begins.
    Begins {
        /// Subject and levels.
        cell: String,
        /// Its number, from 1.
        number: usize,
        /// The number of all, as far as known now.
        of: usize,
        /// Earlier trials of this cell in this round, none of which counts.
        repeat: u32,
        /// Seconds until all are over, once that can be estimated.
        left_s: Option<f64>,
    },
    /// Other users of this host would disturb the trials: what was seen of them before the first.
    Busy(String),
    /// It has ended.
    Ended {
        /// Its number, from 1.
        number: usize,
        /// The number of all, as far as known now.
        of: usize,
        /// Seconds until all are over.
        left_s: f64,
        /// Its record.
        record: &'a TrialRecord,
        /// The metrics of the experiment.
        measure: &'a Measure,
    },
    /// Perf has sampled a cell, or could not.
    Sampled(&'a CpuProfile),
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// All records.
    pub trials: usize,
    /// Of these, those of this call.
    pub new: usize,
    /// Of all, those that do not count.
    pub doubtful: usize,
    /// Turns that have no trial that counts, although it was repeated.
    pub lost: usize,
    /// All turns: a cell in a round each.
    pub turns: usize,
}

/// Runs all trials that have no record yet.
pub fn run(asked: &RunRequest, halt: &Halt, tell: &mut dyn FnMut(RunProgress)) -> Result<RunOutcome, Error> {
    let Adapted { experiment, notation, left_out } =
        asked.adaptation.apply(&asked.text, &program::is_found)?;
    // What is wrong in the file is wrong in the parts of it that are not carried out, too.
    check::check_words(&Experiment::parse(&asked.text)?).map_err(Error::of_the_file)?;
    check(&experiment)?;
    if !left_out.is_empty() {
        tell(RunProgress::LeftOut(&left_out));
    }
    let (restored, is_all) = restore(&asked.state, settings::are_changed_by(&experiment));
    if !restored.is_empty() {
        tell(RunProgress::Restored(&restored));
    }
    is_all?;
    let failed = |what| Error::io(what, &asked.directory);
    is_one_word(&std::path::absolute(&asked.directory).map_err(failed("find"))?)?;
    std::fs::create_dir_all(&asked.directory).map_err(failed("create"))?;
    // Without symbolic links: the kernel reports mount points without them.
    let directory = asked.directory.canonicalize().map_err(failed("find"))?;
    is_one_word(&directory)?;
    let _lock = enter(&directory, &notation, &experiment)?;
    let mut records = records(&directory)?;
    let lab = program::own();
    same_place(&directory, &records, lab.as_deref())?;
    let settings = match settings::are_changed_by(&experiment) {
        true => {
            let settings = settings::HostSettings::enter(&asked.state.join(TUNE))?;
            settings.check(&experiment)?;
            Some(settings)
        }
        false => None,
    };
    let mut trace = CleanupRecord::begin(&asked.state, os::clock::unix_s())?;
    trace.adopt()?;
    let mut site = Site {
        experiment: &experiment,
        halt,
        directory: &directory,
        settings,
        trace,
        versions: BTreeMap::new(),
        programs: programs(&records),
        lab,
        sampled: None,
        standing: None,
    };
    let before = records.len();
    if let Some(plan) = RoundPlan::of(&experiment) {
        tell(RunProgress::Planned(plan, experiment.repeat.rounds));
    }
    if let Some(busy) = neighbours::look(halt)? {
        tell(RunProgress::Busy(busy));
    }
    let conducted = conduct(&mut site, &mut records, tell);
    // Servers that kept running until now do not disturb perf.
    let conducted =
        Error::all([conducted, site.end_servers()]).and_then(|()| sample_all(&mut site, &records, tell));
    // Whatever happened: the last trial has left nothing, so there is nothing to report about it.
    let ended = site.trace.end();
    match conducted {
        // Nothing has failed: the run was interrupted by a signal.
        Err(Error::Halted) => ended.and(Err(Error::Halted)),
        conducted => Error::all([conducted, ended]),
    }?;
    let doubtful = records.values().filter(|record| !record.is_valid()).count();
    let (lost, turns) = lost(&experiment, &records);
    Ok(RunOutcome { trials: records.len(), new: records.len() - before, doubtful, lost, turns })
}

/// Refuses errors that can be found before anything is done.
fn check(experiment: &Experiment) -> Result<(), Error> {
    RoundPlan::check(experiment)?;
    settings::check(experiment).map_err(Error::of_the_file)?;
    let cells = cells(experiment);
    cells.iter().try_for_each(|cell| check::check(experiment, cell)).map_err(Error::of_the_file)?;
    for guest in cells.iter().map(|cell| GuestMachine::of(&cell.levels(experiment))) {
        guest?.as_ref().map_or(Ok(()), GuestMachine::check)?;
    }
    Ok(())
}

/// All trials that have no record yet.
fn conduct(
    site: &mut Site,
    records: &mut BTreeMap<u32, TrialRecord>,
    tell: &mut dyn FnMut(RunProgress),
) -> Result<(), Error> {
    let (experiment, clock) = (site.experiment, Stopwatch::start());
    let mut new = 0;
    let mut to_come = VecDeque::from(matrix::to_come(experiment, records));
    loop {
        let (left, of) = (to_come.len(), records.len() + to_come.len());
        let Some(turn) = to_come.pop_front() else { return Ok(()) };
        let left_s = (new > 0).then(|| clock.passed().as_secs_f64() / f64::from(new) * left as f64);
        if new > 0 {
            site.halt.pause(Duration::from_secs(experiment.repeat.rest_s.into()))?;
        }
        let cell = turn.cell.name(experiment);
        tell(RunProgress::Begins { cell, number: records.len() + 1, of, repeat: turn.repeat, left_s });
        let tried = site.conduct(&turn)?;
        // With figures, whether or not something has disturbed them.
        let has_figures = |it: &TrialRecord| it.metrics.contains_key(&experiment.measure.primary);
        let has_worked = || records.values().any(|it| has_figures(it) && turn.cell.is_of(it, experiment));
        if let Some(error) = tried.broken
            && !has_worked()
        {
            return Err(error);
        }
        save(site.directory, &tried.record)?;
        new += 1;
        let (place, counts) = (turn.place, tried.record.is_valid());
        records.insert(place, tried.record);
        if !counts {
            // It has brought another one with it.
            to_come = matrix::to_come(experiment, records).into();
        }
        let left = to_come.len();
        let left_s = clock.passed().as_secs_f64() / f64::from(new) * left as f64;
        let (number, of) = (records.len(), records.len() + left);
        tell(RunProgress::Ended {
            number,
            of,
            left_s,
            record: &records[&place],
            measure: &experiment.measure,
        });
    }
}

/// One more trial of each cell, for perf, if the experiment asks for it: after all that count, so that it does not
/// disturb them.
fn sample_all(
    site: &mut Site,
    records: &BTreeMap<u32, TrialRecord>,
    tell: &mut dyn FnMut(RunProgress),
) -> Result<(), Error> {
    let experiment = site.experiment;
    if !experiment.measure.profile {
        return Ok(());
    }
    let directory = site.directory.join(PROFILES);
    std::fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
    let first = records.last_key_value().map_or(0, |(last, _)| last + 1);
    for (cell, number) in cells(experiment).into_iter().zip(0..) {
        let path = directory.join(format!("{number:04}.json"));
        if path.exists() {
            continue;
        }
        let name = cell.name(experiment);
        let turn = TrialTurn { place: first + number, round: experiment.repeat.rounds, repeat: 0, cell };
        site.sampled = Some(Err("the trial has ended before its load".to_owned()));
        let tried = site.conduct_alone(&turn)?;
        let report = site.sampled.take().unwrap_or_else(|| Err("it was not sampled".to_owned()));
        // The error of the trial is more useful than perf's.
        let report = tried.broken.map_or(report, |error| Err(error.to_string()));
        let profile = profile::of_trial(name, records, report);
        let text = serde_json::to_string_pretty(&profile).expect("it is plain data") + "\n";
        write_whole(&path, text.as_bytes())?;
        tell(RunProgress::Sampled(&profile));
    }
    Ok(())
}

/// The directory of tuner's journals, in the directory of the state.
const TUNE: &str = "tune";

/// Undoes the remains of runs that were killed: the list of them, and whether it is complete. Settings that are
/// locked by another process, or by a plan of another version, are an error only if they are needed.
pub fn restore(state: &Path, needs_settings: bool) -> (Vec<String>, Result<(), Error>) {
    restore_host(&Root::new("/"), state, needs_settings)
}

fn restore_host(root: &Root, state: &Path, needs_settings: bool) -> (Vec<String>, Result<(), Error>) {
    use tuner::apply::journal::Error::{Locked, Version};
    let mut restored = Vec::new();
    let cleared = trace::restore(state, &mut restored);
    let settings = match settings::restore(root, &state.join(TUNE), &mut restored) {
        Err(Error::Journal(Locked { .. } | Version { .. })) if !needs_settings => Ok(()),
        settings => settings,
    };
    (restored, Error::all([cleared, settings]))
}

/// Refuses a directory whose path is not one word for the shell: `{dir}` and `{output}` stand in commands without
/// quotes.
fn is_one_word(directory: &Path) -> Result<(), Error> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=^".contains(c);
    let odd = match directory.to_str() {
        Some(path) => path.chars().find(|c| !is_plain(*c)),
        None => Some(char::REPLACEMENT_CHARACTER),
    };
    let Some(odd) = odd else { return Ok(()) };
    let what = format!(
        "{{dir}} and {{output}} are below it and stand in commands, where {odd:?} means something else: choose another \
         one with --out DIR"
    );
    Err(Error::place(format!("a run in {}", directory.display()), what))
}

/// Makes the directory of a run, or checks that it is one of the same experiment. While the lock is held, no other
/// process runs trials there.
fn enter(directory: &Path, text: &str, experiment: &Experiment) -> Result<LockedFile, Error> {
    let trials = directory.join("trials");
    std::fs::create_dir_all(&trials).map_err(Error::io("create", &trials))?;
    let lock = File::open(directory).map_err(Error::io("open", directory))?;
    let Ok(lock) = LockedFile::try_lock(lock).map_err(Error::io("lock", directory))? else {
        return Err(Error::place(
            "the run",
            format!("another `evenkeel lab run` is at work in {}", directory.display()),
        ));
    };
    let path = directory.join("experiment.toml");
    // Without trials, the present file has not shown anything: mostly it did not work.
    if !trial_files(directory)?.is_empty() {
        let kept = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let differences = difference::in_the_way(&Experiment::parse(&kept)?, experiment);
        if !differences.is_empty() {
            let (directory, differences) = (directory.to_owned(), differences.join("; "));
            return Err(Error::Changed { directory, differences });
        }
    }
    write_whole(&path, text.as_bytes())?;
    Ok(lock)
}

/// The executable of each cell, by its name, as its first trial had it.
fn programs(records: &BTreeMap<u32, TrialRecord>) -> BTreeMap<String, (u32, String)> {
    let mut programs = BTreeMap::new();
    for record in records.values() {
        if let Some(program) = &record.program {
            programs.entry(record.cell()).or_insert((record.place, program.clone()));
        }
    }
    programs
}

/// Refuses to continue on another machine, under another kernel, or with another program of our own, which is mostly
/// the load, too: such trials do not belong to one experiment.
fn same_place(
    directory: &Path,
    records: &BTreeMap<u32, TrialRecord>,
    lab: Option<&str>,
) -> Result<(), Error> {
    let Some(first) = records.values().next() else { return Ok(()) };
    let root = Root::new("/");
    let now = |path| root.read(path).map(Option::unwrap_or_default);
    let pairs = [
        ("the machine", first.host.clone(), now("/proc/sys/kernel/hostname")?),
        ("the kernel", first.kernel.clone(), now("/proc/sys/kernel/osrelease")?),
        (
            "SHA-256 of this program",
            first.lab.as_deref().map(program::shown).unwrap_or_default(),
            lab.map(program::shown).unwrap_or_default(),
        ),
    ];
    // Records of an earlier version do not have all of these fields.
    let is_other = |(_, before, now): &(&str, String, String)| !before.is_empty() && before != now;
    match pairs.into_iter().find(is_other) {
        None => Ok(()),
        Some((what, before, now)) => {
            let what = format!("{what} was {before} and is {now}");
            Err(Error::Replaced { directory: directory.to_owned(), what })
        }
    }
}

fn trial_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let trials = directory.join("trials");
    let entries = std::fs::read_dir(&trials).map_err(Error::io("read", &trials))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect())
}

fn records(directory: &Path) -> Result<BTreeMap<u32, TrialRecord>, Error> {
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let record: TrialRecord =
            serde_json::from_slice(&text).map_err(|source| Error::Json { path, source })?;
        Ok((record.place, record))
    };
    trial_files(directory)?.into_iter().map(read).collect()
}

fn save(directory: &Path, record: &TrialRecord) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(record).expect("it is plain data") + "\n";
    write_whole(&directory.join("trials").join(format!("{:04}.json", record.place)), text.as_bytes())
}

/// A file with this name is complete.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("draft");
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&draft, path)).map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests;
