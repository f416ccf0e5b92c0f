//! The rollout of the target, and the orders of agents.

use std::collections::HashSet;

use fleet::rollout::{HaltEvidence, Rollout, RolloutEvent, RolloutLane, RolloutState};
use fleet::{FleetContent, Generation, GenerationNumber, HostId, RouterId, gone_back_to, next_number};
use stdx::clock::Now;

use super::state::SILENT_AFTER_MS;
use super::view::published;
use super::{AgentRecord, Controller};
use crate::authorise::ControlVerb;
use crate::decisions::{NewGeneration, Publication};
use crate::seats::SEATS_MAX;
use crate::turn::{RouterOrder, RouterReport, TextReport, TurnOrders, TurnReport};

/// Interval of looks for agents that have fallen silent.
const SILENT_EVERY_MS: u64 = 500;

impl Controller {
    /// Begins the rollout of a generation that this controller has published behind `parent`.
    pub(super) fn roll_out(&mut self, generation: Generation, parent: Option<GenerationNumber>) {
        self.view.add(generation);
        self.hears_until = None;
        self.begin_rollout(parent);
    }

    /// Begins the rollout of the target. `before` is the generation that routers have; the target's parent if it is not known.
    pub(super) fn begin_rollout(&mut self, before: Option<GenerationNumber>) {
        self.set_roster();
        self.set_cluster_files();
        let Some(current) = self.view.current() else { return };
        let before = before.or(current.parent).map(|before| self.proven(before));
        let before = before.and_then(|number| self.view.generations.get(&number));
        // What was gone back from has failed: no router gets it that lacks it, whoever has gone back.
        let before = gone_back_to(&self.view.generations, current).or(before);
        let nothing = FleetContent::default();
        let (number, old) =
            before.map_or((GenerationNumber(0), &nothing), |before| (before.number, &before.content));
        let lane = lane(old, &current.content);
        let (base, base_texts) = published(number, old);
        let (new, new_texts) = published(current.number, &current.content);
        let texts = base_texts.into_values().chain(new_texts.into_values());
        let digests = base.digests.values().chain(new.digests.values()).cloned();
        self.seats.set_texts(digests.zip(texts).map(|(digest, text)| (digest, text.into())));
        self.digests = [(base.generation, base.clone()), (new.generation, new.clone())].into();
        // A text that has failed is not rolled out, whoever has published it.
        self.rollout = Rollout::begin(new, base, lane, self.settings.rollout.clone(), &self.condemned).ok();
        let hosts: Vec<HostId> = self.agents.keys().cloned().collect();
        for host in hosts {
            self.tell_rollout(&host);
        }
        self.act_on_rollout();
    }

    /// What routers may have whose turn has not come: not a generation that is still on its way, for its canaries have not
    /// shown yet that it is good.
    fn proven(&self, before: GenerationNumber) -> GenerationNumber {
        match &self.rollout {
            // Where there was nothing before, there is nothing else to have.
            Some(going)
                if going.generation() == before
                    && going.base() > GenerationNumber(0)
                    && going.state() != RolloutState::Done =>
            {
                going.base()
            }
            _ => before,
        }
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
        let before = self.agents.get(&host);
        let is_overtaken = before.is_some_and(|before| {
            let before = &before.report;
            before.boot == report.boot
                && (before.turn > report.turn || !is_direct && before.turn == report.turn)
        });
        if is_overtaken || before.is_none() && self.agents.len() >= SEATS_MAX {
            return;
        }
        let left: Vec<RouterId> = before.map_or(Vec::new(), |before| {
            let is_left =
                |router: &&RouterReport| !report.routers.iter().any(|new| new.router == router.router);
            before.report.routers.iter().filter(is_left).map(|router| router.router.clone()).collect()
        });
        let readers = |report: &TurnReport| -> Vec<Option<GenerationNumber>> {
            report.routers.iter().map(|router| router.generation).collect()
        };
        self.has_new_readers |= before.is_none_or(|before| readers(&before.report) != readers(&report));
        if is_direct {
            self.outboxes.iter().for_each(|outbox| outbox.put_turn(&report));
        } else if before.is_some_and(|before| before.is_direct) {
            self.seats.remove(&host);
        }
        for router in left {
            self.forget_in_drain(router.clone());
            self.tell(RolloutEvent::Left { router });
        }
        self.tell_health(&report);
        let (heard, recalled) = (self.now, self.agents.get(&host).and_then(|before| before.recalled));
        let record = AgentRecord { heard, is_silent: false, expected: None, recalled, is_direct, report };
        self.agents.insert(host.clone(), record);
        self.tell_rollout(&host);
        self.give_orders(&host);
    }

