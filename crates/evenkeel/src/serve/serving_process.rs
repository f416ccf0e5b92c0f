//! The process that a server runs in: its options, the user that it becomes, and whoever waits for its start.

use std::path::Path;

use server::options::{Listen, Options};

use super::lines::notice;
use crate::failure::Failure;
use crate::process::background::{Background, Kept};
use crate::process::pidfile::PidFile;
use crate::process::privileges::TargetUser;
use crate::process::supervisor::Supervisor;
use crate::terminal::line_queue::{LAST_LINES, LINES};
use crate::terminal::log;

/// What all stages of a start have in common.
pub(super) struct ServingProcess {
    options: Options,
    /// The user that root becomes.
    identity: Option<TargetUser>,
    supervisor: Supervisor,
    /// The parent that waits (`-d`), until the server serves.
    background: Option<Background>,
}

impl ServingProcess {
    pub(super) fn new(
        options: Options,
        identity: Option<TargetUser>,
        supervisor: Supervisor,
        background: Option<Background>,
    ) -> ServingProcess {
        ServingProcess { options, identity, supervisor, background }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn identity(&self) -> Option<&TargetUser> {
        self.identity.as_ref()
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// A failure of the user that root has become, with a hint if that is the default one.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match &self.identity {
            Some(identity) => identity.explain(failure),
            None => failure,
        }
    }

    /// Warns of files that are read again later, and that only root can read. To be called as the user.
    pub(super) fn warn_of_unreadable_files(&self) {
        let Some(identity) = &self.identity else { return };
        let files = self.options.tls.iter().flat_map(|tls| tls.settings.files());
        let files = files.chain(self.options.auth.iter().map(|auth| auth.file.as_path()));
        identity.cannot_read(files).into_iter().for_each(|line| log::warning("serve", line));
    }

    /// Writes the file with the process id (`-P`). As in memcached, a folder that the user may not write to is no reason not to serve.
    pub(super) fn write_pidfile(&self) -> Option<PidFile> {
        let written = self.options.process.pidfile.as_deref().map(PidFile::write).transpose();
        written.map_err(|failure| self.explain(failure)).unwrap_or_else(|failure| {
            notice(&format!("the process id is in no file: {}", failure.in_one_line()));
            None
        })
    }

    /// Tells whoever waits for it that the server serves.
    pub(super) fn tell_ready(&mut self, predecessor: PredecessorFate) -> Result<(), Failure> {
        match (self.background.take(), predecessor) {
            (Some(background), _) => {
                LINES.finish(LAST_LINES);
                if !background.detach(&kept(&self.options))? {
                    self.supervisor.ready_in(rustix::process::getpid());
                }
            }
            // It was told before that one ended.
            (None, PredecessorFate::TakenOver) => {}
            // The process that the supervisor has started is gone.
            (None, PredecessorFate::EndedEarly) => self.supervisor.ready_in(rustix::process::getpid()),
            (None, PredecessorFate::None) => self.supervisor.ready(),
        }
        Ok(())
    }
}

/// As in memcached: core files are written to the directory where the server was started, and the output of `-v` stays visible.
fn kept(options: &Options) -> Kept {
    let folder = options.process.core_dumps || !only_absolute_paths(options);
    Kept { folder, output: options.verbosity > 0 }
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

/// What became of a server that was to be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredecessorFate {
    /// There was none.
    None,
    /// The server before has ended before it had given its items away.
    EndedEarly,
    /// This server has all that it had.
    TakenOver,
}
