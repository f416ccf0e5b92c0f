//! A controller: its view of the fleet, and what it does about what it hears.
//!
//! It is a coordinator. Parts own what is known, and decide; they know nothing of each other but what they are given. Each event
//! goes to the parts in a fixed order, and what they decide is carried out: written to the register, put at the agents' seats,
//! recorded, said.
//!
//! ```text
//! event          in acting/      parts, which decide
//! a turn ──────► hearing.rs ───► agents, figures ─► tuning, health, rollout, drains ──────► orders.rs
//! a probe ─────► hearing.rs ───► probes; health
//! the register ► hearing.rs ───► register_mirror ─► failures, health, agents, lists, rollout
//! time, tick ──► changes.rs ──► changes of hosts: the next decision ─► register ────────────► orders.rs
//!            ├─► standards.rs ► standards: hosts that may be tuned now ──────────────────────► orders.rs
//!            ├─► upkeep.rs ────► rollout: the next wave, what is settled
//!            │                   rollout: a text that fails ─► another generation ────────► publishing.rs ─► register
//!            │                   forgotten, failures, router_lists ─► register
//!            ├─► healing.rs ───► health: a member that is lost ─► planning ───────────────► publishing.rs
//!            │                   drains, warm_ups: a phase that is over ──────────────────► publishing.rs
//!            └─► orders.rs ────► rollout, drains, lists ─► orders at the agents' seats
//! a person ────► commands.rs ──► planning: a change that was shown ───────────────────────► publishing.rs, orders.rs
//!            └─► status.rs, answers/{documents,figures}.rs
//! ```
//!
//! One thread calls it, with messages and moments. It decides nothing that `fleet` does not decide, reads no clock and opens
//! no socket.

mod acting;
mod answers;
mod audit_trail;
mod changes;
mod health;
mod lists;
mod log;
mod observing;
mod planning;
mod register_mirror;
mod rollout;
mod settings;
mod slots;
mod tuning;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use admin::api::ApiReply;
use fleet::{GenerationNumber, MemberId};
use stdx::clock::Now;
use stdx::log_level::LogLevel;

use crate::audit::{AuditLog, AuditReach, PlanDigest};
use crate::decisions::FleetDecisions;
use crate::identity::authority::Authority;
use crate::liveness::LivenessOutbox;
use crate::probe::objective::ObjectiveBoard;
use crate::service::access::{Requester, verb_of};
use crate::service::questions::{ChangeQuestion, ControlQuestion};
use crate::service::seats::AgentSeats;
use crate::service::{ControllerMessage, SayLine};
use acting::orders::OrdersDue;
pub use answers::console::{ConsoleLinks, NoConsoleLink};
use answers::replies::refusal;
use answers::signing::Signing;
use audit_trail::{AuditAct, AuditTrail};
use health::MemberHealth;
use lists::cluster_files::ClusterFiles;
use lists::router_lists::RouterLists;
use log::ControllerLog;
use observing::agents::Agents;
use observing::peers::Peers;
use observing::probes::MemberProbes;
use register_mirror::RegisterMirror;
use rollout::failures::KeptFailures;
use rollout::forgotten::ForgottenGenerations;
use rollout::target_rollout::TargetRollout;
use slots::drains::Drains;
use tuning::FleetTuning;

pub(crate) use acting::figures::ControllerFigures;
pub(crate) use acting::request_sums::{LevelSums, RequestSums};
pub(crate) use settings::ControllerError;
pub use settings::ControllerSettings;
pub(crate) use tuning::figures::TuneFigures;
pub(crate) use tuning::{BODIES_PER_MESSAGE, FleetAsk};