    /// Tells the rollout what the last turn of an agent says.
    fn tell_rollout(&mut self, host: &HostId) {
        let Some(record) = self.agents.get(host) else { return };
        let zone = record.report.zone.clone();
        for report in record.report.routers.clone() {
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
                TextReport::Foreign => {
                    let reason = "somebody else has written the router's file".to_owned();
                    self.tell(RolloutEvent::Refused { router, reason });
                }
                _ => {
                    if let Some(digest) = report.loaded {
                        self.tell(RolloutEvent::Acknowledged { router, digest });
                    }
                }
            }
        }
        // A rollout that begins after an agent has fallen silent does not wait for it.
        let Some(record) = self.agents.get(host).filter(|record| record.is_silent) else { return };
        let (since, routers) = (record.heard, record.report.routers.clone());
        for report in routers {
            self.tell(RolloutEvent::Silent { router: report.router, since });
        }
    }

    /// Finds agents that have not been heard for a while.
    pub(super) fn find_silent(&mut self) {
        if self.now < self.silent_at {
            return;
        }
        self.silent_at = Now::at_ms(self.now.ms() + SILENT_EVERY_MS);
        let (now, return_ms) = (self.now, self.settings.health.agent_return_ms);
        let is_older = |since: Now, than_ms: u64| since.ms() + than_ms < now.ms();
        let is_late = |record: &AgentRecord| {
            is_older(record.heard, SILENT_AFTER_MS)
                || record.expected.is_some_and(|since| is_older(since, return_ms))
        };
        let mut silent = Vec::new();
        for record in self.agents.values_mut().filter(|record| !record.is_silent && is_late(record)) {
            record.is_silent = true;
            let routers = record.report.routers.iter();
            silent.extend(routers.map(|router| (router.router.clone(), record.heard)));
        }
        for (router, since) in silent {
            self.tell(RolloutEvent::Silent { router, since });
        }
    }

    /// Lets the rollout go on, and goes back if it has halted because of a router.
    pub(super) fn advance_rollout(&mut self) {
        let is_frozen = self.view.frozen.iter().any(|(scope, _)| scope == "fleet");
        self.tell(if is_frozen { RolloutEvent::Freeze } else { RolloutEvent::Thaw });
        self.act_on_rollout();
        let Some(rollout) = &self.rollout else { return };
        self.condemned.extend(rollout.condemned().iter().cloned());
        // Whatever else has halted it waits for a person.
        let has_failed = !rollout.condemned().is_empty();
        if let RolloutState::Halted(HaltEvidence::Router { router, shortfall, .. }) = rollout.state()
            && has_failed
            && self.away.is_none()
        {
            self.go_back(&format!("{router}: {shortfall:?}"));
        }
    }

    /// Publishes what routers have whose turn has not come as a new generation.
    fn go_back(&mut self, evidence: &str) {
        let (Some(target), Some(current)) = (self.view.target, self.view.current()) else { return };
        // What was gone back from must not come again, and the first one has nothing before it.
        let is_back = gone_back_to(&self.view.generations, current).is_some();
        let base = self.rollout.as_ref().map(Rollout::base).filter(|_| !is_back);
        let Some(before) = base.and_then(|number| self.view.generations.get(&number)) else { return };
        let reason = format!("back to the content of generation {}: {evidence}", before.number);
        let with_members = before.content.clone().with_members_of(&current.content);
        // Where nothing but members differs, they are what has failed.
        let content = if with_members == current.content { before.content.clone() } else { with_members };
        let is_known = content == before.content;
        let generation = self.successor(reason, content);
        let number = generation.number;
        let (Some(Publication::Done(_)), Some(rollout)) =
            (self.publish_recorded(ControlVerb::Rollback, &generation).ok(), self.rollout.as_mut())
        else {
            // Another controller has done it, or the register is away: the next moment finds out.
            self.read_at = self.now;
            return;
        };
        let back = is_known.then(|| rollout.roll_back(number).ok()).flatten();
        self.view.add(generation);
        match back {
            Some(back) => {
                // The texts are those of the generation before, which are there.
                let (texts, _) = published(number, &self.view.content());
                self.digests.insert(number, texts);
                self.rollout = Some(back);
                self.set_roster();
                self.set_cluster_files();
            }
            None => self.begin_rollout(Some(target.number)),
        }
    }

    /// Whether all routers have the target.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.rollout.as_ref().is_some_and(|rollout| matches!(rollout.state(), RolloutState::Done))
    }

    /// The generation behind the target.
    pub(super) fn successor(&self, reason: String, content: FleetContent) -> Generation {
        let parent = self.target();
        // A register that was restored from a backup has forgotten numbers, and routers refuse those that they have had.
        let number = next_number(parent, self.routers_have());
        Generation { number, parent, reason, content }
    }

    /// Makes a generation the target.
    pub(super) fn publish(
        &mut self,
        generation: &Generation,
    ) -> Result<Publication, crate::register::RegisterError> {
        let json = serde_json::to_vec(generation).expect("a generation has names and texts");
        let texts = published(generation.number, &generation.content).1.into_values().collect();
        let replaced =
            self.replaced_change(self.roster(generation.number, &generation.content).ok().as_ref());
        let new = NewGeneration { number: generation.number, json, texts, replaced };
        let published = self.decisions.publish(self.view.target, &new)?;
        if let Publication::Done(target) = published {
            self.view.target = Some(target);
            self.note_replaced_change(target.number, new.replaced);
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
            for host in self.agents.keys() {
                self.give_orders(host);
            }
        } else if !admitted.is_empty() {
            let admitted: HashSet<RouterId> = admitted.into_iter().collect();
            let is_meant = |record: &AgentRecord| {
                record.report.routers.iter().any(|report| admitted.contains(&report.router))
            };
            for (host, _) in self.agents.iter().filter(|(_, record)| is_meant(record)) {
                self.give_orders(host);
            }
        }
    }

    /// Puts an agent's orders at its seat.
    fn give_orders(&self, host: &HostId) {
        let Some(record) = self.agents.get(host).filter(|record| record.is_direct) else { return };
        let routers = record.report.routers.iter().filter_map(|report| {
            let generation = self.rollout.as_ref()?.wanted(&report.router)?;
            let digest = self.digests.get(&generation)?.digests.get(&report.view)?.clone();
            Some(RouterOrder { router: report.router.clone(), generation, digest })
        });
        let routers = routers.collect();
        let (members, lists) = (self.member_orders(&record.report), self.list_orders(record));
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
