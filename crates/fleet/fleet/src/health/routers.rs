//! Reports of routers: which members they do not ask any more (TKO), counted per member and zone.
//!
//! A report replaces the router's one before, so the counts never drift. Routers that report more than is plausible
//! do not count at all.

use std::collections::BTreeMap;

use stdx::clock::Now;

use super::roster::{CLUSTERS_MAX, Roster, ZONES_MAX};
use super::settings::HealthThresholds;
use super::verdict::RouterSight;
use crate::{ClusterName, MemberId, RouterId, ZoneName};

/// Most routers whose reports are kept: those of the largest fleet, and a tenth more during a roll-out.
pub const ROUTERS_MAX: usize = 22_000;
/// Most TKO members in one report. The guard freezes a fleet of 5,000 at 250; a router with more is ill itself. Bounds the
/// memory of all reports to 23 MB.
pub const TKO_PER_ROUTER_MAX: usize = 256;
/// Most members that it has not asked in one report; about others it is believed to have a word. As much memory again.
pub const UNASKED_PER_ROUTER_MAX: usize = 256;
/// A router that cannot reach half of its members is ill itself, if it has at least this many.
const MEMBERS_TO_JUDGE_A_ROUTER: u32 = 4;

/// What a router reports.
#[derive(Clone, Copy, Debug)]
pub struct TkoReport<'a> {
    /// Which.
    pub router: &'a RouterId,
    /// Where it is.
    pub zone: &'a ZoneName,
    /// Clusters that it reads.
    pub serves: &'a [ClusterName],
    /// Those of them that it sends requests to. It has no word about members of others.
    pub traffic: &'a [ClusterName],
    /// Members of these that it has not asked lately: it has no word about them either.
    pub unasked: &'a [MemberId],
    /// Members that it does not ask any more.
    pub tko: &'a [MemberId],
}

#[derive(Debug)]
struct Router {
    zone: usize,
    at: Now,
    serves: Clusters,
    traffic: Clusters,
    tko: Vec<u32>,
    unasked: Vec<u32>,
}

type Clusters = [u64; CLUSTERS_MAX / 64];
type PerZone = [u32; ZONES_MAX];

/// The reports of all routers.
#[derive(Debug, Default)]
pub(super) struct Routers {
    zones: Vec<ZoneName>,
    by_id: BTreeMap<RouterId, Router>,
    /// Routers that read a cluster, for each cluster.
    serving: Vec<PerZone>,
    /// Routers with traffic, for each cluster.
    with_traffic: Vec<PerZone>,
    /// Routers that have a member as TKO.
    tko: BTreeMap<u32, PerZone>,
    /// Routers that have traffic for a member's cluster and none for it.
    unasked: BTreeMap<u32, PerZone>,
}

/// What the routers say about one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouterView {
    pub(super) sight: RouterSight,
    /// Routers that read its cluster.
    pub(super) serving: u32,
    pub(super) with_traffic: PerZone,
    pub(super) tko: PerZone,
}

impl Routers {
    /// Takes a report. False if it does not count: no room, or more than is plausible.
    pub(super) fn report(&mut self, now: Now, report: &TkoReport, roster: &Roster) -> bool {
        self.remove(report.router);
        if self.by_id.len() >= ROUTERS_MAX || report.tko.len() > TKO_PER_ROUTER_MAX {
            return false;
        }
        let Some(zone) = self.zone(report.zone) else { return false };
        let serves = clusters(report.serves, roster);
        let traffic = clusters(report.traffic, roster);
        let with_traffic = roster.clusters.iter().enumerate().filter(|(at, _)| has(&traffic, *at));
        let members: u32 = with_traffic.map(|(_, (_, size))| size).sum();
        let known = |members: &[MemberId]| {
            let has_traffic = |at: &usize| has(&traffic, roster.scopes[*at].0);
            let known = members.iter().filter_map(|member| roster.index(member)).filter(has_traffic);
            let mut known: Vec<u32> = known.map(|at| at as u32).collect();
            known.sort_unstable();
            known.dedup();
            known
        };
        let mut tko = known(report.tko);
        tko.shrink_to_fit();
        if members >= MEMBERS_TO_JUDGE_A_ROUTER && tko.len() as u64 * 2 > u64::from(members) {
            return false;
        }
        // What is not asked because it does not answer was asked.
        let mut unasked = known(&report.unasked[..report.unasked.len().min(UNASKED_PER_ROUTER_MAX)]);
        unasked.retain(|at| tko.binary_search(at).is_err());
        unasked.shrink_to_fit();
        let router = Router { zone, at: now, serves, traffic, tko, unasked };
        self.count(&router);
        self.by_id.insert(report.router.clone(), router);
        true
    }

