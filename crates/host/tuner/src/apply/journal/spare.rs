//! Spare records: records of undoing a plan that its journal cannot take.
//!
//! They are in a directory that ends with the boot, like the settings that they are about. They count as the last
//! lines of the journal as long as its file is unchanged; later records in the file have precedence.

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::file::text_of;
use super::line::{Lines, lines};
use super::record::JournalRecord;

/// Records of one journal that are not in it.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// The valid length of the journal's file: the rest of a failed write does not count.
    pub(super) whole_len: Option<u64>,
    /// The records after it.
    pub(super) records: Vec<JournalRecord>,
}

/// The first line.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    journal: PathBuf,
    /// The length of its file when these records were kept.
    file_len: u64,
    whole_len: u64,
}

/// Stores records of a journal with this valid length.
pub(super) fn keep(
    directory: &Path,
    journal: &Path,
    whole_len: u64,
    records: &[JournalRecord],
) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ if !is_private(directory)? => return Err(io::ErrorKind::PermissionDenied.into()),
        _ => {}
    }
    let file = fs::symlink_metadata(journal)?;
    if !file.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let journal = absolute(journal)?;
    let path = path(directory, &journal);
    let head = Head { journal, file_len: file.len(), whole_len };
    let text = serde_json::to_string(&head)? + "\n" + &lines(records);
    // Without room for all, nothing of it is left: a part is useless and would take the room.
    DirectoryEntry::of(&path)?.replace(0o600, |file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    })
}

/// The spare records of a journal; none if its file has another length by now.
pub(super) fn read(directory: &Path, journal: &Path) -> Option<Spare> {
    let file_len = fs::symlink_metadata(journal).ok()?.len();
    let journal = absolute(journal).ok()?;
    let path = path(directory, &journal);
    if !path.exists() || !is_private(directory).ok()? {
        return None;
    }
    let (text, _) = text_of(&path).ok()?;
    let (head, rest) = text.split_at(text.iter().position(|byte| *byte == b'\n')?);
    let head: Head = serde_json::from_slice(head).ok()?;
    let is_its = head.journal == journal && head.file_len == file_len && head.whole_len <= file_len;
    let records = Lines::read(rest).records;
    (is_its && !records.is_empty()).then_some(Spare { whole_len: Some(head.whole_len), records })
}

/// Removes it. A file that cannot be removed does not count any more: the journal has become longer.
pub(super) fn forget(directory: &Path, journal: &Path) {
    let _ = absolute(journal).and_then(|journal| DirectoryEntry::of(&path(directory, &journal))?.remove());
}

/// The path of a journal's spare records.
pub(super) fn place(directory: &Path, journal: &Path) -> Option<PathBuf> {
    Some(path(directory, &absolute(journal).ok()?))
}

/// One name for each path, which may be longer than a name can be. Only the program that wrote the file looks it up,
/// and the file contains the journal's path.
fn path(directory: &Path, journal: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    journal.hash(&mut hasher);
    directory.join(format!("{:016x}.jsonl", hasher.finish()))
}

fn absolute(journal: &Path) -> io::Result<PathBuf> {
    let (Some(directory), Some(name)) = (journal.parent(), journal.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    Ok(directory.canonicalize()?.join(name))
}

/// Whether no other user can have written there.
fn is_private(directory: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(directory)?;
    Ok(found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::shapes::Scratch;

    #[test]
    fn what_cannot_be_kept_leaves_nothing_behind() {
        let scratch = Scratch::new("spare-nothing");
        let (directory, journal) = (scratch.path().join("spare"), scratch.path().join("000001.jsonl"));
        fs::write(&journal, "").unwrap();
        keep(&directory, &journal, 0, &[]).unwrap();
        let place = place(&directory, &journal).unwrap();
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        assert!(keep(&directory, &journal, 0, &[]).is_err());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }
}
