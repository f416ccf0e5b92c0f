//! Trial contexts: the state that all trials of a run share, and that of the commands of one.

pub(super) mod beside;
mod counts;

use super::{parse, settings, subject};
use crate::error::Error;
use crate::experiment::derived::{self, Formula};
use crate::experiment::matrix::TrialTurn;
use crate::experiment::placeholders::Placeholders;
use crate::experiment::{Experiment, Level, Ready, Subject};
use crate::guest::inside::{self, GuestSample};
use crate::guest::{self, Accelerator, GuestMachine, Task};
use crate::record::TrialRecord;
use crate::record::profile::{self, SAMPLES_PER_S};
use crate::trial::context::counts::Counted;
use crate::trial::halt::Halt;
use crate::trial::judge::Loaded;
use crate::trial::leftovers::Mark;
use crate::trial::log::last_lines;
use crate::trial::placement::Placement;
use crate::trial::process::{Group, NO_ENV, ShellCommand};
use crate::trial::sampler::charged::Charged;
use crate::trial::sampler::{Sampler, Watched};
use crate::trial::settings::HostSettings;
use crate::trial::subject::standing::StandingServers;
use crate::trial::trace::CleanupRecord;
use os::clock::Stopwatch;
use os::processes;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tuner::Facts;

/// The time limit of a command that prepares something.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(3600);

/// The time limit of a load in addition to twice its time: it starts, connects and writes its results.
const LOAD_TIME_MORE: Duration = Duration::from_secs(60);

/// The message of glibc's ld.so.
const NOT_PRELOADED: &str = "from LD_PRELOAD cannot be preloaded";

const SUBJECT_LOG: &str = "subject.log";

/// The event that perf samples, and its messages.
const PERF_DATA: &str = "perf.data";
const PERF_LOG: &str = "perf.log";

/// The time limit of perf after the load: it sleeps for as long as the load was to run, and writes its samples.
const PERF_TIME_MAX: Duration = Duration::from_secs(5);

/// The time limit for finding the names of functions.
const PERF_REPORT_TIME_MAX: Duration = Duration::from_secs(300);

/// The file for a virtual machine's samples.
const SAMPLES: &str = "guest.samples";

/// The context of all trials of a run.
pub(crate) struct Site<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) halt: &'a Halt,
    /// Of the run.
    pub(crate) directory: &'a Path,
    pub(crate) trace: CleanupRecord,
    /// None: the experiment changes nothing of the host.
    pub(crate) settings: Option<HostSettings>,
    /// By subject, once it has been asked.
    pub(crate) versions: BTreeMap<String, String>,
    /// Executables by cell, with the trial that first had it.
    pub(crate) programs: BTreeMap<String, (u32, String)>,
    /// Our own executable.
    pub(crate) lab: Option<String>,
    /// Whether the trial is one for perf, with its output, or the reason why there is none.
    pub(crate) sampled: Option<Result<String, String>>,
    /// Servers that keep running, if the experiment asks for it.
    pub(crate) standing: Option<StandingServers<'a>>,
}

