//! Commands: started, awaited with a time limit, ended with all processes that they started; the end of their output is
//! kept.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, kill_process, kill_process_group};

use crate::clock::{Stopwatch, pause};
use crate::processes;
use crate::signals::{Ignored, Signal, Signals, unblock_in};

/// How much of the end of a command's output is kept, in bytes.
const OUTPUT_LEN_MAX: usize = 1 << 20;

/// How long to wait for the end of the output after a command has ended: a process that it left running may keep the
/// pipe open.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(1);

/// How many lines of its standard error are shown.
const COMPLAINT_LINES_MAX: usize = 5;

/// How long a command may take to end after SIGTERM before it gets SIGKILL.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// The environment variable of a command and all its processes that holds the id of the process that started it.
const MARK: &str = "EVENKEEL_LOAD_OF";

/// The interval between two searches for remaining processes of a command.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The interval between two checks whether a command has ended.
const LOOK_FOR_END_EVERY: Duration = Duration::from_millis(10);

/// Errors of running a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be started.
    #[error("start `{line}`")]
    Start {
        /// The command line.
        line: String,
        /// Why.
        source: io::Error,
    },
    /// Waiting for its end failed.
    #[error("wait for the command")]
    Wait(#[source] io::Error),
    /// No thread could be started to wait for it.
    #[error("start a thread")]
    Thread(#[source] io::Error),
    /// Signals cannot be blocked.
    #[error("block signals")]
    Signals(#[source] io::Error),
    /// It ran for too long, and was ended.
    #[error("run `{line}`: it has not ended within {} s", time_max.as_secs())]
    TooLong {
        /// The command line.
        line: String,
        /// How long it was allowed to run.
        time_max: Duration,
    },
    /// It has not ended after SIGKILL.
    #[error("end the command: it does not go away")]
    Stays,
}

/// Why a command did not run to its end.
#[derive(Debug)]
pub enum Interruption {
    /// Somebody sent this signal.
    Signal(Signal),
    /// It failed.
    Failed(Error),
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Interruption {
        Interruption::Failed(error)
    }
}

/// Whether a command succeeds in time. Ends it if it takes longer.
pub fn succeeds_within(command: &mut Command, time: Duration) -> bool {
    let Ok(mut child) = command.spawn() else { return false };
    let watch = Stopwatch::start();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if watch.passed() < time => pause(LOOK_FOR_END_EVERY),
            _ => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// A running command.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
    watch: Stopwatch,
    output: Tail,
    complaints: Tail,
}

/// The end of a pipe's output, read by a thread of its own.
#[derive(Debug)]
struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when the pipe is closed.
    ended: Receiver<()>,
}

/// The result of a command that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// How long it took.
    pub time: Duration,
    /// The end of its standard output.
    pub output: String,
    /// The end of its standard error.
    complaints: String,
}

impl Ended {
    /// Its status, with the last lines of its standard error.
    pub fn words(&self) -> String {
        let lines: Vec<&str> = self.complaints.lines().collect();
        let last = &lines[lines.len().saturating_sub(COMPLAINT_LINES_MAX)..];
        match last {
            [] => self.status.to_string(),
            last => format!("{}: {}", self.status, last.join(" / ")),
        }
    }
}

/// Starts a shell command line, in this process group or in one of its own.
fn start_in(line: &str, group: Option<i32>) -> io::Result<RunningCommand> {
    let mut command = Command::new("sh");
    command.env(MARK, std::process::id().to_string());
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(group) = group {
        command.process_group(group);
    }
    unblock_in(&mut command);
    let watch = Stopwatch::start();
    let mut child = command.spawn()?;
    let output = Tail::from(child.stdout.take().expect("it is piped"))?;
    let complaints = Tail::from(child.stderr.take().expect("it is piped"))?;
    Ok(RunningCommand { child, watch, output, complaints })
}

