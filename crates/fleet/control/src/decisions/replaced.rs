//! Replacements of the last hour, which limit the next ones: a record for each generation that gives slots to other members.
//!
//! It is written with its generation, by the same transaction: there is no replacement without it. A controller that has known
//! it for an hour by its own clock lets it go, so no wall clock decides how long it is there.

use std::collections::BTreeMap;

use fleet::GenerationNumber;
use fleet::health::{Quarantined, SlotReplacement};
use serde::{Deserialize, Serialize};

use super::learnt::ATTEMPTS;
use super::{FleetDecisions, misunderstood, number};
use crate::register::{RegisterError, RegisterKey, Transaction, TransactionOutcome};

/// Slots of one record: the limit per hour of the largest fleet. A generation that replaces more uses the limit up as well.
pub(crate) const REPLACED_SLOTS_MAX: usize = 1_250;
/// Records that are kept: the oldest goes when one more comes. A generation every 4 s for an hour is less.
pub(crate) const REPLACED_KEPT: usize = 1_024;
/// Records that go with one publication: half of a transaction's writes.
pub(crate) const REPLACED_GONE_MAX: usize = 64;

/// What a generation has replaced, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedRecord {
    /// When it was published, by the wall clock of who did it: seconds since 1970.
    pub unix_s: i64,
    /// The slots and the members that had them, at most [`REPLACED_SLOTS_MAX`].
    pub slots: Vec<SlotReplacement>,
}

/// What changes about these records with a new generation.
#[derive(Clone, Debug, Default)]
pub struct ReplacedChange {
    /// The new generation's record, if it replaces anything.
    pub record: Option<ReplacedRecord>,
    /// Those that go, at most [`REPLACED_GONE_MAX`].
    pub gone: Vec<GenerationNumber>,
}

impl FleetDecisions {
    /// What generations of about the last hour have replaced, the oldest first.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn replaced(&self) -> Result<BTreeMap<GenerationNumber, ReplacedRecord>, RegisterError> {
        let range = self.register.range(&self.prefix("replaced"))?;
        let records = range.entries.iter().map(|entry| {
            let record = serde_json::from_slice(&entry.value);
            let record =
                record.map_err(|error| misunderstood(&entry.key, &format!("replacements: {error}")))?;
            Ok((number(entry)?, record))
        });
        records.collect()
    }

    /// Writes down that no loss of a member or host counts any more, because somebody has released it.
    ///
    /// # Errors
    /// If the register cannot be asked, or others change the same record all the time.
    pub fn forgive(&self, whose: &Quarantined) -> Result<(), RegisterError> {
        for (number, mut record) in self.replaced()? {
            if record.slots.iter_mut().fold(false, |any, slot| slot.forgive(whose) | any) {
                self.forgive_in(&self.replaced_key(number), whose)?;
            }
        }
        Ok(())
    }

    fn forgive_in(&self, key: &RegisterKey, whose: &Quarantined) -> Result<(), RegisterError> {
        for _ in 0..ATTEMPTS {
            // A record that has gone counts no more.
            let Some(entry) = self.register.get(key)? else { return Ok(()) };
            let record = serde_json::from_slice(&entry.value);
            let mut record: ReplacedRecord =
                record.map_err(|error| misunderstood(key, &format!("replacements: {error}")))?;
            if !record.slots.iter_mut().fold(false, |any, slot| slot.forgive(whose) | any) {
                return Ok(());
            }
            let transaction = Transaction::if_revision(key.clone(), entry.revision);
            match self.register.put_if(&transaction.put(key.clone(), json(&record))) {
                Ok(TransactionOutcome::Committed(_)) => return Ok(()),
                Ok(_) | Err(RegisterError::Unsettled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(RegisterError::Unavailable(format!("{key} was changed by others {ATTEMPTS} times in a row")))
    }

    /// A publication's transaction with these changes, too.
    pub(super) fn with_replaced(
        &self,
        mut transaction: Transaction,
        number: GenerationNumber,
        change: &ReplacedChange,
    ) -> Transaction {
        if let Some(record) = &change.record {
            transaction = transaction.put(self.replaced_key(number), json(record));
        }
        for gone in change.gone.iter().take(REPLACED_GONE_MAX).filter(|gone| **gone != number) {
            transaction = transaction.delete(self.replaced_key(*gone));
        }
        transaction
    }

    fn replaced_key(&self, number: GenerationNumber) -> RegisterKey {
        self.key(&format!("replaced/{:020}", number.0))
    }
}

fn json(record: &ReplacedRecord) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record has names and numbers")
}
