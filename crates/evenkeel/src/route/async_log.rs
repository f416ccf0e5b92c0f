//! The async log: deletes that did not reach their server, in mcrouter's files, which a program replays later.
//!
//! A thread of its own writes them: a disk that hangs holds up nobody. Files are not synced, as in mcrouter: what was
//! written survives the end of the process, not of the host.

mod date;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use net::Nudge;
use os::DirectoryEntry;
use os::clock::{unix_s, unix_time};
use router::flags::RouteOptions;
use router::{SpoolFormat, SpoolQueue, WaitingDelete, write_record};
use rustix::fs::{Access, FlockOperation, OFlags, access, flock};
use rustix::process::geteuid;

use super::lines::notice;
use date::stamp;

/// A file is closed after this time, in seconds: what it has can be replayed then. mcrouter's time.
const FILE_LIFE_S: u64 = 15 * 60;

/// Interval at which a file without new records is looked at.
const LOOK: Duration = Duration::from_secs(10);

/// Lines about failures are this far apart, in seconds.
const COMPLAIN_EVERY_S: u64 = 10;

/// The thread that writes.
pub(super) struct AsyncLog {
    pub(super) queue: Arc<SpoolQueue>,
    pub(super) nudge: Nudge,
    pub(super) files: LogFiles,
}

impl AsyncLog {
    /// Runs until the process ends.
    pub(super) fn run(mut self) {
        loop {
            let deletes = self.queue.take(LOOK);
            let is_written = self.files.write(&deletes);
            self.queue.report(&deletes, is_written);
            let mut workers: Vec<usize> = deletes.iter().map(WaitingDelete::worker).collect();
            workers.sort_unstable();
            workers.dedup();
            workers.into_iter().for_each(|worker| self.nudge.nudge(worker));
        }
    }
}

/// The files of this process.
pub(super) struct LogFiles {
    folder: PathBuf,
    format: SpoolFormat,
    /// `service-router`, for their names.
    source: String,
    open: Option<LogFile>,
    complained_s: u64,
}

struct LogFile {
    file: File,
    /// Bytes of whole records.
    len: u64,
    opened_s: u64,
}

impl LogFiles {
    /// Reports a folder that cannot be used, once at the start.
    pub(super) fn new(options: &RouteOptions) -> LogFiles {
        let service = options.service_name.clone();
        let source = format!("{service}-{}", options.name_of_router()).replace('/', "_");
        let region = options.own_prefix().region().to_owned();
        let format = match options.asynclog_version2 {
            true => SpoolFormat::Two { service, region },
            false => SpoolFormat::One,
        };
        let folder = options.async_dir.clone();
        if let Err(error) = access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
            notice(&format!(
                "deletes that fail are answered with their error: {} (--async-dir): {error}",
                folder.display()
            ));
        }
        LogFiles { folder, format, source, open: None, complained_s: 0 }
    }

    /// Writes records, all or none. Whether they are written.
    fn write(&mut self, deletes: &[WaitingDelete]) -> bool {
        let now_s = unix_s();
        // A clock that was set back does not keep a file for ever.
        self.open.take_if(|open| now_s.abs_diff(open.opened_s) >= FILE_LIFE_S);
        if deletes.is_empty() {
            return true;
        }
        let (mut lines, unix_ms) = (Vec::new(), unix_time().as_millis() as u64);
        for delete in deletes {
            write_record(&mut lines, &delete.record(), unix_ms, &self.format);
        }
        let written = self.append(&lines, now_s);
        if let Err(error) = &written {
            // The next ones try another file.
            self.open = None;
            if now_s.abs_diff(self.complained_s) >= COMPLAIN_EVERY_S {
                self.complained_s = now_s;
                let folder = self.folder.display();
                notice(&format!(
                    "deletes cannot be written to {folder}, and are answered with their error: {error}"
                ));
            }
        }
        written.is_ok()
    }

    fn append(&mut self, lines: &[u8], now_s: u64) -> io::Result<()> {
        if self.open.is_none() {
            let file = create(&self.folder, &self.source, now_s)?;
            // Another file of the same second has the same name: what stands there stays.
            let len = file.metadata()?.len();
            self.open = Some(LogFile { file, len, opened_s: now_s });
        }
        let open = self.open.as_mut().expect("it has just been opened");
        let written = open.file.write_all(lines);
        match written {
            Ok(()) => open.len += lines.len() as u64,
            // What stands there for a part must not be read as a record.
            Err(_) => open.file.set_len(open.len)?,
        }
        written
    }
}

