//! Faults: how they begin and end.

use std::fmt;

use control::RolloutAct;
use net::sim::PathConditions;

use super::super::bug::SmallBug;
use super::super::controllers::ROUTES;
use super::super::faults::{RoutesText, Scheduled, SmallFault};
use super::super::routers::{DEADLY, plan};
use super::super::shape::{CONTROLLERS, ROUTERS, SLOTS, policy};
use super::SmallWorld;
use stdx::clock::Now;

/// Of a million packets, on a bad path.
const LOSS_PPM: u32 = 300_000;

impl SmallWorld {
    pub(super) fn begin_fault(&mut self, now_ms: u64, at: usize) {
        let Scheduled { until_ms, fault, .. } = self.script[at];
        match fault {
            SmallFault::ServerStops { server } => self.servers.stop(&mut self.net, server, until_ms),
            SmallFault::HostCutOff { server } => {
                self.servers.0[server].is_cut_off = true;
                self.lost_since_ms.insert(server, now_ms);
                (0..ROUTERS).for_each(|router| self.set_cut(router, server, true));
            }
            SmallFault::PathCut { router, server } => self.set_cut(router, server, true),
            SmallFault::PathLossy { router, server } => self.set_loss(router, server, LOSS_PPM),
            SmallFault::PathReset { router, server } => {
                self.net.cut(self.routers[router].host, self.servers.0[server].host);
            }
            SmallFault::ControllerKilled { controller } => self.controllers.kill(controller, until_ms),
            SmallFault::ControllerKilledInWrite { controller, writes } => {
                self.controllers.kill_after(controller, writes);
            }
            SmallFault::ControllersAway => {
                (0..CONTROLLERS).for_each(|controller| self.controllers.kill(controller, until_ms));
                self.without_controllers_ms.get_or_insert(now_ms);
            }
            SmallFault::RegisterCut { controller } => self.set_register_away(controller, true, now_ms),
            SmallFault::AgentAway { router } => self.agents[router].away_until_ms = until_ms,
            SmallFault::AgentKilledInWrite { router } => self.agents[router].disk.kills_writer = true,
            SmallFault::DiskFull { router } => self.agents[router].disk.is_full = true,
            SmallFault::RouterEnds { router } => self.end_router(now_ms, router),
            SmallFault::OrderRepeated { router } => self.repeat_order(now_ms, router),
            SmallFault::RoutesChanged { kind } => self.change_routes(now_ms, at, kind),
            SmallFault::FileEdited { router } => {
                let file = &mut self.agents[router].disk.file;
                self.edited[router].get_or_insert_with(|| file.clone());
                file.text.push(' ');
            }
            SmallFault::MemberReplaced { slot } => self.replace_member(now_ms, slot),
            SmallFault::Resized { slots, at_once } => {
                self.controllers.resize(slots, at_once, now_ms);
                self.read_news_of(now_ms, true);
            }
            SmallFault::RolloutHalted => {
                self.controllers.halt(RolloutAct::Halt, now_ms);
                self.read_news(now_ms);
            }
        }
    }

    /// An operator has the member of a slot replaced.
    fn replace_member(&mut self, now_ms: u64, slot: usize) {
        let target = self.controllers.target().0;
        let Some(generation) = self.controllers.generation(target) else { return };
        let member = generation.content.clusters[0].slots[slot].member.clone();
        match self.bugs.contains(&SmallBug::SlotsBringRoutes) {
            true => self.controllers.replace_with_routes(&member),
            false => {
                let is_at_once = self.bugs.contains(&SmallBug::ReplacedAtOnce);
                self.controllers.replace(&member, is_at_once, now_ms);
            }
        }
        self.read_news_of(now_ms, true);
    }

