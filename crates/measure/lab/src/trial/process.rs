//! Shell commands as process groups: started, waited for, and ended with all that they have started.

use crate::error::Error;
use crate::trial::halt::Halt;
use crate::trial::leftovers::{self, Mark};
use crate::trial::log::last_lines;
use crate::trial::placement::Placement;
use os::clock::Stopwatch;
use os::signals::unblock_in;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The time that a command may take to end after SIGTERM before SIGKILL.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// The interval of checks whether a process has ended: twenty times a second is 0.01 % of a CPU.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// For commands that are not the subject itself.
pub(crate) static NO_ENV: BTreeMap<String, String> = BTreeMap::new();

/// A command line with its environment and directories.
#[derive(Clone, Debug)]
pub(crate) struct ShellCommand<'a> {
    /// For the shell.
    pub(crate) text: &'a str,
    /// The key in the experiment's file.
    pub(crate) place: &'a str,
    /// What to add to the environment.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The run that it belongs to.
    pub(crate) mark: &'a Mark,
    /// The file for output and error messages, which are appended.
    pub(crate) log: PathBuf,
    /// The file for its output instead, if it is to be read.
    pub(crate) output: Option<PathBuf>,
    /// The placement of the command and of all that it starts.
    pub(crate) placement: Option<&'a Placement>,
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    place: String,
    log: PathBuf,
    ended: Option<ExitStatus>,
    /// All of its group have ended, so that others may have its number.
    is_gone: bool,
}

impl ShellCommand<'_> {
    pub(crate) fn start(&self) -> Result<Group, Error> {
        let append = |path: &Path| {
            OpenOptions::new().create(true).append(true).open(path).map_err(Error::io("write to", path))
        };
        let log = append(&self.log)?;
        let both = |file: &File| file.try_clone().map_err(Error::io("write to", &self.log));
        let output = match &self.output {
            Some(path) => append(path)?,
            None => both(&log)?,
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", self.text])
            .envs(self.env)
            .env(leftovers::VARIABLE, self.mark.name())
            .process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        // This process has blocked the signals for itself.
        unblock_in(&mut command);
        let failed = |error| Error::place(self.place, format!("start a shell: {error}"));
        let child = match self.placement {
            None => command.spawn().map_err(failed)?,
            Some(placement) => placement.spawn(command, self.place)?,
        };
        let group =
            Group { child, place: self.place.to_owned(), log: self.log.clone(), ended: None, is_gone: false };
        self.mark.begins(group.pid())?;
        Ok(group)
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn run(&self, halt: &Halt, time_max: Duration) -> Result<(), Error> {
        let mut group = self.start()?;
        match group.wait(halt, time_max)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(group.complaint(&format!("it ended with {status}"))),
            None => Err(group.complaint(&format!("it has not ended within {} s", time_max.as_secs()))),
        }
    }
}

