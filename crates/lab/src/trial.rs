//! One trial: the host's settings, the subject, its load, what was seen; and everything as before, whatever happens.

use crate::error::Error;
use crate::experiment::{Experiment, Level, Ready, Subject};
use crate::guest::{self, Guest, Task};
use crate::inside::{self, Said};
use crate::judge::{Loaded, judge};
use crate::knobs::{self, Knobs};
use crate::leftovers::Mark;
use crate::matrix::{Cell, Turn};
use crate::mounts;
use crate::parse;
use crate::placement::Placement;
use crate::process::{Clock, Group, Hands, Line, NO_ENV, last_lines};
use crate::profile::{self, SAMPLES_PER_S};
use crate::program::{self, Program, Unknown};
use crate::record::Record;
use crate::sampler::{Sampler, Watched};
use crate::trace::Trace;
use crate::tree;
use crate::words::Words;
use crate::{run, subject};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tuner::{Facts, Root};

/// How long a command that prepares something may take.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(3600);

/// How long a load may take in addition to twice its time: it starts, connects and writes its results.
const LOAD_TIME_MORE: Duration = Duration::from_secs(60);

/// Of a SHA-256: enough to find it in what `sha256sum` prints.
pub(crate) const DIGITS_SHOWN: usize = 12;

/// How ld.so says it, of glibc.
const NOT_PRELOADED: &str = "from LD_PRELOAD cannot be preloaded";

const SUBJECT_LOG: &str = "subject.log";

/// What perf samples, and what it complains about.
const PERF_DATA: &str = "perf.data";
const PERF_LOG: &str = "perf.log";

/// How long perf may take to end after the load: it sleeps for as long as the load was to run, and writes what it has.
const PERF_TIME_MAX: Duration = Duration::from_secs(5);

/// How long it may take to find the names of functions.
const PERF_REPORT_TIME_MAX: Duration = Duration::from_secs(300);

/// What a virtual machine says of its seconds.
const SAMPLES: &str = "guest.samples";

/// Names that every experiment has.
const OWN_NAMES: [&str; 7] = ["port", "dir", "seconds", "warm_up", "measured", "output", "pid"];

/// What came of a trial.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) record: Record,
    /// Why there are no figures; if there never were any, it is the experiment that does not work.
    pub(crate) broken: Option<Error>,
}

/// Whatever trials need.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) hands: &'a Hands,
    /// Of the run.
    pub(crate) directory: &'a Path,
    pub(crate) trace: Trace,
    /// None: the experiment changes nothing of the host.
    pub(crate) knobs: Option<Knobs>,
    /// By subject, once it has been asked.
    pub(crate) versions: BTreeMap<String, String>,
    /// Executables by cell, with the trial that first had it.
    pub(crate) programs: BTreeMap<String, (u32, String)>,
    /// Our own executable.
    pub(crate) lab: Option<String>,
    /// Whether the trial is one for perf, with what it has printed, or why it has not.
    pub(crate) sampled: Option<Result<String, String>>,
}

