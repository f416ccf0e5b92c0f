//! Changes: planned, checked, shown, and published if they are still what was shown.

use std::collections::BTreeMap;

use admin::api::ApiReply;
use fleet::health::GuardScope;
use fleet::rollout::{RolloutLane, RolloutSettings};
use fleet::{
    FleetContent, FleetMember, FleetPlan, FleetPlanInput, FleetPolicy, GenerationNumber, MemberId, ViewName,
    plan, texts,
};
use serde_json::json;
use stdx::words::counted;

use super::Controller;
use super::published::published;
use super::replies::{document, refusal, register_away};
use crate::decisions::{Publication, sha256_hex};
use crate::questions::{ChangeQuestion, ChangeRequest, FreezeScope};
use crate::route_check::{CheckedRoutes, KEYS_SAMPLED};

/// Letters of a plan's name: as many as nobody types, and enough to tell plans apart.
const PLAN_NAME_LEN: usize = 16;

/// What a change does.
#[derive(Default)]
pub(super) struct PlannedChange {
    pub(super) plan: FleetPlan,
    /// A policy to put in force with it.
    pub(super) policy: Option<String>,
    /// Members that join with it.
    pub(super) members: Vec<FleetMember>,
    /// Its content is in force already: only members are missing.
    pub(super) is_published: bool,
    /// It was carried out before, in words.
    pub(super) is_complete: Option<String>,
    /// What it means for keys of a view, if that is known already.
    pub(super) keys: BTreeMap<ViewName, String>,
}

/// A plan that has passed all checks.
struct CheckedPlan {
    plan: FleetPlan,
    policy: Option<String>,
    members: Vec<FleetMember>,
    is_published: bool,
    is_complete: Option<String>,
    /// For each view whose text changes: what that means for keys.
    keys: BTreeMap<ViewName, String>,
    lane: RolloutLane,
    name: String,
}

impl Controller {
    /// Answers what a change would do.
    pub(super) fn show_plan(&self, change: &ChangeQuestion) -> ApiReply {
        match self.checked(change) {
            Ok(plan) => self.shown(&plan),
            Err(reply) => reply,
        }
    }

    /// Carries a change out, if it is the plan of this name.
    pub(super) fn apply(&mut self, change: &ChangeQuestion, name: &str, why: &str) -> ApiReply {
        let checked = match self.checked(change) {
            Ok(checked) => checked,
            Err(reply) => return reply,
        };
        if checked.name != name {
            return refusal(409, "the plan is not the one that was shown: the fleet has changed meanwhile");
        }
        if let Some(reply) = self.frozen_by(&checked.plan.content) {
            return reply;
        }
        if let Some(text) = &checked.policy {
            // A failure below leaves the policy in force for the next plan.
            match self.register.set_policy(text, self.now) {
                Ok(true) => {}
                Ok(false) => return self.overtaken(),
                Err(error) => return register_away(&error),
            }
        }
        if !checked.is_published
            && let Err(reply) = self.put_in_force(checked.plan.content, why)
        {
            return reply;
        }
        // Only now: a member that is known and has no slot would be emptied.
        if !checked.members.is_empty()
            && let Err(reply) = self.write_adopted(&checked.members)
        {
            return reply;
        }
        let number = self.target().expect("it is in force");
        let text = format!("generation {number} is in force; its routers get it now\n");
        document(text, json!({"generation": number}))
    }

    pub(super) fn put_in_force(&mut self, content: FleetContent, why: &str) -> Result<(), ApiReply> {
        let parent = self.target();
        let generation = self.successor(why.to_owned(), content);
        match self.publish(&generation) {
            Ok(Publication::Done(_)) => {}
            Ok(Publication::Overtaken) => return Err(self.overtaken()),
            Err(error) => return Err(register_away(&error)),
        }
        self.roll_out(generation, parent);
        self.give_new_orders();
        Ok(())
    }

    pub(super) fn overtaken(&mut self) -> ApiReply {
        self.register.read_soon(self.now);
        refusal(409, "another controller has decided something at the same moment; plan again")
    }

