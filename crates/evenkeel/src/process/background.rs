//! Detaching to the background (`-d`, `--background`), without losing the errors of the start.
//!
//! ```text
//! the process that was started ── fork ─► between ── fork ─► serves
//!   waits for how the start ends            ends at once       belongs to the supervisor, or to init
//! ```
//!
//! The first process waits until the last one serves, and ends with status 0 then; if that one fails earlier, it has printed why, and
//! the first one ends with its status. (memcached's parent ends at once, so a start script cannot detect that the port was taken.) A
//! supervisor is told of the process that serves, and watches it as one of its own because nothing stands between them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use os::DirectoryEntry;
use os::clock::pause;
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, getpid, getppid};

use crate::failure::{Failure, say};
use crate::process::supervisor::Supervisor;
use crate::process::sys::{self, Half};

/// Between two looks whether the process between has ended, which it does at once.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The pipe to the process that was started, in the one that is to serve, until it has said how its start has ended: a byte, and four of
/// its process id or of its exit status.
static STARTER: Mutex<Option<File>> = Mutex::new(None);

/// The exit status if the process that was to serve was killed (EX_OSERR).
const KILLED: i32 = 71;

/// It serves.
const SERVES: u8 = b'+';
/// It ends.
const FAILS: u8 = b'-';

/// The side of the process that is to serve.
pub(crate) struct Background(());

/// What a process in the background keeps.
pub(crate) struct Kept {
    /// The working directory: paths are used later that hold nowhere else.
    pub(crate) folder: bool,
    /// Standard output and standard error.
    pub(crate) output: bool,
}

impl Background {
    /// Forks the process twice; returns in the last child only. There must be no other thread yet. The first process tells `supervisor`
    /// when the last one serves: it is the one that the supervisor has started.
    pub(crate) fn enter(supervisor: &Supervisor, verb: &str) -> Result<Self, Failure> {
        let failed = |error| Failure::system("go to the background", error);
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        if let Half::Parent(between) = sys::fork().map_err(failed)? {
            drop(writer);
            std::process::exit(outcome(reader, between, supervisor, verb));
        }
        drop(reader);
        let between = getpid();
        if let Half::Parent(_) = sys::fork().map_err(failed)? {
            std::process::exit(0);
        }
        *STARTER.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer.into());
        while getppid() == Some(between) {
            pause(LOOK_EVERY);
        }
        rustix::process::setsid().map_err(|error| failed(error.into()))?;
        Ok(Background(()))
    }

    /// Detaches from the terminal and the working directory, and reports success to the process that was started. Returns whether that
    /// one was still there to be told.
    pub(crate) fn detach(self, kept: &Kept) -> Result<bool, Failure> {
        let failed = |error| Failure::system("leave the terminal", error);
        if !kept.folder {
            rustix::process::chdir("/").map_err(|error| failed(error.into()))?;
        }
        if !kept.output {
            let null =
                DirectoryEntry::of(Path::new("/dev/null")).and_then(|entry| entry.open(OFlags::RDWR, 0));
            let null = null.map_err(failed)?;
            rustix::stdio::dup2_stdin(&null).map_err(|error| failed(error.into()))?;
            rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
            rustix::stdio::dup2_stderr(&null).map_err(|error| failed(error.into()))?;
        }
        Ok(tell(SERVES, getpid().as_raw_nonzero().get()))
    }
}

/// Tells the process that was started, if it waits, that this one ends with this status.
pub(crate) fn tell_failure(status: u8) {
    // One that was killed meanwhile needs no report.
    tell(FAILS, status.into());
}

fn tell(how: u8, number: i32) -> bool {
    let starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner).take();
    let [a, b, c, d] = number.to_ne_bytes();
    starter.is_some_and(|mut starter| starter.write_all(&[how, a, b, c, d]).is_ok())
}

/// The exit status of the process that was started, when the start has ended.
fn outcome(reader: OwnedFd, between: Pid, supervisor: &Supervisor, verb: &str) -> i32 {
    let ended = rustix::process::waitpid(Some(between), WaitOptions::empty());
    let status = ended.ok().flatten().and_then(|(_, status)| status.exit_status()).unwrap_or(1);
    let mut told = [0; 5];
    match File::from(reader).read_exact(&mut told) {
        Ok(()) => {
            let [how, a, b, c, d] = told;
            let number = i32::from_ne_bytes([a, b, c, d]);
            match (how, Pid::from_raw(number)) {
                (SERVES, Some(serving)) => {
                    supervisor.ready_in(serving);
                    0
                }
                _ => number,
            }
        }
        Err(_) if status == 0 => {
            say(format_args!(
                "evenkeel: {verb}: the process in the background ended before it served, and without a word: it was killed, perhaps for \
                 want of memory"
            ));
            KILLED
        }
        // The process between could not go on, and has said why.
        Err(_) => status,
    }
}
