//! Health: what agents, probes and routers say goes to the watch of `fleet`, and what it decides becomes generations.

use fleet::health::{HealthDecision, ProbeRound, ProcessSight, Roster, RosterError, SlotMember, TkoReport};
use fleet::{ClusterName, FleetContent, GenerationNumber, HostId, MemberId, Replacement, ViewName};
use stdx::clock::Now;

use super::Controller;
use crate::authorise::ControlVerb;
use crate::decisions::Publication;
use crate::turn::ProcessReport;

/// Interval of passes over all members.
const PASS_EVERY_MS: u64 = 1000;
/// The same when something is new: suspicion counts from the pass that is told of it.
const PASS_SOON_MS: u64 = 200;
/// How long a lost member waits for a rollout that is going on. A slot change has come to its end by then.
pub(super) const HEAL_WAIT_MS: u64 = 15_000;
/// Longest part of the evidence that a generation's reason has.
const REASON_LEN_MAX: usize = 400;

impl Controller {
    /// Tells the watch who has which slot.
    pub(super) fn set_roster(&mut self) {
        let Some(current) = self.register.view().current() else { return };
        let number = current.number;
        match self.roster(number, &current.content) {
            Ok(roster) => {
                let (register, clocks) = (&self.register, (self.now, self.unix_s));
                let (records, answered_at) = (register.view().replaced(), register.followed_at());
                let written = self.replaced.take_new(records, number, answered_at, clocks);
                self.watch.set_roster_after(self.now, roster, &written);
                self.health_trouble = None;
            }
            Err(error) => self.health_trouble = Some(error.to_string()),
        }
    }

    pub(super) fn roster(
        &self,
        number: GenerationNumber,
        content: &FleetContent,
    ) -> Result<Roster, RosterError> {
        let slots =
            content.clusters.iter().flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
        // Of a member that the inventory misses nothing is known, so nothing is decided about it.
        let places = slots.filter_map(|(cluster, slot)| {
            let member = self.register.view().inventory().get(&slot.member)?;
            Some(SlotMember {
                cluster: cluster.name.clone(),
                slot: slot.id.clone(),
                member: slot.member.clone(),
                host: member.host.clone(),
                zone: member.zone.clone(),
            })
        });
        let drained = content.draining().map(|(cluster, slot, _)| (cluster.name.clone(), slot.id.clone()));
        Ok(Roster::new(number, places.collect())?.with_drained(drained))
    }

    /// Tells the watch what a turn says.
    pub(super) fn tell_health(&mut self, host: &HostId) {
        let Some(record) = self.agents.get(host) else { return };
        let report = record.report();
        let processes: Vec<(MemberId, ProcessSight)> = report
            .members
            .iter()
            .map(|member| {
                let sight = match member.process {
                    ProcessReport::Running { .. } => ProcessSight::Running,
                    ProcessReport::Restarting { left_ms } => {
                        ProcessSight::Restarting { left_ms: left_ms.into() }
                    }
                    ProcessReport::Down => ProcessSight::Down,
                };
                (member.member.clone(), sight)
            })
            .collect();
        self.watch.agent_said(self.now, &report.host, &processes);
        for router in &report.routers {
            let serves = self.clusters_of(&router.view);
            let traffic = if router.has_traffic { &*serves } else { &[] };
            let content = self.register.view().current().map(|current| &current.content);
            let slot_at = |address: &String| Some(content?.slot_at(address)?.1.member.clone());
            let tko: Vec<MemberId> = router.suspects.iter().filter_map(slot_at).collect();
            let unasked: Vec<MemberId> = router.unasked.iter().filter_map(slot_at).collect();
            let (zone, router) = (&report.zone, &router.router);
            let report = TkoReport { router, zone, serves: &serves, traffic, unasked: &unasked, tko: &tko };
            // One that does not count says so in the pass.
            let _ = self.watch.router_said(self.now, &report);
        }
    }

    fn clusters_of(&self, view: &ViewName) -> Vec<ClusterName> {
        let Some(current) = self.register.view().current() else { return Vec::new() };
        let content = &current.content;
        let Some(view) = content.views.iter().find(|one| one.name == *view) else { return Vec::new() };
        let clusters = content.clusters.iter().filter(|cluster| content.is_in(cluster, view));
        clusters.map(|cluster| cluster.name.clone()).collect()
    }

    /// Brings the next pass forward.
    pub(super) fn pass_soon(&mut self) {
        let soon = self.pass_at.ms().saturating_sub(PASS_EVERY_MS - PASS_SOON_MS).max(self.now.ms());
        self.pass_at = self.pass_at.min(Now::at_ms(soon));
    }