/// The names that commands of a cell may use, with made-up meanings: whether there is one that nobody knows is known
/// before the first trial.
pub(crate) fn check(experiment: &Experiment, cell: &Cell) -> Result<(), Error> {
    let mut words = Words::default();
    ["port", "dir"].iter().for_each(|name| words.set(name, 0));
    times(experiment, &mut words);
    for (factor, level) in cell.levels(experiment) {
        for (name, meaning) in &level.set {
            let wrong = |what: &str| {
                let place = format!("{}: set.{name}", knobs::place(factor, level));
                Err(Error::place(place, what))
            };
            if OWN_NAMES.contains(&name.as_str()) {
                return wrong("this name has its meaning already");
            }
            // A brace itself is written twice.
            let is_in = |text: &String| text.replace("{{", "").contains(&format!("{{{name}}}"));
            if !commands(experiment).into_iter().any(is_in) {
                return wrong(&format!("no command has {{{name}}}, so nothing is varied"));
            }
            words.set(name, meaning);
        }
        if let Some(name) = level.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let place = format!("{}: env.{name:?}", knobs::place(factor, level));
            return Err(Error::place(place, "this is no name of a variable"));
        }
    }
    Placement::of(placed(&cell.levels(experiment)))?;
    let subject = cell.subject(experiment);
    let guest = Guest::of(&cell.levels(experiment))?;
    if subject.ready != Ready::Port && guest.is_some_and(|guest| guest.is_seen()) {
        let what = "kernel.strategy is carried out as soon as somebody listens at {port}: leave `ready` out";
        return Err(Error::place(subject::place(subject, "ready"), what));
    }
    let start = [("start", &subject.start)].into_iter();
    let ready = match &subject.ready {
        Ready::Command(text) => Some(("ready.command", text)),
        _ => None,
    };
    let prepare = subject.prepare.iter().map(|text| ("prepare", text));
    for (key, text) in start.chain(ready).chain(prepare) {
        words.fill(text, &subject::place(subject, key))?;
    }
    ["output", "pid"].iter().for_each(|name| words.set(name, 0));
    for text in &experiment.workload.prepare {
        words.fill(text, "workload.prepare")?;
    }
    words.fill(&experiment.workload.run, "workload.run")?;
    parse::check(&experiment.workload.parser)?;
    experiment.measure.pid.iter().try_for_each(|text| words.fill(text, "measure.pid").map(|_| ()))?;
    Ok(())
}

/// All command lines of an experiment.
fn commands(experiment: &Experiment) -> Vec<&String> {
    let workload = &experiment.workload;
    let mut commands: Vec<&String> = workload.prepare.iter().chain([&workload.run]).collect();
    commands.extend(&experiment.measure.pid);
    for subject in &experiment.subjects {
        commands.extend(subject.prepare.iter().chain([&subject.start]).chain(&subject.version));
        if let Ready::Command(text) = &subject.ready {
            commands.push(text);
        }
    }
    commands
}

fn times(experiment: &Experiment, words: &mut Words) {
    let workload = &experiment.workload;
    words.set("seconds", workload.seconds);
    words.set("warm_up", workload.warm_up_s);
    words.set("measured", workload.seconds - workload.warm_up_s);
}

fn placed<'e>(levels: &[(&'e str, &'e Level)]) -> impl Iterator<Item = (String, &'e Level)> {
    levels.iter().map(|(factor, level)| (knobs::place(factor, level), *level)).collect::<Vec<_>>().into_iter()
}