    fn shown(&self, checked: &CheckedPlan) -> ApiReply {
        if checked.plan.steps.is_empty() {
            let text = match &checked.is_complete {
                Some(words) => format!("nothing to do: {words}\n"),
                None => "nothing to do\n".to_owned(),
            };
            return document(text, json!({"plan": null, "steps": []}));
        }
        let frozen = self.frozen_by(&checked.plan.content).is_some();
        let next = self.target().map_or(1, |target| target.0 + u64::from(!checked.is_published));
        let (number, makes) =
            (GenerationNumber(next), if checked.is_published { "completes" } else { "makes" });
        let mut text = format!("plan {} {makes} generation {number}:\n", checked.name);
        for step in &checked.plan.steps {
            text += &format!("  {step}\n");
        }
        for (view, keys) in &checked.keys {
            text += &format!("  view {view}: {keys}\n");
        }
        if !checked.is_published {
            text += &format!("  goes out as {}\n", lane_words(checked.lane, &self.settings.rollout));
        }
        if frozen {
            text += "  a part of it is frozen: it cannot be carried out now\n";
        }
        let json = json!({
            "plan": checked.name,
            "generation": number,
            "steps": checked.plan.steps,
            "keys": checked.keys,
            "lane": format!("{:?}", checked.lane),
            "is_frozen": frozen,
        });
        document(text, json)
    }

    fn checked(&self, change: &ChangeQuestion) -> Result<CheckedPlan, ApiReply> {
        let current = self.register.view().content();
        let PlannedChange { plan, policy, members, is_published, is_complete, keys: known } =
            self.planned(change)?;
        let mut keys = self.check_routes(&current, &plan.content)?;
        keys.extend(known);
        // As for the rollout, which is from the newest content that all routers have had.
        let next = self.successor(String::new(), plan.content);
        let (_, lane) = self.lane_of(&next, self.target());
        let plan = FleetPlan { content: next.content, steps: plan.steps };
        let (after, content) = (self.target(), &plan.content);
        let json = json!({"after": after, "content": content, "policy": policy, "members": members});
        let name = sha256_hex(&json.to_string())[..PLAN_NAME_LEN].to_owned();
        Ok(CheckedPlan { plan, policy, members, is_published, is_complete, keys, lane, name })
    }

    fn planned(&self, change: &ChangeQuestion) -> Result<PlannedChange, ApiReply> {
        // First: a drain ends by itself, and what is frozen only by a person.
        self.refused_while_frozen(change)?;
        self.refused_while_draining(change)?;
        let current = self.register.view().content();
        let (policy, text) = match change {
            ChangeQuestion::Drain(question) => return self.planned_drain(question, "drain"),
            ChangeQuestion::CancelDrain(member) => return self.planned_cancel(member),
            ChangeQuestion::Adopt(question) => return self.adopted(question),
            ChangeQuestion::Rollback(number) => return self.planned_rollback(*number),
            ChangeQuestion::Requests(requests) => return self.planned_replacements(requests),
            ChangeQuestion::Policy(Some(text)) => {
                let policy = FleetPolicy::parse(text).map_err(|error| refusal(422, &error.to_string()))?;
                (Some(policy), Some(text.clone()))
            }
            ChangeQuestion::Policy(None) => (self.register.view().policy().cloned(), None),
        };
        let Some(policy) = policy else {
            return Err(refusal(422, "the fleet has no policy\n  hint: give one with --policy FILE"));
        };
        let (inventory, excluded) = (self.register.view().inventory(), &self.excluded());
        let input = FleetPlanInput { policy: &policy, inventory, current: &current, excluded };
        let mut plan = plan(&input).map_err(|error| refusal(422, &error.to_string()))?;
        // After a rollback, the policy in force wants what was gone back from.
        if plan.steps.is_empty() && text.is_some() && self.register.view().policy() != Some(&policy) {
            plan.steps.push("another policy, which wants what is in force".to_owned());
        }
        Ok(PlannedChange { plan, policy: text, ..PlannedChange::default() })
    }