    /// Makes a pass over all members, if it is time, and replaces those that are lost.
    pub(super) fn heal(&mut self) {
        if self.now < self.pass_at {
            return;
        }
        self.pass_at = Now::at_ms(self.now.ms() + PASS_EVERY_MS);
        self.tell_probes();
        self.tell_zones();
        let decisions = self.watch.decide(self.now);
        let (mut lost, mut notes) = (Vec::new(), Vec::new());
        for decision in decisions.list {
            match decision {
                HealthDecision::Replace { place, reason } => lost.push((place, reason)),
                HealthDecision::Freeze { scope, reason, .. } => {
                    notes.push(format!("guard: nothing is replaced in {scope}: {reason}"));
                }
                HealthDecision::WaitUntil { place, reason, .. } => {
                    notes.push(format!("{}: {reason}", place.member))
                }
                HealthDecision::Alarm { cluster, count, reason, .. } => {
                    notes.push(format!("alarm: {count} of the cluster {cluster}: {reason}"));
                }
            }
        }
        let emptying = std::mem::take(&mut self.emptying);
        let saved = self.save_one(&lost);
        let is_any = !lost.is_empty() || saved.is_some();
        let since = is_any.then(|| self.lost_since.unwrap_or(self.now));
        self.lost_since = since;
        let is_my_turn =
            since.is_some_and(|since| since.ms() + self.peers.waits_ms(self.now) <= self.now.ms());
        if let Some((place, evidence, saved)) = saved {
            if self.peers.waits_ms(self.now) == 0 {
                notes.extend(self.replace_drained(&place, &evidence, saved).err());
            }
        } else if is_my_turn && Some(decisions.generation) == self.target() {
            notes.extend(self.replace_lost(&lost).err());
        }
        // The first controller by name does it, and another one when that is away.
        if self.peers.waits_ms(self.now) == 0 {
            notes.extend(self.end_warm_ups());
        }
        self.advance_drain();
        self.has_new_orders |= self.emptying != emptying;
        notes.extend(self.rollout_notes());
        notes.extend(self.failure.note.clone());
        notes.extend(self.health_trouble.clone());
        notes.extend(self.trail.trouble().map(str::to_owned));
        self.health_notes = notes;
    }

    /// Says from where losses are judged, if that is one zone, or one that is not known yet.
    fn tell_zones(&mut self) {
        let others = self.peers.expected();
        self.watch.expect_probers(1 + others);
        let known = self.watch.prober_zones();
        let line = match (&*known.zones, known.unheard) {
            ([zone], 0) if others > 0 => Some(format!(
                "all {} controllers are in zone {zone}: what cannot be reached from there counts as lost if routers agree",
                1 + others
            )),
            _ => None,
        };
        if self.zones_line != line {
            if let Some(line) = line.clone() {
                self.log.add(line);
            }
            self.zones_line = line;
        }
    }

    fn tell_probes(&mut self) {
        let found = self.probes.take_round(self.now);
        self.peers.tell_probes(&found);
        let (prober, zone) = (&self.settings.host, &self.settings.zone);
        let (asked, answered) = (found.asked, found.answered);
        let round = ProbeRound { prober, zone, asked, answered, outcomes: &found.outcomes };
        // A round without probes does not count.
        let _ = self.watch.probed(self.now, &round);
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
        let (ground, given_up) = self.ground();
        let replacements: Vec<Replacement> =
            lost.iter().map(|(place, _)| Replacement { member: place.member.clone(), by: None }).collect();
        // A fleet that runs out of spares mends what it can.
        let changed =
            self.changed_slots(&ground, &replacements).map_err(|error| format!("{who}: {error}"))?;
        if changed.plan.steps.is_empty() {
            let why = changed.unmet.first().map_or("it has left its slot".to_owned(), ToString::to_string);
            return Err(format!("{who}: {why}"));
        }
        let content = changed.plan.content;
        if self.frozen_by(&content).is_some() {
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
        let since = self.lost_since.unwrap_or(self.now).max(self.rollout_since);
        !self.is_rolled_out() && self.now.ms() < since.ms() + HEAL_WAIT_MS
    }

    /// Publishes a generation in which the other member of a drained slot has it alone.
    fn replace_drained(
        &mut self,
        lost: &SlotMember,
        evidence: &str,
        saved: Result<FleetContent, String>,
    ) -> Result<(), String> {
        let content = saved?;
        let who = format!("{} is lost while its slot is drained", lost.member);
        if self.is_rollout_waited_for() {
            return Err(format!(
                "{who}, and waits for the present rollout, for {} s at most: {evidence}",
                HEAL_WAIT_MS / 1000
            ));
        }
        if self.register.away().is_some() || self.frozen_by(&content).is_some() {
            return Err(format!("{who}, and its scope is frozen or the register away: {evidence}"));
        }
        let reason = format!("{who}: {evidence}");
        self.publish_unasked(ControlVerb::Replace, &reason, content)
            .map_err(|error| format!("{who}: {error}"))
    }

    /// Publishes what the controller has decided by itself. The error says why not.
    pub(super) fn publish_unasked(
        &mut self,
        verb: ControlVerb,
        reason: &str,
        content: FleetContent,
    ) -> Result<(), String> {
        if let Some(unfit) = self.unfit_text(&content) {
            return Err(unfit);
        }
        let parent = self.target();
        let reason = reason[..reason.floor_char_boundary(REASON_LEN_MAX)].to_owned();
        let generation = self.successor(reason, content);
        match self.publish_recorded(verb, &generation) {
            Ok(Publication::Done(_)) => {
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
}
