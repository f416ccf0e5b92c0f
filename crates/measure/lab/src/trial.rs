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
use crate::trial::program::{Program, Unknown};
use crate::trial::settings::HostSettings;
use std::path::Path;
use tuner::Root;

/// The result of a trial.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) record: TrialRecord,
    /// The reason why there are no figures; if there never were any, the experiment does not work.
    pub(crate) broken: Option<Error>,
}

impl Site<'_> {
    /// Runs a trial and undoes everything. An error: there is nothing to record.
    pub(crate) fn conduct(&mut self, turn: &TrialTurn) -> Result<Tried, Error> {
        let work = self.directory.join("work");
        // After a trial that could not restore the host, its changes are still there.
        clear(&work)?;
        let result = self.attempt(turn, &work.join("dir"));
        // The subject is gone by now, whatever happened: it ends with `attempt`.
        let back = self.settings.as_mut().map_or(Ok(()), HostSettings::back);
        let cleared = self.trace.clear();
        // The result of the trial is less urgent than a host that is not restored.
        Error::all([back, cleared])?;
        clear(&work).and(result)
    }

    fn attempt(&mut self, turn: &TrialTurn, dir: &Path) -> Result<Tried, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let (experiment, subject) = (self.experiment, turn.cell.subject(self.experiment));
        let root = Root::new("/");
        let mut record = TrialRecord {
            round: turn.round,
            place: turn.place,
            repeat: turn.repeat,
            subject: subject.name.clone(),
            levels: turn.cell.level_names(experiment),
            began_unix_s: os::clock::unix_s(),
            kernel: root.read("/proc/sys/kernel/osrelease")?.unwrap_or_default(),
            host: root.read("/proc/sys/kernel/hostname")?.unwrap_or_default(),
            lab: self.lab.clone(),
            ..TrialRecord::default()
        };
        let broken = match self.measure(turn, dir, &mut record) {
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

    /// The course of a trial, from its settings to its figures.
    fn measure(
        &mut self,
        turn: &TrialTurn,
        dir: &Path,
        record: &mut TrialRecord,
    ) -> Result<Option<Error>, Error> {
        let mut context = Context::new(self, turn, dir)?;
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
        context.prepare(&mut server)?;
        let charged = context.charged(server.pid())?;
        let program = program::of_process(charged);
        let facts = tuner::probe(&Root::new("/"), &[charged])?;
        if let Some(settings) = &mut self.settings {
            for (factor, level) in turn.cell.levels(experiment) {
                record.remarks.extend(settings.lay_out(factor, level, &facts)?);
            }
        }
        let loaded = context.load(&mut server, facts, charged, self.sampled.as_mut())?;
        // Once more: a subject that reports early that it is ready may have been only its shell before the load.
        let program = Program::latest(program, program::of_process(charged));
        self.same_program(turn, program.and_then(Program::digest), record)?;
        let mut moved = self.settings.as_ref().map_or_else(Vec::new, HostSettings::moved);
        moved.extend(context.guest_said(guest::MOVED));
        Ok(judge(record, experiment, loaded, moved))
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
