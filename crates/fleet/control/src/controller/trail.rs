//! The audit log of a controller: what is about to be done, and what has come of it.

use admin::api::ApiReply;
use fleet::Generation;
use os::clock::unix_s;
use serde_json::Value;
use stdx::escape;

use super::Controller;
use super::replies::refusal;
use crate::audit::{AuditEntry, AuditError, AuditHead, AuditReach, AuditResult, PlanDigest, WHY_LEN_MAX};
use crate::authorise::ControlVerb;
use crate::decisions::Publication;
use crate::identity::FleetIdentity;

/// An act for the audit log.
pub(super) struct Act<'a> {
    pub(super) who: &'a FleetIdentity,
    pub(super) verb: ControlVerb,
    pub(super) reach: AuditReach,
    pub(super) plan: Option<PlanDigest>,
    pub(super) why: &'a str,
}

impl Controller {
    /// Does something that the audit log has: it is recorded before, or not done.
    pub(super) fn recorded(
        &mut self,
        act: &Act<'_>,
        carry_out: impl FnOnce(&mut Controller) -> ApiReply,
    ) -> ApiReply {
        let entry = match AuditEntry::new(act.who.clone(), act.verb, act.reach, act.plan, act.why) {
            Ok(entry) => entry,
            Err(error) => return refusal(422, &error.to_string()),
        };
        if let Err(error) = self.append_begun(&entry) {
            return refusal(503, &format!("nothing is done, because it cannot be recorded: {error}"));
        }
        let reply = carry_out(self);
        let result = match reply.status {
            200..300 => AuditResult::Done,
            400..500 => AuditResult::Refused(sentence(&reply)),
            _ => AuditResult::Failed(sentence(&reply)),
        };
        self.append_result(&entry, &result);
        reply
    }

    /// Makes a generation the target that nobody has asked for: the log has it under the controller's own name.
    pub(super) fn publish_recorded(
        &mut self,
        verb: ControlVerb,
        generation: &Generation,
    ) -> Result<Publication, String> {
        // Evidence may quote what others have sent.
        let why = escape::line(&generation.reason);
        let why = &why[..why.floor_char_boundary(WHY_LEN_MAX)];
        let entry = AuditEntry::new(self.own_identity(), verb, AuditReach::Members, None, why);
        let entry = entry.map_err(|error| error.to_string())?;
        self.append_begun(&entry)
            .map_err(|error| format!("nothing is done, because it cannot be recorded: {error}"))?;
        let published = self.publish(generation);
        let result = match &published {
            Ok(Publication::Done(_)) => AuditResult::Done,
            Ok(Publication::Overtaken) => AuditResult::Refused("another controller was first".to_owned()),
            Err(error) => AuditResult::Failed(error.to_string()),
        };
        self.append_result(&entry, &result);
        published.map_err(|error| error.to_string())
    }

    fn append_begun(&mut self, entry: &AuditEntry) -> Result<(), AuditError> {
        let head = self.trail.append_begun(entry, unix_s())?;
        self.keep_audit_head(head);
        Ok(())
    }

    fn append_result(&mut self, entry: &AuditEntry, result: &AuditResult) {
        let head = self.trail.append_result(entry, result, unix_s());
        self.keep_audit_head(head);
    }

    fn keep_audit_head(&mut self, head: Option<AuditHead>) {
        if let Some(head) = head {
            self.register.keep_audit_head(self.settings.host.as_str(), &head);
        }
    }
}

fn sentence(reply: &ApiReply) -> String {
    let json: Value = serde_json::from_str(&reply.json).unwrap_or_default();
    json["error"].as_str().unwrap_or("no reason").to_owned()
}
