//! Decisions of a fleet, in a register: policy, members, generations and their texts, what is frozen.
//!
//! ```text
//! /evenkeel/FLEET/policy           the policy's text
//! /evenkeel/FLEET/members/ID       a member, as JSON
//! /evenkeel/FLEET/target           the number of the generation that is in force
//! /evenkeel/FLEET/generations/N    a generation, as JSON; a number with 20 digits, so that the order of keys is theirs
//! /evenkeel/FLEET/texts/SHA256     a text that routers read
//! /evenkeel/FLEET/freeze/SCOPE     why nothing may change there
//! /evenkeel/FLEET/rollout          what a person wants of the target's rollout, as JSON
//! /evenkeel/FLEET/condemned        texts that have failed in a router, as a list in JSON
//! /evenkeel/FLEET/quarantine       members and hosts that take no slot, as a list in JSON
//! /evenkeel/FLEET/gone             hosts that have left lately, as a list in JSON
//! /evenkeel/FLEET/changes          the last changes of hosts, as JSON; with change-texts/ and change-progress/ (decisions/changes.rs)
//! /evenkeel/FLEET/router-lists/VIEW/ZONE  routers that clients with auto-discovery are told, as JSON
//! /evenkeel/FLEET/replaced/N       what generation N has replaced, and when, as JSON; about an hour
//! ```
//!
//! A generation becomes the target by one transaction that compares the target's revision: of two controllers that decide at
//! the same time, one is told that it was overtaken.

mod records;

use std::sync::Arc;

use fleet::{ClusterName, GenerationNumber};
use ring::digest::{SHA256, digest};

use crate::register::{
    KeyPrefix, Register, RegisterEntry, RegisterError, RegisterKey, RegisterWatch, Revision, Transaction,
    TransactionOutcome,
};

pub(crate) mod changes;
pub(crate) mod gone;
mod learnt;
mod replaced;
mod router_lists;

pub(crate) use gone::GoneHost;
pub use learnt::HELD_MAX;
pub(crate) use learnt::{CONDEMNED_MAX, HeldRecord};
pub(crate) use records::RolloutWord;
pub use replaced::ReplacedChange;
pub(crate) use replaced::{REPLACED_GONE_MAX, REPLACED_KEPT, REPLACED_SLOTS_MAX, ReplacedRecord};
pub(crate) use router_lists::{ListScope, ListedRouter, RouterList};

/// Generations that are kept: to go back to, and to see what has happened.
pub const GENERATIONS_KEPT: u64 = 50;

/// A register that several threads ask.
pub type SharedRegister = Arc<dyn Register + Send + Sync>;

/// Decisions of one fleet.
#[derive(Clone)]
pub struct FleetDecisions {
    register: SharedRegister,
    base: String,
}

/// The generation in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// Which.
    pub number: GenerationNumber,
    /// When it became the target, as the register counts.
    pub revision: Revision,
}

/// A generation that is to become the target.
#[derive(Clone, Debug)]
pub struct NewGeneration {
    /// Its number.
    pub number: GenerationNumber,
    /// As JSON.
    pub json: Vec<u8>,
    /// The texts that it names.
    pub texts: Vec<String>,
    /// The lower generation that is made with it, as JSON. Its texts are among those above.
    pub lower: Option<(GenerationNumber, Vec<u8>)>,
    /// What becomes of the records of replacements.
    pub replaced: ReplacedChange,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// It is the target.
    Done(TargetRecord),
    /// Another generation became the target first. Nothing has changed.
    Overtaken,
}

impl FleetDecisions {
    /// Those of a fleet. Its name has no `/`.
    pub fn new(register: SharedRegister, fleet: &ClusterName) -> FleetDecisions {
        FleetDecisions { register, base: format!("/evenkeel/{fleet}") }
    }

