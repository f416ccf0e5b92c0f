//! Acts on a host, as a change of hosts needs them: done so that the host goes back by itself, then kept or taken back.

use std::time::Duration;

use crate::service::turn::ChangeOrder;

/// Carries out acts of one kind. What the host is like is read from the host in every look, and believed from no file.
pub(crate) trait HostActor: Send {
    /// How the host is.
    ///
    /// # Errors
    /// If that is not known.
    fn look(&mut self, change: &ChangeOrder) -> Result<ActState, String>;

    /// Something of it is there although nothing on the host says how it was before, so that a look finds it as before. Asked only where it may
    /// have been done.
    ///
    /// # Errors
    /// If that is not known.
    fn is_there_unnoted(&mut self, _change: &ChangeOrder) -> Result<bool, String> {
        Ok(false)
    }

    /// What of it does not stay, because something else on the host changes it: what looks have found so far.
    fn aside(&self, _change: &ChangeOrder) -> Option<String> {
        None
    }

    /// Does it. The host goes back by itself after [`ChangeOrder::confirm_ms`] unless it is kept.
    ///
    /// # Errors
    /// Why it was not done. How the host is then, a look says.
    fn begin(&mut self, change: &ChangeOrder, attempt: u32) -> Result<BegunAct, String>;

    /// The host does not go back by itself any more.
    ///
    /// # Errors
    /// Why not.
    fn keep(&mut self, change: &ChangeOrder, attempt: u32) -> Result<(), String>;

    /// Why the host goes back by itself from what it keeps, where that is not known from what was done.
    fn why_back(&mut self, _change: &ChangeOrder) -> Option<String> {
        None
    }

    /// The host is as it was before this attempt, and nothing else on it is touched.
    ///
    /// # Errors
    /// Why not.
    fn go_back(&mut self, change: &ChangeOrder, attempt: u32) -> Result<(), String>;
}

/// What has come of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BegunAct {
    /// It is done.
    Done,
    /// The host was as it shall be already, so there is nothing to take back.
    Nothing,
}

/// How a host is with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActState {
    /// As before it.
    AsBefore,
    /// Something of it is there.
    There {
        /// Of this attempt.
        attempt: u32,
        /// How far it is.
        phase: ActPhase,
    },
}

/// How far an act is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActPhase {
    /// A process does it or takes it back now.
    AtWork,
    /// The process that did it, or took it back, has ended before its end.
    Interrupted,
    /// It is done, and is taken back after this time.
    Waiting(Duration),
    /// It stays.
    Kept,
}
