//! Verification of an audit log: its chain from a start to its end, and a head that was kept elsewhere.

use super::record::{AuditHead, AuditRecord, LineFault, RECORD_LEN_MAX};
use std::io::{self, BufRead, Read};

/// A log without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    /// Its last record.
    pub head: AuditHead,
    /// Its length in bytes.
    pub len: u64,
    /// Records after the kept head: one after a crash between appending and putting the head; more than one are
    /// suspicious. 0 if no head was given.
    pub beyond_kept: u64,
}

/// The first fault in a log. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// It cannot be read.
    #[error("read the audit log")]
    Read(#[from] io::Error),
    /// The last line has no end: a crash, or a disk that was full.
    #[error(
        "verify the audit log: its last line {line}, from byte {at} on, is torn after {len} bytes; repair it (`control audit repair`)"
    )]
    Torn {
        /// The line.
        line: u64,
        /// Where it begins.
        at: u64,
        /// What is there of it.
        len: u64,
    },
    /// A line is no record.
    #[error("verify the audit log: line {line} is no record")]
    Unreadable {
        /// The line.
        line: u64,
    },
    /// A record is not as it was written.
    #[error("verify the audit log: line {line} was changed after it was written")]
    Changed {
        /// The line.
        line: u64,
    },
    /// Records are missing.
    #[error(
        "verify the audit log: line {line} has record {found}, expected {expected}: records are missing before it"
    )]
    Gap {
        /// The line.
        line: u64,
        /// The number that should be there.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// A record comes a second time, or later than it should.
    #[error(
        "verify the audit log: line {line} has record {found}, expected {expected}: it is out of order, or there twice"
    )]
    OutOfOrder {
        /// The line.
        line: u64,
        /// The number that should be there.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// A record follows on another one than that before it.
    #[error(
        "verify the audit log: the record in line {line} does not follow on the one before it: one of them was replaced"
    )]
    Unlinked {
        /// The line.
        line: u64,
    },
    /// The end is missing.
    #[error(
        "verify the audit log: it ends with record {found}, and there was a record {kept}: its end was cut off"
    )]
    CutOff {
        /// The last number in the log.
        found: u64,
        /// The number of the kept head.
        kept: u64,
    },
    /// The log was written anew.
    #[error(
        "verify the audit log: record {number} is another one than the one whose hash was kept: the log was written anew"
    )]
    OtherHead {
        /// The number.
        number: u64,
    },
}

/// Reads a log that begins after `start` ([`AuditHead::START`], or the last record of the file before) to its end, and
/// compares it with the head that was kept elsewhere.
///
/// # Errors
/// The first fault, and where it is.
pub fn verify(
    mut log: impl BufRead,
    start: &AuditHead,
    kept: Option<&AuditHead>,
) -> Result<VerifiedLog, AuditFault> {
    let mut found = VerifiedLog { head: *start, len: 0, beyond_kept: 0 };
    check_kept(&found.head, kept)?;
    let mut buffer = Vec::new();
    for line in 1.. {
        buffer.clear();
        (&mut log).take(RECORD_LEN_MAX as u64 + 1).read_until(b'\n', &mut buffer)?;
        if buffer.is_empty() {
            break;
        }
        if buffer.last() != Some(&b'\n') {
            // Zeros in the place of data that a crash has lost may be longer than a record.
            let rest = end_of_line(&mut log)?;
            let len = buffer.len() as u64 + rest.unwrap_or_default();
            return Err(match rest {
                Some(_) => AuditFault::Torn { line, at: found.len, len },
                None => AuditFault::Unreadable { line },
            });
        }
        found.head = follow(&found.head, &buffer, line)?;
        found.len += buffer.len() as u64;
        check_kept(&found.head, kept)?;
        found.beyond_kept += u64::from(kept.is_some_and(|kept| found.head.number > kept.number));
    }
    match kept {
        Some(kept) if found.head.number < kept.number => {
            Err(AuditFault::CutOff { found: found.head.number, kept: kept.number })
        }
        _ => Ok(found),
    }
}

/// The head after a line that follows on this head.
fn follow(head: &AuditHead, bytes: &[u8], line: u64) -> Result<AuditHead, AuditFault> {
    if bytes.len() > RECORD_LEN_MAX {
        return Err(AuditFault::Unreadable { line });
    }
    let (record, next) = AuditRecord::parse(bytes).map_err(|fault| match fault {
        LineFault::Unreadable => AuditFault::Unreadable { line },
        LineFault::Changed => AuditFault::Changed { line },
    })?;
    let (expected, found) = (head.number + 1, record.number);
    match found {
        _ if found > expected => Err(AuditFault::Gap { line, expected, found }),
        _ if found < expected => Err(AuditFault::OutOfOrder { line, expected, found }),
        _ if record.before != head.hash => Err(AuditFault::Unlinked { line }),
        _ => Ok(next),
    }
}

fn check_kept(head: &AuditHead, kept: Option<&AuditHead>) -> Result<(), AuditFault> {
    match kept {
        Some(kept) if kept.number == head.number && kept.hash != head.hash => {
            Err(AuditFault::OtherHead { number: head.number })
        }
        _ => Ok(()),
    }
}

/// How many bytes follow, if none of them ends a line.
fn end_of_line(log: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut count = 0;
    loop {
        let bytes = log.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Some(count));
        }
        if bytes.contains(&b'\n') {
            return Ok(None);
        }
        let len = bytes.len();
        count += len as u64;
        log.consume(len);
    }
}
