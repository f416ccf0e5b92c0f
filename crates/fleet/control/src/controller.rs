//! A controller: its view of the fleet, and what it does about what it hears.
//!
//! ```text
//! register ─► FleetView (policy, inventory, generations) ─► change.rs: plan, check, publish ─► register
//! turns ────► routers.rs: the rollout of the target ─► orders at the agents' seats
//!        ├──► health.rs: verdicts, with probes and routers ─► a generation with another member in a slot
//!        ├──► drain.rs: routers that have a phase of a drain ─► a generation with the next phase
//!        └──► warm_up.rs: hit ratios ─► a generation without its warm-up
//! a person ─► by_hand.rs: the rollout halts, goes on or is given up ─► register, and from there to every controller
//! who takes a slot ─► slots.rs: the one way in which a slot changes its member
//! failures ─► learnt.rs ─► register, and from there to every controller
//! replaced ─► replaced.rs ─► register, with its generation, and from there to every controller
//! loaded by all ─► settled.rs ─► register: what routers may have whose turn has not come
//! a text that fails ─► failed.rs ─► a generation that goes back, or on with other members
//! questions ► answers.rs: status, history, difference, why
//! ```
//!
//! One thread calls it, with messages and moments. It decides nothing that `fleet` does not decide, reads no clock and opens
//! no socket.

mod adopting;
mod agents;
mod answers;
mod audit_trail;
mod by_hand;
mod change;
mod cluster_files;
mod drain;
mod draining;
mod failed;
mod forgotten;
mod gone;
mod health;
mod inventory;
mod joining;
mod learnt;
mod log;
mod members;
mod others;
mod peers;
mod probes;
mod published;
mod recall;
mod register_mirror;
mod replaced;
mod replies;
mod router_lists;
mod routers;
mod settled;
mod slots;
mod state;
mod trail;
mod warm_up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use admin::api::ApiReply;
use fleet::health::{HealthThresholdError, HealthThresholds, HealthWatch, Quarantined, Roster, WarmUp};
use fleet::rollout::{PublishedTexts, Rollout, RolloutSettings};
use fleet::{GenerationNumber, HostId, MemberId, TextDigest, ZoneName};
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use crate::access::{Requester, controller_of, verb_of};
use crate::audit::{AuditLog, AuditReach, PlanDigest};
use crate::authority::Authority;
use crate::decisions::FleetDecisions;
use crate::identity::{FleetIdentity, FleetName};
use crate::liveness::LivenessOutbox;
use crate::probe::ProbeResult;
use crate::questions::{ChangeQuestion, ControlQuestion};
use crate::register::RegisterError;
use crate::seats::AgentSeats;
use crate::service::{ControllerMessage, SayLine};
use agents::Agents;
use audit_trail::AuditTrail;
use cluster_files::ClusterFiles;
use log::ControllerLog;
use peers::Peers;
use probes::Probes;
use register_mirror::{RETRY_MS, RegisterMirror};
use replaced::KnownReplacements;
use replies::refusal;
use state::{ALL_HEARD_MS, DrainWatch, FailedText, RouterLists};
use trail::Act;

pub use members::MemberState;

/// Choices of whoever starts a controller.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// Its fleet.
    pub fleet: FleetName,
    /// Its name, which no other controller of the fleet has.
    pub host: HostId,
    /// Where that is.
    pub zone: ZoneName,
    /// Durations and shares of rollouts.
    pub rollout: RolloutSettings,
    /// When a member counts as lost, and how many may be replaced.
    pub health: HealthThresholds,
}

