//! Healing: members that are lost are replaced, drains and warm-ups go on. Each is a generation that nobody has asked for.

use std::collections::BTreeMap;

use fleet::health::SlotMember;
use fleet::{FleetContent, GenerationNumber, MemberId, Replacement, TAKES_UNTUNED};

use crate::controller::Controller;
use crate::controller::observing::member_facts::MemberFacts;
use crate::controller::slots::drains::SavedSlot;
use crate::controller::slots::freezes::frozen_by;
use crate::register::TRANSACTION_LEN_MAX;
use crate::service::authorise::ControlVerb;
use crate::service::turn::SweepOrder;

/// How long a lost member waits for a rollout that is going on. A slot change has come to its end by then.
pub(crate) const HEAL_WAIT_MS: u64 = 15_000;

/// Two contents of this length together fit into a transaction, with room for reasons and for what is kept of replacements: 5,000 members
/// with names and addresses of usual lengths need 310 KB each.
const CONTENTS_LEN_MAX: usize = TRANSACTION_LEN_MAX / 4 * 3;

impl Controller {
    /// Makes a pass over all members, if it is time, and replaces those that are lost.
    pub(crate) fn heal(&mut self) {
        if !self.health.begin_pass(self.now) {
            return;
        }
        let found = self.probes.take_round(self.now);
        self.peers.tell_probes(&found);
        self.health.take_own_round(&found, self.now);
        if let Some(line) = self.health.expect_others(self.peers.expected()) {
            self.log.add(line);
        }
        let pass = self.health.decide(self.now);
        let (lost, mut notes) = (pass.lost, pass.notes);
        let emptying = self.drains.begin_pass();
        let (register, now) = (&self.register, self.now);
        let facts = MemberFacts::new(register.view(), &self.agents, &self.probes, &self.health, now);
        let saved = self.drains.save_one(facts, &lost);
        let since = self.health.note_lost(!lost.is_empty() || saved.is_some(), now);
        let waits_ms = self.peers.waits_ms(now);
        let is_my_turn = since.is_some_and(|since| since.ms() + waits_ms <= now.ms());
        if let Some(saved) = saved {
            if waits_ms == 0 {
                notes.extend(self.replace_drained(saved).err());
            }
        } else if is_my_turn && Some(pass.generation) == self.register.target() {
            notes.extend(self.replace_lost(&lost).err());
        }
        // The first controller by name does it, and another one when that is away.
        if waits_ms == 0 {
            notes.extend(self.end_warm_ups());
        }
        self.advance_drain(&emptying);
        notes.extend(self.rollout.notes());
        notes.extend(self.health.trouble().map(str::to_owned));
        notes.extend(self.trail.trouble().map(str::to_owned));
        self.health.set_notes(notes);
    }

    /// Publishes a generation in which others have the slots of lost members. The error says why not.
    fn replace_lost(&mut self, lost: &[(SlotMember, String)]) -> Result<(), String> {
        let (first, evidence) = &lost[0];
        let who = match lost.len() {
            1 => format!("{} is lost", first.member),
            2 => format!("{} and another one are lost", first.member),
            count => format!("{} and {} others are lost", first.member, count - 1),
        };
        if let Some(away) = self.register.away() {
            return Err(format!("{who}, and waits for the register: {away}"));
        }
        if self.is_rollout_waited_for() {
            return Err(format!(
                "{who}, and waits for the present rollout, for {} s at most: {evidence}",
                HEAL_WAIT_MS / 1000
            ));
        }
        // Other routes that are on their way go on, and reach nobody else by this.
        let goes_on = self.rollout.routes_before(self.register.view()).is_some();
        let (ground, given_up) = match goes_on {
            true => (self.register.view().content(), None),
            false => self.rollout.ground(self.register.view()),
        };
        let replacements: Vec<Replacement> =
            lost.iter().map(|(place, _)| Replacement { member: place.member.clone(), by: None }).collect();
        // A fleet that runs out of spares mends what it can.
        let changed = self.planner().mended_slots(&ground, &replacements);
        let changed = changed.map_err(|error| format!("{who}: {error}"))?;
        if changed.plan.steps.is_empty() {
            let why = changed.unmet.first().map_or("it has left its slot".to_owned(), ToString::to_string);
            return Err(format!("{who}: {why}"));
        }
        let untuned = untuned_words(&changed.plan.steps);
        let content = changed.plan.content;
        if frozen_by(self.register.view(), &content).is_some() {
            return Err(format!("{who}, and its scope is frozen: {evidence}"));
        }
        // Before the evidence, of which a long one is cut.
        let reason = format!("{who}: {}{untuned}{evidence}", given_up_words(given_up));
        self.publish_beside_routes(&reason, content).map_err(|error| format!("{who}: {error}"))
    }

