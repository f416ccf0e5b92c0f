//! The figures of a fleet, as a controller keeps them in memory: points of each member, levels of views and pools, sums of clusters.

use std::collections::BTreeMap;

use stdx::clock::Now;

use super::levels::{LevelGrowth, LevelPlace, LevelRow, ServiceLevels};
use super::point::{FigurePoint, POINTS_KEPT};
use super::rates::{
    Before, HeardTurn, grown, grown_requests, page_passed_ms, passed_ms, router_rates, server_rates,
};
use super::tally::{MemberTally, PoolTally, RouterTally};
use crate::figures::shadow::ShadowBook;
use crate::{ClusterName, FleetContent, MEMBERS_MAX, MemberId, RouterId, ViewName};

/// Shortest time from a point to the next. Turns are 15 s apart; an agent that has news takes some at once, which would crowd out half
/// an hour of points in two minutes.
const POINTS_APART_MS: u64 = 8_000;
/// An agent's clock that goes back is believed after this time: an older turn that was passed on late comes sooner.
const OVERTAKEN_MS: u64 = 60_000;
/// Pools of one router that are counted: those that come first. A fleet has some 70 clusters, and routers have gutters besides.
const POOLS_PER_ROUTER_MAX: usize = 256;
/// Nothing was heard of a router for so long: it is gone, or has another name.
const ROUTER_FORGOTTEN_MS: u64 = 86_400_000;

/// Points of a server or router, the oldest first.
pub struct MemberPoints {
    points: Box<[FigurePoint]>,
    /// Where the next one goes.
    next: u8,
    count: u8,
}

/// What is kept of a server or router: points, and the last tally.
struct Track<T> {
    points: MemberPoints,
    heard: HeardTurn,
    tally: T,
}

/// Requests of a cluster's members since the controller began. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Keys that were asked for, and other commands.
    pub requests: u64,
    /// Gets that found their item.
    pub hits: u64,
    /// Gets that did not.
    pub misses: u64,
}

/// Comparisons with shadows by the routers of a view, since the controller began. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCompared {
    /// Requests whose reply was compared.
    pub compared: u64,
    /// Those of them whose replies differed.
    pub differed: u64,
}

/// A router's last tally, and where its pools count.
struct RouterTrack {
    track: Track<RouterTally>,
    view: ViewName,
    pools: Vec<PoolBase>,
}

/// The last tally of a pool by one router.
#[derive(Clone, Copy)]
struct PoolBase {
    place: LevelPlace,
    tally: PoolTally,
    /// By the controller's clock.
    heard_ms: u64,
}

/// All figures.
#[derive(Default)]
pub struct FigureBook {
    servers: BTreeMap<MemberId, Box<Track<MemberTally>>>,
    routers: BTreeMap<RouterId, Box<RouterTrack>>,
    levels: ServiceLevels,
    clusters: BTreeMap<ClusterName, ClusterCounts>,
    shadows: BTreeMap<ViewName, ShadowCompared>,
    compared: ShadowBook,
}

impl FigureBook {
    /// Takes a server's tally. The member has a slot of this cluster, if it has one. Whether it was a later one.
    pub fn hear_server(
        &mut self,
        member: &MemberId,
        cluster: Option<&ClusterName>,
        tally: MemberTally,
        heard: HeardTurn,
    ) -> bool {
        let before = self.servers.get(member);
        let is_new = match before {
            Some(before) => before.is_before(tally.at_ms, heard),
            None => self.servers.len() < MEMBERS_MAX,
        };
        if !is_new {
            return false;
        }
        let before = before.map(|track| Before { heard: track.heard, tally: &track.tally });
        let rates = server_rates(before.as_ref(), heard, &tally);
        if let (Some(cluster), Some(before)) = (cluster, &before)
            && let Some(passed) = passed_ms(&before.tally.reading(before.heard), &tally.reading(heard))
        {
            let counts = self.clusters.entry(cluster.clone()).or_default();
            let more = |of: fn(&MemberTally) -> Option<u64>| {
                grown_requests(of(before.tally), of(&tally), passed).unwrap_or(0)
            };
            counts.requests = counts.requests.saturating_add(more(|tally| tally.requests));
            counts.hits = counts.hits.saturating_add(more(|tally| tally.hits));
            counts.misses = counts.misses.saturating_add(more(|tally| tally.misses));
        }
        let point = FigurePoint::of_server(second(heard.now), &rates);
        match self.servers.get_mut(member) {
            Some(track) => track.pass(point, tally, heard),
            None => drop(self.servers.insert(member.clone(), Box::new(Track::new(point, tally, heard)))),
        }
        true
    }