/// A controller.
pub struct Controller {
    settings: ControllerSettings,
    now: Now,
    /// The time for people.
    unix_s: i64,
    register: RegisterMirror,
    seats: Arc<AgentSeats>,
    orders: OrdersDue,
    log: ControllerLog,
    trail: AuditTrail,
    signing: Signing,
    agents: Agents,
    probes: MemberProbes,
    peers: Peers,
    health: MemberHealth,
    rollout: TargetRollout,
    failures: KeptFailures,
    forgotten: ForgottenGenerations,
    drains: Drains,
    tuning: FleetTuning,
    cluster_files: ClusterFiles,
    router_lists: RouterLists,
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
        let prober = (settings.host.clone(), settings.zone.clone());
        let silent_after_ms = settings.health.agent_silent_after_ms;
        let mut controller = Controller {
            now,
            unix_s,
            seats,
            orders: OrdersDue::default(),
            log: ControllerLog::default(),
            trail: AuditTrail::default(),
            signing: Signing::default(),
            agents: Agents::new(now),
            probes: MemberProbes::default(),
            peers: Peers::new(settings.host.clone()),
            health: MemberHealth::new(settings.health.clone(), prober, now)?,
            rollout: TargetRollout::new(settings.rollout.clone(), now),
            failures: KeptFailures::new(now),
            forgotten: ForgottenGenerations::new(now),
            drains: Drains::new(register.view(), now),
            tuning: FleetTuning::default(),
            cluster_files: ClusterFiles::default(),
            router_lists: RouterLists::new(now),
            register,
            settings,
        };
        controller.probes.note_new_members();
        controller.follow_records();
        controller.begin_rollout(None);
        let all_heard = Now::at_ms(now.ms() + silent_after_ms);
        controller.rollout.hear_until(all_heard);
        controller.tuning.standards.hear_until(all_heard);
        controller.follow_changes();
        // The first turn is answered before the first moment.
        controller.follow_standards();
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
        self.signing.sign_with(authority);
        self
    }

    /// With a certificate that ends at this second, which changes when it is renewed; 0 while that is not known.
    pub fn showing_end(mut self, end_s: Option<Arc<AtomicU64>>) -> Controller {
        self.signing.show_end(end_s);
        self
    }

    /// With other controllers, which are told what this one hears.
    pub fn telling(mut self, outboxes: Vec<Arc<LivenessOutbox>>) -> Controller {
        self.peers.tell(outboxes);
        self
    }

    /// With a console, which has these addresses.
    pub fn showing_console(mut self, links: Option<ConsoleLinks>) -> Controller {
        self.signing.show_console(links);
        self
    }

    /// With a board on which objectives of changes are put, and are asked from.
    pub fn asking_objectives(mut self, board: Option<Arc<ObjectiveBoard>>) -> Controller {
        self.tuning.changes.ask_objectives_on(board);
        self
    }

    /// Takes a message. `unix_s` is the time for people.
    pub fn on_message(&mut self, message: ControllerMessage, now: Now, unix_s: i64) {
        (self.now, self.unix_s) = (self.now.max(now), unix_s);
        match message {
            ControllerMessage::Turn(report) => self.on_turn(report, true),
            ControllerMessage::Probe(result) => self.on_probe(result),
            ControllerMessage::Changed => self.register.read_soon(self.now),
            ControllerMessage::Objective(answer) => self.tuning.changes.hear_objective(answer, self.now),
            // Whoever asked was told that there is no answer, and has perhaps decided otherwise since. News stay news.
            ControllerMessage::Question(question, _, reply)
                if reply.is_closed() && !matches!(question, ControlQuestion::Liveness(_)) => {}
            ControllerMessage::Question(question, requester, reply) => {
                // Whoever asked may have gone.
                let _ = reply.send(self.answer(question, &requester));
            }
        }
    }

    /// Does what is due, at least every second and after messages. `unix_s` is the time for people.
    pub fn tick(&mut self, now: Now, unix_s: i64) {
        (self.now, self.unix_s) = (self.now.max(now), unix_s);
        if self.register.is_read_due(self.now) {
            self.read();
        }
        self.seats.set_without_register(self.register.away().is_some());
        self.find_silent();
        self.agents.forget_old_figures(self.register.view(), self.now);
        self.orders.if_so(self.agents.find_oldest_read());
        self.advance_rollout();
        self.publish_forgotten();
        self.heal();
        self.keep_failures();
        self.keep_router_lists();
        self.follow_tuning();
        self.advance_changes();
        self.follow_standards();
        self.give_new_orders();
    }

    /// The members to probe and their addresses, if they are others than those that were taken last.
    pub fn take_new_targets(&mut self) -> Option<BTreeMap<MemberId, String>> {
        self.probes.take_new_targets(self.register.view().inventory())
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
            AuditAct { who, verb, reach, plan, why }
        };
        match question {
            ControlQuestion::Status => {
                self.read_for_people();
                self.status()
            }
            ControlQuestion::Summary => self.summary(),
            ControlQuestion::Figures(question) => self.figures_document(&question),
            ControlQuestion::Shadows(question) => self.shadows_document(&question),
            ControlQuestion::Policy => self.policy(),
            ControlQuestion::History => answers::documents::history(self.register.view()),
            ControlQuestion::Diff { from, to } => {
                answers::documents::difference(self.register.view(), from, to, self.unix_s)
            }
            ControlQuestion::Why { key, view } => {
                answers::documents::why(self.register.view(), &key, view.as_ref(), self.unix_s)
            }
            ControlQuestion::Plan(change) => self.planner().show(&change),
            ControlQuestion::Apply { change, plan, why } => {
                let reach = match change {
                    ChangeQuestion::Requests(_)
                    | ChangeQuestion::Drain(_)
                    | ChangeQuestion::CancelDrain(_) => AuditReach::Members,
                    _ => AuditReach::Routes,
                };
                let apply = |this: &mut Controller| this.apply(&change, &plan, (who, &why));
                self.recorded(&act(reach, Some(&plan), &why), apply)
            }
            ControlQuestion::Freeze { scope, why } => {
                self.recorded(&act(AuditReach::Nothing, None, &why), |this| this.freeze(&scope, &why))
            }
            ControlQuestion::Thaw { scope, why } => {
                self.recorded(&act(AuditReach::Nothing, None, &why), |this| this.thaw(&scope, &why))
            }
            ControlQuestion::Rollout { act: wanted, why } => {
                let steer = |this: &mut Controller| this.on_rollout_act(wanted, (who, &why));
                self.recorded(&act(AuditReach::Routes, None, &why), steer)
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
            ControlQuestion::ConsoleToken => {
                self.recorded(&act(AuditReach::Nothing, None, ""), |this| this.signing.console_link())
            }
            ControlQuestion::Renew { request, present } => {
                let inventory = self.register.view().inventory();
                self.signing.renew(requester, &request, present.as_deref(), inventory)
            }
            ControlQuestion::Certify(question) => self.certify(&question, who),
            ControlQuestion::Liveness(report) => self.on_liveness(report),
            ControlQuestion::TuneCheck { scope } => self.tune_check(&scope),
            ControlQuestion::TuneAsk { scope, what } => self.tune_ask(&scope, what),
            ControlQuestion::TuneAsked(id) => self.tune_asked(&id),
            ControlQuestion::TunePlan(id) => self.tune_plan(&id),
            ControlQuestion::ChangeHosts(wanted) => match wanted.confirmed.clone() {
                None => self.show_change(&wanted),
                Some((plan, why)) => {
                    let change =
                        |this: &mut Controller| this.begin_change(&wanted, &plan, (who.id.as_str(), &why));
                    self.recorded(&act(AuditReach::Nothing, Some(&plan), &why), change)
                }
            },
            ControlQuestion::Changes(number) => {
                self.read_for_people();
                self.changes_document(number)
            }
            ControlQuestion::SteerChange { number, act: wanted, why } => {
                let steer = |this: &mut Controller| this.steer_change(number, wanted, &why);
                self.recorded(&act(AuditReach::Nothing, None, &why), steer)
            }
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
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
