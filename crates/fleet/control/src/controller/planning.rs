//! Plans: what a change would do, checked and in words, without doing it.
//!
//! ```text
//! a question ─► planned ─┬─► slots.rs: other members for slots, earlier routes
//!                        ├─► drains.rs: a living member leaves by phases
//!                        ├─► resizes.rs: a cluster grows or shrinks by phases
//!                        ├─► adopting.rs: a configuration of mcrouter's
//!                        └─► fleet::plan: another policy
//!            ─► checks.rs: no text that has failed, or that no router takes ─► checked ─► shown
//! ```

mod adopting;
pub(crate) mod changes;
mod checks;
mod drains;
mod members;
mod resizes;
mod slots;

use std::collections::BTreeMap;

use admin::api::ApiReply;
use fleet::rollout::{RolloutLane, RolloutSettings};
use fleet::{FleetMember, FleetPlan, FleetPolicy, GenerationNumber, ViewName};
use serde_json::json;

use super::answers::replies::{document, refusal};
use super::observing::member_facts::MemberFacts;
use super::rollout::failures::KeptFailures;
use super::rollout::published::successor;
use super::rollout::target_rollout::TargetRollout;
use super::settings::ControllerSettings;
use super::slots::freezes::{frozen_by, frozen_slot_of};
use crate::decisions::sha256_hex;
use crate::service::questions::{ChangeQuestion, ChangeRequest};
use resizes::ResizeWish;

/// Letters of a plan's name: as many as nobody types, and enough to tell plans apart.
const PLAN_NAME_LEN: usize = 16;

/// What plans are made from.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'c> {
    facts: MemberFacts<'c>,
    rollout: &'c TargetRollout,
    failures: &'c KeptFailures,
    settings: &'c ControllerSettings,
    /// The time for people.
    unix_s: i64,
}

/// What a change does.
#[derive(Default)]
pub(crate) struct PlannedChange {
    pub(crate) plan: FleetPlan,
    /// A policy to put in force with it.
    pub(crate) policy: Option<String>,
    /// Members that join with it.
    pub(crate) members: Vec<FleetMember>,
    /// Its content is in force already: only members are missing.
    pub(crate) is_published: bool,
    /// It was carried out before, in words.
    pub(crate) is_complete: Option<String>,
    /// What it means for keys of a view, if that is known already.
    pub(crate) keys: BTreeMap<ViewName, String>,
}

/// A plan that has passed all checks.
pub(crate) struct CheckedPlan {
    pub(crate) plan: FleetPlan,
    pub(crate) policy: Option<String>,
    pub(crate) members: Vec<FleetMember>,
    pub(crate) is_published: bool,
    is_complete: Option<String>,
    /// For each view whose text changes: what that means for keys.
    keys: BTreeMap<ViewName, String>,
    lane: RolloutLane,
    pub(crate) name: String,
}

