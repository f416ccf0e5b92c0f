//! Replacements during rollouts of other routes, as conversations and as random histories.

use stdx::prng::Prng;

use super::*;
use crate::ViewName;
use crate::rollout::{HaltEvidence, Shortfall};

/// What all routers have had, the routes on their way, and the two generations of a replacement.
const BASE: u64 = 7;
const ROUTES: u64 = 8;
const LOWER: u64 = 9;
const UPPER: u64 = 10;

fn digest(generation: u64) -> TextDigest {
    format!("{generation:032x}").parse().expect("a digest")
}

fn texts(generation: u64) -> PublishedTexts {
    let view: ViewName = "web".parse().expect("a view");
    let digests = BTreeMap::from([(view, digest(generation))]);
    PublishedTexts { generation: GenerationNumber(generation), digests }
}

fn router(number: u64) -> RouterId {
    format!("r{number}").parse().expect("a name")
}

fn at(ms: u64) -> Now {
    Now::at_ms(ms)
}

/// Routers that load what they are told, and the rollouts of one controller.
struct Fleet {
    rollout: LayeredRollout,
    has: BTreeMap<u64, u64>,
    silent: BTreeSet<u64>,
    now_ms: u64,
}

impl Fleet {
    /// Routes on their way to so many routers, of which so many have had them for some time.
    fn new(count: u64, seconds: u64) -> Fleet {
        let (settings, none) = (RolloutSettings::default(), BTreeSet::new());
        let routes = Rollout::begin(texts(ROUTES), texts(BASE), RolloutLane::Routes, settings, &none);
        let has = (0..count).map(|number| (number, BASE)).collect();
        let rollout = LayeredRollout::plain(routes.expect("it begins"));
        let mut fleet = Fleet { rollout, has, silent: BTreeSet::new(), now_ms: 0 };
        fleet.seconds(seconds);
        fleet
    }

    fn layered(&self, lower: u64, base: u64, goes_on_from: &[u64]) -> LayeredRollout {
        let texts = LayeredTexts {
            base: texts(base),
            lower: texts(lower),
            upper: texts(lower + 1),
            goes_on_from: goes_on_from.iter().copied().map(GenerationNumber).collect(),
        };
        let (settings, none) = (RolloutSettings::default(), BTreeSet::new());
        LayeredRollout::begin(texts, &settings, &none, Some(&self.rollout)).expect("it begins")
    }

    /// A member is replaced.
    fn replace(&mut self) {
        self.rollout = self.layered(LOWER, BASE, &[ROUTES]);
    }

    /// Seconds in which every router says what it has, and loads what it shall have.
    fn seconds(&mut self, count: u64) {
        for _ in 0..count {
            self.now_ms += 1000;
            self.hear();
            self.rollout.act(true, at(self.now_ms));
            self.load();
        }
    }

    fn hear(&mut self) {
        let now = at(self.now_ms);
        for (number, has) in &self.has {
            let (router, view) = (router(*number), "web".parse().expect("a view"));
            let (zone, has) = ("a".parse().expect("a zone"), GenerationNumber(*has));
            // A rollout that begins hears of those that are silent as well.
            self.rollout.note(RolloutEvent::Appeared { router: router.clone(), zone, view, has }, now);
            if self.silent.contains(number) {
                self.rollout.note(RolloutEvent::Silent { router, since: at(0) }, now);
                continue;
            }
            self.rollout.note(RolloutEvent::Heard { router: router.clone() }, now);
            self.rollout.note(RolloutEvent::Acknowledged { router, digest: digest(has.0) }, now);
        }
    }

    fn load(&mut self) {
        for (number, has) in self.has.iter_mut().filter(|(number, _)| !self.silent.contains(number)) {
            if let Some(wanted) = self.rollout.wanted(&router(*number)) {
                assert!(wanted.0 >= *has, "no router goes back");
                *has = wanted.0;
            }
        }
    }

    fn having(&self, generation: u64) -> usize {
        self.has.values().filter(|has| **has == generation).count()
    }

    fn crashed(&mut self, number: u64, of_lower: bool) {
        let event = RolloutEvent::Crashed { router: router(number), reason: "it ended".to_owned() };
        match of_lower {
            true => self.rollout.note_of_lower(event, at(self.now_ms)),
            false => self.rollout.note(event, at(self.now_ms)),
        }
    }
}

