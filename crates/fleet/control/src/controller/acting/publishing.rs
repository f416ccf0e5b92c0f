//! Publishing: a content becomes the target in the register, and its rollout begins here.
//!
//! What a person asks for, and what the controller does by itself, is in the audit log before it is done.

use admin::api::ApiReply;
use fleet::{FleetContent, Generation, GenerationNumber, GenerationOrigin};
use os::clock::unix_s;
use serde_json::Value;
use stdx::escape;

use crate::audit::{AuditEntry, AuditError, AuditHead, AuditReach, AuditResult, WHY_LEN_MAX};
use crate::controller::Controller;
use crate::controller::answers::replies::{refusal, register_away};
use crate::controller::audit_trail::AuditAct;
use crate::controller::observing::member_facts::MemberFacts;
use crate::controller::planning::Planner;
use crate::controller::rollout::published::successor;
use crate::decisions::Publication;
use crate::identity::FleetIdentity;
use crate::register::RegisterError;
use crate::service::access::controller_of;
use crate::service::authorise::ControlVerb;

/// Longest part of the evidence that a generation's reason has.
const REASON_LEN_MAX: usize = 400;

impl Controller {
    /// What is known of members now.
    pub(crate) fn facts(&self) -> MemberFacts<'_> {
        MemberFacts::new(self.register.view(), &self.agents, &self.probes, &self.health, self.now)
    }

    /// Who plans changes from what is known now.
    pub(crate) fn planner(&self) -> Planner<'_> {
        Planner::new(self.facts(), &self.rollout, &self.failures, &self.settings, self.unix_s)
    }

    /// The generation behind the target, of what the controller has decided by itself.
    pub(crate) fn successor(&self, reason: String, content: FleetContent) -> Generation {
        let own = controller_of(&self.settings.fleet, self.settings.host.as_str());
        self.successor_by(&own, reason, content)
    }

    fn successor_by(&self, who: &FleetIdentity, reason: String, content: FleetContent) -> Generation {
        let origin = GenerationOrigin { unix_s: self.unix_s, who: who.name() };
        successor(self.register.target(), &self.agents, (Some(origin), reason), content)
    }

    /// Makes a content the target, as a person asks.
    pub(crate) fn put_in_force(
        &mut self,
        content: FleetContent,
        (who, why): (&FleetIdentity, &str),
    ) -> Result<(), ApiReply> {
        let parent = self.register.target();
        let generation = self.successor_by(who, why.to_owned(), content);
        match self.publish(&generation, None) {
            Ok(Publication::Done(_)) => {}
            Ok(Publication::Overtaken) => return Err(self.overtaken()),
            Err(error) => return Err(register_away(&error)),
        }
        self.roll_out(generation, parent);
        self.give_new_orders();
        Ok(())
    }

    /// The refusal of what another controller has written about at the same moment.
    pub(crate) fn overtaken(&mut self) -> ApiReply {
        self.register.read_soon(self.now);
        refusal(409, "another controller has decided something at the same moment; plan again")
    }

    /// Publishes what the controller has decided by itself. The error says why not.
    pub(crate) fn publish_unasked(
        &mut self,
        verb: ControlVerb,
        reason: &str,
        content: FleetContent,
    ) -> Result<(), String> {
        if let Some(unfit) = self.planner().unfit_text(&content) {
            return Err(unfit);
        }
        let parent = self.register.target();
        let reason = reason[..reason.floor_char_boundary(REASON_LEN_MAX)].to_owned();
        let generation = self.successor(reason, content);
        self.publish_and_roll_out(verb, generation, None, parent)
    }

    /// Publishes what the controller has decided by itself while other routes are on their way: a generation with them, and a lower one
    /// for routers whose turn has not come. The error says why not.
    pub(crate) fn publish_layers(
        &mut self,
        verb: ControlVerb,
        reason: &str,
        lower: FleetContent,
        content: FleetContent,
    ) -> Result<(), String> {
        for content in [&lower, &content] {
            if let Some(unfit) = self.planner().unfit_text(content) {
                return Err(unfit);
            }
        }
        let Some(parent) = self.register.target() else {
            return Err("there is no generation yet".to_owned());
        };
        let reason = &reason[..reason.floor_char_boundary(REASON_LEN_MAX)];
        let lower = self.successor(format!("{reason} (for routers whose turn has not come)"), lower);
        let generation = Generation {
            number: GenerationNumber(lower.number.0 + 1),
            parent: Some(lower.number),
            reason: format!("{reason} (with the routes of generation {parent}, whose rollout goes on)"),
            lower: Some(lower.number),
            origin: lower.origin.clone(),
            content,
        };
        self.publish_and_roll_out(verb, generation, Some(lower), Some(parent))
    }

    fn publish_and_roll_out(
        &mut self,
        verb: ControlVerb,
        generation: Generation,
        lower: Option<Generation>,
        parent: Option<GenerationNumber>,
    ) -> Result<(), String> {
        match self.publish_recorded(verb, &generation, lower.as_ref()) {
            Ok(Publication::Done(_)) => {
                lower.into_iter().for_each(|lower| self.register.add(lower));
                self.roll_out(generation, parent);
                Ok(())
            }
            Ok(Publication::Overtaken) => {
                self.register.read_soon(self.now);
                Ok(())
            }
            Err(error) => {
                self.register.read_soon(self.now);
                Err(error)
            }
        }
    }

    /// Makes a generation the target that nobody has asked for: the log has it under the controller's own name.
    pub(crate) fn publish_recorded(
        &mut self,
        verb: ControlVerb,
        generation: &Generation,
        lower: Option<&Generation>,
    ) -> Result<Publication, String> {
        // Evidence may quote what others have sent.
        let why = escape::line(&generation.reason);
        let why = &why[..why.floor_char_boundary(WHY_LEN_MAX)];
        let own = controller_of(&self.settings.fleet, self.settings.host.as_str());
        let entry = AuditEntry::new(own, verb, AuditReach::Members, None, why);
        let entry = entry.map_err(|error| error.to_string())?;
        self.append_begun(&entry)
            .map_err(|error| format!("nothing is done, because it cannot be recorded: {error}"))?;
        let published = self.publish(generation, lower);
        let result = match &published {
            Ok(Publication::Done(_)) => AuditResult::Done,
            Ok(Publication::Overtaken) => AuditResult::Refused("another controller was first".to_owned()),
            Err(error) => AuditResult::Failed(error.to_string()),
        };
        self.append_result(&entry, &result);
        published.map_err(|error| error.to_string())
    }

    /// Makes a generation the target, with the lower one that was made with it.
    pub(crate) fn publish(
        &mut self,
        generation: &Generation,
        lower: Option<&Generation>,
    ) -> Result<Publication, RegisterError> {
        let clocks = (self.now, self.unix_s);
        let replaced = self.health.replaced_change(self.register.view(), generation, clocks);
        let published = self.register.publish(generation, lower, &replaced)?;
        if let Publication::Done(target) = published {
            self.health.note_published(target.number, &replaced, self.now);
        }
        Ok(published)
    }

    /// Begins the rollout of a generation that this controller has published behind `parent`.
    pub(crate) fn roll_out(&mut self, generation: Generation, parent: Option<GenerationNumber>) {
        self.register.add(generation);
        self.begin_rollout(parent);
    }

    /// Begins the rollout of the target. `before` is the target before it, if that is known.
    pub(crate) fn begin_rollout(&mut self, before: Option<GenerationNumber>) {
        self.follow_target();
        let view = self.register.view();
        let Some(texts) = self.rollout.begin(view, &self.failures, before, self.now) else { return };
        self.seats.set_texts(texts);
        for (_, record) in self.agents.iter() {
            self.rollout.hear(record, view.target(), self.now);
        }
        self.rollout.follow_word(view.rollout_word(), self.now);
        self.rollout.act(self.now);
    }

    /// Tells the parts who has which slot of the target, and what clients of its clusters are told.
    pub(crate) fn follow_target(&mut self) {
        self.health.follow_target(&self.register, (self.now, self.unix_s));
        let texts = self.cluster_files.follow(self.register.view().current());
        self.seats.set_cluster_files(texts);
    }

    /// Does something that the audit log has: it is recorded before, or not done.
    pub(crate) fn recorded(
        &mut self,
        act: &AuditAct<'_>,
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