    /// The generation in force; none before the first one.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn target(&self) -> Result<Option<TargetRecord>, RegisterError> {
        let Some(entry) = self.register.get(&self.key("target"))? else { return Ok(None) };
        let number = std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| misunderstood(&entry.key, "a number"))?;
        Ok(Some(TargetRecord { number: GenerationNumber(number), revision: entry.revision }))
    }

    /// A generation's JSON, if it is kept.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn generation(&self, number: GenerationNumber) -> Result<Option<Vec<u8>>, RegisterError> {
        Ok(self.register.get(&self.generation_key(number))?.map(|entry| entry.value.to_vec()))
    }

    /// All generations that are kept, the oldest first.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn generations(&self) -> Result<Vec<(GenerationNumber, Vec<u8>)>, RegisterError> {
        let range = self.register.range(&self.prefix("generations"))?;
        range.entries.into_iter().map(|entry| Ok((number(&entry)?, entry.value.to_vec()))).collect()
    }

    /// A text by its digest, if it is kept.
    ///
    /// # Errors
    /// If the register cannot be asked, or has another text there.
    pub fn text(&self, sha256: &str) -> Result<Option<String>, RegisterError> {
        let Some(entry) = self.register.get(&self.key(&format!("texts/{sha256}")))? else { return Ok(None) };
        let text = String::from_utf8(entry.value.to_vec()).ok().filter(|text| sha256_hex(text) == sha256);
        text.map(Some).ok_or_else(|| misunderstood(&entry.key, "the text of this digest"))
    }

    /// Makes a generation the target in place of `before`. The texts are there before it is.
    ///
    /// # Errors
    /// If the register cannot be asked. [`RegisterError::Unsettled`]: it may happen yet.
    pub fn publish(
        &self,
        before: Option<TargetRecord>,
        new: &NewGeneration,
    ) -> Result<Publication, RegisterError> {
        for text in &new.texts {
            self.keep_text(text)?;
        }
        let target = self.key("target");
        let revision = before.map_or(Revision::ABSENT, |before| before.revision);
        let mut transaction = Transaction::if_revision(target.clone(), revision)
            .put(target, new.number.to_string())
            .put(self.generation_key(new.number), new.json.clone());
        if let Some((number, json)) = &new.lower {
            transaction = transaction.put(self.generation_key(*number), json.clone());
        }
        for number in new.lower.iter().map(|(number, _)| *number).chain([new.number]) {
            if let Some(old) = number.0.checked_sub(GENERATIONS_KEPT).filter(|old| *old > 0) {
                transaction = transaction.delete(self.generation_key(GenerationNumber(old)));
            }
        }
        transaction = self.with_replaced(transaction, new.number, &new.replaced);
        match self.register.put_if(&transaction) {
            Ok(TransactionOutcome::Committed(revision)) => {
                Ok(Publication::Done(TargetRecord { number: new.number, revision }))
            }
            Ok(_) => Ok(Publication::Overtaken),
            Err(RegisterError::Unsettled { key, why }) => {
                self.settle(before, new, RegisterError::Unsettled { key, why })
            }
            Err(error) => Err(error),
        }
    }

    /// What has become of a publication whose answer was lost. Another controller may have published under the same number;
    /// if that has the same content, it is as good as ours. While the target is the one before, it may happen yet.
    fn settle(
        &self,
        before: Option<TargetRecord>,
        new: &NewGeneration,
        doubt: RegisterError,
    ) -> Result<Publication, RegisterError> {
        match self.target()? {
            Some(target)
                if target.number == new.number
                    && self.generation(new.number)?.as_ref() == Some(&new.json) =>
            {
                Ok(Publication::Done(target))
            }
            now if now == before => Err(doubt),
            _ => Ok(Publication::Overtaken),
        }
    }

    fn keep_text(&self, text: &str) -> Result<(), RegisterError> {
        let sha256 = sha256_hex(text);
        let key = self.key(&format!("texts/{sha256}"));
        // Whatever is there already is this text, or `text` says that it is not.
        if self.text(&sha256)?.is_some() {
            return Ok(());
        }
        let transaction = Transaction::if_revision(key.clone(), Revision::ABSENT).put(key, text);
        match self.register.put_if(&transaction) {
            Ok(_) => Ok(()),
            Err(RegisterError::Unsettled { .. }) if self.text(&sha256)?.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The policy's text and the revision to compare; without one, [`Revision::ABSENT`].
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn policy(&self) -> Result<(Option<String>, Revision), RegisterError> {
        let Some(entry) = self.register.get(&self.key("policy"))? else {
            return Ok((None, Revision::ABSENT));
        };
        let text = String::from_utf8(entry.value.to_vec());
        Ok((Some(text.map_err(|_| misunderstood(&entry.key, "UTF-8"))?), entry.revision))
    }

    /// Replaces the policy if nobody has since `revision`; whether it did.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn set_policy(&self, text: &str, revision: Revision) -> Result<bool, RegisterError> {
        let key = self.key("policy");
        let transaction = Transaction::if_revision(key.clone(), revision).put(key, text);
        self.commit(&transaction)
    }

    /// All members as JSON, by their ids.
    ///
    /// # Errors
    /// If the register cannot be asked: a list that is not whole is never returned.
    pub fn members(&self) -> Result<Vec<RegisterEntry>, RegisterError> {
        Ok(self.register.range(&self.prefix("members"))?.entries)
    }

    /// Writes a member if nobody has since `revision`; whether it did.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn set_member(&self, id: &str, json: &str, revision: Revision) -> Result<bool, RegisterError> {
        let key = self.key(&format!("members/{id}"));
        let transaction = Transaction::if_revision(key.clone(), revision).put(key, json);
        self.commit(&transaction)
    }

    /// Forgets a member if nobody has changed it since `revision`; whether it did.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn remove_member(&self, id: &str, revision: Revision) -> Result<bool, RegisterError> {
        let key = self.key(&format!("members/{id}"));
        self.commit(&Transaction::if_revision(key.clone(), revision).delete(key))
    }

    /// What is frozen, and why.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn frozen(&self) -> Result<Vec<(String, String)>, RegisterError> {
        let prefix = self.prefix("freeze");
        let entries = self.register.range(&prefix)?.entries;
        let scope = |entry: &RegisterEntry| entry.key.as_str()[prefix.as_str().len()..].to_owned();
        Ok(entries.iter().map(|entry| (scope(entry), String::from_utf8_lossy(&entry.value).into())).collect())
    }

    /// Freezes a scope, or gives another reason for it.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn freeze(&self, scope: &str, why: &str) -> Result<bool, RegisterError> {
        let key = self.key(&format!("freeze/{scope}"));
        let revision = self.register.get(&key)?.map_or(Revision::ABSENT, |entry| entry.revision);
        self.commit(&Transaction::if_revision(key.clone(), revision).put(key, why))
    }

    /// Lets a scope change again; whether it was frozen.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn thaw(&self, scope: &str) -> Result<bool, RegisterError> {
        let key = self.key(&format!("freeze/{scope}"));
        let Some(entry) = self.register.get(&key)? else { return Ok(false) };
        self.commit(&Transaction::if_revision(key.clone(), entry.revision).delete(key))
    }

    /// Changes of any of the decisions, from those after now on.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn watch(&self) -> Result<Box<dyn RegisterWatch>, RegisterError> {
        let prefix = format!("{}/", self.base).parse().expect("a fleet's names fit into a key");
        let revision = self.register.range(&self.prefix("freeze"))?.revision;
        Ok(self.register.watch(&prefix, revision))
    }

    fn commit(&self, transaction: &Transaction) -> Result<bool, RegisterError> {
        Ok(matches!(self.register.put_if(transaction)?, TransactionOutcome::Committed(_)))
    }

    /// Names are checked before they come here, and have no `/`.
    fn key(&self, below: &str) -> RegisterKey {
        format!("{}/{below}", self.base).parse().expect("a fleet's names fit into a key")
    }

    fn generation_key(&self, number: GenerationNumber) -> RegisterKey {
        self.key(&format!("generations/{:020}", number.0))
    }

    fn prefix(&self, below: &str) -> KeyPrefix {
        format!("{}/{below}/", self.base).parse().expect("a fleet's names fit into a key")
    }
}

/// SHA-256 of a text, in hexadecimal.
pub(crate) fn sha256_hex(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(entry: &RegisterEntry) -> Result<GenerationNumber, RegisterError> {
    let name = entry.key.as_str().rsplit('/').next().unwrap_or_default();
    let number = name.parse().map_err(|_| misunderstood(&entry.key, "a generation's number"))?;
    Ok(GenerationNumber(number))
}

fn misunderstood(key: &RegisterKey, expected: &str) -> RegisterError {
    RegisterError::Answer(format!("{key} is not {expected}"))
}

#[cfg(test)]
mod tests;
