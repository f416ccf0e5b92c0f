//! Sums of shadows over all routers, by the minute, as a controller keeps them in memory.

use std::collections::{BTreeMap, VecDeque};

use stdx::clock::Now;

use super::tally::ShadowTally;
use super::times::ReplyTimes;
use crate::policy::ShadowPolicy;
use crate::{FleetContent, RouterId};

/// Longest time over which sums are known, in seconds.
pub const WINDOW_MAX_S: u64 = 7_200;
const MINUTE_MS: u64 = 60_000;
const MINUTES_KEPT: u64 = WINDOW_MAX_S / 60;
/// A router that has told nothing of a shadow for so long does not compare it now: eight turns.
const TELLS_MS: u64 = 120_000;

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowSums {
    /// Requests whose replies were compared.
    pub compared: u64,
    /// Those with another outcome.
    pub other_outcomes: u64,
    /// Those with another value of the same size.
    pub other_values: u64,
    /// Those with a value of another size.
    pub other_sizes: u64,
    /// Those that found or changed what they were for, at the cluster and at its shadow.
    pub hits: [u64; 2],
    /// Times of the cluster's replies.
    pub normal: ReplyTimes,
    /// Times of the shadow's.
    pub shadow: ReplyTimes,
}

/// What was compared in the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowWindow {
    /// The sums of all routers.
    pub sums: ShadowSums,
    /// Time since the first of them, in seconds.
    pub counted_s: u64,
    /// Routers that tell of it now.
    pub routers: usize,
}

/// Sums of one shadow.
#[derive(Debug, Default)]
struct ShadowTrack {
    /// What it was compared with: another policy begins anew.
    policy: Option<ShadowPolicy>,
    /// Number of the minute by the controller's clock, the oldest first.
    minutes: VecDeque<(u64, ShadowSums)>,
}

/// The last tally of a shadow by one router.
#[derive(Debug)]
struct ShadowBase {
    shadow: String,
    tally: ShadowTally,
    heard_ms: u64,
}

/// All shadows.
#[derive(Debug, Default)]
pub struct ShadowBook {
    tracks: BTreeMap<String, ShadowTrack>,
    routers: BTreeMap<RouterId, Vec<ShadowBase>>,
}

impl ShadowBook {
    /// Takes the tallies of a router. `is_same` says that it is the process of the ones before.
    pub(crate) fn hear(
        &mut self,
        router: &RouterId,
        is_same: bool,
        shadows: BTreeMap<String, ShadowTally>,
        now: Now,
    ) {
        if !is_same {
            self.routers.remove(router);
        }
        for (shadow, tally) in shadows {
            // What the policy in force does not have is of an older configuration, or nobody's.
            let Some(track) = self.tracks.get_mut(&shadow) else { continue };
            let bases = self.routers.entry(router.clone()).or_default();
            match bases.iter_mut().find(|base| base.shadow == shadow) {
                Some(base) => {
                    if let Some(growth) = tally.since(&base.tally) {
                        track.count(&growth, now);
                    }
                    (base.tally, base.heard_ms) = (tally, now.ms());
                }
                None => bases.push(ShadowBase { shadow, tally, heard_ms: now.ms() }),
            }
        }
    }

    /// Follows the shadows in force: those that are no more, or are others by the same name, are forgotten.
    pub fn follow(&mut self, content: &FleetContent) {
        let present: BTreeMap<String, &ShadowPolicy> = content
            .clusters
            .iter()
            .filter_map(|one| one.shadow.as_ref())
            .map(|one| (one.name(), one))
            .collect();
        self.tracks.retain(|name, track| present.get(name).copied() == track.policy.as_ref());
        for (name, policy) in &present {
            let new = || ShadowTrack { policy: Some((*policy).clone()), minutes: VecDeque::new() };
            self.tracks.entry(name.clone()).or_insert_with(new);
        }
        self.routers.values_mut().for_each(|bases| bases.retain(|base| present.contains_key(&base.shadow)));
        self.routers.retain(|_, bases| !bases.is_empty());
    }

    pub(crate) fn forget_router(&mut self, router: &RouterId) {
        self.routers.remove(router);
    }