impl Tail {
    fn from(mut pipe: impl Read + Send + 'static) -> io::Result<Tail> {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (to, (sender, ended)) = (Arc::clone(&bytes), channel::<()>());
        let listen = move || {
            let _ends_with_this_thread = sender;
            let mut piece = [0; 8192];
            while let Ok(len @ 1..) = pipe.read(&mut piece) {
                let mut bytes = to.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&piece[..len]);
                // Cut only at twice the limit, so that not every piece moves all bytes.
                if bytes.len() > 2 * OUTPUT_LEN_MAX {
                    let old = bytes.len() - OUTPUT_LEN_MAX;
                    bytes.drain(..old);
                }
            }
        };
        thread::Builder::new().name("output".into()).spawn(listen)?;
        Ok(Tail { bytes, ended })
    }

    /// The end of the output, after all of it has arrived.
    fn text(self) -> String {
        // Nothing is ever sent: this returns at the end of the thread, or of the time.
        let _ = self.ended.recv_timeout(OUTPUT_TIME_MAX);
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Starts a shell command line, in this process group: Ctrl-C ends both.
pub fn start(line: &str) -> Result<RunningCommand, Error> {
    start_in(line, None).map_err(|error| not_started(line, error))
}

fn not_started(line: &str, error: io::Error) -> Error {
    Error::Start { line: line.to_owned(), source: error }
}

impl RunningCommand {
    /// Waits for its end.
    pub fn ended(mut self) -> Result<Ended, Error> {
        let status = self.child.wait().map_err(Error::Wait)?;
        let time = self.watch.passed();
        Ok(self.left_behind(status, time))
    }

    /// Ends it with all processes that it started, because the caller's job has failed.
    pub fn end(mut self) {
        let watch = Stopwatch::start();
        loop {
            let kill = if watch.passed() < END_TIME_MAX { Kill::TERM } else { Kill::KILL };
            let left = marked();
            // One may have ended by itself meanwhile.
            for pid in &left {
                let _ = kill_process(*pid, kill);
            }
            if left.is_empty() || watch.passed() > 2 * END_TIME_MAX {
                break;
            }
            // Reap it: until then, an ended child is still listed.
            let _ = self.child.try_wait();
            pause(LOOK_EVERY);
        }
    }

    fn left_behind(self, status: ExitStatus, time: Duration) -> Ended {
        Ended { status, time, output: self.output.text(), complaints: self.complaints.text() }
    }
}

/// Processes that commands of this process have started, in any process group.
fn marked() -> Vec<Pid> {
    let mark = format!("{MARK}={}", std::process::id());
    let marked = processes::all().into_iter().filter(|pid| processes::has_in_environment(*pid, &mark));
    marked.filter_map(|pid| Pid::from_raw(pid.try_into().ok()?)).collect()
}

#[derive(Debug)]
enum Event {
    Signal(Signal),
    Ended(io::Result<ExitStatus>),
}

/// Runs commands one after the other until a signal arrives. From its creation on, signals do not end this process:
/// they are taken here, between two steps or while a command runs, so that there is time to restore everything.
#[derive(Debug)]
pub struct CommandRunner {
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl CommandRunner {
    /// To be created before any other thread, which would not have the signals blocked.
    pub fn new() -> Result<CommandRunner, Error> {
        let signals = Signals::block().map_err(Error::Signals)?;
        let (sender, events) = channel();
        let to = sender.clone();
        let ignored = Ignored::now();
        let answer = move || {
            loop {
                let signal = signals.wait();
                if !ignored.has(signal) && to.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(answer).map_err(Error::Signals)?;
        Ok(CommandRunner { events, sender })
    }

    /// An error if a signal has arrived.
    pub fn go_on(&self) -> Result<(), Interruption> {
        match self.events.try_recv() {
            Ok(Event::Signal(signal)) => Err(Interruption::Signal(signal)),
            Ok(Event::Ended(_)) | Err(_) => Ok(()),
        }
    }

    /// Runs a shell command line to its end, within the time limit.
    pub fn run(&self, line: &str, time_max: Duration) -> Result<Ended, Interruption> {
        match self.run_for(line, time_max)? {
            Some(ended) => Ok(ended),
            None => Err(Error::TooLong { line: line.to_owned(), time_max }.into()),
        }
    }

    /// Runs a shell command line, and ends it when the time is over; `None` then.
    pub fn run_for(&self, line: &str, time: Duration) -> Result<Option<Ended>, Interruption> {
        // In a process group of its own, so that it can be ended with all its processes, and so that only this process
        // gets Ctrl-C, and then ends it.
        let running = start_in(line, Some(0)).map_err(|error| not_started(line, error))?;
        let RunningCommand { mut child, watch, output, complaints } = running;
        let group = Pid::from_child(&child);
        let sender = self.sender.clone();
        let wait = move || {
            let status = child.wait();
            // The receiver is gone if this run is over already.
            let _ = sender.send(Event::Ended(status));
            child
        };
        let waiter = thread::Builder::new().name("wait".into()).spawn(wait);
        let waiter = waiter.map_err(Error::Thread)?;
        let halt = match self.events.recv_timeout(time) {
            Ok(Event::Ended(status)) => {
                let time = watch.passed();
                let status = status.map_err(Error::Wait)?;
                let child = waiter.join().expect("waiting does not panic");
                return Ok(Some(
                    RunningCommand { child, watch, output, complaints }.left_behind(status, time),
                ));
            }
            Ok(Event::Signal(signal)) => Some(Interruption::Signal(signal)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("this is a sender, too"),
        };
        let halt = self.end(group, halt);
        match halt {
            Some(halt) => Err(halt),
            None => Ok(None),
        }
    }

    /// Ends a process group, and waits until its leader is gone.
    fn end(&self, group: Pid, mut halt: Option<Interruption>) -> Option<Interruption> {
        for kill in [Kill::TERM, Kill::KILL] {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, kill);
            loop {
                match self.events.recv_timeout(END_TIME_MAX) {
                    Ok(Event::Ended(_)) => {
                        // The remaining processes of the group; usually there are none.
                        let _ = kill_process_group(group, Kill::KILL);
                        return halt;
                    }
                    // The first signal counts.
                    Ok(Event::Signal(signal)) => halt = halt.or(Some(Interruption::Signal(signal))),
                    Err(_) => break,
                }
            }
        }
        halt.or(Some(Error::Stays.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test at a time: ending the processes of one test would end those of others, because all belong to this
    /// process.
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn output_and_standard_error_are_read_separately() {
        let _alone = ONE_BY_ONE.lock();
        let ended = start("echo out; echo err >&2; exit 3").expect("a shell").ended().expect("it ends");
        assert_eq!((ended.output.as_str(), ended.status.code()), ("out\n", Some(3)));
        assert_eq!(ended.words(), "exit status: 3: err");
    }

    #[test]
    fn only_the_end_of_long_output_is_kept() {
        let _alone = ONE_BY_ONE.lock();
        let line = "head -c 4000000 /dev/zero; echo last";
        let output = start(line).expect("a shell").ended().expect("it ends").output;
        assert!(output.len() <= 2 * OUTPUT_LEN_MAX && output.ends_with("last\n"), "{}", output.len());
    }

    #[test]
    fn a_command_is_ended_with_all_its_processes() {
        let _alone = ONE_BY_ONE.lock();
        let running = start("setsid sleep 1000 & exec sleep 1000").expect("a shell");
        while marked().len() < 2 {
            pause(LOOK_EVERY);
        }
        running.end();
        assert_eq!(marked(), []);
    }

    #[test]
    fn a_command_is_ended_at_its_time_limit() {
        let sh = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        };
        assert!(succeeds_within(&mut sh("exit 0"), Duration::from_secs(60)));
        assert!(!succeeds_within(&mut sh("exit 1"), Duration::from_secs(60)));
        assert!(!succeeds_within(&mut sh("exec sleep 1000"), Duration::from_millis(20)));
        assert!(!succeeds_within(&mut Command::new("/nonexistent"), Duration::from_secs(60)));
    }
}
