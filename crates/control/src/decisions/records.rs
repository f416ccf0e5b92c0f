//! Records of the control plane that are no decisions about the fleet: join tokens, and the heads of audit logs.
//!
//! ```text
//! /evenkeel/FLEET/join-tokens      tokens that were issued lately, as JSON
//! /evenkeel/FLEET/audit/NAME       the last record of a controller's audit log, as JSON
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FleetDecisions, misunderstood};
use crate::audit::AuditHead;
use crate::join_token::JoinTokens;
use crate::register::{RegisterError, RegisterKey, Revision, Transaction};

impl FleetDecisions {
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

    fn record<T: DeserializeOwned>(&self, key: &RegisterKey) -> Result<(Option<T>, Revision), RegisterError> {
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
