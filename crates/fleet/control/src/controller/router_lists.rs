//! Lists of routers for clients with auto-discovery: what a router answers to `config get cluster`, so that such clients spread
//! over the routers of its view and zone, and follow when some come and go.
//!
//! The first controller writes a list with the next revision into the register; all of them give it to the agents. A router is
//! in it when its agent says where clients reach it. It leaves when its agent says so no more, when its host leaves for good, or
//! when nothing was heard of it for ten minutes while most of the list is heard: a controller that hears nobody changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use fleet::RouterId;
use protocol::discovery::{DISCOVERY_MEMBERS_MAX, DiscoveryList};
use stdx::clock::Now;

use super::Controller;
use super::agents::AgentRecord;
use super::cluster_files::line;
use super::state::LISTS_LOOK_EVERY_MS;
use crate::decisions::{ListScope, ListedRouter, RouterList};
use crate::router_client::digest_of;
use crate::turn::{ListOrder, RouterReport, is_client_address};

/// After this time a router of which nothing is heard leaves. A host restarts within it.
pub(super) const GONE_AFTER_MS: u64 = 600_000;
/// Lists of a fleet: some views in each of 16 zones. Further ones are not begun.
pub(super) const LISTS_MAX: usize = 256;

type Routers = BTreeMap<RouterId, ListedRouter>;

impl Controller {
    /// Makes the texts of what the register has.
    pub(super) fn set_router_lists(&mut self) {
        let lists = self.register.view().router_lists().iter();
        let texts: Vec<(&ListScope, String)> = lists.map(|(scope, (list, _))| (scope, text(list))).collect();
        let digest = |text: &str| digest_of(text.as_bytes());
        let digests = texts.iter().map(|(scope, text)| ((*scope).clone(), digest(text))).collect();
        self.seats.set_router_lists(texts.into_iter().map(|(_, text)| (digest(&text), text.into())));
        self.has_new_orders |= self.router_lists.digests != digests;
        self.router_lists.digests = digests;
    }

    /// Writes lists that are others than those in the register, if it is time.
    pub(super) fn keep_router_lists(&mut self) {
        if self.now < self.router_lists.look_at
            || self.register.away().is_some()
            || self.peers.waits_ms(self.now) > 0
        {
            return;
        }
        self.router_lists.look_at = Now::at_ms(self.now.ms() + LISTS_LOOK_EVERY_MS);
        let mut trouble = None;
        for (scope, routers) in self.wanted_lists() {
            if let Err(why) = self.write_list(scope, routers) {
                trouble.get_or_insert(why);
            }
        }
        if let Some(why) = trouble.clone().filter(|_| self.router_lists.trouble != trouble) {
            self.log.add(why);
        }
        self.router_lists.trouble = trouble;
        self.set_router_lists();
    }

    fn write_list(&mut self, scope: ListScope, routers: Routers) -> Result<(), String> {
        let before = self.register.view().router_lists().get(&scope);
        let before = before.map_or(RouterList::default(), |(list, _)| list.clone());
        if routers.is_empty() || routers == before.routers {
            return Ok(());
        }
        let list = RouterList { revision: before.revision.saturating_add(1), routers };
        let what = format!("the list of the routers of view {} in zone {}", scope.0, scope.1);
        if let Err(why) = DiscoveryList::parse(text(&list).as_bytes()) {
            return Err(format!("{what} stays as it is: {why}"));
        }
        let written = self.register.write_router_list(scope, list, self.now);
        written.map_err(|error| format!("{what} stays as it is: {error}"))
    }

    fn wanted_lists(&self) -> BTreeMap<ListScope, Routers> {
        let mut lists: BTreeMap<ListScope, Routers> = BTreeMap::new();
        for (scope, (list, _)) in self.register.view().router_lists() {
            lists.insert(scope.clone(), self.remaining(scope, &list.routers));
        }
        for (host, record) in self.agents.iter().filter(|(_, record)| !record.is_silent()) {
            for report in &record.report().routers {
                let scope = (report.view.clone(), record.report().zone.clone());
                let is_known = lists.contains_key(&scope) || lists.len() < LISTS_MAX;
                if let Some(address) = address_of(report).filter(|_| is_known) {
                    let listed = ListedRouter { host: host.clone(), address: address.to_owned() };
                    lists.entry(scope).or_default().insert(report.router.clone(), listed);
                }
            }
        }
        lists.values_mut().for_each(limit);
        lists
    }

    /// Those of a list that have not left.
    fn remaining(&self, scope: &ListScope, routers: &Routers) -> Routers {
        let record = |listed: &ListedRouter| self.agents.get(&listed.host);
        let is_heard = |listed: &&ListedRouter| record(listed).is_some_and(|record| !record.is_silent());
        let hears_most = routers.values().filter(is_heard).count() * 2 > routers.len();
        let remains = |(router, listed): &(&RouterId, &ListedRouter)| match record(listed) {
            Some(record) if !record.is_silent() => names(record, router, scope),
            None if self.agents.has_left(&listed.host) => false,
            record => {
                let heard = record.map_or(self.began, AgentRecord::heard);
                !hears_most || heard.ms() + GONE_AFTER_MS > self.now.ms()
            }
        };
        let remaining = routers.iter().filter(remains);
        remaining.map(|(router, listed)| (router.clone(), listed.clone())).collect()
    }

    /// The lists that the routers of a host shall tell.
    pub(super) fn list_orders(&self, record: &AgentRecord) -> Vec<ListOrder> {
        let orders =
            record.report().routers.iter().filter(|report| report.has_cluster_file).filter_map(|report| {
                let scope = (report.view.clone(), record.report().zone.clone());
                let digest = self.router_lists.digests.get(&scope)?.clone();
                Some(ListOrder { router: report.router.clone(), digest })
            });
        orders.collect()
    }
}

/// Whether an agent says that this router is one of this list.
fn names(record: &AgentRecord, router: &RouterId, scope: &ListScope) -> bool {
    let is_it = |report: &RouterReport| {
        report.router == *router && report.view == scope.0 && address_of(report).is_some()
    };
    record.report().zone == scope.1 && record.report().routers.iter().any(is_it)
}

/// An address that cannot be one would spoil the list for all.
fn address_of(report: &RouterReport) -> Option<&str> {
    report.client_address.as_deref().filter(|address| is_client_address(address))
}

/// Clients take no list with an address twice, and none that is longer.
fn limit(routers: &mut Routers) {
    let mut seen = BTreeSet::new();
    routers.retain(|_, listed| seen.len() < DISCOVERY_MEMBERS_MAX && seen.insert(listed.address.clone()));
}

fn text(list: &RouterList) -> String {
    let lines: String = list.routers.values().map(|listed| line(&listed.address)).collect();
    format!("{}\n{lines}", list.revision)
}