impl Site<'_> {
    /// Runs a trial and puts everything back. An error: there is nothing to record.
    pub(crate) fn conduct(&mut self, turn: &Turn) -> Result<Tried, Error> {
        let work = self.directory.join("work");
        // A trial that could not put the host back has left it.
        clear(&work)?;
        let result = self.play(turn, &work.join("dir"));
        // The subject is gone by now, whatever happened: it lives no longer than `play`.
        let back = self.knobs.as_mut().map_or(Ok(()), Knobs::back);
        let cleared = self.trace.clear();
        // What the trial found out is less urgent than a host that is not as before.
        Error::all([back, cleared])?;
        clear(&work).and(result)
    }

    fn play(&mut self, turn: &Turn, dir: &Path) -> Result<Tried, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let (experiment, subject) = (self.experiment, turn.cell.subject(self.experiment));
        let root = Root::new("/");
        let mut record = Record {
            round: turn.round,
            place: turn.place,
            repeat: turn.repeat,
            subject: subject.name.clone(),
            levels: turn.cell.level_names(experiment),
            began_unix_s: run::seconds_since_1970(),
            kernel: root.read("/proc/sys/kernel/osrelease")?.unwrap_or_default(),
            host: root.read("/proc/sys/kernel/hostname")?.unwrap_or_default(),
            lab: self.lab.clone(),
            ..Record::default()
        };
        let broken = match self.act(turn, dir, &mut record) {
            Ok(broken) => broken,
            // A command of the experiment has failed, such as a server that does not start: the trial has, and what was
            // measured before stays.
            Err(error @ Error::Place { .. }) => {
                record.doubts.push(error.to_string());
                Some(error)
            }
            Err(error) => return Err(error),
        };
        Ok(Tried { record, broken })
    }

    /// What happens in a trial, from its settings to its figures.
    fn act(&mut self, turn: &Turn, dir: &Path, record: &mut Record) -> Result<Option<Error>, Error> {
        let mut stage = Stage::new(self, turn, dir)?;
        let (experiment, subject) = (self.experiment, turn.cell.subject(self.experiment));
        for (factor, level) in turn.cell.levels(experiment) {
            if let Some(wanted) = &level.file_system {
                let place = format!("{}: file_system", knobs::place(factor, level));
                self.trace.mount(wanted, dir, &stage.line("", &place, "file_system.log"), self.hands)?;
            }
            if let Some(knobs) = &mut self.knobs {
                knobs.turn(factor, level)?;
            }
        }
        let mut server = stage.start(subject)?;
        // Not before: `prepare` may have made the program.
        record.version = self.version(&stage, subject)?;
        stage.preloaded(&turn.cell.levels(experiment))?;
        record.guest = stage.guest.as_ref().and_then(|guest| guest.recorded(&stage.log()));
        record.remarks.extend(stage.guest_said(guest::LEFT));
        stage.prepare(&mut server)?;
        let charged = stage.charged(server.pid())?;
        let program = program::of_process(charged);
        let facts = tuner::probe(&Root::new("/"), &[charged])?;
        if let Some(knobs) = &mut self.knobs {
            for (factor, level) in turn.cell.levels(experiment) {
                record.remarks.extend(knobs.lay_out(factor, level, &facts)?);
            }
        }
        let loaded = stage.load(&mut server, facts, charged, self.sampled.as_mut())?;
        // Once more: a subject that says early that it is ready may not have been more than its shell before the load.
        let program = Program::latest(program, program::of_process(charged));
        self.same_program(turn, program.and_then(Program::digest), record)?;
        let mut moved = self.knobs.as_ref().map_or_else(Vec::new, Knobs::moved);
        moved.extend(stage.guest_said(guest::MOVED));
        Ok(judge(record, experiment, loaded, moved))
    }

    /// Refuses another executable than the cell's trials before had. A trial whose executable is not known does not count
    /// if that of others is, and says why.
    fn same_program(
        &mut self,
        turn: &Turn,
        program: Result<String, Unknown>,
        record: &mut Record,
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
            &before[..DIGITS_SHOWN],
            &now[..DIGITS_SHOWN]
        );
        Err(Error::Replaced { directory: self.directory.to_owned(), what })
    }

    fn version(&mut self, stage: &Stage, subject: &Subject) -> Result<Option<String>, Error> {
        let Some(text) = &subject.version else { return Ok(None) };
        if let Some(version) = self.versions.get(&subject.name) {
            return Ok(Some(version.clone()));
        }
        let said = stage.asked(text, &subject::place(subject, "version"), "version")?;
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        self.versions.insert(subject.name.clone(), version.clone());
        Ok(Some(version))
    }
}

/// Removes a trial's directory, if it is there. What somebody has mounted in it is somebody's, and is not emptied.
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

/// What the commands of one trial have in common.
struct Stage<'a> {
    experiment: &'a Experiment,
    hands: &'a Hands,
    mark: Mark,
    port: u16,
    words: Words,
    logs: PathBuf,
    /// Of the subject.
    env: BTreeMap<String, String>,
    placement: Placement,
    guest: Option<Guest<'a>>,
    dir: PathBuf,
}