    /// Takes a router's tally. Whether it was a later one.
    pub fn hear_router(
        &mut self,
        router: &RouterId,
        view: &ViewName,
        mut tally: RouterTally,
        heard: HeardTurn,
    ) -> bool {
        let before = self.routers.get(router);
        let is_new = match before {
            Some(before) => before.track.is_before(tally.at_ms, heard),
            None => self.routers.len() < MEMBERS_MAX,
        };
        if !is_new {
            return false;
        }
        let before = before.map(|router| Before { heard: router.track.heard, tally: &router.track.tally });
        let rates = router_rates(before.as_ref(), heard, &tally);
        let growth = before.as_ref().and_then(|before| asked(before, heard, &tally));
        let page_passed = before.as_ref().and_then(|before| page_passed_ms(before, heard, &tally));
        let failovers = before.as_ref().map(|before| failed_over(before, page_passed, heard, &tally));
        if let (Some(passed), Some(before)) = (page_passed, &before) {
            let of =
                |tally: &RouterTally, which: fn((u64, u64)) -> u64| tally.page.as_ref()?.shadows.map(which);
            let more = |which| grown_requests(of(before.tally, which), of(&tally, which), passed);
            if let Some((compared, differed)) =
                more(|(compared, _)| compared).zip(more(|(_, differed)| differed))
            {
                let counts = self.shadows.entry(view.clone()).or_default();
                counts.compared = counts.compared.saturating_add(compared);
                counts.differed = counts.differed.saturating_add(differed);
            }
        }
        let compared = tally.page.as_mut().map(|page| std::mem::take(&mut page.compared)).unwrap_or_default();
        self.compared.hear(router, page_passed.is_some(), compared, heard.now);
        let pools = tally.page.as_mut().map(|page| std::mem::take(&mut page.pools)).unwrap_or_default();
        let now_ms = heard.now.ms();
        if let Some(growth) = growth
            && let Some(place) = self.levels.place(view, None, now_ms)
        {
            self.levels.count(place, &growth);
            if let Some(failovers) = failovers.flatten() {
                self.levels.count_failovers(place, &LevelGrowth { errors: 0, ..growth });
                self.levels.count_failovers(place, &failovers);
            }
        }
        let point = FigurePoint::of_router(second(heard.now), &rates);
        let mut track = match self.routers.remove(router) {
            Some(mut router) => {
                router.track.pass(point, tally, heard);
                router
            }
            None => Box::new(RouterTrack {
                track: Track::new(point, tally, heard),
                view: view.clone(),
                pools: Vec::new(),
            }),
        };
        // Its counters are another process's, or about another view.
        if page_passed.is_none() || track.view != *view {
            track.pools = Vec::new();
        }
        track.view = view.clone();
        for (name, tally) in pools {
            let Some(place) = self.levels.place(view, Some(&name), now_ms) else { continue };
            track.hear_pool(place, tally, now_ms, &mut self.levels);
        }
        self.routers.insert(router.clone(), track);
        true
    }

    /// Forgets servers that are no members any more.
    pub fn keep_servers(&mut self, is_member: impl Fn(&MemberId) -> bool) {
        self.servers.retain(|member, _| is_member(member));
    }

    /// Forgets clusters and views that are no more.
    pub fn keep_sums(
        &mut self,
        is_cluster: impl Fn(&ClusterName) -> bool,
        is_view: impl Fn(&ViewName) -> bool,
    ) {
        self.clusters.retain(|cluster, _| is_cluster(cluster));
        self.shadows.retain(|view, _| is_view(view));
    }

    /// Forgets a router.
    pub fn forget_router(&mut self, router: &RouterId) {
        self.routers.remove(router);
        self.compared.forget_router(router);
    }

    /// Forgets what has not been heard of for a day, as far as nobody else says that it has gone.
    pub fn forget_old(&mut self, now: Now) {
        self.routers.retain(|_, router| router.track.heard.now.ms() + ROUTER_FORGOTTEN_MS > now.ms());
        if self.levels.make_room(now.ms()) {
            // They begin with the next turn.
            self.routers.values_mut().for_each(|router| router.pools = Vec::new());
        }
    }

    /// Points of a server.
    pub fn server(&self, member: &MemberId) -> Option<&MemberPoints> {
        self.servers.get(member).map(|track| &track.points)
    }

    /// Points of a router.
    pub fn router(&self, router: &RouterId) -> Option<&MemberPoints> {
        self.routers.get(router).map(|router| &router.track.points)
    }

    /// Servers and routers with points.
    pub fn known(&self) -> (usize, usize) {
        (self.servers.len(), self.routers.len())
    }

    /// Views and their pools.
    pub fn levels(&self, now: Now) -> impl Iterator<Item = LevelRow<'_>> {
        self.levels.rows(now.ms())
    }

    /// How often a view or pool was left out, because there are more than are kept.
    pub fn levels_left_out(&self) -> u64 {
        self.levels.left_out()
    }

    /// Sums of clusters.
    pub fn clusters(&self) -> &BTreeMap<ClusterName, ClusterCounts> {
        &self.clusters
    }

    /// What routers have found about shadows.
    pub fn compared(&self) -> &ShadowBook {
        &self.compared
    }

    /// Follows the shadows in force.
    pub fn follow_shadows(&mut self, content: &FleetContent) {
        self.compared.follow(content);
    }

    /// Comparisons with shadows, by view.
    pub fn shadows(&self) -> &BTreeMap<ViewName, ShadowCompared> {
        &self.shadows
    }
}

