//! Trials: host settings, subject, load and record of one; afterwards the host is restored, whatever happened.

pub(crate) mod check;
pub(crate) mod context;
pub(crate) mod halt;
mod judge;
pub(crate) mod leftovers;
mod log;
mod mounts;
mod parse;
mod placement;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod sampler;
pub(crate) mod settings;
mod subject;
pub(crate) mod trace;

use crate::error::Error;
use crate::experiment::Subject;
use crate::experiment::matrix::TrialTurn;
use crate::guest;
use crate::record::TrialRecord;
use crate::trial::context::{Context, Site};
use crate::trial::judge::judge;
use crate::trial::process::Group;
use crate::trial::program::{Program, Unknown};
use crate::trial::sampler::charged::Charged;
use crate::trial::settings::HostSettings;
use std::path::{Path, PathBuf};
use tuner::{Facts, Root};

/// The result of a trial.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) record: TrialRecord,
    /// The reason why there are no figures; if there never were any, the experiment does not work.
    pub(crate) broken: Option<Error>,
}

/// A subject that is ready for its load. Dropping it ends it.
struct Started<'a> {
    server: Group,
    context: Context<'a>,
    charged: Charged,
    facts: Facts,
    program: Result<Program, Unknown>,
    /// Of its executable, once it has been read.
    digest: Option<String>,
}

impl<'a> Site<'a> {
    /// Runs a trial. An error: there is nothing to record.
    pub(crate) fn conduct(&mut self, turn: &TrialTurn) -> Result<Tried, Error> {
        match self.experiment.repeat.rounds_per_start {
            None => self.conduct_alone(turn),
            Some(rounds) => self.conduct_window(turn, rounds),
        }
    }

    /// Runs a trial with a server of its own and undoes everything.
    pub(crate) fn conduct_alone(&mut self, turn: &TrialTurn) -> Result<Tried, Error> {
        let work = self.directory.join("work");
        // After a trial that could not restore the host, its changes are still there.
        clear(&work)?;
        let result = self.attempt(turn, |site, record| {
            let dir = work.join("dir");
            let mut started = site.start(turn, &dir, &logs(site.directory, turn), record)?;
            site.load(turn, &mut started, record)
        });
        // The subject is gone by now, whatever happened: it ends with `attempt`.
        let back = self.settings.as_mut().map_or(Ok(()), HostSettings::back);
        let cleared = self.trace.clear();
        // The result of the trial is less urgent than a host that is not restored.
        Error::all([back, cleared])?;
        clear(&work).and(result)
    }

    /// Makes a trial's record from what is measured.
    fn attempt(
        &mut self,
        turn: &TrialTurn,
        measure: impl FnOnce(&mut Site<'a>, &mut TrialRecord) -> Result<Option<Error>, Error>,
    ) -> Result<Tried, Error> {
        let root = Root::new("/");
        let mut record = TrialRecord {
            round: turn.round,
            place: turn.place,
            repeat: turn.repeat,
            subject: turn.cell.subject(self.experiment).name.clone(),
            levels: turn.cell.level_names(self.experiment),
            began_unix_s: os::clock::unix_s(),
            kernel: root.read("/proc/sys/kernel/osrelease")?.unwrap_or_default(),
            host: root.read("/proc/sys/kernel/hostname")?.unwrap_or_default(),
            cpu_model: root.read("/proc/cpuinfo")?.as_deref().and_then(cpu_model),
            lab: self.lab.clone(),
            ..TrialRecord::default()
        };
        let broken = match measure(self, &mut record) {
            Ok(broken) => broken,
            // A command of the experiment has failed, such as a server that does not start: the trial has failed with
            // it, and earlier measurements stay.
            Err(error @ Error::Place { .. }) => {
                record.doubts.push(error.to_string());
                Some(error)
            }
            Err(error) => return Err(error),
        };
        Ok(Tried { record, broken })
    }

    /// The way to a subject that can be loaded: settings, its start, its data.
    fn start(
        &mut self,
        turn: &TrialTurn,
        dir: &Path,
        logs: &Path,
        record: &mut TrialRecord,
    ) -> Result<Started<'a>, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let mut context = Context::new(self, turn, dir, logs)?;
        let (experiment, subject) = (self.experiment, turn.cell.subject(self.experiment));
        for (factor, level) in turn.cell.levels(experiment) {
            if let Some(wanted) = &level.file_system {
                let place = format!("{}: file_system", settings::place(factor, level));
                self.trace.mount(wanted, dir, &context.line("", &place, "file_system.log"), self.halt)?;
            }
            if let Some(settings) = &mut self.settings {
                settings.apply(factor, level)?;
            }
        }
        let mut server = context.start(subject)?;
        // Not before: `prepare` may have made the program.
        record.version = self.version(&context, subject)?;
        context.preloaded(&turn.cell.levels(experiment))?;
        context.note_guest(record);
        if subject.holds_data {
            context.prepare(&mut server)?;
        }
        let pid = context.charged(server.pid())?;
        let charged = Charged {
            pid,
            kernel_threads: sampler::charged::kernel_threads(&experiment.measure.kernel_threads)?,
        };
        context.charge(&charged);
        let program = program::of_process(pid);
        let facts = tuner::probe(&Root::new("/"), &[pid])?;
        if let Some(settings) = &mut self.settings {
            for (factor, level) in turn.cell.levels(experiment) {
                record.remarks.extend(settings.lay_out(factor, level, &facts)?);
            }
        }
        Ok(Started { server, context, charged, facts, program, digest: None })
    }

