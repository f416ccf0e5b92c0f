//! Counts of a replay.

use std::path::{Path, PathBuf};

use super::fleet::ServerTally;

/// Counts.
#[derive(Debug, Default)]
pub struct ReplayTally {
    /// Deletes that were sent; of a dry run, that would be.
    pub sent: u64,
    /// Lines that are no deletes.
    pub refused: u64,
    /// Files with such lines.
    pub refused_in: Vec<PathBuf>,
    /// Files of which nothing is left.
    pub files_done: u64,
    /// Others.
    pub files_left: u64,
    /// Deletes in them, as far as they were read.
    pub left: u64,
    /// Files that somebody else has.
    pub files_in_use: u64,
    /// Why some are left that have nothing to do with a server: the last reason.
    pub trouble: Option<String>,
    /// An error with which a server has answered.
    pub refusal: Option<String>,
    /// Servers by name.
    pub servers: Vec<ServerTally>,
}

impl ReplayTally {
    /// Notes a file with lines that are no deletes.
    pub(crate) fn note_refused(&mut self, count: u64, path: &Path) {
        self.refused += count;
        // JSON names all; a folder full of strange files is not to fill the memory.
        if count > 0 && self.refused_in.len() < 1000 && !self.refused_in.iter().any(|known| known == path) {
            self.refused_in.push(path.to_owned());
        }
    }
}