    pub(super) fn end_fault(&mut self, now_ms: u64, at: usize) {
        match self.script[at].fault {
            SmallFault::ServerStops { .. } => self.servers.start_due(&mut self.net, now_ms),
            SmallFault::HostCutOff { server } => {
                self.demand_healing(now_ms);
                self.servers.0[server].is_cut_off = false;
                self.lost_since_ms.remove(&server);
                (0..ROUTERS).for_each(|router| self.set_cut(router, server, false));
            }
            SmallFault::PathCut { router, server } => {
                let is_cut_off = self.servers.0[server].is_cut_off;
                self.set_cut(router, server, is_cut_off);
            }
            SmallFault::PathLossy { router, server } => self.set_loss(router, server, 0),
            SmallFault::RegisterCut { controller } => self.set_register_away(controller, false, now_ms),
            SmallFault::DiskFull { router } => self.agents[router].disk.is_full = false,
            SmallFault::FileEdited { router } => {
                if let Some(before) = self.edited[router].take() {
                    self.agents[router].disk.file = before;
                }
            }
            SmallFault::RolloutHalted => self.controllers.halt(RolloutAct::Resume, now_ms),
            _ => {}
        }
    }

    /// From now on nothing is broken.
    pub(super) fn calm_down(&mut self, now_ms: u64) {
        (0..self.script.len()).for_each(|at| self.end_fault(now_ms, at));
        for agent in &mut self.agents {
            agent.disk.kills_writer = false;
        }
        self.traffic.answered = [[false; SLOTS]; ROUTERS];
    }

    /// Ends a router, whatever its agent is about: a second time only if that cannot be taken for the work of its text. Where no
    /// spare is left, a text that fails waits for a person, and there is none here.
    fn end_router(&mut self, now_ms: u64, router: usize) {
        if !std::mem::replace(&mut self.ended_by_accident[router], true) {
            self.routers[router].end(&mut self.net, now_ms);
        }
    }

    fn set_cut(&mut self, router: usize, server: usize, is_cut: bool) {
        let (router, server) = (self.routers[router].host, self.servers.0[server].host);
        match is_cut {
            true => self.net.partition(router, server),
            false => self.net.heal(router, server),
        }
    }

    fn set_loss(&mut self, router: usize, server: usize, loss_ppm: u32) {
        let (router, server) = (self.routers[router].host, self.servers.0[server].host);
        self.net.set_path(router, server, PathConditions { loss_ppm, ..PathConditions::default() });
    }

    fn set_register_away(&mut self, controller: Option<usize>, is_away: bool, now_ms: u64) {
        let meant = |at: &usize| controller.is_none_or(|controller| controller == *at);
        for at in (0..CONTROLLERS).filter(meant) {
            self.controllers.set_register_away(at, is_away, now_ms);
        }
    }

    /// The oldest order but one that is the newest arrives once more.
    fn repeat_order(&mut self, now_ms: u64, router: usize) {
        let newest = self.agents[router].orders.last().map(|order| order.generation);
        let old = self.agents[router].orders.iter().rev().find(|order| Some(order.generation) < newest);
        if let Some(old) = old.cloned() {
            let news = self.agents[router].on_order(&old, Now::at_ms(now_ms));
            self.note_generation(now_ms, router, news);
        }
    }

    /// An operator gives other routes: they are checked by the routers' own code, as controllers do it.
    fn change_routes(&mut self, now_ms: u64, at: usize, kind: RoutesText) {
        let routes = match kind {
            RoutesText::Good => format!("{{\"name\": \"good {at}\", {}", &ROUTES[1..]),
            RoutesText::Wrong => ROUTES.replace("web", "wbe"),
            RoutesText::Deadly => format!("{{\"name\": \"{DEADLY} {at}\", {}", &ROUTES[1..]),
        };
        let with_pools = routes.replacen('{', "{\"pools\": {\"web\": {\"servers\": [\"m0:11211\"]}}, ", 1);
        let is_accepted = plan(&with_pools, 1, &self.addresses).is_ok();
        assert_eq!(is_accepted, kind != RoutesText::Wrong, "the check of {routes}");
        // Who has no controller cannot ask one. A router that is away while its file is written has 90 s for it, which is
        // longer than a run.
        let is_possible =
            self.controllers.any_works() && self.routers.iter().all(|router| router.process.is_some());
        if is_accepted && is_possible {
            self.controllers.publish_policy(&policy(&routes));
            self.read_news_of(now_ms, true);
        }
    }
}

impl fmt::Display for Scheduled {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{:>6} to {:>6} ms  {:?}", self.from_ms, self.until_ms, self.fault)
    }
}
