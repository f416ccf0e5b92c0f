//! Health: what agents, probes and routers say of members goes to the watch of `fleet`, which decides who is lost.
//!
//! Records of replacements are in `replaced.rs`, members and hosts that take no slot in `quarantines.rs`.

mod quarantines;
mod replaced;

use std::collections::BTreeSet;

use fleet::health::{
    GuardScope, HealthDecision, HealthThresholdError, HealthThresholds, HealthWatch, ProbeRound,
    ProcessSight, Quarantined, Roster, RosterError, SlotMember, TkoReport,
};
use fleet::{ClusterName, FleetContent, Generation, GenerationNumber, HostId, MemberId, ViewName, ZoneName};
use stdx::clock::Now;

use super::observing::agents::AgentRecord;
use super::observing::probes::ProbeSummary;
use super::register_mirror::{FleetView, RegisterMirror};
use crate::decisions::ReplacedChange;
use crate::service::turn::{ProcessReport, TurnReport};
use replaced::KnownReplacements;

/// Interval of passes over all members.
const PASS_EVERY_MS: u64 = 1000;
/// The same when something is new: suspicion counts from the pass that is told of it.
const PASS_SOON_MS: u64 = 200;

/// The watch over all members, and what its last pass has found.
pub(crate) struct MemberHealth {
    /// The name and the zone of this controller, which probes.
    prober: (HostId, ZoneName),
    watch: HealthWatch,
    replaced: KnownReplacements,
    /// Members and hosts that are in quarantine by the register.
    kept_held: BTreeSet<Quarantined>,
    pass_at: Now,
    /// Since when there is someone to replace.
    lost_since: Option<Now>,
    /// What the last pass has found, for people.
    notes: Vec<String>,
    trouble: Option<String>,
    /// What was said about the zones of controllers.
    zones_line: Option<String>,
}

/// What a pass has found.
pub(super) struct HealthPass {
    /// The generation that it is about.
    pub(super) generation: GenerationNumber,
    /// Members that others shall replace, and the evidence.
    pub(super) lost: Vec<(SlotMember, String)>,
    /// Why others are not replaced, for people.
    pub(super) notes: Vec<String>,
}

impl MemberHealth {
    /// That of a controller that begins, of this name in this zone. It watches nobody yet.
    pub(super) fn new(
        thresholds: HealthThresholds,
        prober: (HostId, ZoneName),
        now: Now,
    ) -> Result<MemberHealth, HealthThresholdError> {
        let nobody = Roster::new(GenerationNumber(0), Vec::new()).expect("nobody is a roster");
        Ok(MemberHealth {
            prober,
            replaced: KnownReplacements::new(thresholds.guard.replaced_window_ms),
            watch: HealthWatch::new(now, thresholds, nobody)?,
            kept_held: BTreeSet::new(),
            pass_at: now,
            lost_since: None,
            notes: Vec::new(),
            trouble: None,
            zones_line: None,
        })
    }

