//! Contents of a register in memory: keys with revisions, and the history that watches read. Does no I/O.
//!
//! Revisions are etcd's: an empty register has revision 1, each transaction that changes something adds 1, and all of
//! its writes have that revision.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::error::RegisterError;
use super::keys::{KeyPrefix, RegisterKey};
use super::numbers::{LeaseId, Revision};
use super::transaction::{Transaction, TransactionOutcome, Write, WriteBody};

/// Changes that are remembered: some hours of a busy fleet. A watch that is further behind reads the range anew.
const HISTORY_MAX: usize = 65_536;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterEntry {
    /// Which.
    pub key: RegisterKey,
    /// Its value.
    pub value: Arc<[u8]>,
    /// When it was written last.
    pub revision: Revision,
    /// The lease that it ends with.
    pub lease: Option<LeaseId>,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterEvent {
    /// Which.
    pub key: RegisterKey,
    /// When.
    pub revision: Revision,
    /// Its new value; none: it is deleted.
    pub value: Option<Arc<[u8]>>,
}

/// Keys, values, revisions, and the changes since the last compaction.
#[derive(Clone, Debug)]
pub struct RegisterContents {
    entries: BTreeMap<RegisterKey, RegisterEntry>,
    revision: Revision,
    /// Changes up to this revision are forgotten.
    compacted: Revision,
    history: VecDeque<RegisterEvent>,
}

impl Default for RegisterContents {
    fn default() -> RegisterContents {
        RegisterContents::restored(Revision::FIRST, Vec::new())
    }
}

impl RegisterContents {
    /// Contents without a history.
    pub(crate) fn restored(revision: Revision, entries: Vec<RegisterEntry>) -> RegisterContents {
        let entries = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        RegisterContents { entries, revision, compacted: revision, history: VecDeque::new() }
    }

    /// The number of changes so far.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The last revision whose changes are forgotten.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// A key's value.
    pub fn get(&self, key: &RegisterKey) -> Option<&RegisterEntry> {
        self.entries.get(key)
    }

    /// All keys below a prefix, in their order.
    pub fn range(&self, prefix: &KeyPrefix) -> Vec<RegisterEntry> {
        let end = prefix.end();
        let below = (Bound::Included(prefix.as_str()), Bound::Excluded(&*end));
        self.entries.range::<str, _>(below).map(|(_, entry)| entry.clone()).collect()
    }

    /// All entries, in the order of their keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &RegisterEntry> {
        self.entries.values()
    }

    /// What a transaction would meet: none if it may be written.
    pub(crate) fn obstacle(
        &self,
        transaction: &Transaction,
        is_alive: impl Fn(LeaseId) -> bool,
    ) -> Option<TransactionOutcome> {
        for (key, expected) in transaction.compared() {
            let found = self.get(key).map_or(Revision::ABSENT, |entry| entry.revision);
            if found != *expected {
                return Some(TransactionOutcome::Conflict { key: key.clone(), expected: *expected, found });
            }
        }
        let leases = transaction.writes().iter().filter_map(|write| match write.body {
            WriteBody::Put(_, lease) => lease,
            WriteBody::Delete => None,
        });
        leases.into_iter().any(|lease| !is_alive(lease)).then_some(TransactionOutcome::LeaseLost)
    }

    /// Whether writes would change anything: deletes of absent keys do not.
    pub(crate) fn changes(&self, writes: &[Write]) -> bool {
        writes.iter().any(|write| !matches!(write.body, WriteBody::Delete) || self.get(&write.key).is_some())
    }

    /// Carries out writes, and returns the revision after them.
    pub(crate) fn apply(&mut self, writes: &[Write]) -> Revision {
        if !self.changes(writes) {
            return self.revision;
        }
        self.revision = self.revision.next();
        let revision = self.revision;
        for Write { key, body } in writes {
            let value = match body {
                WriteBody::Put(value, lease) => {
                    let value: Arc<[u8]> = value.as_slice().into();
                    let entry = RegisterEntry { key: key.clone(), value, revision, lease: *lease };
                    let value = Arc::clone(&entry.value);
                    self.entries.insert(key.clone(), entry);
                    Some(value)
                }
                WriteBody::Delete if self.entries.remove(key).is_some() => None,
                WriteBody::Delete => continue,
            };
            self.history.push_back(RegisterEvent { key: key.clone(), revision, value });
        }
        if self.history.len() > HISTORY_MAX {
            let oldest = self.history[self.history.len() - HISTORY_MAX / 2].revision;
            self.compact(oldest);
        }
        revision
    }

    /// Bytes of all keys and values.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(|entry| entry.key.as_str().len() + entry.value.len()).sum()
    }

    /// Puts changes before the present ones, which follow without a gap: those of a register that is read again.
    pub(crate) fn remember(&mut self, compacted: Revision, earlier: Vec<RegisterEvent>) {
        assert!(earlier.iter().all(|event| event.revision > compacted && event.revision <= self.revision));
        self.compacted = compacted;
        self.history = earlier.into_iter().chain(std::mem::take(&mut self.history)).collect();
    }

    /// Whether changes up to a revision can be forgotten now.
    ///
    /// # Errors
    /// Says which can.
    pub(crate) fn check_compaction(&self, up_to: Revision) -> Result<(), RegisterError> {
        let (first, last) = (self.compacted.max(Revision::FIRST).next(), self.revision);
        if (first..=last).contains(&up_to) {
            return Ok(());
        }
        Err(RegisterError::Compaction { asked: up_to, first, last })
    }

    /// The deletes that the end of a lease is.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Vec<Write> {
        let bound = self.entries.values().filter(|entry| entry.lease == Some(lease));
        bound.map(|entry| Write { key: entry.key.clone(), body: WriteBody::Delete }).collect()
    }

    /// The deletes of everything that any lease holds.
    pub(crate) fn of_all_leases(&self) -> Vec<Write> {
        let bound = self.entries.values().filter(|entry| entry.lease.is_some());
        bound.map(|entry| Write { key: entry.key.clone(), body: WriteBody::Delete }).collect()
    }

    /// Changes below a prefix after a revision; `Err` with the compacted revision if some of them are forgotten.
    pub fn since(&self, prefix: &KeyPrefix, after: Revision) -> Result<Vec<RegisterEvent>, Revision> {
        // As in etcd, the changes of the compacted revision itself can be asked for no more than those before.
        if after.next() <= self.compacted && self.compacted > Revision::FIRST {
            return Err(self.compacted);
        }
        let first = self.history.partition_point(|event| event.revision <= after);
        let changes = self.history.range(first..).filter(|event| prefix.covers(&event.key));
        Ok(changes.cloned().collect())
    }

    /// Forgets the changes up to a revision.
    pub(crate) fn compact(&mut self, up_to: Revision) {
        self.compacted = up_to;
        while self.history.front().is_some_and(|event| event.revision <= up_to) {
            self.history.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RegisterKey {
        text.parse().expect("a key")
    }

    fn put(text: &str) -> Write {
        Write { key: key(text), body: WriteBody::Put(b"v".to_vec(), None) }
    }

    fn delete(text: &str) -> Write {
        Write { key: key(text), body: WriteBody::Delete }
    }

    #[track_caller]
    fn check_since(contents: &RegisterContents, after: u64, expected: Result<&[(&str, u64)], u64>) {
        let events = contents.since(&"/".parse().expect("a prefix"), Revision(after));
        let events: Result<Vec<(String, u64)>, u64> = events
            .map(|events| events.iter().map(|event| (event.key.to_string(), event.revision.0)).collect())
            .map_err(|compacted| compacted.0);
        let expected =
            expected.map(|events| events.iter().map(|(key, at)| ((*key).to_owned(), *at)).collect());
        assert_eq!(events, expected);
    }

    #[test]
    fn a_change_adds_one_to_the_revision_and_nothing_else_does() {
        let mut contents = RegisterContents::default();
        assert_eq!(contents.revision(), Revision(1));
        assert_eq!(contents.apply(&[delete("/a")]), Revision(1));
        assert_eq!(contents.apply(&[put("/a"), put("/b"), delete("/c")]), Revision(2));
        assert_eq!(contents.apply(&[delete("/a")]), Revision(3));
        check_since(&contents, 0, Ok(&[("/a", 2), ("/b", 2), ("/a", 3)]));
        check_since(&contents, 2, Ok(&[("/a", 3)]));
        check_since(&contents, 3, Ok(&[]));
    }

    #[test]
    fn history_is_bounded_and_its_oldest_part_is_told_to_be_forgotten() {
        let mut contents = RegisterContents::default();
        for _ in 0..=HISTORY_MAX {
            contents.apply(&[put("/a")]);
        }
        assert!(contents.history.len() <= HISTORY_MAX / 2);
        let compacted = contents.compacted();
        check_since(&contents, 1, Err(compacted.0));
        let prefix = "/".parse().expect("a prefix");
        let changes = contents.since(&prefix, compacted).expect("the rest is remembered");
        assert_eq!(changes.first().map(|event| event.revision), Some(compacted.next()));
        assert_eq!(changes.last().map(|event| event.revision), Some(contents.revision()));
    }

    #[test]
    fn changes_that_were_compacted_are_not_returned_in_part() {
        let mut contents = RegisterContents::default();
        for name in ["/a", "/b", "/c"] {
            contents.apply(&[put(name)]);
        }
        contents.compact(Revision(3));
        check_since(&contents, 1, Err(3));
        check_since(&contents, 2, Err(3));
        check_since(&contents, 3, Ok(&[("/c", 4)]));
        assert_eq!(contents.range(&"/".parse().expect("a prefix")).len(), 3);
    }
}
