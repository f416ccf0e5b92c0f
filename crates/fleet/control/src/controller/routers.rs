//! The rollout of the target, and the orders of agents.

use std::collections::HashSet;

use fleet::rollout::{Rollout, RolloutEvent, RolloutLane, RolloutState};
use fleet::{FleetContent, Generation, GenerationNumber, HostId, RouterId, next_number};

use super::Controller;
use super::agents::AgentRecord;
use super::published::published;
use super::state::FailedText;
use crate::decisions::Publication;
use crate::turn::{RouterOrder, TextReport, TurnOrders, TurnReport};

impl Controller {
    /// Begins the rollout of a generation that this controller has published behind `parent`.
    pub(super) fn roll_out(&mut self, generation: Generation, parent: Option<GenerationNumber>) {
        self.register.add(generation);
        self.begin_rollout(parent);
    }

    /// Begins the rollout of the target. `before` is the target before it, if that is known.
    pub(super) fn begin_rollout(&mut self, before: Option<GenerationNumber>) {
        self.rollout_since = self.now;
        self.set_roster();
        self.set_cluster_files();
        let Some(current) = self.register.view().current() else { return };
        let (before, lane) = self.lane_of(current, before);
        let (before, current) = (before.cloned(), current.clone());
        let nothing = FleetContent::default();
        let (number, old) = before
            .as_ref()
            .map_or((GenerationNumber(0), &nothing), |before| (before.number, &before.content));
        // Other routes go out slowly anyway, and wait for routers that are not known yet. A slot change does not wait.
        if lane != RolloutLane::Routes {
            self.hears_until = None;
        }
        let (base, base_texts) = published(number, old);
        let (new, new_texts) = published(current.number, &current.content);
        let texts = base_texts.into_values().chain(new_texts.into_values());
        let digests = base.digests.values().chain(new.digests.values()).cloned();
        self.seats.set_texts(digests.zip(texts).map(|(digest, text)| (digest, text.into())));
        self.digests = [(base.generation, base.clone()), (new.generation, new.clone())].into();
        let base_number = base.generation;
        // A text that has failed is not rolled out, whoever has published it.
        self.rollout = Rollout::begin(new, base, lane, self.settings.rollout.clone(), &self.condemned).ok();
        self.failure =
            FailedText { base: self.rollout.is_none().then_some(base_number), ..FailedText::default() };
        let hosts: Vec<HostId> = self.agents.hosts().cloned().collect();
        for host in hosts {
            self.tell_rollout(&host);
        }
        self.follow_rollout_word();
        self.act_on_rollout();
    }

    /// What routers may have whose turn for a generation has not come, and how it goes out: a plan says the same as the rollout does.
    /// `before` is the target before it, if that is known.
    pub(super) fn lane_of(
        &self,
        next: &Generation,
        before: Option<GenerationNumber>,
    ) -> (Option<&Generation>, RolloutLane) {
        let base =
            self.base_of(next, before).and_then(|number| self.register.view().generations().get(&number));
        // All routers have had it: whoever comes gets it at once.
        if self.settled() == Some(next.number) {
            return (base, RolloutLane::Rollback);
        }
        let nothing = FleetContent::default();
        (base, lane(base.map_or(&nothing, |base| &base.content), &next.content))
    }

    /// Says what happened; at the next moment the rollout acts on it.
    pub(super) fn tell(&mut self, event: RolloutEvent) {
        if let Some(rollout) = &mut self.rollout {
            rollout.note(event, self.now);
        }
    }

    /// Lets the rollout go on with the time, once the routers are known.
    fn act_on_rollout(&mut self) {
        self.hears_until = self.hears_until.filter(|until| self.now < *until);
        if let Some(rollout) = self.rollout.as_mut().filter(|_| self.hears_until.is_none()) {
            rollout.on(RolloutEvent::Tick, self.now);
        }
    }

    /// Takes a turn, which another controller has passed on if it is not direct. One that was overtaken by a later one of
    /// the same agent says nothing new.
    pub(super) fn on_turn(&mut self, report: TurnReport, is_direct: bool) {
        let host = report.host.clone();
        let Some(taken) = self.agents.take(report, is_direct, self.now) else { return };
        let Some(record) = self.agents.get(&host) else { return };
        if is_direct {
            self.peers.pass_on(record.report());
        } else if taken.was_direct {
            self.seats.remove(&host);
        }
        for router in taken.left {
            self.forget_in_drain(router.clone());
            self.tell(RolloutEvent::Left { router });
        }
        self.tell_health(&host);
        self.tell_rollout(&host);
        self.give_orders(&host);
    }

