//! Lists of routers for clients with auto-discovery: what a router answers to `config get cluster`, so that such clients spread
//! over the routers of its view and zone, and follow when some come and go.
//!
//! The first controller writes a list with the next revision into the register; all of them give it to the agents. A router is
//! in it when its agent says where clients reach it. It leaves when its agent says so no more, when its host leaves for good, or
//! when nothing was heard of it for ten minutes while most of the list is heard: a controller that hears nobody changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::{RouterId, TextDigest};
use protocol::discovery::{DISCOVERY_MEMBERS_MAX, DiscoveryList};
use stdx::clock::Now;

use super::cluster_files::line;
use crate::controller::observing::agents::{AgentRecord, Agents};
use crate::decisions::{ListScope, ListedRouter, RouterList};
use crate::register::Revision;
use crate::router_client::digest_of;
use crate::turn::{ListOrder, RouterReport, is_client_address};

/// How often lists of routers are looked at: routers that come together are one change.
const LOOK_EVERY_MS: u64 = 5_000;
/// After this time a router of which nothing is heard leaves. A host restarts within it.
pub(crate) const GONE_AFTER_MS: u64 = 600_000;
/// Lists of a fleet: some views in each of 16 zones. Further ones are not begun.
pub(crate) const LISTS_MAX: usize = 256;

type Routers = BTreeMap<RouterId, ListedRouter>;

/// Lists in the register, with the revision of each.
type KeptLists = BTreeMap<ListScope, (RouterList, Revision)>;

/// Texts of the lists of routers.
pub(crate) struct RouterLists {
    digests: BTreeMap<ListScope, TextDigest>,
    look_at: Now,
    /// When the controller began.
    began: Now,
    /// What was wrong the last time, which is said once.
    trouble: Option<String>,
}

impl RouterLists {
    /// Of a controller that begins. Its agents come first.
    pub(crate) fn new(now: Now) -> RouterLists {
        let look_at = Now::at_ms(now.ms() + LOOK_EVERY_MS);
        RouterLists { digests: BTreeMap::new(), look_at, began: now, trouble: None }
    }

    /// Makes the texts of what the register has. Returns them, and whether they are others than before.
    pub(crate) fn follow(&mut self, kept: &KeptLists) -> (Vec<(TextDigest, Arc<str>)>, bool) {
        let texts: Vec<(&ListScope, String)> =
            kept.iter().map(|(scope, (list, _))| (scope, text(list))).collect();
        let digest = |text: &str| digest_of(text.as_bytes());
        let digests = texts.iter().map(|(scope, text)| ((*scope).clone(), digest(text))).collect();
        let is_other = self.digests != digests;
        self.digests = digests;
        (texts.into_iter().map(|(_, text)| (digest(&text), text.into())).collect(), is_other)
    }