#[test]
fn each_router_keeps_its_routes_and_gets_the_other_members() {
    let mut fleet = Fleet::new(40, 3);
    assert_eq!((fleet.having(ROUTES), fleet.having(BASE)), (8, 32));
    fleet.replace();
    fleet.seconds(1);
    assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (1, 1), "canaries of both");
    fleet.seconds(5);
    assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (32, 8));
    assert!(!fleet.rollout.is_in_slots());
}

#[test]
fn the_time_of_a_wave_does_not_begin_again() {
    let mut fleet = Fleet::new(400, 590);
    assert_eq!(fleet.having(ROUTES), 8);
    fleet.replace();
    fleet.seconds(8);
    assert_eq!(fleet.having(UPPER), 8);
    fleet.seconds(8);
    assert_eq!(fleet.having(UPPER), 20, "5 percent have the routes when the canaries' ten minutes are over");
    // Between waves: the share that was reached goes on.
    fleet.rollout = fleet.layered(UPPER + 1, LOWER, &[UPPER, ROUTES]);
    fleet.seconds(8);
    assert_eq!((fleet.having(UPPER + 2), fleet.having(UPPER + 1)), (20, 380));
    fleet.seconds(60);
    assert_eq!(fleet.having(UPPER + 2), 100, "25 percent");
    fleet.seconds(130);
    assert_eq!((fleet.having(UPPER + 2), fleet.rollout.state()), (400, RolloutState::Done));
}

#[test]
fn two_losses_at_the_same_time_are_two_steps() {
    let mut fleet = Fleet::new(40, 3);
    fleet.replace();
    fleet.seconds(1);
    // The first replacement is with its canaries only.
    fleet.rollout = fleet.layered(UPPER + 1, BASE, &[UPPER, ROUTES]);
    fleet.seconds(8);
    assert_eq!((fleet.having(UPPER + 2), fleet.having(UPPER + 1)), (8, 32));
}

#[test]
fn routes_that_a_person_has_halted_hold_up_no_member_and_stay_halted() {
    let mut fleet = Fleet::new(40, 3);
    fleet.replace();
    fleet.rollout.note_of_routes(RolloutEvent::Halt { reason: "wait".to_owned() }, at(fleet.now_ms));
    fleet.seconds(8);
    assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (32, 8));
    fleet.seconds(1000);
    assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (32, 8));
    assert!(matches!(fleet.rollout.state(), RolloutState::Halted(HaltEvidence::Person { .. })));
    fleet.rollout.note(RolloutEvent::Resume { excused: BTreeSet::new() }, at(fleet.now_ms));
    fleet.seconds(1000);
    assert_eq!(fleet.rollout.state(), RolloutState::Done);
}

#[test]
fn what_is_halted_or_frozen_now_goes_nowhere() {
    for event in [RolloutEvent::Halt { reason: "wait".to_owned() }, RolloutEvent::Freeze] {
        let mut fleet = Fleet::new(40, 3);
        fleet.replace();
        fleet.rollout.note(event, at(fleet.now_ms));
        fleet.seconds(30);
        assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (0, 0));
    }
}

#[test]
fn a_silent_router_that_has_the_routes_holds_up_nobody_and_gets_them_when_it_is_back() {
    let mut fleet = Fleet::new(40, 3);
    let canaries: Vec<u64> = fleet.has.iter().filter(|(_, has)| **has == ROUTES).map(|(at, _)| *at).collect();
    fleet.silent = canaries.iter().copied().collect();
    fleet.now_ms += 30_000;
    fleet.replace();
    fleet.seconds(10);
    assert_eq!((fleet.having(LOWER) + fleet.having(UPPER), fleet.having(ROUTES)), (32, 8));
    assert_eq!(fleet.having(UPPER), 8, "others take their place as canaries");
    fleet.silent.clear();
    fleet.seconds(3);
    assert_eq!(fleet.having(UPPER), 16);
}

#[test]
fn canaries_that_fell_silent_with_the_routes_are_not_forgotten() {
    let mut fleet = Fleet::new(40, 0);
    fleet.hear();
    fleet.rollout.act(true, at(0));
    let is_told = |at: &u64| fleet.rollout.wanted(&router(*at)) == Some(GenerationNumber(ROUTES));
    fleet.silent = fleet.has.keys().filter(|at| is_told(at)).copied().collect();
    assert_eq!(fleet.silent.len(), 8);
    fleet.now_ms = 30_000;
    fleet.replace();
    fleet.seconds(30);
    let names: BTreeSet<RouterId> = fleet.silent.iter().copied().map(router).collect();
    assert_eq!(fleet.rollout.failing(), names, "one more halts the routes");
    assert_eq!((fleet.having(UPPER), fleet.having(LOWER)), (8, 24), "others take their place");
}