/// Why a controller does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The register cannot be read.
    #[error("begin as a controller")]
    Register(#[from] RegisterError),
    /// A threshold with which a healthy fleet would be replaced, or a dead one never.
    #[error("begin as a controller")]
    Health(#[from] HealthThresholdError),
}

/// A controller.
pub struct Controller {
    register: RegisterMirror,
    seats: Arc<AgentSeats>,
    settings: ControllerSettings,
    rollout: Option<Rollout>,
    /// When it began here.
    rollout_since: Now,
    /// A controller that has just started does not know all routers until then: it would draw other canaries than the others,
    /// and each would wait for the routers of the other ones.
    hears_until: Option<Now>,
    /// The newest generation that all routers have had, as far as this controller has seen, and when the register is asked again
    /// to keep that.
    settled: Option<GenerationNumber>,
    settle_at: Now,
    failure: FailedText,
    /// Of the target and of the generation before.
    digests: BTreeMap<GenerationNumber, PublishedTexts>,
    cluster_files: ClusterFiles,
    /// The target, and whether all routers have it, when all agents had their orders last.
    ordered: Option<(GenerationNumber, bool)>,
    router_lists: RouterLists,
    /// Orders may be others than at the seats: the inventory has changed.
    has_new_orders: bool,
    /// Texts that have failed in a router, by what was seen there.
    condemned: BTreeSet<TextDigest>,
    /// Those that the register has, or has forgotten.
    kept_condemned: BTreeSet<TextDigest>,
    /// Members and hosts that are in quarantine by the register.
    kept_held: BTreeSet<Quarantined>,
    replaced: KnownReplacements,
    /// When it is looked next whether the register has forgotten generations, and what was said about it last.
    forgotten_at: Now,
    forgotten_line: Option<String>,
    /// When the register is asked again to keep what it could not.
    keep_at: Now,
    is_keeping: bool,
    agents: Agents,
    probes: Probes,
    has_new_members: bool,
    watch: HealthWatch,
    /// Of members that are cold in the target, since all routers have it.
    warm_ups: BTreeMap<MemberId, WarmUp>,
    /// The phase of the drain that is going on.
    drain: Option<DrainWatch>,
    /// Where it was at the last pass, for people, and in which generation.
    drain_line: Option<(GenerationNumber, String)>,
    /// No phase of a drain ends before.
    drain_after: Now,
    /// Members of a drained slot that are emptied, and by which order.
    emptying: BTreeMap<MemberId, u64>,
    pass_at: Now,
    /// What the last pass has found, for people.
    health_notes: Vec<String>,
    health_trouble: Option<String>,
    /// What was said about the zones of controllers.
    zones_line: Option<String>,
    /// Since when there is someone to replace.
    lost_since: Option<Now>,
    peers: Peers,
    trail: AuditTrail,
    authority: Option<Authority>,
    /// The last second of its own certificate's life.
    certificate_end_s: Option<Arc<AtomicU64>>,
    log: ControllerLog,
    began: Now,
    now: Now,
    unix_s: i64,
}

impl Controller {
    /// A controller of the fleet whose decisions these are. `unix_s` is the time of the wall clock.
    ///
    /// # Errors
    /// If the register cannot be read, or a threshold is outside its bounds.
    pub fn new(
        decisions: FleetDecisions,
        seats: Arc<AgentSeats>,
        settings: ControllerSettings,
        now: Now,
        unix_s: i64,
    ) -> Result<Controller, ControllerError> {
        let register = RegisterMirror::new(decisions, now)?;
        let replaced = KnownReplacements::new(settings.health.guard.replaced_window_ms);
        let nobody = Roster::new(GenerationNumber(0), Vec::new()).expect("nobody is a roster");
        let watch = HealthWatch::new(now, settings.health.clone(), nobody)?;
        let silent_after_ms = settings.health.agent_silent_after_ms;
        let peers = Peers::new(settings.host.clone());
        let mut controller = Controller {
            register,
            seats,
            settings,
            rollout: None,
            rollout_since: now,
            hears_until: None,
            settled: None,
            settle_at: now,
            failure: FailedText::default(),
            digests: BTreeMap::new(),
            cluster_files: ClusterFiles::default(),
            router_lists: RouterLists::new(now),
            ordered: None,
            has_new_orders: false,
            condemned: BTreeSet::new(),
            kept_condemned: BTreeSet::new(),
            kept_held: BTreeSet::new(),
            replaced,
            forgotten_at: Now::at_ms(now.ms() + ALL_HEARD_MS),
            forgotten_line: None,
            keep_at: now,
            is_keeping: true,
            agents: Agents::new(now),
            probes: Probes::default(),
            has_new_members: true,
            watch,
            warm_ups: BTreeMap::new(),
            drain: None,
            drain_line: None,
            drain_after: now,
            emptying: BTreeMap::new(),
            pass_at: now,
            health_notes: Vec::new(),
            health_trouble: None,
            zones_line: None,
            lost_since: None,
            peers,
            trail: AuditTrail::default(),
            authority: None,
            certificate_end_s: None,
            log: ControllerLog::default(),
            began: now,
            now,
            unix_s,
        };
        controller.resume_drain();
        controller.follow_learnt();
        controller.follow_gone();
        controller.begin_rollout(None);
        controller.hears_until = Some(Now::at_ms(now.ms() + silent_after_ms));
        controller.set_router_lists();
        controller.register.note_followed(now);
        Ok(controller)
    }

    /// With lines for people.
    pub fn saying(mut self, say: SayLine) -> Controller {
        self.log.say_to(say);
        self
    }

    /// With a log of what it is asked to change, and what it changes itself.
    pub fn recording(mut self, log: AuditLog) -> Controller {
        self.trail.record_in(log);
        self
    }

    /// With an authority: it signs certificates.
    pub fn signing(mut self, authority: Authority) -> Controller {
        self.authority = Some(authority);
        self
    }

    /// With a certificate that ends at this second, which changes when it is renewed; 0 while that is not known.
    pub fn showing_end(mut self, end_s: Option<Arc<AtomicU64>>) -> Controller {
        self.certificate_end_s = end_s;
        self
    }

    /// With other controllers, which are told what this one hears.
    pub fn telling(mut self, outboxes: Vec<Arc<LivenessOutbox>>) -> Controller {
        self.peers.tell(outboxes);
        self
    }

    /// Takes a message. `unix_s` is the time for people.
    pub fn on_message(&mut self, message: ControllerMessage, now: Now, unix_s: i64) {
        (self.now, self.unix_s) = (self.now.max(now), unix_s);
        match message {
            ControllerMessage::Turn(report) => self.on_turn(report, true),
            ControllerMessage::Probe(result) => self.on_probe(result),
            ControllerMessage::Changed => self.register.read_soon(self.now),
            // Whoever asked was told that there is no answer, and has perhaps decided otherwise since. News stay news.
            ControllerMessage::Question(question, _, reply)
                if reply.is_closed() && !matches!(question, ControlQuestion::Liveness(_)) => {}
            ControllerMessage::Question(question, requester, reply) => {
                // Whoever asked may have gone.
                let _ = reply.send(self.answer(question, &requester));
            }
        }
    }

    /// Does what is due, at least every second and after messages.
    pub fn tick(&mut self, now: Now) {
        self.now = self.now.max(now);
        if self.register.is_read_due(self.now) {
            self.read();
        }
        self.seats.set_without_register(self.register.away().is_some());
        self.find_silent();
        self.has_new_orders |= self.agents.find_oldest_read();
        self.advance_rollout();
        self.publish_forgotten();
        self.heal();
        self.keep_learnt();
        self.keep_router_lists();
        self.give_new_orders();
    }

    /// The members to probe and their addresses, if they are others than those that were taken last.
    pub fn take_new_targets(&mut self) -> Option<BTreeMap<MemberId, String>> {
        if !std::mem::take(&mut self.has_new_members) {
            return None;
        }
        let members = self.register.view().inventory().members();
        Some(members.map(|member| (member.id.clone(), member.address.clone())).collect())
    }

    /// The generation in force.
    pub fn target(&self) -> Option<GenerationNumber> {
        self.register.target()
    }

    fn answer(&mut self, question: ControlQuestion, requester: &Requester) -> ApiReply {
        let verb = verb_of(&question);
        let Some(who) = requester.identity() else {
            return match question {
                ControlQuestion::Join(question) => self.join(&question),
                _ => refusal(403, "a client certificate of the fleet is needed"),
            };
        };
        let act = |reach, plan: Option<&str>, why| {
            let plan = plan.map(|plan| PlanDigest::of(plan.as_bytes()));
            Act { who, verb, reach, plan, why }
        };
        match question {
            ControlQuestion::Status => {
                self.read_for_people();
                self.status()
            }
            ControlQuestion::Policy => self.policy(),
            ControlQuestion::History => self.history(),
            ControlQuestion::Diff { from, to } => self.difference(from, to),
            ControlQuestion::Why { key, view } => self.why(&key, view.as_ref()),
            ControlQuestion::Plan(change) => self.show_plan(&change),
            ControlQuestion::Apply { change, plan, why } => {
                let reach = match change {
                    ChangeQuestion::Requests(_)
                    | ChangeQuestion::Drain(_)
                    | ChangeQuestion::CancelDrain(_) => AuditReach::Members,
                    _ => AuditReach::Routes,
                };
                let apply = |this: &mut Controller| this.apply(&change, &plan, &why);
                self.recorded(&act(reach, Some(&plan), &why), apply)
            }
            ControlQuestion::Freeze { scope, why } => {
                self.recorded(&act(AuditReach::Nothing, None, &why), |this| this.freeze(&scope, &why))
            }
            ControlQuestion::Thaw { scope, why } => {
                self.recorded(&act(AuditReach::Nothing, None, &why), |this| this.thaw(&scope, &why))
            }
            ControlQuestion::Rollout { act: wanted, why } => {
                self.recorded(&act(AuditReach::Routes, None, &why), |this| this.on_rollout_act(wanted, &why))
            }
            ControlQuestion::Members { members, remove, remove_hosts, why: None } => {
                self.change_members(&members, &remove, &remove_hosts, false)
            }
            ControlQuestion::Members { members, remove, remove_hosts, why: Some(why) } => {
                let change =
                    |this: &mut Controller| this.change_members(&members, &remove, &remove_hosts, true);
                self.recorded(&act(AuditReach::Members, None, &why), change)
            }
            ControlQuestion::IssueToken(terms) => {
                self.recorded(&act(AuditReach::Nothing, None, ""), |this| this.issue_token(&terms))
            }
            ControlQuestion::Renew { request } => self.renew(requester, &request),
            ControlQuestion::Liveness(report) => self.on_liveness(report),
            ControlQuestion::Join(_) => refusal(422, "whoever has a certificate renews it"),
            // Its answer comes from its seat, so it is no question here.
            ControlQuestion::Turn(_) => refusal(400, "a turn has no answer here"),
        }
    }

    /// Lines for the log that have come since.
    pub fn take_log_lines(&mut self) -> impl Iterator<Item = String> + use<> {
        self.log.take()
    }

    /// Says a line to people.
    pub(crate) fn say(&self, level: LogLevel, line: &str) {
        self.log.say(level, line);
    }

    /// The identity of this controller in the audit log.
    fn own_identity(&self) -> FleetIdentity {
        controller_of(&self.settings.fleet, self.settings.host.as_str())
    }

    /// Reads the register, and follows what others have published.
    fn read(&mut self) {
        let Some(news) = self.register.read(self.now) else { return };
        self.has_new_members |= news.has_new_members;
        self.has_new_orders |= news.has_new_members;
        self.follow_learnt();
        self.follow_gone();
        self.set_router_lists();
        self.probes.keep_those_of(self.register.view().inventory());
        if let Some(before) = news.target_before {
            self.begin_rollout(before);
        } else if news.has_new_members {
            self.set_roster();
        }
        self.follow_rollout_word();
        self.register.note_followed(self.now);
    }

    /// Reads the register before somebody is told how it is, unless that was just done.
    fn read_for_people(&mut self) {
        if self.register.is_old(self.now) {
            self.read();
        }
    }

    fn on_probe(&mut self, result: ProbeResult) {
        if self.register.view().inventory().get(&result.member).is_none() {
            return;
        }
        if result.answer.is_err() {
            self.recall_agent_of(&result.member);
        }
        let late = Duration::from_millis(self.settings.health.probe_late_ms);
        if self.probes.take(result, late, self.now) {
            self.pass_soon();
        }
    }
}

#[cfg(test)]
mod tests;
