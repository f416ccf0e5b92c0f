//! Healing: members that are lost are replaced, drains and warm-ups go on. Each is a generation that nobody has asked for.

use std::collections::BTreeMap;

use fleet::Replacement;
use fleet::health::SlotMember;

use crate::controller::Controller;
use crate::controller::observing::member_facts::MemberFacts;
use crate::controller::slots::drains::SavedSlot;
use crate::controller::slots::freezes::frozen_by;
use crate::service::authorise::ControlVerb;

/// How long a lost member waits for a rollout that is going on. A slot change has come to its end by then.
pub(crate) const HEAL_WAIT_MS: u64 = 15_000;

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
        let (ground, given_up) = self.rollout.ground(self.register.view());
        let replacements: Vec<Replacement> =
            lost.iter().map(|(place, _)| Replacement { member: place.member.clone(), by: None }).collect();
        // A fleet that runs out of spares mends what it can.
        let changed = self.planner().changed_slots(&ground, &replacements);
        let changed = changed.map_err(|error| format!("{who}: {error}"))?;
        if changed.plan.steps.is_empty() {
            let why = changed.unmet.first().map_or("it has left its slot".to_owned(), ToString::to_string);
            return Err(format!("{who}: {why}"));
        }
        let content = changed.plan.content;
        if frozen_by(self.register.view(), &content).is_some() {
            return Err(format!("{who}, and its scope is frozen: {evidence}"));
        }
        let given_up = given_up.map_or(String::new(), |number| {
            format!(" (generation {number}, which was not with all routers, is given up: publish it again)")
        });
        let reason = format!("{who}{given_up}: {evidence}");
        self.publish_unasked(ControlVerb::Replace, &reason, content)
            .map_err(|error| format!("{who}: {error}"))
    }

    /// Whether a loss waits for the rollout that is going on: not without a bound, for nobody knows when it ends.
    fn is_rollout_waited_for(&self) -> bool {
        // A member that nobody can replace may be lost for long before another one is.
        let since = self.health.lost_since().unwrap_or(self.now).max(self.rollout.began());
        !self.rollout.is_rolled_out() && self.now.ms() < since.ms() + HEAL_WAIT_MS
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

    /// Lets the drain go on. `emptying` are the members that were emptied before this pass.
    fn advance_drain(&mut self, emptying: &BTreeMap<fleet::MemberId, u64>) {
        let view = self.register.view();
        let facts = MemberFacts::new(view, &self.agents, &self.probes, &self.health, self.now);
        let step = self.drains.advance(facts, &self.rollout, self.register.away());
        self.orders.if_so(self.drains.emptying() != emptying);
        // The first controller by name does it, and another one when that is away.
        let Some(step) = step.filter(|_| self.peers.waits_ms(self.now) == 0) else { return };
        if let Err(why) = self.publish_unasked(ControlVerb::Drain, &step.reason, step.content) {
            self.drains.keep_line(self.register.view(), format!("{} waits: {why}", step.what));
        }
    }
}