    /// Tells the rollout what the last turn of an agent says.
    fn tell_rollout(&mut self, host: &HostId) {
        let Some(record) = self.agents.get(host) else { return };
        let zone = record.report().zone.clone();
        for report in record.report().routers.clone() {
            let router = report.router.clone();
            let has = report.generation.unwrap_or(GenerationNumber(0));
            let view = report.view.clone();
            self.tell(RolloutEvent::Appeared { router: router.clone(), zone: zone.clone(), view, has });
            self.tell(RolloutEvent::Heard { router: router.clone() });
            let target = self.target();
            match report.text {
                TextReport::Refused { generation, reason } if target == Some(generation) => {
                    self.tell(RolloutEvent::Refused { router, reason });
                }
                TextReport::Crashed { generation, reason } if target == Some(generation) => {
                    self.tell(RolloutEvent::Crashed { router, reason });
                }
                // It keeps what somebody has put there, which is that router's matter.
                TextReport::Foreign => self.tell(RolloutEvent::SetAside { router }),
                _ => self.tell(match report.loaded {
                    Some(digest) => RolloutEvent::Acknowledged { router, digest },
                    None => RolloutEvent::Unanswered { router },
                }),
            }
        }
        // A rollout that begins after an agent has fallen silent does not wait for it.
        let Some(record) = self.agents.get(host).filter(|record| record.is_silent()) else { return };
        let (since, routers) = (record.heard(), record.report().routers.clone());
        for report in routers {
            self.tell(RolloutEvent::Silent { router: report.router, since });
        }
    }

    /// Finds agents that have not been heard for a while.
    pub(super) fn find_silent(&mut self) {
        let silent = self.agents.find_silent(&self.settings.health, self.now);
        for (router, since) in silent {
            self.tell(RolloutEvent::Silent { router, since });
        }
    }

    /// Lets the rollout go on, and leaves the target if its text has failed.
    pub(super) fn advance_rollout(&mut self) {
        let is_frozen = self.register.view().frozen().iter().any(|(scope, _)| scope == "fleet");
        self.tell(if is_frozen { RolloutEvent::Freeze } else { RolloutEvent::Thaw });
        self.act_on_rollout();
        let failed = self.rollout.as_ref().map(|rollout| rollout.condemned().iter().cloned());
        self.condemned.extend(failed.into_iter().flatten());
        self.leave_failed();
        self.note_settled();
    }

    /// Whether all routers have the target, and all are known.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.hears_until.is_none()
            && self.rollout.as_ref().is_some_and(|rollout| matches!(rollout.state(), RolloutState::Done))
    }

    /// The generation behind the target.
    pub(super) fn successor(&self, reason: String, content: FleetContent) -> Generation {
        let parent = self.target();
        // A register that was restored from a backup has forgotten numbers, and routers refuse those that they have had.
        let number = next_number(parent, self.agents.routers_have());
        Generation { number, parent, reason, content }
    }

    /// Makes a generation the target.
    pub(super) fn publish(
        &mut self,
        generation: &Generation,
    ) -> Result<Publication, crate::register::RegisterError> {
        let roster = self.roster(generation.number, &generation.content).ok();
        let slots = roster.map_or(Vec::new(), |roster| self.watch.replaced_by(&roster));
        let records = self.register.view().replaced();
        let replaced = self.replaced.change(records, slots, (self.now, self.unix_s));
        let published = self.register.publish(generation, &replaced)?;
        if let Publication::Done(target) = published {
            self.replaced.note_change(target.number, &replaced, self.now);
        }
        Ok(published)
    }

    /// Puts orders at the seats of agents that get other ones than they have. Those of an agent that has its turn follow at once, so
    /// this is about routers whose wave has come, and about members that no router uses any more.
    pub(super) fn give_new_orders(&mut self) {
        self.release_cluster_files();
        let now = self.target().map(|target| (target, self.is_rolled_out()));
        self.has_new_orders |= self.ordered != now;
        self.ordered = now;
        let admitted = self.rollout.as_mut().map_or(Vec::new(), Rollout::take_admitted);
        if std::mem::take(&mut self.has_new_orders) {
            for host in self.agents.hosts() {
                self.give_orders(host);
            }
        } else if !admitted.is_empty() {
            let admitted: HashSet<RouterId> = admitted.into_iter().collect();
            let is_meant = |record: &AgentRecord| {
                record.report().routers.iter().any(|report| admitted.contains(&report.router))
            };
            for (host, _) in self.agents.iter().filter(|(_, record)| is_meant(record)) {
                self.give_orders(host);
            }
        }
    }

    /// Puts an agent's orders at its seat.
    fn give_orders(&self, host: &HostId) {
        let Some(record) = self.agents.get(host).filter(|record| record.is_direct()) else { return };
        let routers = record.report().routers.iter().filter_map(|report| {
            let generation = self.rollout.as_ref()?.wanted(&report.router)?;
            let digest = self.digests.get(&generation)?.digests.get(&report.view)?.clone();
            Some(RouterOrder { router: report.router.clone(), generation, digest })
        });
        let routers = routers.collect();
        let (members, lists) = (self.member_orders(&record.report()), self.list_orders(record));
        // An agent without a seat has been told so.
        let _ = self.seats.set_orders(host, TurnOrders { routers, members, lists, ..TurnOrders::default() });
    }
}

/// How carefully a generation goes out. Where there was nothing, there is nothing to break.
pub(super) fn lane(old: &FleetContent, new: &FleetContent) -> RolloutLane {
    if old.views.is_empty() {
        return RolloutLane::Rollback;
    }
    let is_same_shape = old.views == new.views
        && old.clusters.len() == new.clusters.len()
        && old.clusters.iter().zip(&new.clusters).all(|(old, new)| {
            old.name == new.name
                && old.pool == new.pool
                && (&old.gutter, &old.warm_up) == (&new.gutter, &new.warm_up)
                && old.slots.len() == new.slots.len()
        });
    if is_same_shape { RolloutLane::SlotChange } else { RolloutLane::Routes }
}
