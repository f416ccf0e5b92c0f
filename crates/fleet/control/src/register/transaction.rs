//! Small transactions: revisions that are compared, and writes that happen all or not at all.

use super::error::TransactionFault;
use super::keys::RegisterKey;
use super::numbers::{COMPARED_MAX, LeaseId, Revision, TRANSACTION_LEN_MAX, WRITES_MAX};

/// Revisions that must hold, and the writes if they do.
///
/// It compares at least one of the keys that it writes. If that key must have a value, the transaction happens at most once,
/// however often it is tried: no key has a revision twice, and a look at that key tells whether it has happened.
///
/// If that key must be absent, this does not hold: what the first attempt created, somebody may have deleted before the
/// second one, or before the look; or somebody created the same. No register tries such a transaction again after a lost
/// answer: the answer is [`RegisterError::Unsettled`](super::RegisterError::Unsettled). Who has to know writes a value that
/// only it can have written (its own name and a number, or a lease), and reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    compared: Vec<(RegisterKey, Revision)>,
    writes: Vec<Write>,
}

/// What becomes of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which.
    pub key: RegisterKey,
    /// Its new state.
    pub body: WriteBody,
}

/// The new state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteBody {
    /// A value. With a lease, the key is deleted when the lease ends.
    Put(Vec<u8>, Option<LeaseId>),
    /// No value; a key that has none stays as it is.
    Delete,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// All writes are durable. The register's revision with them.
    Committed(Revision),
    /// Nothing is written: a key has another revision than was compared.
    Conflict {
        /// The first such key.
        key: RegisterKey,
        /// What was compared.
        expected: Revision,
        /// What it has.
        found: Revision,
    },
    /// Nothing is written: a lease of one of the writes has ended.
    LeaseLost,
}

impl Transaction {
    /// A transaction that happens only if `key` was written last at `revision`; [`Revision::ABSENT`]: if it has no value.
    pub fn if_revision(key: RegisterKey, revision: Revision) -> Transaction {
        Transaction { compared: Vec::new(), writes: Vec::new() }.and_if(key, revision)
    }

    /// A further condition.
    #[must_use]
    pub fn and_if(mut self, key: RegisterKey, revision: Revision) -> Transaction {
        self.compared.push((key, revision));
        self
    }

    /// Gives a key a value.
    #[must_use]
    pub fn put(self, key: RegisterKey, value: impl Into<Vec<u8>>) -> Transaction {
        self.write(key, WriteBody::Put(value.into(), None))
    }

    /// Gives a key a value until a lease ends.
    #[must_use]
    pub fn put_leased(self, key: RegisterKey, value: impl Into<Vec<u8>>, lease: LeaseId) -> Transaction {
        self.write(key, WriteBody::Put(value.into(), Some(lease)))
    }

    /// Deletes a key.
    #[must_use]
    pub fn delete(self, key: RegisterKey) -> Transaction {
        self.write(key, WriteBody::Delete)
    }

    fn write(mut self, key: RegisterKey, body: WriteBody) -> Transaction {
        self.writes.push(Write { key, body });
        self
    }

    /// What it compares.
    pub fn compared(&self) -> &[(RegisterKey, Revision)] {
        &self.compared
    }

    /// What it writes.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// A key that it compares and writes: what it is recognised by afterwards.
    pub(crate) fn witness(&self) -> &RegisterKey {
        let is_written = |key: &RegisterKey| self.writes.iter().any(|write| write.key == *key);
        let witness = self.compared.iter().find(|(key, _)| is_written(key));
        &witness.expect("it was checked").0
    }

    /// Whether it can happen only once: it compares and writes a key that has a value, whose revision does not come again.
    pub(crate) fn is_repeatable(&self) -> bool {
        let is_written = |key: &RegisterKey| self.writes.iter().any(|write| write.key == *key);
        self.compared.iter().any(|(key, revision)| *revision != Revision::ABSENT && is_written(key))
    }