#[test]
fn a_router_whose_turn_had_come_and_that_has_not_said_so_is_one_of_those_that_have_the_routes() {
    let mut fleet = Fleet::new(40, 2);
    let told: Vec<u64> = fleet.has.iter().filter(|(_, has)| **has == ROUTES).map(|(at, _)| *at).collect();
    // Their agents are told and not heard yet.
    for at in &told {
        fleet.has.insert(*at, BASE);
    }
    fleet.replace();
    fleet.seconds(6);
    assert!(told.iter().all(|at| fleet.has[at] == UPPER), "{:?}", fleet.has);
    assert_eq!((fleet.having(UPPER), fleet.having(LOWER)), (8, 32));
}

#[test]
fn a_text_that_fails_is_known_by_whose_it_is() {
    // The canary of the lower generation, and that of the upper one.
    for of_lower in [true, false] {
        let mut fleet = Fleet::new(40, 3);
        fleet.replace();
        fleet.seconds(1);
        let generation = if of_lower { LOWER } else { UPPER };
        let canary = fleet.has.iter().find(|(_, has)| **has == generation).map(|(at, _)| *at);
        fleet.crashed(canary.expect("it has one"), of_lower);
        let condemned: Vec<&TextDigest> = fleet.rollout.condemned().collect();
        assert_eq!(condemned, [&digest(generation)]);
        assert_eq!(fleet.rollout.has_lower_failed(), of_lower);
        let state = fleet.rollout.state();
        let is_crash = matches!(
            &state,
            RolloutState::Halted(HaltEvidence::Router { shortfall: Shortfall::Crashed(_), .. })
        );
        assert!(is_crash, "{state:?}");
        assert!(fleet.rollout.roll_back(GenerationNumber(UPPER + 1)).is_none(), "not all have the lower one");
    }
}

#[test]
fn a_late_end_of_the_lower_text_halts_the_routes_too() {
    let mut fleet = Fleet::new(40, 3);
    fleet.replace();
    fleet.seconds(10);
    let behind = fleet.has.iter().find(|(_, has)| **has == LOWER).map(|(at, _)| *at);
    fleet.crashed(behind.expect("most have it"), true);
    assert!(fleet.rollout.has_lower_failed() && matches!(fleet.rollout.state(), RolloutState::Halted(_)));
}

#[test]
fn a_controller_that_does_not_know_all_routers_changes_slots_and_not_routes() {
    let mut fleet = Fleet::new(40, 3);
    fleet.replace();
    for _ in 0..700 {
        fleet.now_ms += 1000;
        fleet.hear();
        fleet.rollout.act(false, at(fleet.now_ms));
        fleet.load();
    }
    assert_eq!((fleet.having(LOWER), fleet.having(UPPER)), (32, 8));
    fleet.seconds(3);
    assert!(!fleet.rollout.is_in_slots());
}

#[test]
fn random_histories_bring_routes_to_nobody_whose_turn_has_not_come() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let mut fleet = Fleet::new(10 + prng.below(60), prng.below(700));
        let mut goes_on_from = vec![ROUTES];
        for round in 0..1 + prng.below(3) {
            let lower = LOWER + 2 * round;
            let base = if round > 0 && !fleet.rollout.is_in_slots() { lower - 2 } else { BASE };
            fleet.rollout = fleet.layered(lower, base, &goes_on_from);
            let with_routes =
                |fleet: &Fleet| fleet.has.values().filter(|has| goes_on_from.contains(has)).count();
            let before = with_routes(&fleet);
            while fleet.rollout.is_in_slots() && fleet.now_ms < 10_000_000 {
                let number = prng.below(fleet.has.len() as u64);
                match prng.below(6) {
                    0 => drop(fleet.silent.insert(number)),
                    1 | 2 => drop(fleet.silent.remove(&number)),
                    _ => {}
                }
                fleet.seconds(1);
                if fleet.rollout.is_in_slots() {
                    let now = fleet.having(lower + 1) + with_routes(&fleet);
                    assert!(now <= before, "seed {seed}: {now} of {before}");
                }
                if prng.below(20) == 0 {
                    break;
                }
            }
            goes_on_from.insert(0, lower + 1);
            fleet.seconds(prng.below(30));
        }
        fleet.silent.clear();
        fleet.seconds(2000);
        assert_eq!(fleet.rollout.state(), RolloutState::Done, "seed {seed}");
        assert_eq!(fleet.having(goes_on_from[0]), fleet.has.len(), "seed {seed}");
    }
}
