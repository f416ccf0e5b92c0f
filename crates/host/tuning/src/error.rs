//! Errors of a job, with the responsible party and a hint.

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::io;

use os::command;
use os::signals::Signal;

/// The party responsible for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request contradicts itself, or this host.
    Request,
    /// The system refused.
    System,
    /// Neither.
    Other,
}

/// The error of a job. Prints what was attempted; the reasons are its sources.
#[derive(Debug)]
pub struct Error {
    what: Option<String>,
    cause: Box<dyn StdError + Send + Sync>,
    blame: Blame,
    hint: Option<String>,
    signal: Option<Signal>,
}

impl Error {
    /// An error of the request.
    pub(crate) fn request(what: impl Display) -> Error {
        Error::new(None, what.to_string().into(), Blame::Request)
    }

    /// The system refused to do `what`.
    pub(crate) fn system(what: impl Display, why: impl Into<io::Error>) -> Error {
        Error::new(Some(what.to_string()), why.into().into(), Blame::System)
    }

    /// A half-sentence with what failed, and why.
    pub(crate) fn refused(what: impl Display) -> Error {
        Error::new(None, what.to_string().into(), Blame::Other)
    }

    /// Another error, with its own message. If the system refused something among its causes, the system is
    /// responsible.
    pub(crate) fn other(error: impl StdError + Send + Sync + 'static) -> Error {
        let by_system = causes(&error).any(|cause| cause.is::<io::Error>());
        let blame = if by_system { Blame::System } else { Blame::Other };
        Error::new(None, error.into(), blame)
    }

    fn new(what: Option<String>, cause: Box<dyn StdError + Send + Sync>, blame: Blame) -> Error {
        Error { what, cause, blame, hint: None, signal: None }
    }

    /// With a hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }

    /// With the signal that ended the job.
    pub(crate) fn by_signal(self, signal: Signal) -> Error {
        Error { signal: Some(signal), ..self }
    }

    /// The responsible party.
    pub fn blame(&self) -> Blame {
        self.blame
    }

    /// The hint.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The signal that ended the job, if one did.
    pub fn signal(&self) -> Option<Signal> {
        self.signal
    }

    /// The whole chain of causes in one line.
    pub fn with_causes(&self) -> String {
        let all: Vec<String> = causes(self).map(ToString::to_string).collect();
        all.join(": ")
    }
}

/// An error and its sources.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Some(what) => f.write_str(what),
            None => self.cause.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.what {
            Some(_) => Some(&*self.cause),
            None => self.cause.source(),
        }
    }
}

impl From<command::Error> for Error {
    fn from(error: command::Error) -> Error {
        Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &Error, words: &str, blame: Blame) {
        assert_eq!((error.with_causes().as_str(), error.blame()), (words, blame));
    }

    #[test]
    fn each_cause_is_printed_once() {
        check(&Error::request("no such CPU"), "no such CPU", Blame::Request);
        check(&Error::refused("undo a plan: none"), "undo a plan: none", Blame::Other);
        let denied = || io::Error::other("denied");
        check(&Error::system("write x", denied()), "write x: denied", Blame::System);
        check(&Error::other(denied()), "denied", Blame::System);
        check(&Error::other(command::Error::Stays), "end the command: it does not go away", Blame::Other);
        check(&command::Error::Thread(denied()).into(), "start a thread: denied", Blame::System);
    }

    #[test]
    fn an_error_keeps_its_hint_and_signal() {
        let error = Error::refused("x").with_hint("y").by_signal(Signal::Interrupt);
        assert_eq!((error.hint(), error.signal()), (Some("y"), Some(Signal::Interrupt)));
    }
}
