//! Files of an async log: their names, their order, and which of them may still be written to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Files that are listed at a time, the oldest ones; those beyond it come later. 16 routers make as many in two months.
const FILES_MAX: usize = 100_000;

/// mcrouter does not lock its files. It writes to one for 15 minutes; a minute more is for a write that hangs.
const MCROUTER_WRITES_S: u64 = 16 * 60;

/// A router makes a file, and then locks it: an empty one is left alone for so long.
const EMPTY_S: u64 = 60;

/// The name of what is left of a file ends with this.
pub(super) const REST: &str = ".rest";
/// A file with lines that are no deletes has this behind its name.
pub const REFUSED: &str = ".refused";

/// A file of the log.
#[derive(Clone, Debug)]
pub(super) struct LoggedFile {
    /// The folder of its hour.
    pub(super) hour: String,
    /// The beginning of its hour, in seconds since 1970.
    pub(super) hour_s: u64,
    pub(super) name: String,
    /// When it was made, by its name.
    made_s: u64,
    changed_s: u64,
    pub(super) len: u64,
}

impl LoggedFile {
    pub(super) fn path(&self, root: &Path) -> PathBuf {
        root.join(&self.hour).join(&self.name)
    }

    /// Whether somebody may write to it though nobody has locked it.
    pub(super) fn may_grow(&self, now_s: u64) -> bool {
        match self.has_name_of_ours() {
            true => self.len == 0 && now_s < self.changed_s.saturating_add(EMPTY_S),
            false => now_s < self.made_s.saturating_add(MCROUTER_WRITES_S),
        }
    }

    /// Ours end with the process, mcrouter's with the thread and an address.
    fn has_name_of_ours(&self) -> bool {
        let last = self.name.rsplit_once("-p").map(|(_, last)| last);
        last.is_some_and(|last| !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// The files of a log, the oldest first. Links are not followed, and other names are passed over.
pub(super) fn list(root: &Path) -> io::Result<Vec<LoggedFile>> {
    let mut hours = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if let Some(hour_s) = time_in(&name, 2).filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        {
            hours.push((hour_s, name));
        }
    }
    hours.sort_unstable();
    let mut files = Vec::new();
    for (hour_s, hour) in hours {
        let start = files.len();
        match files_of(root, hour_s, &hour, &mut files) {
            // Another replayer has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        files[start..].sort_unstable_by(|a, b| (a.made_s, &a.name).cmp(&(b.made_s, &b.name)));
        if files.len() >= FILES_MAX {
            files.truncate(FILES_MAX);
            break;
        }
    }
    Ok(files)
}

fn files_of(root: &Path, hour_s: u64, hour: &str, files: &mut Vec<LoggedFile>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(hour))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(made_s) = time_in(&name, 6).filter(|_| !name.ends_with(REST) && !name.ends_with(REFUSED))
        else {
            continue;
        };
        // One that has gone meanwhile is nobody's.
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed_s = changed.map_or(0, |time| time.as_secs());
        files.push(LoggedFile {
            hour: hour.to_owned(),
            hour_s,
            name,
            made_s,
            changed_s,
            len: metadata.len(),
        });
    }
    Ok(())
}

/// The seconds since 1970 in `YYYYMMDDTHHMMSS-SECONDS`, with so many digits for the time of day, and whatever follows.
fn time_in(name: &str, digits: usize) -> Option<u64> {
    let (stamp, rest) = name.split_once('-')?;
    let (date, time) = stamp.split_once('T')?;
    let all_digits =
        |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = rest.split('-').next()?;
    let is_one = all_digits(date, 8) && all_digits(time, digits) && all_digits(seconds, seconds.len());
    seconds.parse().ok().filter(|_| is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_time() {
        assert_eq!(time_in("20101110T11-1289386800", 2), Some(1_289_386_800));
        assert_eq!(time_in("20101110T112029-1289388029-mcrouter-5000-t7-0x7f", 6), Some(1_289_388_029));
        for other in [
            "20101110T11",
            "20101110T11-",
            "2010T11-5",
            "x",
            "20101110T11-5x",
            "20101110T112029-5",
            "lost+found",
        ] {
            assert_eq!(time_in(other, 2), None, "{other}");
        }
    }

    fn file(name: &str, len: u64) -> LoggedFile {
        let made_s = time_in(name, 6).expect("a time");
        LoggedFile { hour: String::new(), hour_s: 0, name: name.to_owned(), made_s, changed_s: made_s, len }
    }

    #[test]
    fn what_mcrouter_may_write_to_is_left_alone() {
        let theirs = file("20101110T112029-1000-mcrouter-5000-t7-0x7f", 50);
        assert!(theirs.may_grow(1000) && theirs.may_grow(1959) && !theirs.may_grow(1960));
        let ours = file("20101110T112029-1000-mcrouter-5000-p77", 50);
        assert!(!ours.may_grow(1000), "its lock tells");
        let empty = file("20101110T112029-1000-mcrouter-5000-p77", 0);
        assert!(empty.may_grow(1059) && !empty.may_grow(1060));
    }
}
