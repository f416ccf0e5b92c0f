//! Generations: what is published, what routers load, and whether all of them have the same in the end.

use fleet::drain::DrainPhase;
use fleet::{ClusterRecord, Generation, MemberId};

use super::super::disk::FileText;
use super::super::faults::SmallFault;
use super::super::routers::FileLook;
use super::super::shape::{
    CONTROLLERS, HEALED_WITHIN_MS, LEFT_WITHIN_MS, REFUSED_FOR_MS, ROUTERS, SLOTS, SLOTS_GROWN,
};
use super::super::traffic::key;
use super::SmallWorld;

/// Orders that agents have taken are carried out within this time, although no controller works.
const ORDERS_DONE_MS: u64 = 4_000;

impl SmallWorld {
    /// Notes generations that were published, and holds them against their parents.
    pub(super) fn read_news(&mut self, now_ms: u64) {
        self.read_news_of(now_ms, false);
    }

    /// Routers learn of new generations, which may be an operator's work.
    pub(super) fn read_news_of(&mut self, now_ms: u64, is_by_hand: bool) {
        let Some(target) = self.controllers.news() else { return };
        let newest = self.routes.generations.last_key_value().map_or(0, |(number, _)| *number);
        for number in newest + 1..=target.0 {
            let Some(generation) = self.controllers.generation(number) else { continue };
            let parent = generation.parent.and_then(|parent| self.routes.generations.get(&parent.0));
            let Some(parent) = parent else {
                let found = format!("generation {number} has no parent that was published");
                return self.violate(now_ms, "I1", found, None);
            };
            let ids = |content: &fleet::FleetContent| {
                content.clusters[0].slots.iter().map(|slot| slot.id.clone()).collect::<Vec<_>>()
            };
            let (old, new) = (ids(&parent.content), ids(&generation.content));
            if !old.starts_with(&new) && !new.starts_with(&old) {
                return self.violate(now_ms, "I4", format!("generation {number} has other slots"), None);
            }
            if let Some(found) = self.unasked_routes(&generation, is_by_hand) {
                return self.violate(now_ms, "I16", found, None);
            }
            let servers = &self.servers.0;
            let lives = |member: &MemberId| {
                is_by_hand
                    && servers.iter().any(|server| server.id == *member && server.is_up && !server.is_cut_off)
            };
            self.routes.publish(generation, lives);
            self.run.generations += 1;
            let entered = (0..SLOTS_GROWN).filter(|slot| self.routes.newest_epoch(*slot) == number);
            self.run.entered += entered.count() as u64;
        }
    }

    /// Routes change because a person gives others, or because those that are on their way are given up.
    fn unasked_routes(&self, generation: &Generation, is_by_hand: bool) -> Option<String> {
        let known = self.routes.generations.get(&generation.parent?.0)?;
        let parent = &known.content;
        let content = &generation.content;
        let next = self.controllers.generation(generation.number.0 + 1);
        let is_lower = next.is_some_and(|next| next.lower == Some(generation.number));
        if parent.views == content.views && !is_lower {
            return None;
        }
        let slots = |content: &fleet::FleetContent| {
            content.clusters[0].slots.iter().map(|slot| slot.member.clone()).collect::<Vec<_>>()
        };
        // Controllers may not know yet that all routers have the parent.
        let everywhere = known.had_by_all;
        let had = self.routes.generations.get(&everywhere).map(|had| &had.content.views);
        let goes_back = had.is_some_and(|views| *views == content.views);
        let is_change_of_routes = is_by_hand && slots(parent) == slots(content) && !is_lower;
        // A replacement has two generations while routes are on their way, which go on with the upper one.
        let before = known.parent.and_then(|before| self.routes.generations.get(&before));
        let is_upper = generation.lower.is_some() && generation.lower == generation.parent;
        let goes_on = is_upper
            && slots(parent) == slots(content)
            && before.is_some_and(|before| before.content.views == content.views);
        (!goes_back && !is_change_of_routes && !goes_on).then(|| {
            format!("generation {} has other routes than {everywhere}, which all routers have, and nobody gave them", generation.number)
        })
    }

