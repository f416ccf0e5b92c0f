//! The audit log's file: appending to it, and the repair of a torn end.
//!
//! What cannot be recorded is not done: the caller appends `begun` before it acts. An append that fails leaves the file as it
//! was, or the log refuses more until it is opened again, which reads all of it.

use super::entry::{AuditEntry, AuditResult};
use super::record::{AuditHead, AuditRecord};
use super::verify::{AuditFault, VerifiedLog, verify};
use crate::identity::private_file::{PRIVATE, replace};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use os::DirectoryEntry;
use rustix::fs::OFlags;

/// The longest file: two million changes with some 500 bytes each, which is years, and which is still verified in seconds.
/// After it another file begins, with the head of this one as its start.
pub const LOG_LEN_MAX: u64 = 1 << 30;

/// What the log needs of a file. Tests have one whose disk is full.
pub trait AuditDisk {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// If not all of them could be written: some may be.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Puts on disk what was added.
    ///
    /// # Errors
    /// If it is unknown what of it is on disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Takes the end off.
    ///
    /// # Errors
    /// If it is there still.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl AuditDisk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.sync_all()
    }
}

/// A log that is open for appending.
#[derive(Debug)]
pub struct AuditLog<D: AuditDisk = File> {
    disk: D,
    head: AuditHead,
    len: u64,
    /// Whether the file may have more than `len` bytes.
    is_unsure: bool,
}

/// A repair of a torn end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// How many bytes were taken off.
    pub torn_len: u64,
    /// Where they are now.
    pub torn_file: PathBuf,
}

/// The reason why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be used.
    #[error("open the audit log {path}", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error("open the audit log {path}: another process writes it", path = .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// There is a fault in it.
    #[error(transparent)]
    Fault(#[from] AuditFault),
    /// There is nothing to repair.
    #[error("repair the audit log: its end is not torn")]
    NotTorn,
    /// The torn end cannot be kept or taken off.
    #[error("repair the audit log: keep its torn end in {path}", path = .path.display())]
    Repair {
        /// The file for it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record cannot be written. The log is as before.
    #[error("append to the audit log")]
    Append(#[source] io::Error),
    /// It is unknown whether the record is on disk.
    #[error("append to the audit log, and it is unknown what of it is on disk; open it again")]
    Unsure(#[source] io::Error),
    /// An earlier append has failed so.
    #[error("append to the audit log after an append whose end is unknown; open it again")]
    WasUnsure,
    /// The file is too long.
    #[error(
        "append to the audit log: it has {LOG_LEN_MAX} bytes; begin another file, which follows on this one's last record"
    )]
    Full,
}

impl AuditLog {
    /// Opens a log, or creates it, after all of it was verified. `start` is the head that its first record follows on.
    ///
    /// # Errors
    /// If there is a fault in it, a torn end included, or if another process writes it.
    pub fn open(
        path: &Path,
        start: &AuditHead,
        kept: Option<&AuditHead>,
    ) -> Result<(AuditLog, VerifiedLog), AuditError> {
        let file = locked(path)?;
        let verified = verify(BufReader::new(&file), start, kept)?;
        Ok((AuditLog::resume(file, &verified), verified))
    }

    /// Takes a torn end off, keeps it in a file beside the log, and records that with this entry. Any other fault stays:
    /// no program can tell what was there. Pass no kept head only if the torn record is the kept one.
    ///
    /// # Errors
    /// If the end is not torn, there is another fault, or the files cannot be written.
    pub fn repair(
        path: &Path,
        start: &AuditHead,
        kept: Option<&AuditHead>,
        entry: &AuditEntry,
        at_s: u64,
    ) -> Result<(AuditLog, Repaired), AuditError> {
        let mut file = locked(path)?;
        let (at, torn_len) = match verify(BufReader::new(&file), start, kept) {
            Ok(_) => return Err(AuditError::NotTorn),
            Err(AuditFault::Torn { at, len, .. }) => (at, len),
            Err(fault) => return Err(fault.into()),
        };
        let open = |source| AuditError::Open { path: path.to_owned(), source };
        file.seek(SeekFrom::Start(0)).map_err(open)?;
        let verified = verify(BufReader::new((&file).take(at)), start, kept)?;
        let torn_file = torn_file(path, at);
        let repair = |source| AuditError::Repair { path: torn_file.clone(), source };
        keep_torn(&mut file, at, &torn_file).and_then(|()| file.cut(at)).map_err(repair)?;
        let mut log = AuditLog::resume(file, &verified);
        log.append(entry, &AuditResult::Done, at_s)?;
        Ok((log, Repaired { torn_len, torn_file }))
    }
}

impl<D: AuditDisk> AuditLog<D> {
    pub(super) fn resume(disk: D, verified: &VerifiedLog) -> AuditLog<D> {
        AuditLog { disk, head: verified.head, len: verified.len, is_unsure: false }
    }

    /// The last record, which the caller also keeps elsewhere.
    pub fn head(&self) -> AuditHead {
        self.head
    }

    /// Appends a record and puts it on disk. Returned is the new head.
    ///
    /// # Errors
    /// If it is not on disk: then the caller does not do what the record is about.
    pub fn append(
        &mut self,
        entry: &AuditEntry,
        result: &AuditResult,
        at_s: u64,
    ) -> Result<AuditHead, AuditError> {
        if self.is_unsure {
            return Err(AuditError::WasUnsure);
        }
        let (line, head) = AuditRecord::after(&self.head, entry, result, at_s).line();
        let len = self.len + line.len() as u64;
        if len > LOG_LEN_MAX {
            return Err(AuditError::Full);
        }
        if let Err(failed) = self.disk.append(line.as_bytes()) {
            // A part of it may be there.
            return Err(match self.disk.cut(self.len) {
                Ok(()) => AuditError::Append(failed),
                Err(_) => self.unsure(failed),
            });
        }
        // After a failed fsync the kernel may forget what it could not write: another one would succeed for nothing.
        self.disk.sync().map_err(|failed| self.unsure(failed))?;
        (self.head, self.len) = (head, len);
        Ok(head)
    }

    fn unsure(&mut self, failed: io::Error) -> AuditError {
        self.is_unsure = true;
        AuditError::Unsure(failed)
    }

    #[cfg(test)]
    pub(super) fn disk(&mut self) -> &mut D {
        &mut self.disk
    }
}

/// The file, for this process alone.
fn locked(path: &Path) -> Result<File, AuditError> {
    let open = |source| AuditError::Open { path: path.to_owned(), source };
    let entry = DirectoryEntry::of(path).map_err(open)?;
    let file = entry.open(OFlags::RDWR | OFlags::APPEND | OFlags::CREATE, PRIVATE).map_err(open)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(AuditError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(open(source)),
    }
    // So that a file that was just created is there after a crash.
    entry.sync_directory().map_err(open)?;
    Ok(file)
}

fn torn_file(path: &Path, at: u64) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".torn-{at}"));
    PathBuf::from(name)
}

/// Text as it is, and other bytes as `\xNN`, so that a person can look at it.
fn keep_torn(file: &mut File, at: u64, torn_file: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.read_to_end(&mut bytes)?;
    replace(torn_file, &bytes.escape_ascii().to_string(), PRIVATE)
}
