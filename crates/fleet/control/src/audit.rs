//! The audit log: who has done what and why, as lines of JSON in which each has the hash of the one before.
//!
//! ```text
//! entry     what one record is about; the limits of its texts
//! record    a line, its number, its hash
//! verify    a reader that finds a gap, a change, another order, a cut end, and says where
//! log       a file to append to: full disks, torn ends, repairs
//! ```
//!
//! The hash of the last record, the head, is also kept elsewhere: in the register. So whoever can write the file can neither
//! cut its end off nor write it anew unnoticed. A controller appends first, and then puts the head: after a crash between
//! the two the file has one record more than the kept head says, which a verifier reports as a number and not as a fault.

mod entry;
mod log;
mod record;
mod verify;

pub use entry::{
    AuditEntry, AuditEntryError, AuditReach, AuditResult, DETAIL_LEN_MAX, PlanDigest, WHY_LEN_MAX,
};
pub use log::{AuditDisk, AuditError, AuditLog, LOG_LEN_MAX, Repaired};
pub use record::{AuditHash, AuditHead, AuditRecord, RECORD_LEN_MAX};
pub use verify::{AuditFault, VerifiedLog, verify};

#[cfg(test)]
mod tests;
