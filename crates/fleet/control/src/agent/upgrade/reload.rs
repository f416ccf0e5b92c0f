//! One run of a command that may leave a server behind: bounded in time and in what it says.
//!
//! Unlike a run of the tuner, it has the usual priority, outlives the agent, and what it has started goes on: that is what it is for.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use os::signals::unblock_in;
use rustix::process::{Pid, Signal, kill_process_group};

/// Interval of looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Time for the end of its output after its own: what it left behind may hold the pipe open.
const OUTPUT_WITHIN: Duration = Duration::from_millis(200);
/// Bytes that are kept of what it says.
const SAID_LEN_MAX: usize = 8 * 1024;

/// What has come of a run.
#[derive(Debug)]
pub(super) struct Ran {
    status: ExitStatus,
    said: Vec<u8>,
    complaint: Vec<u8>,
}

impl Ran {
    /// What it said, if it ended well.
    pub(super) fn succeeded(self) -> Result<Vec<u8>, String> {
        if self.status.success() {
            return Ok(self.said);
        }
        let complaint =
            String::from_utf8_lossy(&self.complaint).replace(|it: char| it.is_control() && it != '\n', " ");
        let last =
            complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
        Err(if last.is_empty() { self.status.to_string() } else { format!("{}: {last}", self.status) })
    }
}

/// Runs a command to its end, with a variable in its environment, by which what it leaves behind is known.
///
/// # Errors
/// If it cannot be started, or has not ended in time; then it was ended, with those of its children that are in its group.
pub(super) fn run(
    words: &[&OsStr],
    variable: Option<(&str, &OsStr)>,
    within: Duration,
) -> Result<Ran, String> {
    // From `/`, so that nothing keeps the agent's folder busy.
    run_in(Path::new("/"), words, variable, within)
}

/// The same in this folder.
pub(super) fn run_in(
    folder: &Path,
    words: &[&OsStr],
    variable: Option<(&str, &OsStr)>,
    within: Duration,
) -> Result<Ran, String> {
    let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let (program, rest) = words.split_first().ok_or("expected a command, found none")?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(folder).process_group(0);
    // What the agent's own parent has told it is not for servers.
    command.envs(variable).env_remove("EVENKEEL_PARENT").env_remove("NOTIFY_SOCKET");
    unblock_in(&mut command);
    let mut child = command.spawn().map_err(|error| format!("start {shown}: {error}"))?;
    let (said, complaint) = (Heard::of(child.stdout.take()), Heard::of(child.stderr.take()));
    let watch = Stopwatch::start();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if watch.passed() < within => pause(LOOK_EVERY),
            Ok(None) => {
                end(child);
                return Err(format!("{shown} has not ended within {} s, and was ended", within.as_secs()));
            }
            Err(error) => return Err(format!("wait for {shown}: {error}")),
        }
    };
    Ok(Ran { status, said: said.taken(), complaint: complaint.taken() })
}

fn end(mut child: Child) {
    // The group has no process any more if all have ended.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    // One in a call to a device that hangs is not waited for here.
    let reap = move || child.wait();
    let _ = std::thread::Builder::new().name("reap".to_owned()).spawn(reap);
}

/// What comes out of a pipe, until now.
struct Heard {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Heard {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Heard {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&bytes);
        let read = move || {
            let Some(mut pipe) = pipe else { return };
            let mut part = [0; 4096];
            while let Ok(len @ 1..) = pipe.read(&mut part) {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend_from_slice(&part[..len]);
                let beyond = heard.len().saturating_sub(SAID_LEN_MAX);
                heard.drain(..beyond);
            }
        };
        let reader = std::thread::Builder::new().name("heard".to_owned()).spawn(read).ok();
        Heard { bytes, reader }
    }

    /// Everything if the pipe has been closed; otherwise what was said so far.
    fn taken(self) -> Vec<u8> {
        let watch = Stopwatch::start();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished())
            && watch.passed() < OUTPUT_WITHIN
        {
            pause(LOOK_EVERY);
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str, within: Duration) -> Result<Vec<u8>, String> {
        run(&["sh".as_ref(), "-c".as_ref(), line.as_ref()], None, within).and_then(Ran::succeeded)
    }

    #[test]
    fn a_command_is_bounded_and_what_it_leaves_behind_is_not_waited_for() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo yes; sleep 50 & ", long), Ok(b"yes\n".to_vec()));
        let error = shell("echo first >&2; echo last >&2; exit 3", long).expect_err("it fails");
        assert_eq!(error, "exit status: 3: last");
        let error = shell("sleep 50", Duration::from_millis(50)).expect_err("it hangs");
        assert!(error.contains("has not ended within"), "{error}");
        assert!(
            run(&["/nowhere/at/all".as_ref()], None, long)
                .expect_err("nothing")
                .starts_with("start /nowhere")
        );
    }
}