    /// Whether a register may take it.
    ///
    /// # Errors
    /// Says which rule it breaks.
    pub fn check(&self) -> Result<(), TransactionFault> {
        let keys = |keys: Vec<&RegisterKey>| {
            let mut keys = keys;
            keys.sort_unstable();
            keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
        };
        if self.compared.len() > COMPARED_MAX || self.writes.len() > WRITES_MAX {
            let (compared, writes) = (self.compared.len(), self.writes.len());
            return Err(TransactionFault::TooMany { compared, writes });
        }
        if let Some(key) = keys(self.compared.iter().map(|(key, _)| key).collect())
            .or_else(|| keys(self.writes.iter().map(|write| &write.key).collect()))
        {
            return Err(TransactionFault::Twice(key));
        }
        if !self.writes.iter().any(|write| self.compared.iter().any(|(key, _)| *key == write.key)) {
            return Err(TransactionFault::Unguarded);
        }
        match self.len() {
            len if len > TRANSACTION_LEN_MAX => Err(TransactionFault::TooLong(len)),
            _ => Ok(()),
        }
    }

    fn len(&self) -> usize {
        let compared = self.compared.iter().map(|(key, _)| key.as_str().len());
        let writes = self.writes.iter().map(|write| {
            let value = if let WriteBody::Put(value, _) = &write.body { value.len() } else { 0 };
            write.key.as_str().len() + value
        });
        compared.chain(writes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RegisterKey {
        text.parse().expect("a key")
    }

    fn new(text: &str) -> Transaction {
        Transaction::if_revision(key(text), Revision::ABSENT)
    }

    #[track_caller]
    fn check(transaction: &Transaction, expected: &str) {
        let said = transaction.check().err().map_or(String::new(), |fault| fault.to_string());
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }

    #[test]
    fn a_transaction_compares_one_of_the_keys_that_it_writes() {
        check(&new("/a").put(key("/a"), "1"), "");
        check(&new("/a").put(key("/b"), "1").delete(key("/a")), "");
        check(&new("/a"), "compares none of the keys that it writes");
        check(&new("/a").put(key("/b"), "1"), "compares none of the keys that it writes");
    }

    #[test]
    fn only_a_key_with_a_value_keeps_a_transaction_from_happening_twice() {
        let update = |text: &str| Transaction::if_revision(key(text), Revision(5));
        assert!(update("/a").put(key("/a"), "1").is_repeatable());
        assert!(update("/a").delete(key("/a")).is_repeatable());
        assert!(
            new("/b").and_if(key("/a"), Revision(5)).put(key("/b"), "").delete(key("/a")).is_repeatable()
        );
        assert!(!new("/a").put(key("/a"), "1").is_repeatable());
        assert!(!new("/a").delete(key("/a")).put(key("/b"), "1").is_repeatable(), "it changes nothing of /a");
        assert!(!update("/b").and_if(key("/a"), Revision::ABSENT).put(key("/a"), "1").is_repeatable());
    }

    #[test]
    fn no_key_is_written_or_compared_twice() {
        check(&new("/a").put(key("/a"), "1").delete(key("/a")), "/a twice");
        check(&new("/a").and_if(key("/a"), Revision::ABSENT).put(key("/a"), "1"), "/a twice");
    }

    #[test]
    fn the_limits_of_a_transaction_are_accepted_and_one_more_is_refused() {
        let many = |count: usize| {
            (1..count).fold(new("/a").put(key("/a"), ""), |all, at| all.put(key(&format!("/k{at}")), ""))
        };
        check(&many(WRITES_MAX), "");
        check(&many(WRITES_MAX + 1), "129 writes");
        let long = |len: usize| new("/a").put(key("/a"), vec![b'v'; len - 4]);
        check(&long(TRANSACTION_LEN_MAX), "");
        check(&long(TRANSACTION_LEN_MAX + 1), "1048577 bytes");
    }
}
