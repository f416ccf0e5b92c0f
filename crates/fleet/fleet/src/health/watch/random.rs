//! Random histories: observers that claim anything, against the two promises that do not depend on them.

use std::collections::BTreeMap;

use stdx::prng::Prng;

use super::tests::{GONE, Stage, View, WELL};
use super::*;
use crate::ZoneName;
use crate::health::roster::SlotMember;
use crate::health::verdict::RouterSight;

/// Enough for each kind of lie to be tried with each kind of silence; more is a matter of minutes.
const SEEDS: u64 = 6;

fn any_agent(prng: &mut Prng) -> Option<ProcessSight> {
    match prng.below(5) {
        0 => None,
        1 => Some(ProcessSight::Running),
        2 => Some(ProcessSight::Restarting { left_ms: prng.next_u64() >> prng.below(64) }),
        _ => Some(ProcessSight::Down),
    }
}

fn any_probe(prng: &mut Prng) -> Option<ProbeOutcome> {
    match prng.below(6) {
        0 => None,
        1 => Some(ProbeOutcome::Answered),
        2 => Some(ProbeOutcome::Late),
        _ => Some(ProbeOutcome::Failed),
    }
}

fn any_routers(prng: &mut Prng) -> RouterSight {
    use RouterSight as R;
    [R::Unknown, R::Ok, R::One, R::OneZone, R::Some, R::Most, R::Most, R::Most][prng.below(8) as usize]
}

/// Which kinds lie.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Liars {
    agents: bool,
    probes: bool,
    routers: bool,
}

/// A view in which the liars say anything, and the others are healthy or silent.
fn view(prng: &mut Prng, liars: Liars) -> View {
    let silent = |prng: &mut Prng| prng.below(2) == 0;
    let agent = if liars.agents {
        any_agent(prng)
    } else if silent(prng) {
        None
    } else {
        WELL.agent
    };
    let probes = if liars.probes {
        any_probe(prng)
    } else if silent(prng) {
        None
    } else {
        WELL.probes
    };
    let routers = if liars.routers { any_routers(prng) } else { RouterSight::Ok };
    View { agent, probes, routers }
}

/// Requests for replacements in ten minutes in which views change now and then, some for the whole of it.
fn requests(seed: u64, liars: Liars) -> usize {
    let mut prng = Prng::new(seed);
    let mut stage = Stage::new(&[40, 40, 3, 2, 1]);
    // Silent routers are those that are not there.
    stage.routers = if liars.routers || prng.below(2) == 0 { 6 } else { 0 };
    // One, a few, or all members are lied about.
    let accused = [1, 3, 86][seed as usize % 3];
    let mut count = 0;
    for second in 0..600 {
        for at in 0..stage.views.len() {
            let changes = second == 80 || prng.below(60) == 0;
            if second >= 80 && changes && (at + seed as usize * 7) % 86 < accused {
                stage.views[at] = view(&mut prng, liars);
            }
        }
        let is_request = |decision: &&HealthDecision| matches!(decision, HealthDecision::Replace { .. });
        count += stage.second().list.iter().filter(is_request).count();
    }
    count
}

#[test]
fn one_kind_of_observer_never_has_a_member_replaced() {
    let nobody = Liars { agents: false, probes: false, routers: false };
    for seed in 0..SEEDS {
        for liars in [
            Liars { agents: true, ..nobody },
            Liars { probes: true, ..nobody },
            Liars { routers: true, ..nobody },
        ] {
            assert_eq!(requests(seed, liars), 0, "seed {seed}, {liars:?}");
        }
    }
}

#[test]
fn two_kinds_of_observers_can_have_a_member_replaced() {
    let all = Liars { agents: true, probes: true, routers: true };
    for liars in
        [Liars { agents: false, ..all }, Liars { probes: false, ..all }, Liars { routers: false, ..all }]
    {
        let count: usize = (0..SEEDS).map(|seed| requests(seed, liars)).sum();
        assert!(count > 0, "{liars:?}: otherwise the test of one kind shows nothing");
    }
}

/// The guard's limit, computed here a second time.
fn limit(size: usize, percent: usize) -> usize {
    2.max(size * percent / 100).min(size - 1).max(1)
}

/// Scopes and replacements of the last hour, as a person would count them.
struct Tally {
    sizes: BTreeMap<GuardScope, usize>,
    done: Vec<(u64, SlotMember)>,
}

fn scopes(place: &SlotMember) -> [GuardScope; 3] {
    let zone: ZoneName = place.zone.clone();
    [GuardScope::Fleet, GuardScope::Zone(zone), GuardScope::Cluster(place.cluster.clone())]
}

impl Tally {
    fn new(places: &[SlotMember]) -> Tally {
        let mut sizes = BTreeMap::new();
        for scope in places.iter().flat_map(scopes) {
            *sizes.entry(scope).or_default() += 1;
        }
        Tally { sizes, done: Vec::new() }
    }

    fn limit(&self, scope: &GuardScope) -> usize {
        limit(self.sizes[scope], if matches!(scope, GuardScope::Zone(_)) { 20 } else { 5 })
    }

