//! Errors of lines that are no records of deletes.

use thiserror::Error;

/// The reason why a line is not a record of a delete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Its writer ended in the middle of it.
    #[error("the line ends where {expected} is expected")]
    Cut {
        /// The next part.
        expected: &'static str,
    },
    /// Something else stands in it.
    #[error("expected {expected} at byte {at}, found {found}")]
    Syntax {
        /// The next part.
        expected: &'static str,
        /// Where, from 1.
        at: usize,
        /// The bytes there.
        found: String,
    },
    /// A format of another version.
    #[error("expected format AS1.0 or AS2.0, found {0}")]
    Format(String),
    /// Its command is not a delete.
    #[error("expected the command `delete KEY`, found {0}")]
    Command(String),
    /// Its key is not a key.
    #[error("expected a key of 1 to 250 bytes without spaces and ends of lines, found {0}")]
    Key(String),
    /// It names no server.
    #[error("expected a host and a port, or a path and port 0, found {0}")]
    Server(String),
    /// A member of an object is missing.
    #[error("expected the members `h`, `p` and `k`, found no `{0}`")]
    Missing(char),
}
