//! The disk of a router's host: its file, what its agent keeps, and how writes to them end.

use std::collections::BTreeMap;

use fleet::TextDigest;
use fleet::probation::Probation;

/// A text in a file, and the generation that it was written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileText {
    pub(super) text: String,
    pub(super) generation: u64,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskFault {
    /// There is no space.
    Full,
    /// The agent was killed while it wrote.
    Killed,
}

/// A disk.
#[derive(Debug)]
pub(super) struct AgentDisk {
    pub(super) file: FileText,
    /// What a write leaves behind that does not come to its end.
    temporary: Option<FileText>,
    pub(super) texts: BTreeMap<TextDigest, String>,
    pub(super) kept: Probation,
    pub(super) is_full: bool,
    /// The agent is killed in the middle of its next write.
    pub(super) kills_writer: bool,
    /// A planted bug: the file itself is written.
    pub(super) is_written_in_place: bool,
}

impl AgentDisk {
    /// With a router's first file.
    pub(super) fn new(file: FileText) -> AgentDisk {
        AgentDisk {
            file,
            temporary: None,
            texts: BTreeMap::new(),
            kept: Probation::default(),
            is_full: false,
            kills_writer: false,
            is_written_in_place: false,
        }
    }

    /// Keeps the agent's state.
    pub(super) fn keep(&mut self, state: &Probation) -> Result<(), DiskFault> {
        if self.is_full {
            return Err(DiskFault::Full);
        }
        self.kept = state.clone();
        Ok(())
    }

    /// Replaces the router's file: another file is written, and then takes its name. Whatever fails, the old one is whole.
    pub(super) fn write(&mut self, new: FileText) -> Result<(), DiskFault> {
        let fault = match () {
            () if std::mem::take(&mut self.kills_writer) => Some(DiskFault::Killed),
            () if self.is_full => Some(DiskFault::Full),
            () => None,
        };
        let len = if fault.is_some() { new.text.len() / 2 } else { new.text.len() };
        let written = FileText { text: new.text[..new.text.floor_char_boundary(len)].to_owned(), ..new };
        match self.is_written_in_place {
            true => self.file = written,
            false => self.temporary = Some(written),
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        if let Some(whole) = self.temporary.take() {
            self.file = whole;
        }
        Ok(())
    }
}