impl<'a> Stage<'a> {
    fn new(site: &Site<'a>, turn: &Turn, dir: &Path) -> Result<Stage<'a>, Error> {
        let experiment = site.experiment;
        let logs = site.directory.join("logs").join(format!("{:04}", turn.place));
        // A trial that was interrupted has left some.
        let _ = std::fs::remove_dir_all(&logs);
        std::fs::create_dir_all(&logs).map_err(Error::io("create", &logs))?;
        let levels = turn.cell.levels(experiment);
        let port = subject::port(turn.cell.subject(experiment))?;
        let mut words = Words::default();
        words.set("port", port);
        words.set("dir", dir.display());
        times(experiment, &mut words);
        levels.iter().flat_map(|(_, level)| &level.set).for_each(|(name, meaning)| words.set(name, meaning));
        Ok(Stage {
            experiment,
            hands: site.hands,
            mark: site.trace.mark().clone(),
            port,
            words,
            logs,
            env: levels.iter().flat_map(|(_, level)| level.env.clone()).collect(),
            placement: Placement::of(placed(&levels))?,
            guest: Guest::of(&levels)?,
            dir: dir.to_owned(),
        })
    }

    /// Surroundings of a command.
    fn line<'l>(&'l self, text: &'l str, place: &'l str, log: &str) -> Line<'l> {
        let log = self.logs.join(log);
        Line { text, place, env: &NO_ENV, mark: &self.mark, log, output: None, placement: None }
    }

    /// Runs a command with its names filled in.
    fn run(&self, text: &str, place: &str, log: &str) -> Result<(), Error> {
        let text = self.words.fill(text, place)?;
        self.line(&text, place, log).run(self.hands, PREPARE_TIME_MAX)
    }

    /// What a command prints.
    fn asked(&self, text: &str, place: &str, name: &str) -> Result<String, Error> {
        let (text, output) = (self.words.fill(text, place)?, self.logs.join(name));
        let line = self.line(&text, place, &format!("{name}.log"));
        Line { output: Some(output.clone()), ..line }.run(self.hands, PREPARE_TIME_MAX)?;
        let said = std::fs::read(&output).map_err(Error::io("read", &output))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// The subject, ready.
    fn start(&mut self, subject: &Subject) -> Result<Group, Error> {
        for text in &subject.prepare {
            self.run(text, &subject::place(subject, "prepare"), "prepare.log")?;
        }
        let place = subject::place(subject, "start");
        let text = self.words.fill(&subject.start, &place)?;
        let server = match &self.guest {
            None => self.start_line(subject, &text, &self.env, &place)?,
            Some(guest) => {
                let task = Task {
                    start: &text,
                    env: &self.env,
                    dir: &self.dir,
                    port: self.port,
                    is_awaited: subject.ready == Ready::Port,
                };
                let archive = self.dir.with_extension("guest");
                guest.pack(&task, &archive)?;
                // QEMU itself accepts connections at the port from the beginning.
                let ready = match &subject.ready {
                    Ready::Port => Ready::Line(guest::LISTENS.to_owned()),
                    other => other.clone(),
                };
                let subject = Subject { ready, ..subject.clone() };
                let command = guest.command(&archive, self.port, &self.logs.join(SAMPLES));
                let started = self.start_line(&subject, &command, &NO_ENV, &place);
                started.map_err(|error| guest.complaint(error, &self.log()))?
            }
        };
        self.words.set("pid", server.pid());
        self.words.set("output", self.logs.join("output").display());
        Ok(server)
    }

    fn start_line(
        &self,
        subject: &Subject,
        text: &str,
        env: &BTreeMap<String, String>,
        place: &str,
    ) -> Result<Group, Error> {
        let line = Line { env, placement: Some(&self.placement), ..self.line(text, place, SUBJECT_LOG) };
        subject::start(subject, &line, &self.words, self.port, self.hands)
    }

    /// A library that cannot be preloaded is left out with a line in a log: then the level would be about nothing.
    fn preloaded(&self, levels: &[(&str, &Level)]) -> Result<(), Error> {
        let log = String::from_utf8_lossy(&std::fs::read(self.log()).unwrap_or_default()).into_owned();
        let refused = |text: &str| text.lines().find(|line| line.contains(NOT_PRELOADED)).map(str::to_owned);
        let asks = levels.iter().find(|(_, level)| level.env.contains_key("LD_PRELOAD"));
        match (asks, refused(&log)) {
            (Some((factor, level)), Some(line)) => {
                Err(Error::place(format!("{}: env.LD_PRELOAD", knobs::place(factor, level)), line))
            }
            _ => Ok(()),
        }
    }

    /// What the subject says.
    fn log(&self) -> PathBuf {
        self.logs.join(SUBJECT_LOG)
    }

    /// The commands before the load. Where the subject has ended meanwhile, that is why they fail.
    fn prepare(&self, server: &mut Group) -> Result<(), Error> {
        for text in &self.experiment.workload.prepare {
            let prepared = self.run(text, "workload.prepare", "prepare.log");
            if let Err(error @ Error::Place { .. }) = prepared {
                return Err(match server.ended()? {
                    Some(status) => {
                        server.complaint(&format!("it ended with {status} while workload.prepare ran"))
                    }
                    None => error,
                });
            }
            prepared?;
        }
        Ok(())
    }

    /// The process that CPU time is charged to.
    fn charged(&self, subject: u32) -> Result<u32, Error> {
        let Some(text) = &self.experiment.measure.pid else { return Ok(subject) };
        let said = self.asked(text, "measure.pid", "pid")?;
        let wrong =
            || Error::place("measure.pid", format!("expected one process id, found {:?}", said.trim()));
        said.trim().parse().map_err(|_| wrong())
    }

    /// Runs the load, and looks on; perf does, too, where `sampled` is there for what it prints.
    fn load(
        &self,
        server: &mut Group,
        facts: Facts,
        charged: u32,
        sampled: Option<&mut Result<String, String>>,
    ) -> Result<Loaded, Error> {
        let (workload, place) = (&self.experiment.workload, "workload.run");
        let text = self.words.fill(&workload.run, place)?;
        let printed = self.logs.join("load.out");
        let line = Line { output: Some(printed.clone()), ..self.line(&text, place, "load.log") };
        let before = self.inside()?.len();
        let clock = Clock::start();
        let mut load = line.start(self.hands)?;
        let sampler = Sampler::start(facts, Watched { subject: charged, load: load.pid() }, clock)?;
        let perf = sampled.as_ref().map(|_| self.perf(charged));
        let limit = Duration::from_secs(2 * u64::from(workload.seconds)) + LOAD_TIME_MORE;
        let ended = load.wait(self.hands, limit);
        let end_s = clock.passed().as_secs_f64();
        let seen = sampler.stop()?;
        if let Some((sampled, perf)) = sampled.zip(perf) {
            *sampled = self.perf_report(perf)?;
        }
        let failed = match ended? {
            Some(status) if status.success() => None,
            Some(status) => {
                let words = last_lines(&self.logs.join("load.log"));
                Some(Error::place(place, format!("it ended with {status}{words}")))
            }
            None => Some(Error::place(place, format!("it has not ended within {} s", limit.as_secs()))),
        };
        // A load whose server dies may have said what it had measured until then.
        let (told, failed) = match (self.told(&printed), failed) {
            (Err(_), Some(failed)) => (Err(failed), None),
            (told, failed) => (told, failed),
        };
        let how = |status| format!("{status}{}", last_lines(&self.log()));
        let subject_ended = server.ended()?.map(how);
        Ok(Loaded { told, failed, seen, inside: inside::after(self.inside()?, before), end_s, subject_ended })
    }

    /// Has perf sample a process with all that it has started, in the seconds that count.
    fn perf(&self, charged: u32) -> Result<Group, Error> {
        if self.guest.is_some() {
            return Err(Error::place(
                "measure.profile",
                "the functions of a virtual machine are not seen from here",
            ));
        }
        let pids: Vec<String> = tree::processes(charged).iter().map(u32::to_string).collect();
        let workload = &self.experiment.workload;
        // A clock is sampled rather than a counter of the processor, which many virtual machines do not have.
        let text = format!(
            "sleep {}; exec perf record -q -e cpu-clock -F {SAMPLES_PER_S} -p {} -o {} -- sleep {}",
            workload.warm_up_s,
            pids.join(","),
            self.logs.join(PERF_DATA).display(),
            workload.seconds - workload.warm_up_s,
        );
        self.line(&text, "measure.profile", PERF_LOG).start(self.hands)
    }

    /// What it has seen, or why it has not.
    fn perf_report(&self, perf: Result<Group, Error>) -> Result<Result<String, String>, Error> {
        let mut perf = match perf {
            Ok(perf) => perf,
            Err(error @ Error::Place { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        };
        let log = self.logs.join(PERF_LOG);
        // The load is over, and so is what is to be seen. It writes what it has when it is told to end.
        match perf.wait(self.hands, PERF_TIME_MAX)? {
            Some(status) if !status.success() => return Ok(Err(profile::complaint(&log, Some(status)))),
            _ => drop(perf),
        }
        let (data, printed) = (self.logs.join(PERF_DATA), self.logs.join("perf.report"));
        let text = format!(
            "perf report -i {} --stdio -q --no-children -F sample,dso,symbol -t '\t' --percent-limit 0",
            data.display()
        );
        let line = self.line(&text, "measure.profile", PERF_LOG);
        let reported = Line { output: Some(printed.clone()), ..line }.run(self.hands, PERF_REPORT_TIME_MAX);
        // Megabytes of samples: what they say is printed.
        let _ = std::fs::remove_file(&data);
        Ok(match reported {
            Ok(()) => Ok(String::from_utf8_lossy(&std::fs::read(&printed).unwrap_or_default()).into_owned()),
            Err(Error::Place { .. }) => Err(profile::complaint(&log, None)),
            Err(error) => return Err(error),
        })
    }

    /// What the virtual machine has said on its console after this, if there is one.
    fn guest_said(&self, beginning: &str) -> Vec<String> {
        self.guest.as_ref().map_or_else(Vec::new, |_| guest::all_said(&self.log(), beginning))
    }

    /// What the virtual machine has said of its seconds, if there is one that does.
    fn inside(&self) -> Result<Vec<Said>, Error> {
        match &self.guest {
            Some(guest) if guest.is_seen() => inside::said(&self.logs.join(SAMPLES)),
            _ => Ok(Vec::new()),
        }
    }

    /// What the load says: in the file that it was given, or else in what it printed.
    fn told(&self, printed: &Path) -> Result<parse::Told, Error> {
        let output = self.logs.join("output");
        let path = if output.exists() { &output } else { printed };
        let text = std::fs::read(path).map_err(Error::io("read", path))?;
        parse::parse(&String::from_utf8_lossy(&text), &self.experiment.workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;
    use crate::matrix::cells;

    fn checked(text: &str) -> Result<(), Error> {
        let experiment = Experiment::parse(text)?;
        knobs::check(&experiment)?;
        cells(&experiment).iter().try_for_each(|cell| check(&experiment, cell))
    }

    #[test]
    fn the_experiments_that_come_with_the_program_can_be_carried_out() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files = std::fs::read_dir(directory).expect("experiments").flatten().map(|file| file.path());
        let mut count = 0;
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let text = std::fs::read_to_string(&path).expect("text");
            checked(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let experiment = Experiment::parse(&text).expect("an experiment");
            crate::rounds::Plan::check(&experiment).expect("its rounds can show something");
            count += 1;
        }
        assert!(count > 0);
    }

    #[track_caller]
    fn refused(level: &str, expected: &str) {
        let factor = |name: &str| {
            format!(
                "[[factor]]\nname = \"{name}\"\n[[factor.level]]\nname = \"a\"\n[[factor.level]]\nname = \"b\"\n"
            )
        };
        let text =
            format!("{MINIMAL}{}{level}\n{}sysctl.\"vm.swappiness\" = \"1\"\n", factor("f"), factor("g"));
        let error = checked(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_cannot_be_carried_out_is_known_before_anything_runs() {
        let place = "factor \"f\": level \"b\"";
        refused("set.port = \"1\"", &format!("{place}: set.port: this name has its meaning already"));
        refused("strategy = \"rsp\"", &format!("{place}: strategy: \"rsp\" is none of none, irqbalance"));
        refused("scheduler = \"fast\"", &format!("{place}: scheduler: \"fast\" is none of other:NICE"));
        refused("cpus = \"a-b\"", &format!("{place}: cpus: "));
        refused(
            "file.\"/etc/passwd\" = \"\"",
            &format!("{place}: file \"/etc/passwd\": it is not below /proc/sys"),
        );
        refused("file.\"/sys/../etc/passwd\" = \"\"", "it is not below /proc/sys");
        refused("env.\"A=B\" = \"1\"", &format!("{place}: env.\"A=B\": this is no name of a variable"));
        refused(
            "kernel = { image = \"x\", strategy = \"rsp\" }",
            &format!("{place}: kernel.strategy: \"rsp\" is none of none, "),
        );
        refused("sysctl.\"vm.swappiness\" = \"9\"", "sysctl \"vm.swappiness\": factor \"f\" sets it, too");
        refused(
            "set.size = \"9\"",
            &format!("{place}: set.size: no command has {{size}}, so nothing is varied"),
        );
    }

    #[test]
    fn what_two_factors_set_is_refused() {
        let factor = |name: &str, level: &str| {
            format!(
                "[[factor]]\nname = \"{name}\"\n[[factor.level]]\nname = \"a\"\n[[factor.level]]\nname = \"b\"\n{level}\n"
            )
        };
        let with = |one: &str, other: &str| {
            let text = MINIMAL.replacen("--driver epoll", "--driver epoll {size}", 1);
            checked(&format!("{text}{}{}", factor("f", one), factor("g", other)))
        };
        let cases = [
            ("set.size = \"1\"", "set.size = \"2\"", "set.size"),
            ("env.A = \"1\"", "env.A = \"2\"", "env.A"),
            ("cpus = \"0\"", "cpus = \"1\"", "cpus"),
            ("scheduler = \"idle\"", "scheduler = \"batch\"", "scheduler"),
            (
                "file_system = { kind = \"ext4\", size_mb = 1 }",
                "file_system = { kind = \"xfs\", size_mb = 1 }",
                "file_system",
            ),
            ("strategy = \"spread\"", "strategy = \"none\"\nnic = \"eth0\"", "strategy"),
            (
                "sysctl.\"vm.dirty_bytes\" = \"9\"",
                "sysctl.\"vm.dirty_ratio\" = \"9\"",
                "sysctl \"vm.dirty_ratio\"",
            ),
        ];
        for (one, other, key) in cases {
            let error = with(one, other).expect_err(key).to_string();
            let expected = format!("factor \"g\": level \"b\": {key}: factor \"f\" ");
            assert!(error.contains(&expected), "{error}");
        }
        let [one, other] = ["eth0", "eth1"].map(|nic| format!("strategy = \"spread\"\nnic = {nic:?}"));
        assert!(checked(&format!("{MINIMAL}{}{}", factor("f", &one), factor("g", &other))).is_ok());
    }

    #[test]
    fn a_strategy_in_a_machine_waits_for_the_port() {
        let level = |name: &str| {
            format!(
                "[[factor.level]]\nname = \"{name}\"\nkernel = {{ image = \"x\", strategy = \"spread\" }}\n"
            )
        };
        let text = format!("{MINIMAL}[[factor]]\nname = \"f\"\n{}{}", level("a"), level("b"));
        assert!(checked(&text).is_ok());
        let ready = text.replacen("[[subject]]", "[[subject]]\nready = { line = \"up\" }", 1);
        let error = checked(&ready).expect_err("nothing says when").to_string();
        assert!(
            error.contains("subject \"epoll\": ready: kernel.strategy is carried out as soon as"),
            "{error}"
        );
    }
}