impl<'c> Planner<'c> {
    pub(super) fn new(
        facts: MemberFacts<'c>,
        rollout: &'c TargetRollout,
        failures: &'c KeptFailures,
        settings: &'c ControllerSettings,
        unix_s: i64,
    ) -> Planner<'c> {
        Planner { facts, rollout, failures, settings, unix_s }
    }

    /// Answers what a change would do.
    pub(super) fn show(&self, change: &ChangeQuestion) -> ApiReply {
        match self.checked(change) {
            Ok(plan) => self.shown(&plan),
            Err(reply) => reply,
        }
    }

    fn shown(&self, checked: &CheckedPlan) -> ApiReply {
        if checked.plan.steps.is_empty() {
            let text = match &checked.is_complete {
                Some(words) => format!("nothing to do: {words}\n"),
                None => "nothing to do\n".to_owned(),
            };
            return document(text, json!({"plan": null, "steps": []}));
        }
        let frozen = frozen_by(self.facts.view(), &checked.plan.content).is_some();
        let next = self.facts.view().target().map_or(1, |target| target.0 + u64::from(!checked.is_published));
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

    /// A plan that has passed all checks.
    pub(super) fn checked(&self, change: &ChangeQuestion) -> Result<CheckedPlan, ApiReply> {
        let (view, agents) = (self.facts.view(), self.facts.agents());
        let PlannedChange { plan, policy, members, is_published, is_complete, keys: known } =
            self.planned(change)?;
        let mut keys = self.check_routes(&view.content(), &plan.content)?;
        keys.extend(known);
        // As for the rollout, which is from the newest content that all routers have had.
        let after = view.target();
        let next = successor(after, agents, (None, String::new()), plan.content);
        let (_, lane) = self.rollout.lane_of(view, self.failures, &next, after);
        // A plan is what it does, and after which generation.
        let named = json!({"after": after, "content": next.content, "policy": policy, "members": members});
        let name = sha256_hex(&named.to_string())[..PLAN_NAME_LEN].to_owned();
        let plan = FleetPlan { content: next.content, steps: plan.steps };
        Ok(CheckedPlan { plan, policy, members, is_published, is_complete, keys, lane, name })
    }

    fn planned(&self, change: &ChangeQuestion) -> Result<PlannedChange, ApiReply> {
        // First: a drain ends by itself, and what is frozen only by a person.
        self.refused_while_frozen(change)?;
        self.refused_while_draining(change)?;
        self.refused_while_resizing(change)?;
        let current = self.facts.view().content();
        let (policy, text) = match change {
            ChangeQuestion::Drain(question) => return self.planned_drain(question, "drain"),
            ChangeQuestion::CancelDrain(member) => return self.planned_cancel(member),
            ChangeQuestion::Scale(question) => return self.planned_scale(question),
            ChangeQuestion::CancelScale(cluster) => return self.planned_scale_cancel(cluster),
            ChangeQuestion::Adopt(question) => return self.adopted(question),
            ChangeQuestion::Rollback(number) => return self.planned_rollback(*number),
            ChangeQuestion::Requests(requests) => return self.planned_replacements(requests),
            ChangeQuestion::PolicyAtOnce(text) => return self.planned_at_once(text),
            ChangeQuestion::Policy(Some(text)) => {
                let policy = FleetPolicy::parse(text).map_err(|error| refusal(422, &error.to_string()))?;
                (Some(policy), Some(text.clone()))
            }
            ChangeQuestion::Policy(None) => (self.facts.view().policy().cloned(), None),
        };
        let Some(policy) = policy else {
            return Err(refusal(422, "the fleet has no policy\n  hint: give one with --policy FILE"));
        };
        let planned = self.plan_of(&policy, &current);
        let mut plan = planned.map_err(|error| refusal(422, &self.missing(&error, &policy, &current)))?;
        if current.resized_in(&plan.content).next().is_some() {
            return self.planned_resize(ResizeWish { plan, policy: text, warm_up_s: None });
        }
        // After a rollback, the policy in force wants what was gone back from.
        if plan.steps.is_empty() && text.is_some() && self.facts.view().policy() != Some(&policy) {
            plan.steps.push("another policy, which wants what is in force".to_owned());
        }
        Ok(PlannedChange { plan, policy: text, ..PlannedChange::default() })
    }

    /// A wish about the slot of a member that is frozen is refused for that, whatever else is in its way.
    fn refused_while_frozen(&self, change: &ChangeQuestion) -> Result<(), ApiReply> {
        let members: Vec<_> = match change {
            ChangeQuestion::Requests(requests) => {
                requests.iter().map(|ChangeRequest::Replace { member, .. }| member).collect()
            }
            ChangeQuestion::Drain(question) => vec![&question.member],
            _ => return Ok(()),
        };
        let frozen = members.into_iter().find_map(|member| frozen_slot_of(self.facts.view(), member));
        frozen.map_or(Ok(()), Err)
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