/// The state shared by the commands of one trial.
pub(super) struct Context<'a> {
    experiment: &'a Experiment,
    halt: &'a Halt,
    mark: Mark,
    port: u16,
    placeholders: Placeholders,
    logs: PathBuf,
    /// The subject's log.
    log: PathBuf,
    /// Of the subject.
    env: BTreeMap<String, String>,
    placement: Placement,
    pub(super) guest: Option<GuestMachine<'a>>,
    /// The machine's, as soon as it has started.
    accelerator: Option<&'static Accelerator>,
    dir: PathBuf,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        site: &Site<'a>,
        turn: &TrialTurn,
        dir: &Path,
        logs: &Path,
    ) -> Result<Context<'a>, Error> {
        let experiment = site.experiment;
        make_anew(logs)?;
        let levels = turn.cell.levels(experiment);
        let ports = subject::ports(turn.cell.subject(experiment))?;
        let port = ports[0];
        let mut placeholders = Placeholders::default();
        PORTS.iter().zip(ports).for_each(|(name, port)| placeholders.set(name, port));
        placeholders.set("dir", dir.display());
        times(experiment, &mut placeholders);
        of_program(turn.cell.subject(experiment), &mut placeholders);
        say(&levels, &mut placeholders);
        Ok(Context {
            experiment,
            halt: site.halt,
            mark: site.trace.mark().clone(),
            port,
            placeholders,
            logs: logs.to_owned(),
            log: logs.join(SUBJECT_LOG),
            env: levels.iter().flat_map(|(_, level)| level.env.clone()).collect(),
            placement: Placement::of(experiment.workload.subject_cpus.as_deref(), placed(&levels))?,
            guest: GuestMachine::of(&levels)?,
            accelerator: None,
            dir: dir.to_owned(),
        })
    }

    /// Turns to another cell, whose trials are windows of the same server: to its words, and to logs of their own.
    pub(super) fn turn_to(&mut self, turn: &TrialTurn, logs: &Path) -> Result<(), Error> {
        make_anew(logs)?;
        say(&turn.cell.levels(self.experiment), &mut self.placeholders);
        self.placeholders.set("output", logs.join("output").display());
        logs.clone_into(&mut self.logs);
        Ok(())
    }

    /// The environment and directories of a command.
    pub(super) fn line<'l>(&'l self, text: &'l str, place: &'l str, log: &str) -> ShellCommand<'l> {
        let log = self.logs.join(log);
        ShellCommand { text, place, env: &NO_ENV, mark: &self.mark, log, output: None, placement: None }
    }

    /// A command line with its names filled in; `place` is the key that it stands at.
    fn filled(&self, text: &str, place: &str) -> Result<String, Error> {
        Ok(self.placeholders.fill(text, place)?)
    }

    /// Runs a command with its names filled in.
    pub(super) fn run(&self, text: &str, place: &str, log: &str) -> Result<(), Error> {
        let text = self.placeholders.fill(text, place)?;
        self.line(&text, place, log).run(self.halt, PREPARE_TIME_MAX)
    }

    /// The output of a command, of which the first line is wanted.
    pub(super) fn asked(&self, text: &str, place: &str, name: &str) -> Result<String, Error> {
        let (text, output) = (self.placeholders.fill(text, place)?, self.logs.join(name));
        let line = self.line(&text, place, &format!("{name}.log"));
        ShellCommand { output: Some(output.clone()), ..line }.run(self.halt, PREPARE_TIME_MAX)?;
        let mut said = Vec::new();
        let read = File::open(&output).and_then(|file| file.take(ASKED_LEN_MAX).read_to_end(&mut said));
        read.map_err(Error::io("read", &output))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// The subject, ready.
    pub(super) fn start(&mut self, subject: &Subject) -> Result<Group, Error> {
        for text in &subject.prepare {
            self.run(text, &subject::place(subject, "prepare"), "prepare.log")?;
        }
        let place = subject::place(subject, "start");
        let text = self.placeholders.fill(&subject.start, &place)?;
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
                guest.make_disks(&archive)?;
                // QEMU itself accepts connections at the port from the beginning.
                let ready = match &subject.ready {
                    Ready::Port => Ready::Line(guest::LISTENS.to_owned()),
                    other => other.clone(),
                };
                let subject = Subject { ready, ..subject.clone() };
                let accelerator = *self.accelerator.insert(guest.accelerator(&archive)?);
                let command = guest.command(accelerator, &archive, self.port, &self.logs.join(SAMPLES));
                let started = self.start_line(&subject, &command, &NO_ENV, &place);
                started.map_err(|error| guest.complaint(error, &self.log()))?
            }
        };
        self.placeholders.set("pid", server.pid());
        self.placeholders.set("output", self.logs.join("output").display());
        Ok(server)
    }

    fn start_line(
        &self,
        subject: &Subject,
        text: &str,
        env: &BTreeMap<String, String>,
        place: &str,
    ) -> Result<Group, Error> {
        let line =
            ShellCommand { env, placement: Some(&self.placement), ..self.line(text, place, SUBJECT_LOG) };
        subject::start(subject, &line, &self.placeholders, self.port, self.halt)
    }

    /// A library that cannot be preloaded is left out with a line in a log: then the level would have no effect.
    pub(super) fn preloaded(&self, levels: &[(&str, &Level)]) -> Result<(), Error> {
        let asks = levels.iter().find(|(_, level)| level.env.contains_key("LD_PRELOAD"));
        let Some((factor, level)) = asks else { return Ok(()) };
        let log = String::from_utf8_lossy(&std::fs::read(self.log()).unwrap_or_default()).into_owned();
        match log.lines().find(|line| line.contains(NOT_PRELOADED)) {
            Some(line) => {
                Err(Error::place(format!("{}: env.LD_PRELOAD", settings::place(factor, level)), line))
            }
            None => Ok(()),
        }
    }

    /// The subject's log.
    pub(super) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// The commands before the load. If the subject has ended meanwhile, that is why they fail.
    pub(super) fn prepare(&self, server: &mut Group) -> Result<(), Error> {
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
    pub(super) fn charged(&self, subject: u32) -> Result<u32, Error> {
        let Some(text) = &self.experiment.measure.pid else { return Ok(subject) };
        let said = self.asked(text, "measure.pid", "pid")?;
        let wrong =
            || Error::place("measure.pid", format!("expected one process id, found {:?}", said.trim()));
        said.trim().parse().map_err(|_| wrong())
    }

    /// Gives the load the processes that CPU time is charged to, as they are now.
    pub(super) fn charge(&mut self, charged: &Charged) {
        let pids: Vec<String> = charged.processes().iter().map(u32::to_string).collect();
        self.placeholders.set("pids", pids.join(","));
    }

    /// Runs the load and samples; perf runs, too, where `sampled` is there for its output.
    pub(super) fn load(
        &self,
        server: &mut Group,
        facts: Facts,
        charged: &Charged,
        sampled: Option<&mut Result<String, String>>,
    ) -> Result<Loaded, Error> {
        let (workload, place) = (&self.experiment.workload, "workload.run");
        let text = self.placeholders.fill(&workload.run, place)?;
        let printed = self.logs.join("load.out");
        let line = ShellCommand { output: Some(printed.clone()), ..self.line(&text, place, "load.log") };
        let before = self.inside()?.len();
        let counted = Counted::of(self.experiment, self.port, charged.pid);
        let counts = counted.now();
        let mut beside = self.start_beside()?;
        let clock = Stopwatch::start();
        let mut load = line.start()?;
        let watched = Watched { subject: charged.clone(), load: load.pid(), beside: beside.pids() };
        let mut sampler = Sampler::start(facts, watched, clock, workload.is_short())?;
        let perf = sampled.as_ref().map(|_| self.perf(charged.pid));
        let limit = Duration::from_secs_f64(2.0 * workload.seconds) + LOAD_TIME_MORE;
        let ended = load.wait_with(self.halt, limit, || sampler.glance());
        let end_s = clock.passed().as_secs_f64();
        if load.is_gone() {
            self.mark.ends(load.pid())?;
        }
        let mut complaints = beside.complaints()?;
        let seen = sampler.stop()?;
        if let Some((sampled, perf)) = sampled.zip(perf) {
            *sampled = self.perf_report(perf)?;
        }
        let failed = match ended? {
            Some(status) if status.success() => {
                let early = parse::too_early(end_s, workload.seconds);
                early.map(|what| Error::place(place, what))
            }
            Some(status) => {
                let lines = last_lines(&self.logs.join("load.log"));
                Some(Error::place(place, format!("it ended with {status}{lines}")))
            }
            None => Some(Error::place(place, format!("it has not ended within {} s", limit.as_secs()))),
        };
        // A load whose server ends may have reported its measurements until then.
        let (results, failed) = match (self.results(&printed), failed) {
            (Err(_), Some(failed)) => (Err(failed), None),
            (results, failed) => (results, failed),
        };
        let how = |status| format!("{status}{}", last_lines(&self.log()));
        let subject_ended = server.ended()?.map(how);
        // With the commands beside the load: connections that they hold are counted, too.
        let (counts, missing) = counted.figures(&counts, &counted.at_rest());
        complaints.extend(missing);
        Ok(Loaded {
            results,
            counts,
            derived: self.derived()?,
            complaints,
            failed,
            seen,
            inside: inside::after(self.inside()?, before),
            end_s,
            subject_ended,
        })
    }

    /// The formulas of derived metrics, with their names filled in.
    fn derived(&self) -> Result<Vec<(String, Formula)>, Error> {
        let formula = |(name, text): (&String, &String)| {
            let place = derived::place(name);
            let formula = Formula::parse(&self.filled(text, &place)?);
            Ok((name.clone(), formula.map_err(|what| Error::place(place, what))?))
        };
        self.experiment.measure.derived.iter().map(formula).collect()
    }

    /// Makes perf sample a process with all that it has started, in the seconds that count.
    fn perf(&self, charged: u32) -> Result<Group, Error> {
        if self.guest.is_some() {
            return Err(Error::place(
                "measure.profile",
                "the functions of a virtual machine are not seen from here",
            ));
        }
        let pids: Vec<String> = processes::with_descendants(charged).iter().map(u32::to_string).collect();
        let workload = &self.experiment.workload;
        // A clock is sampled rather than a counter of the processor, which many virtual machines do not have.
        let text = format!(
            "sleep {}; exec perf record -q -e cpu-clock -F {SAMPLES_PER_S} -p {} -o {} -- sleep {}",
            workload.warm_up_s,
            pids.join(","),
            self.logs.join(PERF_DATA).display(),
            workload.measured_s(),
        );
        self.line(&text, "measure.profile", PERF_LOG).start()
    }

    /// Its result, or the reason why there is none.
    fn perf_report(&self, perf: Result<Group, Error>) -> Result<Result<String, String>, Error> {
        let mut perf = match perf {
            Ok(perf) => perf,
            Err(error @ Error::Place { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        };
        let log = self.logs.join(PERF_LOG);
        // The load is over, and so is the sampling. It writes its samples when it is ended.
        match perf.wait(self.halt, PERF_TIME_MAX)? {
            Some(status) if !status.success() => return Ok(Err(profile::complaint(&log, Some(status)))),
            _ => drop(perf),
        }
        let (data, printed) = (self.logs.join(PERF_DATA), self.logs.join("perf.report"));
        let text = format!(
            "perf report -i {} --stdio -q --no-children -F sample,dso,symbol -t '\t' --percent-limit 0",
            data.display()
        );
        let line = self.line(&text, "measure.profile", PERF_LOG);
        let reported =
            ShellCommand { output: Some(printed.clone()), ..line }.run(self.halt, PERF_REPORT_TIME_MAX);
        // Megabytes of samples: only perf's report on them is read.
        let _ = std::fs::remove_file(&data);
        Ok(match reported {
            Ok(()) => Ok(String::from_utf8_lossy(&std::fs::read(&printed).unwrap_or_default()).into_owned()),
            Err(Error::Place { .. }) => Err(profile::complaint(&log, None)),
            Err(error) => return Err(error),
        })
    }

    /// Adds to a record what is known of the virtual machine, if there is one.
    pub(super) fn note_guest(&self, record: &mut TrialRecord) {
        if let Some((guest, accelerator)) = self.guest.as_ref().zip(self.accelerator) {
            record.guest = guest.recorded(accelerator, &self.log());
            record.remarks.extend(accelerator.remark());
            record.remarks.extend(self.guest_said(guest::LEFT));
        }
    }

    /// The virtual machine's console output after this, if there is one.
    pub(super) fn guest_said(&self, beginning: &str) -> Vec<String> {
        self.guest.as_ref().map_or_else(Vec::new, |_| guest::all_said(&self.log(), beginning))
    }

    /// The samples of the virtual machine, if there are any.
    fn inside(&self) -> Result<Vec<GuestSample>, Error> {
        match &self.guest {
            Some(guest) if guest.is_seen() => inside::said(&self.logs.join(SAMPLES)),
            _ => Ok(Vec::new()),
        }
    }

    /// The load's result: in the file that it was given, or else in its output.
    fn results(&self, printed: &Path) -> Result<parse::output::LoadResults, Error> {
        let output = self.logs.join("output");
        let path = if output.exists() { &output } else { printed };
        let len = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
        if len > RESULTS_LEN_MAX {
            let what =
                format!("{len} bytes of results in {}, at most {RESULTS_LEN_MAX} are read", path.display());
            return Err(Error::place("workload.run", what));
        }
        let text = std::fs::read(path).map_err(Error::io("read", path))?;
        parse::parse(&String::from_utf8_lossy(&text), &self.experiment.workload)
    }
}

/// The port of a subject, and further free ones for what it starts.
pub(super) const PORTS: [&str; subject::PORTS] = ["port", "port_2", "port_3", "port_4", "port_5", "port_6"];

/// The first line of a command's output is shorter.
const ASKED_LEN_MAX: u64 = 64 << 10;

/// A day of seconds with 400 bytes each is a seventh of it. A load that prints a line for each request takes no more memory.
const RESULTS_LEN_MAX: u64 = 256 << 20;

pub(super) fn times(experiment: &Experiment, placeholders: &mut Placeholders) {
    let workload = &experiment.workload;
    placeholders.set("seconds", workload.seconds);
    placeholders.set("warm_up", workload.warm_up_s);
    placeholders.set("measured", workload.measured_s());
}

/// The program of a subject, if it has one.
pub(super) fn of_program(subject: &Subject, placeholders: &mut Placeholders) {
    subject.program.iter().for_each(|program| placeholders.set("program", program));
}

/// The words of a cell's levels.
pub(super) fn say(levels: &[(&str, &Level)], placeholders: &mut Placeholders) {
    let words = levels.iter().flat_map(|(_, level)| &level.set);
    words.for_each(|(name, meaning)| placeholders.set(name, meaning));
}

/// An empty directory for logs: an interrupted trial may have left some.
fn make_anew(logs: &Path) -> Result<(), Error> {
    let _ = std::fs::remove_dir_all(logs);
    std::fs::create_dir_all(logs).map_err(Error::io("create", logs))
}

pub(super) fn placed<'e>(levels: &[(&'e str, &'e Level)]) -> impl Iterator<Item = (String, &'e Level)> {
    levels
        .iter()
        .map(|(factor, level)| (settings::place(factor, level), *level))
        .collect::<Vec<_>>()
        .into_iter()
}