    /// Whether it is time for a look. The next one is later then.
    pub(crate) fn begin_look(&mut self, now: Now) -> bool {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = Now::at_ms(now.ms() + LOOK_EVERY_MS);
        }
        is_due
    }

    /// Lists that are others than those in the register. The error of one that clients would not take says what is wrong.
    pub(crate) fn changes(
        &self,
        kept: &KeptLists,
        agents: &Agents,
        now: Now,
    ) -> Vec<(ListScope, Result<RouterList, String>)> {
        let changed = |(scope, routers): (ListScope, Routers)| {
            let before = kept.get(&scope).map_or(RouterList::default(), |(list, _)| list.clone());
            if routers.is_empty() || routers == before.routers {
                return None;
            }
            let list = RouterList { revision: before.revision.saturating_add(1), routers };
            let checked = DiscoveryList::parse(text(&list).as_bytes()).map(|_| list);
            Some((scope, checked.map_err(|why| why.to_string())))
        };
        self.wanted(kept, agents, now).into_iter().filter_map(changed).collect()
    }

    /// Keeps what was wrong, and returns it if it was not said before.
    pub(crate) fn note_trouble(&mut self, trouble: Option<String>) -> Option<String> {
        let is_new = self.trouble != trouble;
        self.trouble.clone_from(&trouble);
        trouble.filter(|_| is_new)
    }

    fn wanted(&self, kept: &KeptLists, agents: &Agents, now: Now) -> BTreeMap<ListScope, Routers> {
        let mut lists: BTreeMap<ListScope, Routers> = BTreeMap::new();
        for (scope, (list, _)) in kept {
            lists.insert(scope.clone(), self.remaining(scope, &list.routers, agents, now));
        }
        for (host, record) in agents.iter().filter(|(_, record)| !record.is_silent()) {
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
    fn remaining(&self, scope: &ListScope, routers: &Routers, agents: &Agents, now: Now) -> Routers {
        let record = |listed: &ListedRouter| agents.get(&listed.host);
        let is_heard = |listed: &&ListedRouter| record(listed).is_some_and(|record| !record.is_silent());
        let hears_most = routers.values().filter(is_heard).count() * 2 > routers.len();
        let remains = |(router, listed): &(&RouterId, &ListedRouter)| match record(listed) {
            Some(record) if !record.is_silent() => names(record, router, scope),
            None if agents.has_left(&listed.host) => false,
            record => {
                let heard = record.map_or(self.began, AgentRecord::heard);
                !hears_most || heard.ms() + GONE_AFTER_MS > now.ms()
            }
        };
        let remaining = routers.iter().filter(remains);
        remaining.map(|(router, listed)| (router.clone(), listed.clone())).collect()
    }

    /// The lists that the routers of a host shall tell.
    pub(crate) fn orders(&self, record: &AgentRecord) -> Vec<ListOrder> {
        let report = record.report();
        let orders = report.routers.iter().filter(|router| router.has_cluster_file).filter_map(|router| {
            let scope = (router.view.clone(), report.zone.clone());
            let digest = self.digests.get(&scope)?.clone();
            Some(ListOrder { router: router.router.clone(), digest })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An agent whose router clients reach there.
    fn agents(now: Now, address: &str) -> Agents {
        let router = json!({
            "router": "r1", "view": "main", "generation": null, "loaded": null, "text": "loaded",
            "client_address": address, "has_cluster_file": true,
        });
        let report = json!({"host": "h1", "zone": "a", "boot": 1, "turn": 1, "routers": [router]});
        let mut agents = Agents::new(now);
        agents.take(serde_json::from_value(report).expect("a turn"), true, now).expect("it is new");
        agents
    }

    #[test]
    fn a_router_that_clients_reach_is_listed_once_and_its_agent_is_told_the_list() {
        let now = Now::at_ms(0);
        let (mut lists, agents) = (RouterLists::new(now), agents(now, "10.0.0.1:5000"));
        assert!(!lists.begin_look(now) && lists.begin_look(Now::at_ms(LOOK_EVERY_MS)));
        let changes = lists.changes(&KeptLists::new(), &agents, now);
        let [(scope, Ok(list))] = &*changes else { panic!("{changes:?}") };
        let kept: KeptLists = [(scope.clone(), (list.clone(), Revision::FIRST))].into();
        let (texts, is_other) = lists.follow(&kept);
        assert!(is_other && lists.changes(&kept, &agents, now).is_empty());
        assert_eq!(&*texts[0].1, "1\n10.0.0.1|10.0.0.1|5000\n");
        let record = agents.get(&"h1".parse().expect("a name")).expect("it was heard");
        let digests: Vec<TextDigest> = lists.orders(record).into_iter().map(|order| order.digest).collect();
        assert_eq!(digests, [texts[0].0.clone()]);
    }

    #[test]
    fn trouble_is_said_once() {
        let mut lists = RouterLists::new(Now::at_ms(0));
        let mut note = |why: Option<&str>| lists.note_trouble(why.map(str::to_owned)).is_some();
        assert_eq!(
            [note(Some("a")), note(Some("a")), note(None), note(Some("a"))],
            [true, false, false, true]
        );
    }
}
