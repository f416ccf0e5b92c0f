//! Records of the control plane that are no decisions about the fleet: join tokens, and the heads of audit logs.
//!
//! ```text
//! /evenkeel/FLEET/join-tokens      tokens that were issued lately, as JSON
//! /evenkeel/FLEET/audit/NAME       the last record of a controller's audit log, as JSON
//! /evenkeel/FLEET/settled          the newest generation that all routers have had, as JSON
//! /evenkeel/FLEET/rollout          what a person wants of a generation's rollout, as JSON
//! ```

use std::collections::BTreeSet;

use fleet::{GenerationNumber, RouterId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FleetDecisions, misunderstood};
use crate::audit::AuditHead;
use crate::identity::join_token::JoinTokens;
use crate::register::{RegisterError, RegisterKey, Revision, Transaction};

/// What a person wants of the rollout of a generation. It says nothing about any other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutWord {
    /// Which.
    pub generation: GenerationNumber,
    /// Why no further router gets it, if it is halted.
    #[serde(default)]
    pub halted: Option<String>,
    /// Its waves wait for no time.
    #[serde(default)]
    pub is_hurried: bool,
    /// Routers that do not halt it, whatever they do.
    #[serde(default)]
    pub excused: BTreeSet<RouterId>,
}

impl RolloutWord {
    /// Nothing is wanted.
    pub fn none(generation: GenerationNumber) -> RolloutWord {
        RolloutWord { generation, halted: None, is_hurried: false, excused: BTreeSet::new() }
    }
}

impl FleetDecisions {
    /// What a person wants of a rollout, and the revision to compare.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn rollout_word(&self) -> Result<(Option<RolloutWord>, Revision), RegisterError> {
        self.record(&self.key("rollout"))
    }

    /// Writes down what a person wants of a rollout if nobody has since `revision`; whether it did.
    ///
    /// # Errors
    /// If the register cannot be asked. [`RegisterError::Unsettled`]: it may have happened.
    pub fn set_rollout_word(&self, word: &RolloutWord, revision: Revision) -> Result<bool, RegisterError> {
        self.set_record(self.key("rollout"), word, revision)
    }

    /// Join tokens, and the revision to compare.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn join_tokens(&self) -> Result<(Option<JoinTokens>, Revision), RegisterError> {
        self.record(&self.key("join-tokens"))
    }

    /// Replaces the join tokens if nobody has since `revision`; whether it did.
    ///
    /// # Errors
    /// If the register cannot be asked. [`RegisterError::Unsettled`]: it may have happened.
    pub fn set_join_tokens(&self, tokens: &JoinTokens, revision: Revision) -> Result<bool, RegisterError> {
        self.set_record(self.key("join-tokens"), tokens, revision)
    }

    /// The last record of a controller's audit log.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn audit_head(&self, controller: &str) -> Result<Option<AuditHead>, RegisterError> {
        Ok(self.record(&self.key(&format!("audit/{controller}")))?.0)
    }

    /// Keeps the last record of a controller's audit log, which nobody else writes.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn set_audit_head(&self, controller: &str, head: &AuditHead) -> Result<bool, RegisterError> {
        let key = self.key(&format!("audit/{controller}"));
        let (_, revision) = self.record::<AuditHead>(&key)?;
        self.set_record(key, head, revision)
    }

    /// The newest generation that is known to have reached all routers. It may be older than the newest that has.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn settled(&self) -> Result<Option<GenerationNumber>, RegisterError> {
        Ok(self.record(&self.key("settled"))?.0)
    }

    /// Writes down that a generation has reached all routers, unless a later one is there. One write for each rollout; if it is
    /// lost, a controller that is started takes an older generation for the last one that has.
    ///
    /// # Errors
    /// If the register cannot be asked.
    pub fn keep_settled(&self, number: GenerationNumber) -> Result<(), RegisterError> {
        let key = self.key("settled");
        let (known, revision) = self.record::<GenerationNumber>(&key)?;
        if known < Some(number) {
            // If another controller has written meanwhile, it was about this rollout or a later one.
            self.set_record(key, &number, revision)?;
        }
        Ok(())
    }

    pub(super) fn record<T: DeserializeOwned>(
        &self,
        key: &RegisterKey,
    ) -> Result<(Option<T>, Revision), RegisterError> {
        let Some(entry) = self.register.get(key)? else { return Ok((None, Revision::ABSENT)) };
        let record = serde_json::from_slice(&entry.value);
        let record = record.map_err(|error| misunderstood(key, &format!("a record: {error}")))?;
        Ok((Some(record), entry.revision))
    }

    fn set_record<T: Serialize>(
        &self,
        key: RegisterKey,
        record: &T,
        revision: Revision,
    ) -> Result<bool, RegisterError> {
        let json = serde_json::to_vec(record).expect("a record has names and texts");
        self.commit(&Transaction::if_revision(key.clone(), revision).put(key, json))
    }
}