    fn zone(&mut self, zone: &ZoneName) -> Option<usize> {
        let known = self.zones.iter().position(|known| known == zone);
        known.or_else(|| {
            (self.zones.len() < ZONES_MAX).then(|| {
                self.zones.push(zone.clone());
                self.zones.len() - 1
            })
        })
    }

    fn count(&mut self, router: &Router) {
        for (counts, clusters) in
            [(&mut self.serving, &router.serves), (&mut self.with_traffic, &router.traffic)]
        {
            for (_, counts) in counts.iter_mut().enumerate().filter(|(at, _)| has(clusters, *at)) {
                counts[router.zone] += 1;
            }
        }
        for (counts, members) in [(&mut self.tko, &router.tko), (&mut self.unasked, &router.unasked)] {
            for member in members {
                counts.entry(*member).or_default()[router.zone] += 1;
            }
        }
    }

    fn remove(&mut self, id: &RouterId) {
        let Some(router) = self.by_id.remove(id) else { return };
        for (counts, clusters) in
            [(&mut self.serving, &router.serves), (&mut self.with_traffic, &router.traffic)]
        {
            for (_, counts) in counts.iter_mut().enumerate().filter(|(at, _)| has(clusters, *at)) {
                counts[router.zone] -= 1;
            }
        }
        for (all, members) in [(&mut self.tko, &router.tko), (&mut self.unasked, &router.unasked)] {
            for member in members {
                let counts = all.get_mut(member).expect("a counted report is in the counts");
                counts[router.zone] -= 1;
                if *counts == PerZone::default() {
                    all.remove(member);
                }
            }
        }
    }

    /// Forgets routers that are silent.
    pub(super) fn expire(&mut self, now: Now, settings: &HealthThresholds) {
        let is_old = |router: &Router| now.ms().saturating_sub(router.at.ms()) > settings.router_fresh_ms;
        let old = self.by_id.iter().filter(|(_, router)| is_old(router));
        let old: Vec<RouterId> = old.map(|(id, _)| id.clone()).collect();
        old.iter().for_each(|id| self.remove(id));
        // Names of zones are taken by whoever comes first: without routers all are free again.
        if self.by_id.is_empty() {
            self.zones.clear();
        }
    }

    /// What they say about a member of a cluster.
    pub(super) fn view(&self, member: usize, cluster: usize) -> RouterView {
        let of_member =
            |counts: &BTreeMap<u32, PerZone>| counts.get(&(member as u32)).copied().unwrap_or_default();
        let (tko, unasked) = (of_member(&self.tko), of_member(&self.unasked));
        let all = self.with_traffic[cluster];
        let with_traffic = std::array::from_fn(|zone| all[zone] - unasked[zone]);
        let serving = self.serving[cluster].iter().sum();
        RouterView { sight: sight(serving, &with_traffic, &tko), serving, with_traffic, tko }
    }

    /// The first routers that have a member as TKO.
    pub(super) fn accusers(&self, member: usize, most: usize) -> Vec<&RouterId> {
        let accuses = |router: &Router| router.tko.binary_search(&(member as u32)).is_ok();
        self.by_id.iter().filter(|(_, router)| accuses(router)).map(|(id, _)| id).take(most).collect()
    }

    /// The names of zones, in the order of the counts.
    pub(super) fn zones(&self) -> &[ZoneName] {
        &self.zones
    }

    /// Counts anew for a new roster: `to` has for each member its new place, `clusters` for each cluster its new index.
    pub(super) fn reorder(&mut self, to: &[Option<usize>], clusters: &[Option<usize>], count: usize) {
        self.tko.clear();
        self.unasked.clear();
        self.serving = vec![PerZone::default(); count];
        self.with_traffic = vec![PerZone::default(); count];
        let mut routers = std::mem::take(&mut self.by_id);
        for router in routers.values_mut() {
            for members in [&mut router.tko, &mut router.unasked] {
                *members = members.iter().filter_map(|at| to[*at as usize]).map(|at| at as u32).collect();
                members.sort_unstable();
            }
            for bits in [&mut router.serves, &mut router.traffic] {
                let before = std::mem::take(bits);
                let kept = clusters.iter().enumerate().filter(|(from, _)| has(&before, *from));
                kept.filter_map(|(_, at)| *at).for_each(|at| bits[at / 64] |= 1 << (at % 64));
            }
            self.count(router);
        }
        self.by_id = routers;
    }

    /// Forgets all, as after a start.
    pub(super) fn forget(&mut self) {
        self.by_id.clear();
        self.tko.clear();
        self.unasked.clear();
        self.zones.clear();
        for counts in self.serving.iter_mut().chain(&mut self.with_traffic) {
            *counts = PerZone::default();
        }
    }
}