    /// What was compared in the last seconds, in whole minutes; none if no router has told of this very shadow in
    /// that time.
    pub fn window(&self, shadow: &ShadowPolicy, within_s: u64, now: Now) -> Option<ShadowWindow> {
        let minute = now.ms() / MINUTE_MS;
        let first = minute.saturating_sub(within_s.min(WINDOW_MAX_S).div_ceil(60));
        let name = shadow.name();
        let track = self.tracks.get(&name).filter(|track| track.policy.as_ref() == Some(shadow))?;
        let mut sums = ShadowSums::default();
        let counted = track.minutes.iter().filter(|(minute, _)| *minute >= first);
        let begun = counted.clone().map(|(minute, _)| *minute).next()?;
        counted.for_each(|(_, minute)| sums.add(minute));
        let counted_s = (now.ms().saturating_sub(begun * MINUTE_MS) / 1000).max(1);
        Some(ShadowWindow { sums, counted_s, routers: self.telling(&name, now) })
    }

    /// Routers that tell of a shadow now.
    pub fn telling(&self, shadow: &str, now: Now) -> usize {
        let tells =
            |base: &ShadowBase| base.shadow == shadow && base.heard_ms.saturating_add(TELLS_MS) > now.ms();
        self.routers.values().filter(|bases| bases.iter().any(tells)).count()
    }
}

impl ShadowTrack {
    fn count(&mut self, growth: &ShadowTally, now: Now) {
        let minute = now.ms() / MINUTE_MS;
        if self.minutes.back().is_none_or(|(last, _)| *last < minute) {
            self.minutes.push_back((minute, ShadowSums::default()));
        }
        while self.minutes.front().is_some_and(|(first, _)| first + MINUTES_KEPT < minute) {
            self.minutes.pop_front();
        }
        if let Some((_, sums)) = self.minutes.back_mut() {
            sums.count(growth);
        }
    }
}

impl ShadowSums {
    fn count(&mut self, growth: &ShadowTally) {
        let mut more = ShadowSums {
            compared: growth.compared,
            other_outcomes: growth.other_outcomes,
            other_values: growth.other_values,
            other_sizes: growth.other_sizes,
            hits: growth.hits,
            ..ShadowSums::default()
        };
        for (bucket, normal, shadow) in &growth.times {
            more.normal.add(*bucket, *normal);
            more.shadow.add(*bucket, *shadow);
        }
        self.add(&more);
    }

