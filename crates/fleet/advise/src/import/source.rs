//! Parts of a source: what a reader of a file returns, and how it refuses.

use std::collections::BTreeMap;

use crate::catalogue::FigureSource;
use crate::catalogue::entry::ShapeEntry;

/// Longest file, also after it was unpacked. moto's instance types are 4 MB, Azure's table is 0.3 MB.
pub const SOURCE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// What was wrong with a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SourceError {
    /// A line that is not understood.
    #[error("line {line}: expected {expected}, found {found}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is accepted there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Go source without the map that has the figures.
    #[error(
        "expected Go source with a map, but it has no map named `{0}`\n  hint: is it another file of the package?"
    )]
    NoVariable(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// What one file adds.
#[derive(Debug, Default)]
pub(crate) struct FoundShapes {
    pub(crate) source: Option<(String, FigureSource)>,
    pub(crate) shapes: Vec<ShapeEntry>,
    pub(crate) notes: Vec<String>,
}

/// The entries of shapes by their names.
pub(crate) type ByName<T> = BTreeMap<String, T>;

/// A file as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, SourceError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        SourceError::Line { line, expected: "UTF-8".into(), found: "another byte".into() }
    })
}