/// The clusters of a roster with these names, as bits.
fn clusters(names: &[ClusterName], roster: &Roster) -> Clusters {
    let mut bits = Clusters::default();
    let known = names.iter().take(CLUSTERS_MAX).filter_map(|name| roster.cluster_index(name));
    known.for_each(|at| bits[at / 64] |= 1 << (at % 64));
    bits
}

fn has(clusters: &Clusters, at: usize) -> bool {
    clusters[at / 64] & (1 << (at % 64)) != 0
}

fn sight(serving: u32, with_traffic: &PerZone, tko: &PerZone) -> RouterSight {
    let (all, accusing) = (with_traffic.iter().sum::<u32>(), tko.iter().sum::<u32>());
    let zones = with_traffic.iter().filter(|count| **count > 0).count();
    let accusing_zones = tko.iter().filter(|count| **count > 0).count();
    let has_lost_zone = tko.iter().zip(with_traffic).any(|(tko, all)| tko * 2 > *all);
    match accusing {
        _ if all == 0 && serving == 0 => RouterSight::Unknown,
        _ if all == 0 => RouterSight::Unused,
        0 => RouterSight::Ok,
        _ if accusing_zones == 1 && zones > 1 && has_lost_zone => RouterSight::OneZone,
        _ if accusing * 2 > all => RouterSight::Most,
        1 => RouterSight::One,
        _ => RouterSight::Some,
    }
}

#[cfg(test)]
mod tests {
    use super::super::roster::SlotMember;
    use super::*;
    use crate::GenerationNumber;
    use stdx::prng::Prng;

    fn roster(clusters: usize, members: usize) -> Roster {
        let place = |at: usize| SlotMember {
            cluster: format!("c{}", at % clusters).parse().expect("a name"),
            slot: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            host: format!("h{at}").parse().expect("a name"),
            zone: "z1".parse().expect("a name"),
        };
        Roster::new(GenerationNumber(1), (0..members).map(place).collect()).expect("a roster")
    }

    fn fresh(roster: &Roster) -> Routers {
        let none = vec![PerZone::default(); roster.clusters.len()];
        Routers { serving: none.clone(), with_traffic: none, ..Routers::default() }
    }

    fn report(routers: &mut Routers, roster: &Roster, id: u64, zone: u64, tko: &[usize]) -> bool {
        let tko: Vec<MemberId> = tko.iter().map(|at| format!("m{at}").parse().expect("a name")).collect();
        let traffic: Vec<_> = roster.clusters.iter().map(|(name, _)| name.clone()).collect();
        let (router, zone) =
            (format!("r{id}").parse().expect("a name"), format!("z{zone}").parse().expect("a name"));
        let report = TkoReport {
            router: &router,
            zone: &zone,
            serves: &traffic,
            traffic: &traffic,
            unasked: &[],
            tko: &tko,
        };
        routers.report(Now::at_ms(0), &report, roster)
    }

    /// For each zone the routers with traffic and those of them that accuse.
    #[track_caller]
    fn check(zones: &[(u32, u32)], expected: RouterSight) {
        let (mut with_traffic, mut tko) = (PerZone::default(), PerZone::default());
        for (at, (all, accusing)) in zones.iter().enumerate() {
            (with_traffic[at], tko[at]) = (*all, *accusing);
        }
        let serving = with_traffic.iter().sum();
        assert_eq!(sight(serving, &with_traffic, &tko), expected, "{zones:?}");
    }

    #[test]
    fn counts_of_zones_become_one_word() {
        check(&[], RouterSight::Unknown);
        check(&[(9, 0), (9, 0)], RouterSight::Ok);
        check(&[(9, 1), (9, 0)], RouterSight::One);
        check(&[(9, 3), (9, 0)], RouterSight::Some);
        check(&[(9, 5), (9, 4)], RouterSight::Some);
        check(&[(9, 5), (9, 5)], RouterSight::Most);
        check(&[(9, 9), (9, 0)], RouterSight::OneZone);
        check(&[(99, 99), (2, 0)], RouterSight::OneZone);
        check(&[(9, 9)], RouterSight::Most);
        check(&[(1, 1)], RouterSight::Most);
    }

