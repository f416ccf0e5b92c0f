//! Errors that end an experiment early.

use crate::experiment;
use crate::experiment::placeholders::Unknown;
use std::io;
use std::path::{Path, PathBuf};

/// An experiment was not carried out, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Interrupted by a signal; everything was restored.
    #[error("go on: ended by a signal")]
    Halted,
    /// The file is wrong.
    #[error(transparent)]
    Experiment(#[from] experiment::Error),
    /// A command line names something that does not exist.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// An instruction of the experiment failed.
    #[error("carry out {place}: {what}")]
    Place {
        /// The key in the experiment's file, with the name of what it belongs to.
        place: String,
        /// The failure.
        what: String,
    },
    /// The directory of a run belongs to another experiment.
    #[error("go on with {directory}: the experiment has changed since: {differences}; --out DIR begins another run", directory = .directory.display())]
    Changed {
        /// The run.
        directory: PathBuf,
        /// Key by key.
        differences: String,
    },
    /// The measured program, or the measuring one, has changed.
    #[error("go on with {directory}: {what}; --out DIR begins another run", directory = .directory.display())]
    Replaced {
        /// The run.
        directory: PathBuf,
        /// The old and the new one.
        what: String,
    },
    /// The system refused.
    #[error("{what} {path}", path = path.display())]
    Io {
        /// The attempted action.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a run does not have the expected content.
    #[error("understand {path}", path = path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The probe of the host failed.
    #[error(transparent)]
    Host(#[from] tuner::observe::root::Error),
    /// The change could not be recorded in the journal before it was made.
    #[error(transparent)]
    Journal(#[from] tuner::apply::journal::Error),
    /// A change was not undone.
    #[error("put the host back: {0}; `evenkeel lab restore` tries again")]
    NotRestored(String),
}

impl Error {
    pub(crate) fn place(place: impl Into<String>, what: impl ToString) -> Error {
        Error::Place { place: place.into(), what: what.to_string() }
    }

    /// An error in the file itself, found before anything was done.
    pub(crate) fn of_the_file(self) -> Error {
        match self {
            Error::Place { place, what } => Error::Experiment(experiment::Error::Sense { place, what }),
            other => other,
        }
    }

    /// The errors of several attempts, of which each was made although others failed.
    pub(crate) fn all(attempts: impl IntoIterator<Item = Result<(), Error>>) -> Result<(), Error> {
        let mut errors: Vec<Error> = attempts.into_iter().filter_map(Result::err).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => {
                let mut reasons: Vec<String> = errors.into_iter().map(Error::reason).collect();
                // Repeated attempts have mostly failed for the same reason.
                reasons.dedup();
                Err(Error::NotRestored(reasons.join("; ")))
            }
        }
    }

    /// With its causes, in one line.
    fn reason(self) -> String {
        if let Error::NotRestored(why) = self {
            return why;
        }
        let mut reason = self.to_string();
        let mut cause = std::error::Error::source(&self);
        while let Some(error) = cause {
            reason += &format!(": {error}");
            cause = error.source();
        }
        reason
    }

    /// For `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { what, path, source }
    }
}
