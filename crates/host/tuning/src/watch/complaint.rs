//! Obstacles of watching that do not end it.

use std::fmt;

use tuner::apply::journal::JournalDoubt;

/// What does not work. Prints a half-sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Not everything that may be in force can be read; it is not watched.
    Unread(JournalDoubt),
    /// What persists cannot be read.
    PersistenceUnknown(String),
    /// Kernel events cannot be received; the next check finds what they would report.
    KernelNotHeard(String),
    /// systemd requested a readiness notification, which cannot be sent.
    SystemdNotTold {
        /// Its socket.
        socket: String,
        /// Why.
        error: String,
    },
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Complaint::Unread(doubt) => doubt.fmt(f),
            Complaint::PersistenceUnknown(error) => {
                write!(f, "what persists is not watched: failed to {error}")
            }
            Complaint::KernelNotHeard(error) => write!(f, "receive kernel events: {error}"),
            Complaint::SystemdNotTold { socket, error } => {
                write!(f, "notify systemd through {socket}: {error}")
            }
        }
    }
}
