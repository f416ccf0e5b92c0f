//! One run of a program: bounded in time and output, ended with all processes of its group.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use os::signals::unblock_in;
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};

/// The variable by which the tuner asks the kernel to end it with the agent.
const PARENT: &str = "EVENKEEL_PARENT";
/// The nice value of the tuner: servers and routers go first.
const NICE: i32 = 19;
/// Interval of looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for the end of its output after its own end: a process that it left behind may hold the pipe.
const OUTPUT_WITHIN: Duration = Duration::from_secs(1);
/// Time for its end after SIGKILL: a process in a call to a device that hangs stays.
const KILLED_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of its standard error that are kept: the last line is shown.
const COMPLAINT_LEN_MAX: usize = 8 * 1024;

/// What a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    /// Until its end.
    pub(crate) time: Duration,
    /// Bytes of its output.
    pub(crate) output_len: usize,
    /// It runs at the lowest priority.
    pub(crate) is_nice: bool,
    /// Processes that it leaves behind when it ends by itself go on.
    pub(crate) may_leave: bool,
}

/// A run that has ended by itself.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    /// The last line of its standard error.
    pub(crate) complaint: String,
}

/// Runs programs, one at a time.
#[derive(Debug, Default)]
pub(crate) struct CommandRuns {
    /// One that SIGKILL has not ended.
    stuck: Option<Child>,
}

impl CommandRuns {
    /// Runs a program to its end.
    ///
    /// # Errors
    /// If it cannot be started, or has gone beyond a limit; then it was ended. If an earlier one has not ended although it was killed.
    pub(crate) fn run(
        &mut self,
        program: &Path,
        arguments: &[&str],
        limits: RunLimits,
    ) -> Result<EndedRun, String> {
        if let Some(stuck) = &mut self.stuck {
            match stuck.try_wait() {
                Ok(Some(_)) => self.stuck = None,
                _ => {
                    return Err(format!(
                        "process {} of an earlier run was killed and has not ended",
                        stuck.id()
                    ));
                }
            }
        }
        let mut stuck = None;
        let ended = run(program, arguments, limits, &mut stuck);
        self.stuck = stuck;
        ended
    }
}

fn run(
    program: &Path,
    arguments: &[&str],
    limits: RunLimits,
    stuck: &mut Option<Child>,
) -> Result<EndedRun, String> {
    let words = || arguments.join(" ");
    let mut command = Command::new(program);
    command.args(arguments).env(PARENT, std::process::id().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    unblock_in(&mut command);
    let child =
        command.spawn().map_err(|error| format!("start {} {}: {error}", program.display(), words()))?;
    if limits.is_nice {
        // One that cannot be asked to wait for others runs all the same.
        let _ = setpriority_process(Some(Pid::from_child(&child)), NICE);
    }
    let mut run = RunningRun { child: Some(child), stuck };
    let child = run.child.as_mut().expect("it was put there");
    let output = read(child.stdout.take(), limits.output_len);
    let complaint = read_last(child.stderr.take(), COMPLAINT_LEN_MAX);
    let (output, complaint) = match (output, complaint) {
        (Ok(output), Ok(complaint)) => (output, complaint),
        (Err(error), _) | (_, Err(error)) => return Err(format!("start a thread: {error}")),
    };
    let watch = Stopwatch::start();
    let mut is_read = None;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("wait for {}: {error}", words()))? {
            break status;
        }
        if watch.passed() > limits.time {
            return Err(format!(
                "{} has not ended within {} s, and was ended",
                words(),
                limits.time.as_secs()
            ));
        }
        is_read = is_read.or_else(|| output.try_recv().ok());
        if let Some(Piped { is_cut: true, .. }) = is_read {
            return Err(format!("{} wrote more than {} bytes", words(), limits.output_len));
        }
        pause(LOOK_EVERY);
    };
    if limits.may_leave {
        run.child = None;
    } else {
        // What it left behind holds no pipe any more.
        run.end();
    }
    let whole = |piped: Result<Piped, RecvTimeoutError>| {
        piped.map_err(|_| format!("{} has ended, and another process holds its output open", words()))
    };
    let output = whole(is_read.map_or_else(|| output.recv_timeout(OUTPUT_WITHIN), Ok))?;
    if output.is_cut {
        return Err(format!("{} wrote more than {} bytes", words(), limits.output_len));
    }
    let complaint = complaint.recv_timeout(OUTPUT_WITHIN).map(|piped| piped.bytes).unwrap_or_default();
    let complaint = String::from_utf8_lossy(&complaint);
    // A hint for people stands below what has happened.
    let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("hint:");
    let complaint = complaint.lines().rfind(is_said).unwrap_or_default().trim();
    Ok(EndedRun { status, output: output.bytes, complaint: complaint.to_owned() })
}

/// What came out of a pipe.
struct Piped {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// Reads a pipe to its end, and keeps the last bytes: one that is closed early would end its writer.
fn read_last(pipe: Option<impl Read + Send + 'static>, len_max: usize) -> std::io::Result<Receiver<Piped>> {
    let (sender, receiver) = channel();
    let listen = move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        if let Some(mut pipe) = pipe {
            while let Ok(len @ 1..) = pipe.read(&mut part) {
                bytes.extend_from_slice(&part[..len]);
                let beyond = bytes.len().saturating_sub(len_max);
                bytes.drain(..beyond);
            }
        }
        // The run may have been given up.
        let _ = sender.send(Piped { bytes, is_cut: false });
    };
    std::thread::Builder::new().name("complaint".to_owned()).spawn(listen)?;
    Ok(receiver)
}

/// Reads a pipe to its end, or to the limit and one byte more.
fn read(pipe: Option<impl Read + Send + 'static>, len_max: usize) -> std::io::Result<Receiver<Piped>> {
    let (sender, receiver) = channel();
    let listen = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error counts.
            let _ = pipe.take(len_max as u64 + 1).read_to_end(&mut bytes);
        }
        let is_cut = bytes.len() > len_max;
        bytes.truncate(len_max);
        // The run may have been given up.
        let _ = sender.send(Piped { bytes, is_cut });
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(listen)?;
    Ok(receiver)
}

/// A process that is ended with its group, however the run is left.
struct RunningRun<'s> {
    child: Option<Child>,
    /// Where it is put if it does not end.
    stuck: &'s mut Option<Child>,
}

impl RunningRun<'_> {
    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The group has no process any more if all have ended.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let watch = Stopwatch::start();
        while !matches!(child.try_wait(), Ok(Some(_))) {
            if watch.passed() > KILLED_WITHIN {
                *self.stuck = Some(child);
                return;
            }
            pause(LOOK_EVERY);
        }
    }
}

impl Drop for RunningRun<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