    /// Watches those who have the slots of the generation in force. `clocks` are this host's: its own, and the wall clock.
    pub(super) fn follow_target(&mut self, register: &RegisterMirror, clocks: (Now, i64)) {
        let Some(current) = register.view().current() else { return };
        match roster(register.view(), current.number, &current.content) {
            Ok(roster) => {
                let (records, answered_at) = (register.view().replaced(), register.followed_at());
                let written = self.replaced.take_new(records, current.number, answered_at, clocks);
                self.watch.set_roster_after(clocks.0, roster, &written);
                self.trouble = None;
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// What the publication of a generation changes about the records of replacements.
    pub(super) fn replaced_change(
        &self,
        view: &FleetView,
        generation: &Generation,
        clocks: (Now, i64),
    ) -> ReplacedChange {
        let roster = roster(view, generation.number, &generation.content).ok();
        let slots = roster.map_or(Vec::new(), |roster| self.watch.replaced_by(&roster));
        self.replaced.change(view.replaced(), slots, clocks)
    }

    /// Notes that a generation was published with these records.
    pub(super) fn note_published(&mut self, number: GenerationNumber, change: &ReplacedChange, now: Now) {
        self.replaced.note_change(number, change, now);
    }

    /// Takes what a turn says.
    pub(super) fn hear(&mut self, report: &TurnReport, view: &FleetView, now: Now) {
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
        self.watch.agent_said(now, &report.host, &processes);
        for router in &report.routers {
            let serves = clusters_of(view, &router.view);
            let traffic = if router.has_traffic { &*serves } else { &[] };
            let content = view.current().map(|current| &current.content);
            let slot_at = |address: &String| Some(content?.slot_at(address)?.1.member.clone());
            let tko: Vec<MemberId> = router.suspects.iter().filter_map(slot_at).collect();
            let unasked: Vec<MemberId> = router.unasked.iter().filter_map(slot_at).collect();
            let (zone, router) = (&report.zone, &router.router);
            let report = TkoReport { router, zone, serves: &serves, traffic, unasked: &unasked, tko: &tko };
            // One that does not count says so in the pass.
            let _ = self.watch.router_said(now, &report);
        }
    }

    /// Notes that an agent was recalled, and is waited for since then.
    pub(super) fn expect(&mut self, record: &AgentRecord, since: Now) {
        let members = record.report().members.iter().map(|report| &report.member);
        self.watch.agent_expected(since, &record.report().host, members);
    }

    /// Takes what this controller's own probes have found.
    pub(super) fn take_own_round(&mut self, found: &ProbeSummary, now: Now) {
        let (prober, zone) = (&self.prober.0, &self.prober.1);
        let (asked, answered) = (found.asked, found.answered);
        let round = ProbeRound { prober, zone, asked, answered, outcomes: &found.outcomes };
        // A round without probes does not count.
        let _ = self.watch.probed(now, &round);
    }

    /// Takes what the probes of another controller have found.
    pub(super) fn take_round(&mut self, round: &ProbeRound<'_>, now: Now) {
        // A round without probes does not count.
        let _ = self.watch.probed(now, round);
    }

    /// Takes the number of other controllers. Returns a line if losses are judged from other zones than was said last: from one
    /// zone alone, or from one that is not known yet.
    pub(super) fn expect_others(&mut self, others: usize) -> Option<String> {
        self.watch.expect_probers(1 + others);
        let known = self.watch.prober_zones();
        let line = match (&*known.zones, known.unheard) {
            ([zone], 0) if others > 0 => Some(format!(
                "all {} controllers are in zone {zone}: what cannot be reached from there counts as lost if routers agree",
                1 + others
            )),
            _ => None,
        };
        if self.zones_line == line {
            return None;
        }
        self.zones_line.clone_from(&line);
        line
    }

    /// From where losses are judged, if that is worth a line.
    pub(super) fn zones_line(&self) -> Option<&str> {
        self.zones_line.as_deref()
    }

    /// Brings the next pass forward.
    pub(super) fn pass_soon(&mut self, now: Now) {
        let soon = self.pass_at.ms().saturating_sub(PASS_EVERY_MS - PASS_SOON_MS).max(now.ms());
        self.pass_at = self.pass_at.min(Now::at_ms(soon));
    }

    #[cfg(test)]
    pub(super) fn pass_at_once(&mut self, now: Now) {
        self.pass_at = now;
    }

    /// Whether it is time for a pass. The next one is later then.
    pub(super) fn begin_pass(&mut self, now: Now) -> bool {
        let is_due = self.pass_at <= now;
        if is_due {
            self.pass_at = Now::at_ms(now.ms() + PASS_EVERY_MS);
        }
        is_due
    }

    /// Makes a pass over all members.
    pub(super) fn decide(&mut self, now: Now) -> HealthPass {
        let decisions = self.watch.decide(now);
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
        HealthPass { generation: decisions.generation, lost, notes }
    }

    /// Notes whether there is someone to replace. Returns since when without a pause.
    pub(super) fn note_lost(&mut self, is_any: bool, now: Now) -> Option<Now> {
        self.lost_since = is_any.then(|| self.lost_since.unwrap_or(now));
        self.lost_since
    }

    /// Since when there is someone to replace.
    pub(super) fn lost_since(&self) -> Option<Now> {
        self.lost_since
    }

    /// Why the generation in force cannot be watched.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Keeps what a pass has found and done, for people.
    pub(super) fn set_notes(&mut self, notes: Vec<String>) {
        self.notes = notes;
    }

    /// What the last pass has found and done.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Scopes that the guard has frozen, and why.
    pub(super) fn frozen(&self) -> impl Iterator<Item = (&GuardScope, String)> {
        self.watch.frozen()
    }

    /// Whether a member has a slot, and is missed if it is lost.
    pub(super) fn is_watched(&self, member: &MemberId) -> bool {
        self.watch.verdict(member).is_some()
    }

    /// Whether a member counts as lost.
    pub(super) fn may_replace(&self, member: &MemberId) -> bool {
        self.watch.verdict(member).is_some_and(|verdict| verdict.may_replace())
    }

    /// Thaws what the guard has frozen: a person has looked. True if it was frozen.
    pub(super) fn thaw(&mut self, scope: &GuardScope, now: Now) -> bool {
        self.watch.thaw(now, scope)
    }
}

/// Who has which slot of a content.
fn roster(view: &FleetView, number: GenerationNumber, content: &FleetContent) -> Result<Roster, RosterError> {
    let slots =
        content.clusters.iter().flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
    // Of a member that the inventory misses nothing is known, so nothing is decided about it.
    let places = slots.filter_map(|(cluster, slot)| {
        let member = view.inventory().get(&slot.member)?;
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

fn clusters_of(view: &FleetView, name: &ViewName) -> Vec<ClusterName> {
    let Some(current) = view.current() else { return Vec::new() };
    let content = &current.content;
    let Some(view) = content.views.iter().find(|one| one.name == *name) else { return Vec::new() };
    let clusters = content.clusters.iter().filter(|cluster| content.is_in(cluster, view));
    clusters.map(|cluster| cluster.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> MemberHealth {
        let prober = ("c1".parse().expect("a name"), "a".parse().expect("a name"));
        MemberHealth::new(HealthThresholds::default(), prober, Now::at_ms(0)).expect("thresholds")
    }

    #[test]
    fn a_pass_is_due_every_second_and_sooner_when_something_is_new() {
        let mut health = health();
        let at = Now::at_ms;
        assert!(health.begin_pass(at(0)) && !health.begin_pass(at(PASS_EVERY_MS - 1)));
        assert!(health.begin_pass(at(PASS_EVERY_MS)));
        health.pass_soon(at(PASS_EVERY_MS + 10));
        assert!(!health.begin_pass(at(PASS_EVERY_MS + PASS_SOON_MS - 1)));
        assert!(health.begin_pass(at(PASS_EVERY_MS + PASS_SOON_MS)));
    }

    #[test]
    fn a_loss_counts_from_the_first_pass_without_a_pause() {
        let mut health = health();
        assert_eq!(health.note_lost(true, Now::at_ms(1)), Some(Now::at_ms(1)));
        assert_eq!(health.note_lost(true, Now::at_ms(2)), Some(Now::at_ms(1)));
        assert_eq!(health.note_lost(false, Now::at_ms(3)), None);
        assert_eq!(health.note_lost(true, Now::at_ms(4)), Some(Now::at_ms(4)));
    }

    #[test]
    fn people_are_told_once_that_all_controllers_are_in_one_zone() {
        let mut health = health();
        let found = ProbeSummary { asked: 1, answered: 1, outcomes: Vec::new() };
        health.take_own_round(&found, Now::at_ms(0));
        assert_eq!(health.expect_others(0), None, "it is alone");
        let other = ("c2".parse().expect("a name"), "a".parse().expect("a name"));
        let round = ProbeRound { prober: &other.0, zone: &other.1, asked: 1, answered: 1, outcomes: &[] };
        health.take_round(&round, Now::at_ms(0));
        let line = health.expect_others(1).expect("a line");
        assert!(line.starts_with("all 2 controllers are in zone a: "), "{line}");
        assert_eq!((health.expect_others(1), health.zones_line()), (None, Some(&*line)));
    }
}
