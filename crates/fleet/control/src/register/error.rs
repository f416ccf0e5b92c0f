//! Errors of registers: half-sentences that follow "failed to".

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{KeyFault, RegisterKey};
use super::numbers::{
    COMPARED_MAX, LEASE_S_MAX, LEASE_S_MIN, LEASES_MAX, Revision, TRANSACTION_LEN_MAX, WRITES_MAX,
};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Nothing has happened, and the same call may succeed later.
    #[error("reach the register: {0}")]
    Unavailable(String),
    /// The write may have happened or not: read its keys before trying again.
    #[error("learn whether a write to {key} was carried out: {why}")]
    Unsettled {
        /// A key that it writes and compares.
        key: RegisterKey,
        /// What was in the way.
        why: String,
    },
    /// The register lost revisions that were seen already: it was restored from a backup, or it is another one.
    #[error(
        "believe the register: its revision went back from {had} to {found}\n  hint: it was restored from a backup or \
         replaced; restart the controller when this is meant"
    )]
    WentBack {
        /// The highest revision seen.
        had: Revision,
        /// That of the answer.
        found: Revision,
    },
    /// The register says no. The same call gets the same answer.
    #[error("have a call accepted by the register: {0}")]
    Refused(String),
    /// The transaction breaks a rule.
    #[error("write to the register: {0}")]
    Transaction(#[from] TransactionFault),
    /// An answer that this program does not understand, or a key that is not one.
    #[error("understand the register: {0}")]
    Answer(String),
    /// A key in the range that the register's other users wrote.
    #[error("read the register")]
    Key(#[from] KeyFault),
    /// An answer above a limit. Nothing of it was used.
    #[error("read {what} of the register: it has more than {max} {unit}")]
    TooLarge {
        /// Which answer.
        what: String,
        /// The limit.
        max: usize,
        /// Of what.
        unit: &'static str,
    },
    /// A lease with an impossible time.
    #[error("grant a lease of {0:?}: {LEASE_S_MIN} to {LEASE_S_MAX} whole seconds are accepted")]
    LeaseTime(Duration),
    /// No lease is free.
    #[error("grant a lease: {LEASES_MAX} are alive, which is the limit")]
    LeasesFull,
    /// A compaction up to a revision that the register does not have yet, or compacted before.
    #[error("compact the register up to {asked}: accepted are revisions from {first} to {last}")]
    Compaction {
        /// What was asked for.
        asked: Revision,
        /// The first that can be compacted.
        first: Revision,
        /// The last.
        last: Revision,
    },
    /// Another process has the directory.
    #[error(
        "open {} to write: process {pid} has it open\n  hint: one controller at a time writes a directory; several \
         need etcd", path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The holder, as the lock file names it.
        pid: String,
    },
    /// A file that is torn, changed, missing or not ours.
    #[error("read {}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The disk or the directory did not do it. Nothing was changed.
    #[error("{what} {}", path.display())]
    Disk {
        /// A verb.
        what: &'static str,
        /// The file or the directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Settings that cannot be used.
    #[error("use the settings of etcd: {0}")]
    Settings(String),
}

/// Why no register takes a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionFault {
    /// Too many keys.
    #[error(
        "the transaction has {compared} comparisons and {writes} writes: at most {COMPARED_MAX} and {WRITES_MAX} are \
         accepted"
    )]
    TooMany {
        /// Comparisons.
        compared: usize,
        /// Writes.
        writes: usize,
    },
    /// Too many bytes.
    #[error("the transaction has {0} bytes of keys and values: at most {TRANSACTION_LEN_MAX} are accepted")]
    TooLong(usize),
    /// A key that is compared twice or written twice.
    #[error("the transaction has {0} twice")]
    Twice(RegisterKey),
    /// What a lost answer would leave in doubt for ever.
    #[error(
        "the transaction compares none of the keys that it writes\n  hint: compare one, if only to be absent"
    )]
    Unguarded,
}
