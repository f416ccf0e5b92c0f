//! A controller's way to the register, which can be cut: for a while, or in the middle of its writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use control::register::{
    GrantedLease, KeyPrefix, LeaseAnswer, LeaseId, RangeAnswer, Register, RegisterEntry, RegisterError,
    RegisterKey, RegisterWatch, Revision, SimulatedRegister, Transaction, TransactionOutcome, Write,
    WriteBody,
};
use fleet::Generation;

/// Writes that are left to one who does not die.
const NO_END: u64 = u64::MAX;

/// The register as one controller reaches it.
#[derive(Debug)]
pub(crate) struct MortalRegister {
    inner: SimulatedRegister,
    is_away: AtomicBool,
    writes_left: AtomicU64,
    /// A planted bug: a lower generation is written with the routes of the upper one.
    brings_routes: AtomicBool,
    /// Writes of all controllers.
    written: Arc<AtomicU64>,
}

impl MortalRegister {
    pub(crate) fn new(inner: SimulatedRegister, written: Arc<AtomicU64>) -> MortalRegister {
        MortalRegister {
            inner,
            is_away: AtomicBool::new(false),
            writes_left: AtomicU64::new(NO_END),
            brings_routes: AtomicBool::new(false),
            written,
        }
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Relaxed);
    }

    /// Plants the bug that a lower generation is written with the routes of the upper one.
    pub(crate) fn bring_routes(&self) {
        self.brings_routes.store(true, Relaxed);
    }

    /// The controller dies when it has written so many times more, before it learns of the last one.
    pub(crate) fn dies_after(&self, writes: u64) {
        self.writes_left.store(writes, Relaxed);
    }

    /// Whether it has died.
    pub(crate) fn is_dead(&self) -> bool {
        self.writes_left.load(Relaxed) == 0
    }

    /// Another controller takes its place.
    pub(crate) fn revive(&self) {
        self.writes_left.store(NO_END, Relaxed);
    }

    /// Writes of all controllers, if the register is reached.
    pub(crate) fn written(&self) -> Option<u64> {
        (!self.is_away.load(Relaxed)).then(|| self.written.load(Relaxed))
    }

    fn reach(&self) -> Result<&SimulatedRegister, RegisterError> {
        match self.is_away.load(Relaxed) || self.is_dead() {
            true => Err(RegisterError::Unavailable("no member was reached".to_owned())),
            false => Ok(&self.inner),
        }
    }
}

impl Register for MortalRegister {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        self.reach()?.get(key)
    }

    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        self.reach()?.range(prefix)
    }

    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        let wrong = self.brings_routes.load(Relaxed).then(|| with_routes_below(transaction)).flatten();
        let outcome = self.reach()?.put_if(wrong.as_ref().unwrap_or(transaction))?;
        self.written.fetch_add(1, Relaxed);
        let left = self.writes_left.load(Relaxed);
        if left != NO_END {
            self.writes_left.store(left - 1, Relaxed);
        }
        self.reach().map(|_| outcome)
    }

    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        self.inner.watch(prefix, after)
    }

    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        self.reach()?.compact(up_to)
    }

    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        self.reach()?.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        self.reach()?.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        self.reach()?.revoke(lease)
    }
}

/// A publication of two generations whose lower one has the views of the upper one.
fn with_routes_below(transaction: &Transaction) -> Option<Transaction> {
    let generation = |write: &Write| match &write.body {
        WriteBody::Put(value, _) => serde_json::from_slice::<Generation>(value).ok(),
        WriteBody::Delete => None,
    };
    let upper =
        transaction.writes().iter().find_map(|write| generation(write).filter(|one| one.lower.is_some()))?;
    let mut compared = transaction.compared().iter().cloned();
    let (key, revision) = compared.next()?;
    let changed =
        compared.fold(Transaction::if_revision(key, revision), |all, (key, at)| all.and_if(key, at));
    Some(transaction.writes().iter().fold(changed, |all, write| match (&write.body, generation(write)) {
        (WriteBody::Put(..), Some(mut lower)) if Some(lower.number) == upper.lower => {
            lower.content.views.clone_from(&upper.content.views);
            all.put(write.key.clone(), serde_json::to_vec(&lower).expect("names and texts"))
        }
        (WriteBody::Put(value, _), _) => all.put(write.key.clone(), value.clone()),
        (WriteBody::Delete, _) => all.delete(write.key.clone()),
    }))
}
