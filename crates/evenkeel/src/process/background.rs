//! Detaching to the background (`-d`), without losing the errors of the start.
//!
//! The parent waits until the child serves, and ends with status 0 then; a child that fails earlier has printed why,
//! and the parent ends with its status. (memcached's parent ends at once, so a start script cannot detect that the port
//! was taken.)

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use os::DirectoryEntry;
use rustix::fs::OFlags;
use rustix::process::WaitOptions;
use server::options::{Listen, Options};

use crate::failure::Failure;
use crate::process::supervisor::Supervisor;
use crate::process::sys::{self, Half};

/// The child's side.
pub(crate) struct Background {
    /// The pipe on which the parent waits for a byte.
    parent: File,
}

impl Background {
    /// Forks the process; returns in the child only. There must be no other thread yet. The parent tells `supervisor` when
    /// the child serves: it is the process that the supervisor has started.
    pub(crate) fn enter(supervisor: &Supervisor) -> Result<Self, Failure> {
        let failed = |error| Failure::system("go to the background (-d)", error);
        let (reader, writer) = rustix::pipe::pipe().map_err(|error| failed(error.into()))?;
        match sys::fork().map_err(failed)? {
            Half::Parent(child) => {
                drop(writer);
                std::process::exit(outcome(reader, child, supervisor))
            }
            Half::Child => {
                drop(reader);
                rustix::process::setsid().map_err(|error| failed(error.into()))?;
                Ok(Self { parent: writer.into() })
            }
        }
    }

    /// Detaches from the terminal and the working directory, and reports success to the parent.
    pub(crate) fn detach(mut self, options: &Options) -> Result<(), Failure> {
        let failed = |error| Failure::system("leave the terminal (-d)", error);
        // As in memcached: core files are written to the directory where the server was started, and the output of `-v`
        // stays visible.
        if !options.process.core_dumps && only_absolute_paths(options) {
            rustix::process::chdir("/").map_err(|error| failed(error.into()))?;
        }
        if options.verbosity == 0 {
            let null =
                DirectoryEntry::of(Path::new("/dev/null")).and_then(|entry| entry.open(OFlags::RDWR, 0));
            let null = null.map_err(failed)?;
            rustix::stdio::dup2_stdin(&null).map_err(|error| failed(error.into()))?;
            rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
            rustix::stdio::dup2_stderr(&null).map_err(|error| failed(error.into()))?;
        }
        // A parent that was killed meanwhile needs no report.
        let _ = self.parent.write_all(b"+");
        Ok(())
    }
}

/// The exit status of the parent, after the child has reported success or has ended.
fn outcome(reader: OwnedFd, child: rustix::process::Pid, supervisor: &Supervisor) -> i32 {
    let told = File::from(reader).read(&mut [0]);
    if matches!(told, Ok(1)) {
        supervisor.ready_in(child);
        return 0;
    }
    let ended = rustix::process::waitpid(Some(child), WaitOptions::empty());
    ended.ok().flatten().and_then(|(_, status)| status.exit_status()).unwrap_or(1)
}

/// Whether the paths of files that are removed at the end, or read again, also hold in another directory.
fn only_absolute_paths(options: &Options) -> bool {
    let sockets = options.listeners.iter().filter_map(|listen| match listen {
        Listen::Unix { path, .. } => Some(path.as_path()),
        Listen::Tcp { .. } | Listen::Udp { .. } | Listen::Inherited(_) => None,
    });
    let users = options.auth.as_ref().map(|auth| &*auth.file);
    let others = [&options.cluster_file, &options.memory_file, &options.process.pidfile];
    let others = others.into_iter().filter_map(|path| path.as_deref());
    sockets.chain(users).chain(others).all(Path::is_absolute)
}