    /// A host that was lost for long enough has no slot, whatever has halted rollouts.
    pub(super) fn demand_healing(&mut self, now_ms: u64) {
        let halts = |fault: &SmallFault| {
            matches!(
                fault,
                SmallFault::HostCutOff { .. }
                    | SmallFault::FileEdited { .. }
                    | SmallFault::RolloutHalted
                    | SmallFault::RoutesChanged { .. }
            )
        };
        let lost = self.lost_since_ms.iter().find(|(_, since_ms)| now_ms > **since_ms + HEALED_WITHIN_MS);
        let (Some((server, since_ms)), true) = (lost, self.script.iter().all(|one| halts(&one.fault))) else {
            return;
        };
        let (member, since_ms) = (self.servers.0[*server].id.clone(), *since_ms);
        let target = self.controllers.target().0;
        let content = self.controllers.generation(target).map(|generation| generation.content);
        if content.is_some_and(|content| content.slot_of(&member).is_some()) {
            let status = self.controllers.status(now_ms).join("; ");
            let found = format!(
                "{member} is lost since {since_ms} ms and has a slot still; controllers say: {status}"
            );
            self.violate(now_ms, "I12", found, None);
        }
    }

    /// A router does not refuse a server for long that can be reached again.
    pub(super) fn check_refusals(&mut self, now_ms: u64, at: usize) {
        let is_refused_for_long = |server: &usize| {
            let faults =
                self.script.iter().filter(|one| one.from_ms <= now_ms && one.fault.parts(at, *server));
            let last_ms = faults.map(|one| one.until_ms).max().unwrap_or(0);
            let is_up = self.servers.0[*server].is_up;
            let is_suspect = |name: &String| name.starts_with(&format!("m{server}:"));
            is_up && now_ms > last_ms + REFUSED_FOR_MS && self.agents[at].suspects.iter().any(is_suspect)
        };
        if let Some(server) = (0..self.servers.0.len()).find(is_refused_for_long) {
            let found = format!(
                "router r{at} does not ask m{server}, which it has been able to reach for {REFUSED_FOR_MS} ms"
            );
            self.violate(now_ms, "I17", found, None);
        }
    }

    /// An agent does not stay with a controller that hears of no decision, while another one does.
    pub(super) fn check_holder(&mut self, now_ms: u64, at: usize) {
        let holder = (at + self.agents[at].choice.at()) % CONTROLLERS;
        let has_register = |other: usize| self.controllers.is_cut_for(other, false, LEFT_WITHIN_MS, now_ms);
        let is_held = self.controllers.is_cut_for(holder, true, LEFT_WITHIN_MS, now_ms);
        if is_held && (0..CONTROLLERS).any(has_register) {
            let found = format!(
                "the agent of router r{at} is with controller c{holder}, which is cut from its register"
            );
            self.violate(now_ms, "I15", found, None);
        }
    }

    /// Lets a router look at its file, or start.
    pub(super) fn let_load(&mut self, now_ms: u64, at: usize) {
        let file = self.agents[at].disk.file.clone();
        let router = &mut self.routers[at];
        let look = match router.process {
            Some(_) => router.look(&mut self.net, &file, &self.addresses, now_ms),
            None => router.start_due(&mut self.net, &file, &self.addresses, now_ms),
        };
        match look {
            FileLook::Same => {}
            FileLook::Loaded(file) => self.check_load(now_ms, at, &file),
            FileLook::Ended => self.check_end(now_ms, at, file.generation),
            FileLook::Refused(why) => {
                let found = format!("router r{at} is given a text that was never published: {why}");
                self.violate(now_ms, "I2", found, None);
            }
        }
    }

