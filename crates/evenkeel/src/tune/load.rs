//! Commands that put load on a service: started, watched, ended, and their output read.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, kill_process, kill_process_group};

use super::observe::{Clock, pause};
use crate::failure::Failure;
use os::signals::{Signal, Signals, unblock_in};

/// Of what a command prints, this much of the end is looked at.
const OUTPUT_LEN_MAX: usize = 1 << 20;

/// How long to wait for the end of what a command prints, when it has ended itself: a process that it has left behind may
/// keep the pipe open.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(1);

/// Of its complaints, so many lines are shown.
const COMPLAINT_LINES_MAX: usize = 5;

/// How long a command that is told to end (SIGTERM) may take before it is ended (SIGKILL).
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// What a command and all that it starts have in their environment: the process that started it.
const MARK: &str = "EVENKEEL_LOAD_OF";

/// How long to wait between two looks for what is left of a command.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command that has been started.
pub(super) struct Load {
    child: Child,
    clock: Clock,
    output: Heard,
    complaints: Heard,
}

/// The end of what comes through a pipe, read by a thread of its own.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Says by its end that nothing more comes.
    ended: Receiver<()>,
}

/// What a command has left behind.
pub(super) struct Ended {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// How long it took.
    pub(super) time: Duration,
    /// What it printed.
    pub(super) output: String,
    /// What it complained about.
    complaints: String,
}

impl Ended {
    /// How it ended, with its last complaints.
    pub(super) fn words(&self) -> String {
        let lines: Vec<&str> = self.complaints.lines().collect();
        let last = &lines[lines.len().saturating_sub(COMPLAINT_LINES_MAX)..];
        match last {
            [] => self.status.to_string(),
            last => format!("{}: {}", self.status, last.join(" / ")),
        }
    }
}

/// Starts a line for the shell, in this group of processes or in one of its own.
fn start(line: &str, group: Option<i32>) -> io::Result<Load> {
    let mut command = Command::new("sh");
    command.env(MARK, std::process::id().to_string());
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(group) = group {
        command.process_group(group);
    }
    unblock_in(&mut command);
    let clock = Clock::start();
    let mut child = command.spawn()?;
    let output = Heard::from(child.stdout.take().expect("it is piped"))?;
    let complaints = Heard::from(child.stderr.take().expect("it is piped"))?;
    Ok(Load { child, clock, output, complaints })
}

