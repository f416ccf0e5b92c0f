//! Revisions, numbers of leases, and the limits that all registers share.

use std::fmt;

/// A state of the register, counted by its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// That of a key without a value.
    pub const ABSENT: Revision = Revision(0);
    /// That of an empty register.
    pub const FIRST: Revision = Revision(1);

    /// The next one.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "revision {}", self.0)
    }
}

/// Shortest time to live, in seconds: etcd grants no shorter one (its least is 1.5 election time-outs of 1 s).
pub const LEASE_S_MIN: u64 = 2;
/// Longest time to live, in seconds: an hour. What should last longer is a decision, not a lease.
pub const LEASE_S_MAX: u64 = 3600;
/// Leases at a time of the registers that keep them in memory: a controller has two.
pub const LEASES_MAX: usize = 1024;

/// A lease, by the number that its register gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{:x}", self.0)
    }
}

/// Keys that one transaction compares, and keys that it writes: etcd's own limit (`--max-txn-ops`).
pub const COMPARED_MAX: usize = 128;
/// The same of writes.
pub const WRITES_MAX: usize = 128;
/// Bytes of keys and values in one transaction: etcd refuses requests of more than 1.5 MiB, and protocol buffers need
/// some of it.
pub const TRANSACTION_LEN_MAX: usize = 1 << 20;
