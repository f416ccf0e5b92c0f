//! The trait of all registers, and the words of their answers.

use std::time::Duration;

use super::contents::{RegisterEntry, RegisterEvent};
use super::error::RegisterError;
use super::keys::{KeyPrefix, RegisterKey};
use super::numbers::{LeaseId, Revision};
use super::transaction::{Transaction, TransactionOutcome};

/// A store of decisions.
///
/// Calls block for a bounded time (each register says for how long) and are never to be made on a thread that serves
/// others, such as tokio's. They are blocking because of who calls: one thread of a controller that has nothing else to
/// do, a directory whose `fsync` blocks anyhow, and a simulation that has no threads.
///
/// Reads see every write that was answered before they began. A register whose revision goes back is an error.
pub trait Register: Send + Sync {
    /// A key's value; `None`: it has none, which the register said itself.
    ///
    /// # Errors
    /// If there is no answer to be believed.
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError>;

    /// All keys below a prefix at one revision: all of them, or an error.
    ///
    /// # Errors
    /// If there is no answer to be believed, or it is too large.
    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError>;

    /// Carries out a transaction if its conditions hold, at most once.
    ///
    /// A lost answer is settled by the register where it can be: if a key that the transaction writes must have a certain
    /// revision, and has it still, nothing has happened, and a second attempt is safe. Where every such key must be absent,
    /// it cannot: the key may have been created by this call and deleted by somebody else, or created by somebody else with
    /// the same bytes. Then the answer is [`RegisterError::Unsettled`] without a second attempt. The caller reads, and either
    /// takes an equal value for its own, whoever wrote it, or writes values that nobody else writes.
    ///
    /// # Errors
    /// [`RegisterError::Unsettled`]: it may have been carried out, or may be yet. [`RegisterError::WentBack`]: it may have
    /// been carried out by a register that is not to be believed. All others: it was not.
    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError>;

    /// Changes below a prefix, from those after a revision on: of a range's answer, so that nothing is missed.
    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch>;

    /// Forgets changes up to a revision. Watches that have not seen them are told so.
    ///
    /// # Errors
    /// If the register does not have that revision, or has forgotten it already.
    fn compact(&self, up_to: Revision) -> Result<(), RegisterError>;

    /// A new lease of whole seconds.
    ///
    /// # Errors
    /// If the time is outside the limits, or there is no answer.
    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError>;

    /// Lets a lease live for its whole time again.
    ///
    /// # Errors
    /// If there is no answer: the lease may be alive until its time has passed since the last kept one.
    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError>;

    /// Ends a lease, and deletes its keys. One that has ended already is no error.
    ///
    /// # Errors
    /// If there is no answer.
    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError>;
}

/// Changes as they come, each once and in the order of revisions.
pub trait RegisterWatch: Send {
    /// The next changes. Returns when there are some, at the latest after `wait` and the time of a call.
    ///
    /// # Errors
    /// If the register cannot be reached or believed. The watch stays where it was: a later call goes on there.
    fn next(&mut self, wait: Duration) -> Result<WatchStep, RegisterError>;
}

/// What a watch has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStep {
    /// Changes; never none, and all of a revision together.
    Changes(Vec<RegisterEvent>),
    /// Nothing has changed in that time.
    Quiet,
    /// Changes were forgotten before they were seen: read the range, and watch from its revision. The watch has ended.
    Compacted(Revision),
}

/// All keys below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeAnswer {
    /// In the order of their keys.
    pub entries: Vec<RegisterEntry>,
    /// The register's revision at that moment, to watch from.
    pub revision: Revision,
}

/// A lease from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    /// Which.
    pub id: LeaseId,
    /// How long it lives without being kept alive.
    pub ttl: Duration,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It lives for this time from now on.
    Kept(Duration),
    /// It has ended, and its keys are deleted.
    Lost,
}
