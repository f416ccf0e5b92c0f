//! A member of a cluster: a process, its address, and whether it answers.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use os::clock::Stopwatch;
use os::signals::unblock_in;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustls::ClientConfig;
use wire::{Deadline, ServerAddress, Wire};

use super::plane::SharedPid;
use crate::failure::Failure;
use crate::process::parent;

/// Time for an answer. A member that needs longer counts as hung: on the loopback, it needs some microseconds.
const ANSWER_WITHIN: Duration = Duration::from_millis(250);

/// Bytes of a member's output that are shown when it has ended.
const SHOWN_MAX: u64 = 2000;

/// A process of a cluster.
pub(super) struct Member {
    /// For the user: `server 2`.
    pub(super) name: String,
    pub(super) address: SocketAddr,
    /// The words of its command line.
    words: Vec<String>,
    /// The file with its output.
    output: PathBuf,
    child: Child,
    /// Its process, for those who report about it.
    shared_pid: SharedPid,
    /// Since its start.
    watch: Stopwatch,
    /// It did not answer when it was asked last.
    pub(super) is_silent: bool,
}

impl Member {
    /// Starts a verb of this program.
    pub(super) fn start(
        name: String,
        address: SocketAddr,
        words: Vec<String>,
        output: PathBuf,
        shared_pid: SharedPid,
    ) -> Result<Member, Failure> {
        let child = spawn(&name, &words, &output)?;
        shared_pid.store(child.id(), Ordering::Relaxed);
        let watch = Stopwatch::start();
        Ok(Member { name, address, words, output, child, shared_pid, watch, is_silent: false })
    }

    /// Starts it again.
    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.child = spawn(&self.name, &self.words, &self.output)?;
        self.shared_pid.store(self.child.id(), Ordering::Relaxed);
        self.watch = Stopwatch::start();
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its process, for those who report about it.
    pub(super) fn shared_pid(&self) -> SharedPid {
        SharedPid::clone(&self.shared_pid)
    }

    /// The time since its start.
    pub(super) fn age(&self) -> Duration {
        self.watch.passed()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().ok().flatten();
        if ended.is_some() {
            self.shared_pid.store(0, Ordering::Relaxed);
        }
        ended
    }

    /// Whether it answers a request in time.
    pub(super) fn answers(&self, tls: Option<&Arc<ClientConfig>>, request: &[u8], expected: &[u8]) -> bool {
        ask(self.address, tls, request, expected.len()).is_ok_and(|answer| answer == expected)
    }

    /// Its last output, in one line.
    pub(super) fn last_words(&self) -> String {
        let mut text = String::new();
        let read = || -> io::Result<String> {
            let file = File::open(&self.output)?;
            let start = file.metadata()?.len().saturating_sub(SHOWN_MAX);
            let mut bytes = Vec::new();
            io::Seek::seek(&mut &file, io::SeekFrom::Start(start))?;
            file.take(SHOWN_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        if let Ok(whole) = read() {
            text = whole
                .lines()
                .rev()
                .take(2)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join(" / ");
        }
        text
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
        // One that was stopped takes the signal when it goes on.
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It has not been waited for, so the id is still its own; if it has ended, nothing happens.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it.
    pub(super) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(name: &str, words: &[String], output: &Path) -> Result<Child, Failure> {
    let failed = |error| Failure::system(format!("start {name}"), error);
    let file =
        open_output(output).map_err(|error| Failure::system(format!("open {}", output.display()), error))?;
    // This very program, even if its file has been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    std::os::unix::process::CommandExt::arg0(&mut command, "evenkeel");
    command.args(words).env(parent::VARIABLE, std::process::id().to_string());
    // Ctrl-C is for this process, which ends the members in their order.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    unblock_in(&mut command);
    let other = file.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(other).stderr(file).spawn().map_err(failed)
}

/// Opens a file to append to. In its place there may be a link to a terminal or a pipe, but opening a fifo without a reader
/// would not end.
fn open_output(output: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[allow(clippy::disallowed_methods, reason = "the folder is this user's, who may have put links there")]
    let file = options.create(true).append(true).custom_flags(libc::O_NONBLOCK).open(output)?;
    // A member is to wait for a reader as usual.
    let flags = rustix::fs::fcntl_getfl(&file)?.difference(OFlags::NONBLOCK);
    rustix::fs::fcntl_setfl(&file, flags)?;
    Ok(file)
}

/// Sends a request, and returns the first `len` bytes of the answer.
fn ask(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    request: &[u8],
    len: usize,
) -> io::Result<Vec<u8>> {
    let deadline = Deadline::within(ANSWER_WITHIN);
    let place = ServerAddress::Tcp(address.ip().to_string(), address.port());
    let mut wire = Wire::connect(&place, tls, &deadline)?;
    wire.send(request, &deadline)?;
    let mut answer = vec![0; len];
    let mut start = 0;
    while start < len {
        start += wire.receive(&mut answer[start..], &deadline)?;
    }
    Ok(answer)
}