    #[track_caller]
    fn replaced(&mut self, now: Now, place: &SlotMember, seed: u64) {
        self.done.push((now.ms(), place.clone()));
        for scope in scopes(place) {
            let recent =
                |(at, done): &&(u64, SlotMember)| now.ms() - at < 3_600_000 && scopes(done).contains(&scope);
            let count = self.done.iter().filter(recent).count();
            assert!(count <= self.limit(&scope), "seed {seed}: {count} in an hour in {scope}");
        }
    }
}

/// How the observers lie together.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// One more member every 61 seconds.
    SlowStream,
    /// Each is away and back at random.
    Flapping,
    /// Many at once.
    Mass,
    /// Each says anything.
    Noise,
}

fn attack(prng: &mut Prng, attack: Attack, second: u64, stage: &mut Stage) {
    let count = stage.views.len();
    match attack {
        Attack::SlowStream if second.is_multiple_of(61) => {
            stage.views[prng.below(count as u64) as usize] = GONE
        }
        Attack::SlowStream => {}
        Attack::Flapping => {
            let at = prng.below(count as u64) as usize;
            let is_away = stage.views[at].routers == RouterSight::Most;
            stage.views[at] = if is_away || prng.below(20) > 0 { WELL } else { GONE };
        }
        Attack::Mass if second.is_multiple_of(400) => {
            let lost = prng.below(count as u64);
            let chosen = |prng: &mut Prng| prng.below(count as u64) < lost;
            stage.views.iter_mut().for_each(|view| *view = if chosen(prng) { GONE } else { WELL });
        }
        Attack::Mass => {}
        Attack::Noise => {
            let all = Liars { agents: true, probes: true, routers: true };
            stage.views[prng.below(count as u64) as usize] = view(prng, all);
        }
    }
}

/// What was replaced in two and a half hours of an attack, by a planner that takes some of the requests of a
/// pass, and needs up to 20 seconds for each.
fn history(seed: u64, kind: Attack) -> Vec<(u64, SlotMember)> {
    let mut prng = Prng::new(seed);
    let mut stage = Stage::new(&[40, 25, 3, 2, 1]);
    let mut tally = Tally::new(&stage.places);
    let mut under_way: Vec<(u64, SlotMember)> = Vec::new();
    for second in 0..9_000 {
        if second > 80 {
            attack(&mut prng, kind, second, &mut stage);
        }
        let decisions = stage.second();
        check_pass(&stage, &tally, &decisions, seed);
        // A person who thaws everything, now and then, for no reason.
        if prng.below(500) == 0 {
            let scopes: Vec<_> = tally.sizes.keys().cloned().collect();
            scopes.iter().for_each(|scope| _ = stage.watch.thaw(stage.now, scope));
        }
        for decision in decisions.list {
            if let HealthDecision::Replace { place, .. } = decision
                && prng.below(3) > 0
            {
                under_way.push((second + prng.below(20), place));
            }
        }
        for (_, place) in under_way.extract_if(.., |(due, _)| *due <= second) {
            if stage.places.contains(&place) {
                tally.replaced(stage.now, &place, seed);
                stage.replace(&place);
            }
        }
    }
    tally.done
}

/// Nothing is requested in a scope that is said to be frozen, and nowhere more at once than the limit.
#[track_caller]
fn check_pass(stage: &Stage, tally: &Tally, decisions: &HealthDecisions, seed: u64) {
    let frozen = decisions.list.iter().filter_map(|decision| match decision {
        HealthDecision::Freeze { scope, .. } => Some(scope),
        _ => None,
    });
    let frozen: Vec<&GuardScope> = frozen.collect();
    let mut requests: BTreeMap<GuardScope, usize> = BTreeMap::new();
    for decision in &decisions.list {
        let HealthDecision::Replace { place, .. } = decision else { continue };
        assert!(stage.places.contains(place), "seed {seed}: {place:?} has no slot");
        for scope in scopes(place) {
            assert!(!frozen.contains(&&scope), "seed {seed}: a request in {scope}, which is frozen");
            *requests.entry(scope).or_default() += 1;
        }
    }
    for (scope, count) in requests {
        assert!(count <= tally.limit(&scope), "seed {seed}: {count} requests at once in {scope}");
    }
}

#[test]
fn no_more_is_replaced_than_the_guard_says_whatever_observers_claim() {
    for kind in [Attack::SlowStream, Attack::Flapping, Attack::Mass, Attack::Noise] {
        let total: usize = (0..2).map(|seed| history(seed, kind).len()).sum();
        assert!(total > 0, "{kind:?} replaced nothing, so this shows nothing");
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    let first = history(7, Attack::Noise);
    assert_eq!(first, history(7, Attack::Noise));
}

#[test]
fn a_mass_loss_is_never_answered_before_a_person_looked() {
    for seed in 0..SEEDS {
        let mut prng = Prng::new(seed);
        let mut stage = Stage::new(&[40, 25, 3, 2]);
        for _ in 0..100 {
            stage.second();
        }
        // From 9 to all members.
        let lost = 9 + prng.below(62);
        for at in 0..70 {
            if at < lost {
                stage.views[prng.below(70) as usize] = GONE;
            }
        }
        for at in 0..9 {
            stage.views[at] = GONE;
        }
        for _ in 0..600 {
            let list = stage.second().list;
            let is_request = |decision: &HealthDecision| matches!(decision, HealthDecision::Replace { .. });
            assert!(!list.iter().any(is_request), "seed {seed}, {lost} lost");
        }
    }
}