    fn check_load(&mut self, now_ms: u64, at: usize, file: &FileText) {
        let generation = file.generation;
        self.note_generation(now_ms, at, Some(generation));
        let (Some(known), Some(process)) =
            (self.routes.generations.get(&generation), self.routers[at].process.as_ref())
        else {
            let found = format!("router r{at} loads generation {generation}, which was never published");
            return self.violate(now_ms, "I2", found, None);
        };
        // Somebody has edited it, who may do that.
        if self.edited[at].is_some() {
            return;
        }
        let cluster = &known.content.clusters[0];
        let slots = &cluster.slots;
        let servers = process.servers_of_keys();
        let slot_of = |number: usize| match is_read_as_grown(cluster) {
            true => self.traffic.grown[number],
            false => self.traffic.slots[number],
        };
        let is_moved = |number: &usize| servers[*number] != slots[slot_of(*number)].address;
        if let Some(number) = (0..servers.len()).find(is_moved) {
            let (slot, server) = (slot_of(number), &servers[number]);
            let found = format!(
                "router r{at} with generation {generation} sends {} of slot {slot} to {server}, and the slot's member is {}",
                key(number),
                slots[slot].address
            );
            self.violate(now_ms, "I4", found, Some(number));
        } else if known.text != file.text {
            let found = format!("router r{at} loads another text than that of generation {generation}");
            self.violate(now_ms, "I2", found, None);
        }
    }

    /// A text has ended a router. Nobody but the canary may have it.
    fn check_end(&mut self, now_ms: u64, at: usize, generation: u64) {
        if !self.ended.contains(&(generation, at)) {
            self.ended.push((generation, at));
        }
        let routers = self.ended.iter().filter(|(other, _)| *other == generation).count();
        if routers > 1 {
            let found =
                format!("{routers} routers have ended with generation {generation}, and one is a canary");
            self.violate(now_ms, "I3", found, None);
        }
    }

    /// A router has a generation.
    pub(super) fn note_generation(&mut self, now_ms: u64, at: usize, generation: Option<u64>) {
        let before = self.routes.present(at);
        let Some(generation) = generation.filter(|generation| *generation != before) else { return };
        let Some(process) = &mut self.routers[at].process else { return };
        let is_same_text =
            self.routes.generations.get(&generation).is_some_and(|known| known.text == process.loaded.text);
        if is_same_text {
            process.loaded.generation = generation;
            self.agents[at].disk.file.generation = generation;
        } else if process.loaded.generation != generation {
            // An agent that says what is not so: the router goes on with what it has.
            return;
        }
        self.routes.load(at, now_ms * 1000, generation);
        if generation < before && !self.agents[at].failed.contains(&before) {
            let found = format!("router r{at} goes back from generation {before} to {generation}");
            self.violate(now_ms, "I1", found, None);
        }
        let is_late = self.without_controllers_ms.is_some_and(|since| now_ms > since + ORDERS_DONE_MS);
        if is_late && self.routes.differ(before, generation) {
            let found =
                format!("router r{at} changes from generation {before} to {generation} without controllers");
            self.violate(now_ms, "I10", found, None);
        }
    }

    /// Fails if something is not as it should be long after the last fault.
    pub(super) fn demand_convergence(&mut self, now_ms: u64) {
        if let Some(why) = self.not_converged() {
            let status = self.controllers.status(now_ms).join("; ");
            self.violate(now_ms, "I11", format!("{why}; controllers say: {status}"), None);
        }
    }

    /// What is not as it should be yet.
    pub(super) fn not_converged(&self) -> Option<String> {
        let target = self.controllers.target().0;
        let text = &self.routes.generations.get(&target)?.text;
        for at in 0..ROUTERS {
            let Some(process) = &self.routers[at].process else {
                return Some(format!("router r{at} does not run; {}", self.agents[at].state()));
            };
            if process.loaded.text != *text {
                let (has, state) = (process.loaded.generation, self.agents[at].state());
                return Some(format!(
                    "router r{at} has generation {has}, and the target is {target}; {state}"
                ));
            }
            if self.routes.generations[&target].content.resizing().is_some() {
                return Some("a resize is still going on".to_owned());
            }
            if let Some(slot) = (0..SLOTS).find(|slot| !self.traffic.answered[at][*slot]) {
                return Some(format!("router r{at} does not answer for slot {slot}"));
            }
        }
        None
    }
}

/// Whether keys are read from where the larger layout has them.
fn is_read_as_grown(cluster: &ClusterRecord) -> bool {
    match &cluster.resize {
        None => cluster.slots.len() > SLOTS,
        Some(resize) => resize.grows() == (resize.phase != DrainPhase::ReadOld),
    }
}
