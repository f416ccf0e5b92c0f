//! Failures that a restarted controller must know of, and the others, too: texts that failed in routers, and who is in
//! quarantine.
//!
//! Each is one list under one key, the oldest first. The register is right: what it does not have any more is over. A list that
//! is full loses its oldest entries, which the caller is told.

use fleet::TextDigest;
use fleet::health::Quarantined;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FleetDecisions, misunderstood};
use crate::register::{RegisterError, Revision, Transaction, TransactionOutcome};
use crate::service::turn::TEXT_MAX;

/// Texts that are kept because they failed: of four generations in which every view failed.
pub(crate) const CONDEMNED_MAX: usize = 1_024;
/// Members and hosts whose quarantine is kept. With the longest reasons they are 700 KB, half of what etcd takes.
pub const HELD_MAX: usize = 1_024;
/// Attempts against others that change the same list: more controllers than a fleet has.
pub(super) const ATTEMPTS: usize = 5;

const CONDEMNED: &str = "condemned";
const QUARANTINE: &str = "quarantine";

/// A member or host in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRecord {
    /// Who.
    pub whose: Quarantined,
    /// Why, for people.
    pub reason: String,
}

impl FleetDecisions {
    /// Texts that have failed in routers, the oldest first.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn condemned(&self) -> Result<Vec<TextDigest>, RegisterError> {
        Ok(self.list(CONDEMNED)?.0)
    }

    /// Adds texts that have failed. Returns those that were forgotten for want of room.
    ///
    /// # Errors
    /// If the register cannot be asked, or others change the list all the time. What is there already is no error.
    pub fn condemn(&self, texts: &[TextDigest]) -> Result<Vec<TextDigest>, RegisterError> {
        self.change(CONDEMNED, CONDEMNED_MAX, |list: &mut Vec<TextDigest>| {
            let new: Vec<_> = texts.iter().filter(|text| !list.contains(text)).cloned().collect();
            list.extend(new);
        })
    }

    /// Who is in quarantine, those that have been for longest first.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn quarantine(&self) -> Result<Vec<HeldRecord>, RegisterError> {
        Ok(self.list(QUARANTINE)?.0)
    }

    /// Puts members and hosts into quarantine, or gives other reasons for it. Returns those that were let go for want of room.
    ///
    /// # Errors
    /// If the register cannot be asked, or others change the list all the time.
    pub fn hold(&self, records: &[HeldRecord]) -> Result<Vec<HeldRecord>, RegisterError> {
        self.change(QUARANTINE, HELD_MAX, |list: &mut Vec<HeldRecord>| {
            for record in records {
                let mut record = record.clone();
                record.reason.truncate(record.reason.floor_char_boundary(TEXT_MAX));
                match list.iter_mut().find(|held| held.whose == record.whose) {
                    Some(held) => held.reason = record.reason,
                    None => list.push(record),
                }
            }
        })
    }

    /// Ends a quarantine.
    ///
    /// # Errors
    /// If the register cannot be asked, or others change the list all the time.
    pub fn release(&self, whose: &Quarantined) -> Result<(), RegisterError> {
        let change = |list: &mut Vec<HeldRecord>| list.retain(|held| held.whose != *whose);
        self.change(QUARANTINE, HELD_MAX, change).map(drop)
    }

    pub(super) fn list<T: DeserializeOwned>(&self, name: &str) -> Result<(Vec<T>, Revision), RegisterError> {
        let Some(entry) = self.register.get(&self.key(name))? else {
            return Ok((Vec::new(), Revision::ABSENT));
        };
        let list = serde_json::from_slice(&entry.value);
        Ok((list.map_err(|error| misunderstood(&entry.key, &format!("a list: {error}")))?, entry.revision))
    }

    /// Changes a list, and returns the oldest entries of it that are beyond its limit. A change that is made again changes
    /// nothing, so an answer that was lost is asked for by another attempt.
    pub(super) fn change<T: DeserializeOwned + Serialize + Clone + PartialEq>(
        &self,
        name: &str,
        most: usize,
        change: impl Fn(&mut Vec<T>),
    ) -> Result<Vec<T>, RegisterError> {
        let key = self.key(name);
        for _ in 0..ATTEMPTS {
            let (before, revision) = self.list::<T>(name)?;
            let mut list = before.clone();
            change(&mut list);
            if list == before {
                return Ok(Vec::new());
            }
            let dropped = list.drain(..list.len().saturating_sub(most)).collect();
            let json = serde_json::to_vec(&list).expect("a list of names and texts is JSON");
            let transaction = Transaction::if_revision(key.clone(), revision).put(key.clone(), json);
            match self.register.put_if(&transaction) {
                Ok(TransactionOutcome::Committed(_)) => return Ok(dropped),
                Ok(_) | Err(RegisterError::Unsettled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(RegisterError::Unavailable(format!("{key} was changed by others {ATTEMPTS} times in a row")))
    }
}