    /// Publishes a content that differs from the target in members of slots alone. While other routes are on their way, these go on with
    /// it, and routers whose turn has not come get the members and not the routes.
    fn publish_beside_routes(&mut self, reason: &str, content: FleetContent) -> Result<(), String> {
        let before = self.rollout.routes_before(self.register.view());
        let Some(lower) = before.map(|before| before.content.clone().with_members_of(&content)) else {
            return self.publish_unasked(ControlVerb::Replace, reason, content);
        };
        // A slot that the routes take away may have a member that has got another one since.
        if lower.member_of_two_slots().is_some() {
            return self.publish_unasked(ControlVerb::Replace, reason, content);
        }
        // With these members they may have failed before; and two generations of a very large fleet are too long for one transaction.
        if self.planner().unfit_text(&content).is_some() || !fit_together(&lower, &content) {
            let reason = format!("{}{reason}", given_up_words(self.register.target()));
            return self.publish_unasked(ControlVerb::Replace, &reason, lower);
        }
        self.publish_layers(ControlVerb::Replace, reason, lower, content)
    }

    /// Whether a loss waits for the rollout that is going on: not without a bound, for nobody knows when it ends.
    fn is_rollout_waited_for(&self) -> bool {
        // A member that nobody can replace may be lost for long before another one is.
        let since = self.health.lost_since().unwrap_or(self.now).max(self.rollout.began());
        let is_waited_for =
            !self.rollout.is_rolled_out() && !self.rollout.brings_routes_only(self.register.view());
        is_waited_for && self.now.ms() < since.ms() + HEAL_WAIT_MS
    }

    /// Publishes a generation in which the other member of a drained slot has it alone.
    fn replace_drained(&mut self, saved: SavedSlot) -> Result<(), String> {
        let (content, evidence) = (saved.content?, saved.evidence);
        let who = format!("{} is lost while its slot is drained", saved.place.member);
        if self.is_rollout_waited_for() {
            return Err(format!(
                "{who}, and waits for the present rollout, for {} s at most: {evidence}",
                HEAL_WAIT_MS / 1000
            ));
        }
        if self.register.away().is_some() || frozen_by(self.register.view(), &content).is_some() {
            return Err(format!("{who}, and its scope is frozen or the register away: {evidence}"));
        }
        let reason = format!("{who}: {evidence}");
        self.publish_unasked(ControlVerb::Replace, &reason, content)
            .map_err(|error| format!("{who}: {error}"))
    }

    /// Publishes a generation without the warm-ups that are over. The notes say what is still warmed up, for people.
    fn end_warm_ups(&mut self) -> Vec<String> {
        let content = self.register.view().content();
        let facts =
            MemberFacts::new(self.register.view(), &self.agents, &self.probes, &self.health, self.now);
        let news = self.drains.warm_ups().advance(&content, self.rollout.is_rolled_out(), facts);
        let mut notes = news.notes;
        if news.over.is_empty() {
            return notes;
        }
        let (reason, new) = (news.reasons.join("; "), content.without_warm_up(&news.over));
        if frozen_by(self.register.view(), &new).is_some() {
            notes.push(format!("{reason}; the warm-up stays in the routes, because its scope is frozen"));
        } else if let Err(error) = self.publish_unasked(ControlVerb::Replace, &reason, new) {
            notes.push(format!("{reason}; the warm-up stays in the routes: {error}"));
        }
        notes
    }

    /// Lets the drain or the resize go on, given the members that were emptied and swept before this pass.
    fn advance_drain(
        &mut self,
        (emptying, sweeping): &(BTreeMap<MemberId, u64>, BTreeMap<MemberId, SweepOrder>),
    ) {
        let view = self.register.view();
        let facts = MemberFacts::new(view, &self.agents, &self.probes, &self.health, self.now);
        let step = self.drains.advance(facts, &self.rollout, self.register.away());
        self.orders.if_so(self.drains.emptying() != emptying || self.drains.sweeping() != sweeping);
        // The first controller by name does it, and another one when that is away.
        let Some(step) = step.filter(|_| self.peers.waits_ms(self.now) == 0) else { return };
        if let Err(why) = self.publish_unasked(step.verb, &step.reason, step.content) {
            self.drains.keep_line(self.register.view(), format!("{} waits: {why}", step.what));
        }
    }
}

/// Whether two generations can become known together.
fn fit_together(lower: &FleetContent, content: &FleetContent) -> bool {
    let len = |content: &FleetContent| serde_json::to_vec(content).map_or(usize::MAX, |json| json.len());
    len(lower).saturating_add(len(content)) <= CONTENTS_LEN_MAX
}

/// What a reason says of routes that do not go on.
pub(crate) fn given_up_words(given_up: Option<GenerationNumber>) -> String {
    given_up.map_or(String::new(), |number| {
        format!("generation {number}, which was not with all routers, is given up: publish it again; ")
    })
}

/// What a reason says of members that take a slot although their hosts do not meet their standard.
fn untuned_words(steps: &[String]) -> String {
    let untuned: Vec<&String> = steps.iter().filter(|step| step.ends_with(TAKES_UNTUNED)).collect();
    match &untuned[..] {
        [] => String::new(),
        [first] => format!("{first}; "),
        [first, more @ ..] => format!("{first}, and {} more; ", more.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::controller::testing::{generation, slot};

    #[test]
    fn two_generations_of_a_large_fleet_fit_and_of_a_very_large_one_do_not() {
        let content = |members: usize| {
            let slots: Vec<Value> = (0..members).map(|at| slot(at, at, Value::Null)).collect();
            generation(1, &slots, "PoolRoute|web").content
        };
        let large = content(5_000);
        assert!(fit_together(&large, &large));
        let very_large = content(10_000);
        assert!(!fit_together(&very_large, &very_large));
    }
}