    fn add(&mut self, other: &ShadowSums) {
        let pairs = [
            (&mut self.compared, other.compared),
            (&mut self.other_outcomes, other.other_outcomes),
            (&mut self.other_values, other.other_values),
            (&mut self.other_sizes, other.other_sizes),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.hits.iter_mut().zip(other.hits).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.normal.add_all(&other.normal);
        self.shadow.add_all(&other.shadow);
    }

    /// Those whose replies differed, whatever in.
    pub fn differed(&self) -> u64 {
        self.other_outcomes.saturating_add(self.other_values).saturating_add(self.other_sizes)
    }

    /// Their part of all; unknown without any.
    pub fn share_differed(&self) -> Option<f64> {
        (self.compared > 0).then(|| self.differed() as f64 / self.compared as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::ClusterRecord;

    fn policy(share: f64) -> ShadowPolicy {
        toml::from_str(&format!("from = \"web\"\nto = \"new\"\nshare = {share:?}")).expect("a shadow")
    }

    /// A content in which `web` has a shadow with this share.
    fn content(share: Option<f64>) -> FleetContent {
        let shadow = share.map(policy);
        let web = ClusterRecord {
            name: "web".parse().expect("a name"),
            pool: BTreeMap::new(),
            gutter: None,
            warm_up: None,
            shadow,
            resize: None,
            slots: Vec::new(),
        };
        FleetContent { clusters: vec![web], views: Vec::new() }
    }

    const NAME: &str = "web->new";

    fn hear(book: &mut ShadowBook, router: &str, loads: u64, compared: u64, at_s: u64) {
        let tally = ShadowTally {
            loads,
            compared,
            other_values: compared / 10,
            hits: [compared, compared / 2],
            times: vec![(9, compared, 0), (13, 0, compared)],
            ..ShadowTally::default()
        };
        let now = Now::at_ms(at_s * 1000);
        book.hear(&router.parse().expect("a name"), true, [(NAME.to_owned(), tally)].into(), now);
    }

    fn compared(book: &ShadowBook, within_s: u64, at_s: u64) -> Option<(u64, u64)> {
        let window =
            book.window(book.tracks.get(NAME)?.policy.as_ref()?, within_s, Now::at_ms(at_s * 1000))?;
        Some((window.sums.compared, window.sums.differed()))
    }

    #[test]
    fn sums_are_those_of_all_routers_in_the_last_minutes() {
        let mut book = ShadowBook::default();
        book.follow(&content(Some(1.0)));
        hear(&mut book, "r1", 1, 500, 10);
        assert_eq!(compared(&book, 600, 10), None, "what it had counted before is of another time");
        hear(&mut book, "r1", 1, 600, 25);
        hear(&mut book, "r2", 1, 0, 26);
        hear(&mut book, "r2", 1, 50, 130);
        assert_eq!(compared(&book, 600, 130), Some((150, 15)));
        assert_eq!(compared(&book, 60, 130), Some((50, 5)));
        let window = book.window(&policy(1.0), 600, Now::at_ms(130_000)).expect("it was compared");
        assert_eq!((window.counted_s, window.routers), (130, 2));
        assert_eq!(window.sums.hits, [150, 75]);
        let p50 = |times: &ReplyTimes| times.below_us(0.5).expect("replies");
        assert!(p50(&window.sums.shadow) > p50(&window.sums.normal));
        assert_eq!(compared(&book, 60, 600), None, "nothing was heard of it since");
        assert_eq!(book.telling(NAME, Now::at_ms(600_000)), 0);
    }

    #[test]
    fn a_configuration_that_is_loaded_and_a_process_that_is_started_begin_anew() {
        let mut book = ShadowBook::default();
        book.follow(&content(Some(1.0)));
        hear(&mut book, "r1", 1, 500, 10);
        hear(&mut book, "r1", 2, 40, 25);
        assert_eq!(compared(&book, 600, 25), Some((40, 4)));
        book.hear(&"r1".parse().expect("a name"), false, BTreeMap::new(), Now::at_ms(30_000));
        hear(&mut book, "r1", 1, 1000, 40);
        assert_eq!(compared(&book, 600, 40), Some((40, 4)), "the first tally of a process is its base");
        hear(&mut book, "r1", 1, 1010, 55);
        assert_eq!(compared(&book, 600, 55), Some((50, 5)));
    }

    #[test]
    fn another_shadow_by_the_same_name_begins_anew_and_one_that_is_gone_is_forgotten() {
        let mut book = ShadowBook::default();
        hear(&mut book, "r1", 1, 0, 5);
        hear(&mut book, "r1", 1, 10, 10);
        assert_eq!(compared(&book, 600, 10), None, "nobody has such a shadow");
        book.follow(&content(Some(1.0)));
        hear(&mut book, "r1", 1, 0, 20);
        hear(&mut book, "r1", 1, 10, 35);
        book.follow(&content(Some(1.0)));
        assert_eq!(compared(&book, 600, 35), Some((10, 1)));
        book.follow(&content(Some(0.5)));
        assert_eq!(compared(&book, 600, 36), None);
        assert_eq!(book.window(&policy(1.0), 600, Now::at_ms(36_000)), None);
        hear(&mut book, "r1", 1, 20, 50);
        assert_eq!(compared(&book, 600, 50), Some((10, 1)));
        book.follow(&content(None));
        assert!(book.tracks.is_empty() && book.routers.is_empty());
    }

    #[test]
    fn two_hours_are_kept() {
        let mut book = ShadowBook::default();
        book.follow(&content(Some(1.0)));
        for minute in 0..500 {
            hear(&mut book, "r1", 1, minute * 10, minute * 60);
        }
        assert!(book.tracks[NAME].minutes.len() <= MINUTES_KEPT as usize + 1);
        let now_s = 499 * 60;
        assert_eq!(compared(&book, u64::MAX, now_s), Some((1210, 121)));
    }
}
