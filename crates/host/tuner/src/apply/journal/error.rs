//! Errors of journals and of their directory.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::holder::Holder;
use super::record::VERSION;

/// Errors of a journal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another version of this program has written it.
    #[error(
        "read {path}: it is of format version {version}, and this evenkeel reads version {VERSION} alone",
        path = path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
        /// The boot that its settings are of, if it says so.
        boot_id: Option<String>,
    },
    /// Another process is changing settings at the moment.
    #[error("lock {path}: another `evenkeel tune` is at work{who}", path = path.display(), who = by(.holder, .waited))]
    Locked {
        /// The lock.
        path: PathBuf,
        /// The holder of the lock, if this process can see it.
        holder: Option<Holder>,
        /// The time that this process waited.
        waited: Duration,
    },
    /// The waiting process was ended.
    #[error("lock {path}: it was ended by a signal while it waited; nothing was changed", path = path.display())]
    Stopped {
        /// The lock.
        path: PathBuf,
    },
    /// Users other than root could write files that root trusts.
    #[error("trust {path}: {why}", path = path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// The reason, and the remedy.
        why: String,
    },
}

impl Error {
    /// Whether the journal does not exist any more: a tournament removes those of its trials.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// With the system's error.
    pub fn with_causes(&self) -> String {
        match self {
            Error::Io { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }
}

fn by(holder: &Option<Holder>, waited: &Duration) -> String {
    let who = holder.as_ref().map_or(String::new(), |holder| format!(" ({holder})"));
    match waited.as_secs() {
        0 => who,
        s => format!("{who}, and has not ended within {s} s"),
    }
}
