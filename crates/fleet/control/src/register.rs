//! The register: a small store of decisions with revisions, transactions, watches and leases.
//!
//! ```text
//! contract     the trait and the words of its answers
//! contents     keys, revisions and history in memory, pure
//! leases       leases against a given clock, pure
//! directory    one writer, files of this host
//! etcd         a cluster of etcd, through its JSON gateway
//! simulated    a model of etcd with faults, for tests and simulations
//! ```
//!
//! A register holds decisions, never heartbeats, and a controller writes it only by comparing revisions: of two that
//! decide at the same time, one is refused. Nothing here knows what a key means.

mod contents;
mod contract;
mod directory;
mod error;
mod etcd;
mod keys;
mod leases;
mod numbers;
mod simulated;
mod transaction;

pub use contents::{RegisterContents, RegisterEntry, RegisterEvent};
pub use contract::{GrantedLease, LeaseAnswer, RangeAnswer, Register, RegisterWatch, WatchStep};
pub use directory::{DirectoryReader, DirectoryRegister};
pub use error::{RegisterError, TransactionFault};
pub use etcd::{EtcdLimits, EtcdRegister, EtcdSettings, EtcdUser};
pub use keys::{KEY_LEN_MAX, KeyFault, KeyPrefix, RegisterKey};
pub use numbers::{
    COMPARED_MAX, LEASE_S_MAX, LEASE_S_MIN, LEASES_MAX, LeaseId, Revision, TRANSACTION_LEN_MAX, WRITES_MAX,
};
pub use simulated::{SimulatedFault, SimulatedRegister};
pub use transaction::{Transaction, TransactionOutcome, Write, WriteBody};