impl Heard {
    fn from(mut pipe: impl Read + Send + 'static) -> io::Result<Heard> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (to, (sender, ended)) = (Arc::clone(&bytes), channel::<()>());
        let listen = move || {
            let _ends_with_this_thread = sender;
            let mut piece = [0; 8192];
            while let Ok(len @ 1..) = pipe.read(&mut piece) {
                let mut bytes = to.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&piece[..len]);
                // Twice as much before it is cut, so that not every piece moves all of it.
                if bytes.len() > 2 * OUTPUT_LEN_MAX {
                    let old = bytes.len() - OUTPUT_LEN_MAX;
                    bytes.drain(..old);
                }
            }
        };
        thread::Builder::new().name("output".into()).spawn(listen)?;
        Ok(Heard { bytes, ended })
    }

    /// What has come, when all has.
    fn text(self) -> String {
        // Nothing is ever sent: this ends with the thread, or with the time.
        let _ = self.ended.recv_timeout(OUTPUT_TIME_MAX);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Starts a line for the shell, which ends with this process where a terminal ends both.
pub(super) fn beside(line: &str) -> Result<Load, Failure> {
    start(line, None).map_err(|error| not_started(line, error))
}

fn not_started(line: &str, error: io::Error) -> Failure {
    Failure::system(format_args!("start `{line}`"), error)
}

impl Load {
    /// Waits for its end.
    pub(super) fn ended(mut self) -> Result<Ended, Failure> {
        let status = self.child.wait().map_err(|error| Failure::system("wait for the command", error))?;
        let time = self.clock.passed();
        Ok(self.left_behind(status, time))
    }

    /// Ends it with all that it has started: what it was started for has failed.
    pub(super) fn end(mut self) {
        let clock = Clock::start();
        loop {
            let kill = if clock.passed() < END_TIME_MAX { Kill::TERM } else { Kill::KILL };
            let left = marked();
            // One may have ended by itself meanwhile.
            for pid in &left {
                let _ = kill_process(*pid, kill);
            }
            if left.is_empty() || clock.passed() > 2 * END_TIME_MAX {
                break;
            }
            // Who is not waited for is there, and has ended.
            let _ = self.child.try_wait();
            pause(LOOK_EVERY);
        }
    }

    fn left_behind(self, status: ExitStatus, time: Duration) -> Ended {
        Ended { status, time, output: self.output.text(), complaints: self.complaints.text() }
    }
}

/// Processes that commands of this one have started, in whatever group they are.
fn marked() -> Vec<Pid> {
    let mark = format!("{MARK}={}", std::process::id());
    let is_marked = |pid: &Pid| {
        let environment =
            std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
    pids.filter(is_marked).collect()
}

/// Why something did not come to its end.
pub(super) enum Halt {
    /// Somebody sent this signal.
    Signal(Signal),
    /// It failed.
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::Failed(failure)
    }
}

/// The signals that this process ignores, signal 1 in the lowest bit.
pub(super) fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

enum Event {
    Signal(Signal),
    Ended(io::Result<ExitStatus>),
}

/// Runs commands one after the other until a signal comes. From its making on, signals do not end this process: they
/// are found here, between two steps or while a command runs, so that there is time to put everything back.
pub(super) struct Runner {
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl Runner {
    /// To be made before any other thread, which would not know of the signals.
    pub(super) fn new() -> Result<Runner, Failure> {
        let failed = |error| Failure::system("block signals", error);
        let signals = Signals::block().map_err(failed)?;
        let (sender, events) = channel();
        let to = sender.clone();
        // A signal that this process was told to ignore (nohup, a background job) comes all the same once it is blocked.
        let ignored = ignored();
        let answer = move || {
            loop {
                let signal = signals.wait();
                if ignored >> (signal.number() - 1) & 1 == 0 && to.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(answer).map_err(failed)?;
        Ok(Runner { events, sender })
    }

    /// Whether a signal has come.
    pub(super) fn go_on(&self) -> Result<(), Halt> {
        match self.events.try_recv() {
            Ok(Event::Signal(signal)) => Err(Halt::Signal(signal)),
            Ok(Event::Ended(_)) | Err(_) => Ok(()),
        }
    }

    /// Runs a line for the shell to its end, which must come in time.
    pub(super) fn run(&self, line: &str, time_max: Duration) -> Result<Ended, Halt> {
        match self.run_for(line, time_max)? {
            Some(ended) => Ok(ended),
            None => {
                let seconds = time_max.as_secs();
                let error = anyhow::anyhow!("run `{line}`: it has not ended within {seconds} s");
                Err(Failure::other(error).hint("--time-limit gives it longer").into())
            }
        }
    }

    /// Runs a line for the shell, and ends it when the time is over; none if it had to be.
    pub(super) fn run_for(&self, line: &str, time: Duration) -> Result<Option<Ended>, Halt> {
        // In a group of its own, so that it can be ended with all that it starts, and so that Ctrl-C reaches this
        // process alone, which then ends it.
        let load = start(line, Some(0)).map_err(|error| not_started(line, error))?;
        let Load { mut child, clock, output, complaints } = load;
        let group = Pid::from_child(&child);
        let sender = self.sender.clone();
        let wait = move || {
            let status = child.wait();
            // Nobody listens when the whole has come to its end.
            let _ = sender.send(Event::Ended(status));
            child
        };
        let waiter = thread::Builder::new().name("wait".into()).spawn(wait);
        let waiter = waiter.map_err(|error| Failure::system("start a thread", error))?;
        let halt = match self.events.recv_timeout(time) {
            Ok(Event::Ended(status)) => {
                let time = clock.passed();
                let status = status.map_err(|error| Failure::system("wait for the command", error))?;
                let child = waiter.join().expect("waiting does not panic");
                return Ok(Some(Load { child, clock, output, complaints }.left_behind(status, time)));
            }
            Ok(Event::Signal(signal)) => Some(Halt::Signal(signal)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("this is a sender, too"),
        };
        let halt = self.end(group, halt);
        match halt {
            Some(halt) => Err(halt),
            None => Ok(None),
        }
    }

    /// Ends a group of processes, and waits until its first one is gone.
    fn end(&self, group: Pid, mut halt: Option<Halt>) -> Option<Halt> {
        for kill in [Kill::TERM, Kill::KILL] {
            // It may have ended by itself meanwhile.
            let _ = kill_process_group(group, kill);
            loop {
                match self.events.recv_timeout(END_TIME_MAX) {
                    Ok(Event::Ended(_)) => {
                        // Whatever it has left behind; mostly there is no such group any more.
                        let _ = kill_process_group(group, Kill::KILL);
                        return halt;
                    }
                    // The first one decides.
                    Ok(Event::Signal(signal)) => halt = halt.or(Some(Halt::Signal(signal))),
                    Err(_) => break,
                }
            }
        }
        let gone = || Failure::other(anyhow::anyhow!("end the command: it does not go away")).into();
        halt.or_else(|| Some(gone()))
    }
}
