//! Spare records: what undoing a plan has come to, where its journal cannot take that.
//!
//! They are in a directory that ends with the boot, as the settings do that they are about. They count as the last lines
//! of the journal as long as its file is as it was then; whatever has been written to it since knows more.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{NO_LINK, Record, lines, text_of};

/// Records of one journal that are not in it.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// How much of the journal's file counts: what a write that failed has left behind it does not.
    pub(super) whole_len: u64,
    /// What comes after it.
    pub(super) records: Vec<Record>,
}

/// The first line.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    journal: PathBuf,
    /// The length of its file when these records were kept.
    file_len: u64,
    whole_len: u64,
}

/// Keeps records of a journal of which so much counts.
pub(super) fn keep(directory: &Path, journal: &Path, whole_len: u64, records: &[Record]) -> io::Result<()> {
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
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600).custom_flags(NO_LINK);
    let mut file = options.open(&new)?;
    let put = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    put.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        // A part of it, where there is no room, says nothing and takes what room there is.
        let _ = fs::remove_file(&new);
    })
}

/// What is kept of a journal whose file has this length; none if its file is another one by now.
pub(super) fn read(directory: &Path, journal: &Path, file_len: u64) -> Option<Spare> {
    let journal = absolute(journal).ok()?;
    let path = path(directory, &journal);
    if !path.exists() || !is_private(directory).ok()? {
        return None;
    }
    let text = text_of(&path).ok()?;
    let mut found = text.lines();
    let head: Head = serde_json::from_str(found.next()?).ok()?;
    let records = found.map(serde_json::from_str).collect::<Result<_, _>>().ok()?;
    let is_its = head.journal == journal && head.file_len == file_len && head.whole_len <= file_len;
    is_its.then_some(Spare { whole_len: head.whole_len, records })
}

/// Takes it away. What cannot be taken away counts no longer: the journal has become longer.
pub(super) fn forget(directory: &Path, journal: &Path) {
    let _ = absolute(journal).and_then(|journal| fs::remove_file(path(directory, &journal)));
}

/// Where the spare records of a journal are.
pub(super) fn place(directory: &Path, journal: &Path) -> Option<PathBuf> {
    Some(path(directory, &absolute(journal).ok()?))
}

/// One name for each path, which may be longer than a name can be. It is only looked up by the program that has written
/// it, and says itself whose it is.
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

/// Whether nobody else can have written there.
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