    /// A router that reads two clusters, has traffic for the first and has not asked these members; m0 and m2 are of the first
    /// cluster, m1 of the second. What is known of each of the three.
    #[track_caller]
    fn check_use(unasked: &[&str], tko: &[&str], expected: [RouterSight; 3]) {
        let roster = roster(2, 10);
        let mut routers = fresh(&roster);
        let names = |all: &[&str]| -> Vec<MemberId> {
            all.iter().map(|name| name.parse().expect("a name")).collect()
        };
        let serves: Vec<_> = roster.clusters.iter().map(|(name, _)| name.clone()).collect();
        let report = TkoReport {
            router: &"r1".parse().expect("a name"),
            zone: &"z1".parse().expect("a name"),
            serves: &serves,
            traffic: &serves[..1],
            unasked: &names(unasked),
            tko: &names(tko),
        };
        assert!(routers.report(Now::at_ms(0), &report, &roster));
        let found = [0, 1, 2].map(|member| routers.view(member, member % 2).sight);
        assert_eq!(found, expected, "{unasked:?} {tko:?}");
        routers.remove(report.router);
        assert_eq!(routers.view(0, 0).sight, RouterSight::Unknown);
        assert!(routers.unasked.is_empty());
    }

    #[test]
    fn a_router_has_no_word_about_members_that_it_does_not_ask() {
        use RouterSight as R;
        check_use(&[], &[], [R::Ok, R::Unused, R::Ok]);
        check_use(&["m2"], &["m0"], [R::Most, R::Unused, R::Unused]);
        check_use(&["m0", "m1"], &["m0"], [R::Most, R::Unused, R::Ok]);
    }

    #[test]
    fn a_router_that_reports_everything_does_not_count() {
        let roster = roster(1, 400);
        let mut routers = fresh(&roster);
        assert!(report(&mut routers, &roster, 1, 1, &[1, 2]));
        assert!(!report(&mut routers, &roster, 1, 1, &(0..TKO_PER_ROUTER_MAX + 1).collect::<Vec<_>>()));
        assert!(!report(&mut routers, &roster, 1, 1, &(0..201).collect::<Vec<_>>()));
        assert_eq!(routers.view(1, 0).sight, RouterSight::Unknown, "the report before is gone, too");
        assert!(report(&mut routers, &roster, 1, 1, &[400, 401, 7, 7, 7]), "unknown members are skipped");
        assert_eq!(routers.tko.len(), 1);
    }

    #[test]
    fn routers_beyond_the_limit_are_refused_until_others_are_silent() {
        let roster = roster(1, 10);
        let mut routers = fresh(&roster);
        for id in 0..ROUTERS_MAX as u64 {
            assert!(report(&mut routers, &roster, id, 1, &[1]));
        }
        assert!(!report(&mut routers, &roster, u64::MAX, 1, &[]));
        assert!(report(&mut routers, &roster, 5, 1, &[]), "a known one is heard");
        routers.expire(Now::at_ms(31_000), &HealthThresholds::default());
        assert!(routers.tko.is_empty());
        assert!(report(&mut routers, &roster, u64::MAX, 1, &[]));
    }

    #[test]
    fn counts_are_those_of_the_last_reports_after_any_history() {
        for seed in 0..50 {
            let mut prng = Prng::new(seed);
            let roster = roster(3, 30);
            let mut routers = fresh(&roster);
            let mut last = BTreeMap::new();
            for _ in 0..300 {
                let (id, count) = (prng.below(12), prng.below(20));
                let tko: Vec<usize> = (0..count).map(|_| prng.below(40) as usize).collect();
                let zone = id % 3;
                if report(&mut routers, &roster, id, zone, &tko) {
                    last.insert(id, tko);
                } else {
                    last.remove(&id);
                }
                for member in 0..30 {
                    let accusing = last.values().filter(|tko| tko.contains(&member)).count() as u32;
                    let view = routers.view(member, member % 3);
                    assert_eq!(view.tko.iter().sum::<u32>(), accusing, "seed {seed}");
                    assert_eq!(view.with_traffic.iter().sum::<u32>(), last.len() as u32, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn reports_follow_members_and_clusters_into_a_new_order() {
        let roster = roster(3, 30);
        let mut routers = fresh(&roster);
        assert!(report(&mut routers, &roster, 1, 1, &[3, 4, 5]));
        // Member 3 leaves, all others move by one; a cluster comes first, and the last one leaves.
        let to: Vec<_> = (0..30).map(|at| (at != 3).then_some(at + 1)).collect();
        routers.reorder(&to, &[Some(1), Some(2), None], 3);
        let accused: Vec<usize> = routers.tko.keys().map(|at| *at as usize).collect();
        assert_eq!(accused, [5, 6]);
        let counts: Vec<u32> = routers.with_traffic.iter().map(|zones| zones.iter().sum()).collect();
        assert_eq!(counts, [0, 1, 1]);
        assert_eq!(routers.accusers(6, 5).len(), 1);
    }
}