    /// The load on a subject, and its figures.
    fn load(
        &mut self,
        turn: &TrialTurn,
        started: &mut Started<'a>,
        record: &mut TrialRecord,
    ) -> Result<Option<Error>, Error> {
        let Started { server, context, charged, facts, program, digest } = started;
        let loaded = context.load(server, facts.clone(), charged, self.sampled.as_mut())?;
        let program = match digest {
            Some(digest) => Ok(digest.clone()),
            // Once more: a subject that reports early that it is ready may have been only its shell before the load.
            None => {
                let first = std::mem::replace(program, Err(Unknown::Ended));
                Program::latest(first, program::of_process(charged.pid)).and_then(Program::digest)
            }
        };
        *digest = program.as_ref().ok().cloned();
        self.same_program(turn, program, record)?;
        let mut moved = self.settings.as_ref().map_or_else(Vec::new, HostSettings::moved);
        moved.extend(context.guest_said(guest::MOVED));
        Ok(judge(record, self.experiment, loaded, moved))
    }

    /// Refuses an executable that differs from that of the cell's earlier trials. A trial whose executable is not
    /// known does not count if that of others is; the doubt gives the reason.
    fn same_program(
        &mut self,
        turn: &TrialTurn,
        program: Result<String, Unknown>,
        record: &mut TrialRecord,
    ) -> Result<(), Error> {
        let cell = turn.cell.name(self.experiment);
        let now = match (program, self.programs.get(&cell)) {
            (Ok(now), _) => now,
            (Err(why), None) => {
                record.remarks.push(format!("program-unknown: {why}"));
                return Ok(());
            }
            (Err(why), Some((place, _))) => {
                record.doubts.push(format!("program-unknown: {why}, and in trial {place:04} it was known"));
                return Ok(());
            }
        };
        record.program = Some(now.clone());
        let (place, before) = self.programs.entry(cell.clone()).or_insert((turn.place, now.clone()));
        if *before == now {
            return Ok(());
        }
        let what = format!(
            "the executable of {cell} has changed since trial {place:04} (SHA-256 {} was, {} is)",
            program::shown(before),
            program::shown(&now)
        );
        Err(Error::Replaced { directory: self.directory.to_owned(), what })
    }

    fn version(&mut self, context: &Context, subject: &Subject) -> Result<Option<String>, Error> {
        let Some(text) = &subject.version else { return Ok(None) };
        if let Some(version) = self.versions.get(&subject.name) {
            return Ok(Some(version.clone()));
        }
        let said = context.asked(text, &subject::place(subject, "version"), "version")?;
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        self.versions.insert(subject.name.clone(), version.clone());
        Ok(Some(version))
    }
}

/// The directory of a trial's logs.
fn logs(directory: &Path, turn: &TrialTurn) -> PathBuf {
    directory.join("logs").join(format!("{:04}", turn.place))
}

/// Removes a trial's directory, if it is there. A file system that the lab did not mount is not emptied.
fn clear(work: &Path) -> Result<(), Error> {
    if let Some(point) = mounts::below(work)?.first() {
        let what = format!("{} is mounted, and would be emptied: unmount it", point.display());
        return Err(Error::place(format!("the removal of {}", work.display()), what));
    }
    match std::fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", work)(error)),
        _ => Ok(()),
    }
}

/// What /proc/cpuinfo says of the first CPU.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let (_, model) = cpuinfo
        .lines()
        .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == "model name"))?;
    Some(model.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_the_cpus_is_what_the_kernel_calls_it() {
        let found = cpu_model("processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 9R14\n");
        assert_eq!(found.as_deref(), Some("AMD EPYC 9R14"));
        assert_eq!(cpu_model("processor\t: 0\nBogoMIPS\t: 2100.00\n"), None);
    }
}
