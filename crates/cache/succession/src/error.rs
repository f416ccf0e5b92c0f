//! Failures of a succession: what was tried, why it failed, and what helps.

use std::io;

/// Why a server cannot begin with what another one leaves, or cannot leave it.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    /// The system's refusal.
    source: Option<io::Error>,
    hint: Option<String>,
}

impl Error {
    /// The system refused to do `what`.
    pub(crate) fn system(what: String, source: io::Error) -> Error {
        Error { what, source: Some(source), hint: None }
    }

    /// What was found is not what it should be.
    pub(crate) fn other(what: String) -> Error {
        Error { what, source: None, hint: None }
    }

    pub(crate) fn with_hint(self, hint: &str) -> Error {
        Error { hint: Some(hint.to_owned()), ..self }
    }

    /// With the system's words.
    pub(crate) fn in_full(&self) -> String {
        self.source.as_ref().map_or_else(|| self.to_string(), |source| format!("{self}: {source}"))
    }

    /// What the operator can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