/// A new file with a name like mcrouter's, in the folder of the hour. It is locked as long as it is written to.
fn create(folder: &Path, source: &str, now_s: u64) -> io::Result<File> {
    let hour_s = now_s - now_s % 3600;
    let hour = folder.join(format!("{}-{hour_s}", &stamp(now_s)[..11]));
    match fs::create_dir(&hour) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let name = format!("{}-{now_s}-{source}-p{}", stamp(now_s), std::process::id());
    // A pipe without a reader would keep this thread waiting.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
    let file = DirectoryEntry::of(&hour.join(name))?.open(flags, 0o644)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("expected a file, found something else"));
    }
    // The name can be foreseen: another user could have put a file there, to read the keys.
    if found.uid() != geteuid().as_raw() {
        return Err(io::Error::other(format!("a file of user {} has the name of the next one", found.uid())));
    }
    // Or could have given this name to another file of this user.
    if found.nlink() > 1 {
        return Err(io::Error::other("a file that has another name, too, has the name of the next one"));
    }
    lock(&file)?;
    Ok(file)
}

/// Whoever replays files leaves alone those that are locked.
fn lock(file: &File) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    // It may have been replayed and removed before it was locked: what is written there is lost.
    if file.metadata()?.nlink() == 0 {
        return Err(io::Error::other("the file was removed before it was locked"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Files in a folder of this name, which is empty.
    fn files(name: &str) -> LogFiles {
        let folder = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        LogFiles { folder, format: SpoolFormat::One, source: "a-b".to_owned(), open: None, complained_s: 0 }
    }

    /// The files below a folder, with what they have.
    fn texts(folder: &Path) -> Vec<String> {
        let hours = fs::read_dir(folder).expect("a folder").map(|hour| hour.expect("an hour").path());
        let logs = hours.flat_map(|hour| fs::read_dir(hour).expect("a folder"));
        logs.map(|log| fs::read_to_string(log.expect("a file").path()).expect("text")).collect()
    }

    #[test]
    fn records_of_an_earlier_file_of_the_same_second_are_not_cut_off() {
        let mut files = files("async-log");
        files.append(b"first\n", 5).expect("written");
        files.open = None;
        files.append(b"second\n", 5).expect("written");
        let LogFile { file, len, .. } = files.open.take().expect("an open file");
        // As after a write that fails.
        file.set_len(len).expect("cut off");
        assert_eq!(texts(&files.folder), ["first\nsecond\n"]);
        fs::remove_dir_all(&files.folder).expect("removed");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_keeps_nobody_waiting() {
        let mut files = files("async-log-pipe");
        let hour = files.folder.join("19700101T00-0");
        fs::create_dir_all(&hour).expect("a folder");
        let pipe = hour.join(format!("19700101T000005-5-a-b-p{}", std::process::id()));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let result = files.append(b"record\n", 5);
            fs::remove_dir_all(&files.folder).expect("removed");
            sender.send(result.is_err())
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn a_file_that_a_replayer_has_is_not_written_to() {
        let path = std::env::temp_dir().join(format!("evenkeel-async-log-lock-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let other = File::open(&path).expect("the file");
        flock(&other, FlockOperation::NonBlockingLockExclusive).expect("a lock");
        assert!(lock(&file).is_err());
        // It is done.
        fs::remove_file(&path).expect("remove");
        drop(other);
        let error = lock(&file).expect_err("nobody would read it");
        assert_eq!(error.to_string(), "the file was removed before it was locked");
        let new = File::create(&path).expect("a file");
        lock(&new).expect("a lock");
        fs::remove_file(&path).expect("remove");
    }
}