impl Group {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether all of its group have ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() {
            let failed = |error| Error::place(&self.place, format!("wait for it: {error}"));
            self.ended = self.child.try_wait().map_err(failed)?;
            self.is_gone = self.ended.is_some() && !leftovers::has_members(Pid::from_child(&self.child));
        }
        Ok(self.ended)
    }

    /// Waits for its end, at most this long.
    pub(crate) fn wait(&mut self, halt: &Halt, time_max: Duration) -> Result<Option<ExitStatus>, Error> {
        self.wait_with(halt, time_max, || ())
    }

    /// The same, with something to do now and then.
    pub(crate) fn wait_with(
        &mut self,
        halt: &Halt,
        time_max: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Result<Option<ExitStatus>, Error> {
        let clock = Stopwatch::start();
        // Without it, an end is noticed a little later.
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).ok();
        loop {
            let ended = self.ended()?;
            if ended.is_some() || clock.passed() >= time_max {
                return Ok(ended);
            }
            meanwhile();
            match &pidfd {
                None => halt.pause(ASK_EVERY)?,
                Some(pidfd) => {
                    halt.pause(Duration::ZERO)?;
                    let until = Timespec { tv_sec: 0, tv_nsec: ASK_EVERY.subsec_nanos().into() };
                    // A signal ends it early: the loop asks again.
                    let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&until));
                }
            }
        }
    }

    /// The failure, with the last lines of its log.
    pub(crate) fn complaint(&self, what: &str) -> Error {
        Error::place(&self.place, format!("{what}{}", last_lines(&self.log)))
    }

    /// Ends it, all of its group, and their descendants. This is not interrupted: a second Ctrl-C changes nothing.
    fn end(&mut self) {
        let patient = Halt::default();
        // A process that has left the group is not found by its parent once that has ended.
        let family = match self.ended() {
            Ok(None) => leftovers::family(self.pid()),
            // Another process may have its number by now.
            _ => leftovers::Known::new(),
        };
        for signal in [Signal::TERM, Signal::KILL] {
            if !self.lives() {
                break;
            }
            // It may have ended by itself meanwhile.
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
            let clock = Stopwatch::start();
            while self.lives() && clock.passed() < END_TIME_MAX {
                let _ = patient.pause(Duration::from_millis(5));
            }
        }
        leftovers::end(&family);
    }

    /// Whether a member of its group is left: a shell that waits for a server ends before it does.
    fn lives(&mut self) -> bool {
        let lives = matches!(self.ended(), Ok(None))
            || !self.is_gone && leftovers::has_members(Pid::from_child(&self.child));
        self.is_gone = !lives;
        lives
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn mark(scratch: &Scratch) -> Mark {
        Mark::new("process-test", scratch.path().join("groups"))
    }

    fn line<'a>(
        text: &'a str,
        log: &Path,
        env: &'a BTreeMap<String, String>,
        mark: &'a Mark,
    ) -> ShellCommand<'a> {
        ShellCommand {
            text,
            place: "workload.run",
            env,
            mark,
            log: log.to_owned(),
            output: None,
            placement: None,
        }
    }

    #[test]
    fn a_command_that_fails_is_said_with_its_last_words() {
        let scratch = Scratch::new("process-fails");
        let (log, env) =
            (scratch.path().join("log"), BTreeMap::from([("WHY".to_owned(), "no reason".to_owned())]));
        let mark = mark(&scratch);
        let line = line("echo first; echo \"$WHY\" >&2; exit 3", &log, &env, &mark);
        let error = line.run(&Halt::default(), Duration::from_secs(60)).expect_err("it fails").to_string();
        assert_eq!(error, "carry out workload.run: it ended with exit status: 3: first / no reason");
    }

    #[test]
    fn a_signal_stops_the_wait_and_dropping_ends_the_whole_group() {
        let scratch = Scratch::new("process-group");
        let (log, env) = (scratch.path().join("log"), BTreeMap::new());
        let child = scratch.path().join("child");
        let text = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", child.display());
        let (halt, mark) = (Halt::default(), mark(&scratch));
        let mut group = line(&text, &log, &env, &mark).start().expect("a shell");
        while !child.exists() {
            group.wait(&halt, Duration::from_millis(1)).expect("it runs");
        }
        halt.set();
        assert!(matches!(group.wait(&halt, Duration::from_secs(600)), Err(Error::Halted)));
        let pid = std::fs::read_to_string(&child).expect("its number").trim().to_owned();
        drop(group);
        // It may be a zombie until its parent reaps it.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let clock = Stopwatch::start();
        while !gone() {
            assert!(clock.passed() < Duration::from_secs(60), "{pid} lives");
            let _ = Halt::default().pause(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_server_behind_a_shell_has_its_time_to_end() {
        let scratch = Scratch::new("process-shell");
        let (log, env, mark) = (scratch.path().join("log"), BTreeMap::new(), mark(&scratch));
        let (up, saved) = (scratch.path().join("up"), scratch.path().join("saved"));
        let server = format!(
            "trap 'sleep 0.5; echo all > {}; exit' TERM; echo > {}; while :; do sleep 0.05; done",
            saved.display(),
            up.display()
        );
        // The shell has no trap, and ends at once.
        let text = format!("sh -c \"{server}\"; true");
        let halt = Halt::default();
        let mut group = line(&text, &log, &env, &mark).start().expect("a shell");
        while !up.exists() {
            group.wait(&halt, Duration::from_millis(1)).expect("it runs");
        }
        drop(group);
        assert!(saved.exists(), "it was ended before it had saved what it had");
    }
}