    /// What changes for keys, for each view whose text changes; an error for a text that no router takes.
    pub(super) fn check_routes(
        &self,
        old: &FleetContent,
        new: &FleetContent,
    ) -> Result<BTreeMap<ViewName, String>, ApiReply> {
        let before = old;
        let (old, new_texts) = (texts(old), texts(new));
        let cold_texts = texts(&new.clone().all_cold());
        let digests = published(GenerationNumber(0), new).0.digests;
        let mut keys = BTreeMap::new();
        let changed = |(view, text): &(&ViewName, &String)| {
            old.get(*view) != Some(*text) || before.route_prefix(view) != new.route_prefix(view)
        };
        for (view, text) in new_texts.iter().filter(changed) {
            let (name, prefix) = (format!("view {view}"), new.route_prefix(view));
            if digests.get(view).is_some_and(|digest| self.condemned.contains(digest)) {
                return Err(refusal(
                    422,
                    &format!("view {view}: this very text has failed in a router before"),
                ));
            }
            let compiled = CheckedRoutes::compile_for(&name, text, prefix);
            let compiled = compiled.map_err(|error| refusal(422, &format!("no router takes it: {error}")))?;
            // Nobody is there to change a policy when a member is lost at night.
            CheckedRoutes::compile_for(&name, &cold_texts[view], prefix).map_err(|error| {
                refusal(422, &format!("no router takes it with a warm-up after a replacement: {error}"))
            })?;
            let before = old
                .get(view)
                .and_then(|text| CheckedRoutes::compile_for("before", text, before.route_prefix(view)).ok());
            let sentence = match before {
                Some(before) => before.difference(&compiled, KEYS_SAMPLED, 1, self.unix_s).sentence(),
                None => format!(
                    "its routers have not read anything before; {}",
                    counted(compiled.servers(), "server")
                ),
            };
            keys.insert(view.clone(), sentence);
        }
        Ok(keys)
    }

    /// Why a content that no person has seen is not published: a text that has failed, or that no router takes.
    pub(super) fn unfit_text(&self, new: &FleetContent) -> Option<String> {
        let (published, new_texts) = published(GenerationNumber(0), new);
        let old = self.register.view().content();
        // What is in force is checked as well if it is published once more.
        let is_same = old == *new;
        let old = texts(&old);
        let checked = new_texts.iter().filter(|(view, text)| is_same || old.get(*view) != Some(*text));
        checked.into_iter().find_map(|(view, text)| match published.digests.get(view) {
            Some(digest) if self.condemned.contains(digest) => {
                Some(format!("view {view}: this very text has failed in a router before"))
            }
            _ => CheckedRoutes::compile_for(&format!("view {view}"), text, new.route_prefix(view))
                .err()
                .map(|error| format!("no router takes it: {error}")),
        })
    }

    /// The refusal of a change of what is frozen.
    pub(super) fn frozen_by(&self, new: &FleetContent) -> Option<ApiReply> {
        let (scope, why) = self.frozen_scope_of(new)?;
        let hint = format!("hint: `control thaw {scope} --why …` when that is over");
        Some(refusal(409, &format!("{scope} is frozen: {why}\n  {hint}")))
    }

    /// The first scope that a content would change although it is frozen, and why it is.
    pub(super) fn frozen_scope_of(&self, new: &FleetContent) -> Option<&(String, String)> {
        let old = self.register.view().content();
        self.register.view().frozen().iter().find(|(scope, _)| match scope.parse() {
            Ok(FreezeScope::Fleet) => true,
            Ok(FreezeScope::Cluster(name)) => old.cluster(&name) != new.cluster(&name),
            Ok(FreezeScope::Zone(zone)) => self.is_zone_touched(&old, new, &zone),
            // It is not among the frozen scopes: `excluded` and `quarantined` know it.
            Ok(FreezeScope::Quarantine(_)) | Err(_) => false,
        })
    }

