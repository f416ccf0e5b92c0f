//! A register in a directory: one process writes it, any number read it.
//!
//! ```text
//! open ── lock ── journal (load; commit, compact) ── folder (write, fsync, rename)
//! DirectoryReader ── load ── folder (inotify says when to look again)
//! ```
//!
//! Calls take as long as the disk takes; they wait for nothing else. Leases are in the memory of the writer and end with
//! it: its directory has no other writer that could wait for them.

mod folder;
mod journal;
mod load;
mod lock;
mod reader;
mod record;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use os::LockedFile;
use os::clock::Stopwatch;
use stdx::clock::Now;

use self::folder::HostFolder;
use self::journal::DirectoryJournal;
pub use self::reader::DirectoryReader;
use super::contents::RegisterEntry;
use super::contract::{GrantedLease, LeaseAnswer, RangeAnswer, Register, RegisterWatch, WatchStep};
use super::error::RegisterError;
use super::keys::{KeyPrefix, RegisterKey};
use super::leases::{LeaseTable, check_ttl};
use super::numbers::{LeaseId, Revision};
use super::transaction::{Transaction, TransactionOutcome};

/// How long a watch waits before it looks whether leases have ended.
const LEASE_LOOK: Duration = Duration::from_secs(1);

/// Numbers of leases for each revision that a register was opened at, so that none is given twice.
const LEASES_PER_REVISION_BITS: u32 = 20;

/// The writer of a directory.
pub struct DirectoryRegister {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    clock: Stopwatch,
}

struct Inner {
    journal: DirectoryJournal,
    leases: LeaseTable,
    _lock: LockedFile,
}

impl DirectoryRegister {
    /// Opens a directory to write, and creates it if it is not there.
    ///
    /// # Errors
    /// If another process has it, a file in it is damaged or not ours, or the disk does not do it.
    pub fn open(path: &Path) -> Result<DirectoryRegister, RegisterError> {
        let failed = |what, path: &Path, source| RegisterError::Disk { what, path: path.to_owned(), source };
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {
                let parent = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
                File::open(parent)
                    .and_then(|it| it.sync_all())
                    .map_err(|error| failed("sync", parent, error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create", path, error)),
        }
        let lock = lock::take(path)?;
        let journal = DirectoryJournal::open(Box::new(HostFolder(path.to_owned())), lock.was_used)?;
        let lock = lock.sign()?;
        let revision = journal.contents()?.revision();
        let leases = LeaseTable::after((revision.0 << LEASES_PER_REVISION_BITS).cast_signed());
        let inner = Mutex::new(Inner { journal, leases, _lock: lock });
        let shared = Shared { inner, changed: Condvar::new(), clock: Stopwatch::start() };
        Ok(DirectoryRegister { shared: Arc::new(shared) })
    }
}

impl Shared {
    /// The contents without the keys of leases that have ended.
    fn current(&self) -> Result<MutexGuard<'_, Inner>, RegisterError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for lease in inner.leases.expired(self.now()) {
            self.end(&mut inner, lease)?;
        }
        Ok(inner)
    }

    fn end(&self, inner: &mut Inner, lease: LeaseId) -> Result<(), RegisterError> {
        let deletes = inner.journal.contents()?.of_lease(lease);
        inner.journal.commit(&deletes)?;
        // Only now: if its keys cannot be deleted, the lease has not ended.
        inner.leases.revoke(lease);
        self.changed.notify_all();
        Ok(())
    }

    fn now(&self) -> Now {
        Now { us: self.clock.passed().as_micros() as u64 }
    }
}

impl Register for DirectoryRegister {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        Ok(self.shared.current()?.journal.contents()?.get(key).cloned())
    }

    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        let inner = self.shared.current()?;
        let contents = inner.journal.contents()?;
        Ok(RangeAnswer { entries: contents.range(prefix), revision: contents.revision() })
    }

    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        transaction.check()?;
        let mut inner = self.shared.current()?;
        let Inner { journal, leases, .. } = &mut *inner;
        if let Some(obstacle) = journal.contents()?.obstacle(transaction, |lease| leases.is_alive(lease)) {
            return Ok(obstacle);
        }
        let revision = journal.commit(transaction.writes())?;
        self.shared.changed.notify_all();
        Ok(TransactionOutcome::Committed(revision))
    }

    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        Box::new(WriterWatch { shared: Arc::clone(&self.shared), prefix: prefix.clone(), after })
    }

    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        self.shared.current()?.journal.compact(up_to)
    }

    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        check_ttl(ttl)?;
        let id = self.shared.current()?.leases.grant(ttl, self.shared.now());
        Ok(GrantedLease { id: id.ok_or(RegisterError::LeasesFull)?, ttl })
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        let kept = self.shared.current()?.leases.keep_alive(lease, self.shared.now());
        Ok(kept.map_or(LeaseAnswer::Lost, LeaseAnswer::Kept))
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        let mut inner = self.shared.current()?;
        if inner.leases.is_alive(lease) {
            self.shared.end(&mut inner, lease)?;
        }
        Ok(())
    }
}

/// A watch in the process that writes.
struct WriterWatch {
    shared: Arc<Shared>,
    prefix: KeyPrefix,
    after: Revision,
}

impl RegisterWatch for WriterWatch {
    fn next(&mut self, wait: Duration) -> Result<WatchStep, RegisterError> {
        let waited = Stopwatch::start();
        loop {
            let inner = self.shared.current()?;
            let step = step(inner.journal.contents()?, &self.prefix, &mut self.after)?;
            let left = wait.saturating_sub(waited.passed());
            if step != WatchStep::Quiet || left.is_zero() {
                return Ok(step);
            }
            drop(self.shared.changed.wait_timeout(inner, left.min(LEASE_LOOK)));
        }
    }
}

/// What a watch sees in contents.
fn step(
    contents: &super::contents::RegisterContents,
    prefix: &KeyPrefix,
    after: &mut Revision,
) -> Result<WatchStep, RegisterError> {
    if contents.revision() < *after {
        return Err(RegisterError::WentBack { had: *after, found: contents.revision() });
    }
    let changes = match contents.since(prefix, *after) {
        Err(compacted) => return Ok(WatchStep::Compacted(compacted)),
        Ok(changes) => changes,
    };
    *after = contents.revision();
    Ok(if changes.is_empty() { WatchStep::Quiet } else { WatchStep::Changes(changes) })
}