/// What clients have asked a router since the tally before.
fn asked(before: &Before<'_, RouterTally>, heard: HeardTurn, tally: &RouterTally) -> Option<LevelGrowth> {
    let passed = passed_ms(&before.tally.reading(before.heard), &tally.reading(heard))?;
    let requests = grown_requests(before.tally.requests, tally.requests, passed)?;
    let errors = grown(before.tally.errors, tally.errors).filter(|errors| *errors <= requests)?;
    let to_ms = heard.now.ms();
    Some(LevelGrowth { from_ms: to_ms.saturating_sub(passed), to_ms, requests, errors, timeouts: 0 })
}

/// What a router has failed over since its page was read before, in the place of errors; none if it does not tell.
fn failed_over(
    before: &Before<'_, RouterTally>,
    page_passed: Option<u64>,
    heard: HeardTurn,
    tally: &RouterTally,
) -> Option<LevelGrowth> {
    let (old, new) = (before.tally.page.as_ref()?, tally.page.as_ref()?);
    let to_ms = heard.now.ms();
    let growth = |errors, passed| LevelGrowth {
        from_ms: to_ms.saturating_sub(passed),
        to_ms,
        requests: 0,
        errors,
        timeouts: 0,
    };
    if before.heard.boot == heard.boot && old.at_ms == new.at_ms && new.failovers.is_some() {
        // It was not read since: the next reading has those of this interval as well.
        return Some(growth(0, 0));
    }
    let passed = page_passed?;
    Some(growth(grown_requests(old.failovers, new.failovers, passed)?, passed))
}

impl RouterTrack {
    /// Takes the tally of one of its pools, which may be of an earlier turn than the one before.
    fn hear_pool(&mut self, place: LevelPlace, tally: PoolTally, now_ms: u64, levels: &mut ServiceLevels) {
        let new = PoolBase { place, tally, heard_ms: now_ms };
        let Some(base) = self.pools.iter_mut().find(|base| base.place == place) else {
            if self.pools.len() < POOLS_PER_ROUTER_MAX {
                self.pools.push(new);
            }
            return;
        };
        let old = std::mem::replace(base, new);
        let passed = now_ms.saturating_sub(old.heard_ms);
        let requests = grown_requests(Some(old.tally.requests), Some(tally.requests), passed);
        let errors = grown(Some(old.tally.errors), Some(tally.errors));
        let timeouts = grown(Some(old.tally.timeouts), Some(tally.timeouts));
        if let (Some(requests), Some(errors), Some(timeouts)) = (requests, errors, timeouts)
            && timeouts <= errors
            && errors <= requests
        {
            levels.count(
                place,
                &LevelGrowth { from_ms: old.heard_ms, to_ms: now_ms, requests, errors, timeouts },
            );
        }
    }
}

impl<T> Track<T> {
    fn new(point: FigurePoint, tally: T, heard: HeardTurn) -> Track<T> {
        let mut points = MemberPoints::new(point);
        points.push(point);
        Track { points, heard, tally }
    }

    fn pass(&mut self, point: FigurePoint, tally: T, heard: HeardTurn) {
        self.points.push(point);
        (self.tally, self.heard) = (tally, heard);
    }
}

/// A tally that says when it was read.
trait IsRead {
    fn at_ms(&self) -> u64;
}

impl IsRead for MemberTally {
    fn at_ms(&self) -> u64 {
        self.at_ms
    }
}

impl IsRead for RouterTally {
    fn at_ms(&self) -> u64 {
        self.at_ms
    }
}

impl<T: IsRead> Track<T> {
    /// Whether a tally that was read at this time is a later one, and by enough.
    fn is_before(&self, at_ms: u64, heard: HeardTurn) -> bool {
        let heard_ms = heard.now.ms().saturating_sub(self.heard.now.ms());
        if self.heard.boot != heard.boot {
            return heard_ms >= POINTS_APART_MS;
        }
        match at_ms.checked_sub(self.tally.at_ms()) {
            // The server or router has not answered since.
            Some(0) => false,
            Some(passed) => passed >= POINTS_APART_MS,
            None => heard_ms >= OVERTAKEN_MS,
        }
    }
}

impl MemberPoints {
    /// Room for all, which is used at once: the first half hour would move them often.
    fn new(first: FigurePoint) -> MemberPoints {
        MemberPoints { points: vec![first; POINTS_KEPT].into_boxed_slice(), next: 0, count: 0 }
    }

    fn push(&mut self, point: FigurePoint) {
        self.points[usize::from(self.next)] = point;
        self.next = (self.next + 1) % POINTS_KEPT as u8;
        self.count = (self.count + 1).min(POINTS_KEPT as u8);
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &FigurePoint> {
        let (end, count) = (usize::from(self.next), usize::from(self.count));
        let first = (end + POINTS_KEPT - count) % POINTS_KEPT;
        self.points.iter().cycle().skip(first).take(count)
    }

    /// The last one.
    pub fn latest(&self) -> &FigurePoint {
        &self.points[(usize::from(self.next) + POINTS_KEPT - 1) % POINTS_KEPT]
    }
}

/// A moment in a point: the controller's clock reaches the end of this in 136 years.
fn second(now: Now) -> u32 {
    u32::try_from(now.ms() / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