    /// A wish about the slot of a member that is frozen is refused for that, whatever else is in its way.
    fn refused_while_frozen(&self, change: &ChangeQuestion) -> Result<(), ApiReply> {
        let members: Vec<&MemberId> = match change {
            ChangeQuestion::Requests(requests) => {
                requests.iter().map(|ChangeRequest::Replace { member, .. }| member).collect()
            }
            ChangeQuestion::Drain(question) => vec![&question.member],
            _ => return Ok(()),
        };
        for member in members {
            let Some((cluster, _)) = self.register.view().slot_of(member) else { continue };
            let zone = self.register.view().inventory().get(member).map(|member| &member.zone);
            let frozen = self.register.view().frozen().iter().find(|(scope, _)| match scope.parse() {
                Ok(FreezeScope::Fleet) => true,
                Ok(FreezeScope::Cluster(name)) => name == cluster.name,
                Ok(FreezeScope::Zone(name)) => zone == Some(&name),
                Ok(FreezeScope::Quarantine(_)) | Err(_) => false,
            });
            if let Some((scope, why)) = frozen {
                let error = format!("{member} keeps its slot: {scope} is frozen: {why}");
                return Err(refusal(
                    409,
                    &format!("{error}\n  hint: `control thaw {scope} --why …` when that is over"),
                ));
            }
        }
        Ok(())
    }

    /// Whether a slot changes its member from or to one of a zone.
    fn is_zone_touched(&self, old: &FleetContent, new: &FleetContent, zone: &fleet::ZoneName) -> bool {
        let of_zone = |content: &FleetContent| -> Vec<String> {
            let slots = content
                .clusters
                .iter()
                .flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
            let members = slots.flat_map(|(cluster, slot)| {
                let other = slot.drain.as_ref().map(|drain| &drain.other);
                [Some(&slot.member), other].into_iter().flatten().map(move |member| (cluster, slot, member))
            });
            let in_zone = members.filter(|(_, _, member)| {
                self.register.view().inventory().get(member).is_some_and(|member| member.zone == *zone)
            });
            in_zone.map(|(cluster, slot, member)| format!("{}/{}/{member}", cluster.name, slot.id)).collect()
        };
        of_zone(old) != of_zone(new)
    }

    pub(super) fn freeze(&mut self, scope: &FreezeScope, why: &str) -> ApiReply {
        if let FreezeScope::Quarantine(whose) = scope {
            return self.hold_by_hand(whose, why);
        }
        let scope = scope.to_string();
        match self.register.freeze(&scope, why) {
            Ok(true) => document(format!("{scope} is frozen\n"), json!({"scope": scope})),
            Ok(false) => self.overtaken(),
            Err(error) => register_away(&error),
        }
    }

    pub(super) fn thaw(&mut self, scope: &FreezeScope, _why: &str) -> ApiReply {
        let guarded = match scope {
            FreezeScope::Fleet => GuardScope::Fleet,
            FreezeScope::Cluster(name) => GuardScope::Cluster(name.clone()),
            FreezeScope::Zone(name) => GuardScope::Zone(name.clone()),
            FreezeScope::Quarantine(whose) => return self.release_by_hand(whose),
        };
        let scope = scope.to_string();
        match self.register.thaw(&scope) {
            Ok(was_frozen) => {
                // What the guard has frozen is thawed, too: a person has looked.
                let was_frozen = was_frozen | self.watch.thaw(self.now, &guarded);
                let words = if was_frozen { "may change again" } else { "was not frozen" };
                document(format!("{scope} {words}\n"), json!({"scope": scope, "was_frozen": was_frozen}))
            }
            Err(error) => register_away(&error),
        }
    }
}

/// How a generation goes out, with the figures that are in force here.
fn lane_words(lane: RolloutLane, settings: &RolloutSettings) -> String {
    let shares = |shares: &[u8]| shares.iter().map(|share| format!("{share} %, ")).collect::<String>();
    let RolloutSettings { slot_hold_ms, weights_hold_ms, routes_hold_ms, .. } = settings;
    match lane {
        RolloutLane::SlotChange => {
            format!("a slot change: canaries for {}, then all", time_words(*slot_hold_ms))
        }
        RolloutLane::Weights => {
            let last = &settings.shares[settings.shares.len().saturating_sub(1)..];
            let hold = time_words(*weights_hold_ms);
            format!("other weights: canaries for {hold}, {}then all", shares(last))
        }
        RolloutLane::Routes => {
            let hold = time_words(*routes_hold_ms);
            format!("other routes: canaries for {hold}, {}then zone by zone", shares(&settings.shares))
        }
        RolloutLane::Rollback => "a first or an earlier content: to all at once".to_owned(),
    }
}

fn time_words(ms: u64) -> String {
    match ms {
        ms if ms % 60_000 == 0 && ms > 60_000 => format!("{} min", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}
