//! Rollouts as conversations, and random histories of them against a model.

use std::collections::{BTreeMap, BTreeSet};

use stdx::clock::Now;
use stdx::prng::Prng;

use super::*;

fn digest(number: u64) -> TextDigest {
    format!("{number:032x}").parse().expect("a digest")
}

fn texts(generation: u64) -> PublishedTexts {
    let digests = ["web", "api"].map(|view| (view.parse().expect("a view"), digest(generation)));
    PublishedTexts { generation: GenerationNumber(generation), digests: BTreeMap::from(digests) }
}

fn router(number: u64) -> RouterId {
    format!("r{number}").parse().expect("a name")
}

fn begin(lane: RolloutLane) -> Rollout {
    Rollout::begin(texts(8), texts(7), lane, RolloutSettings::default(), &BTreeSet::new()).expect("it begins")
}

fn appeared(number: u64) -> RolloutEvent {
    let zone = format!("z{}", number % 3).parse().expect("a zone");
    let view = if number % 6 < 5 { "web" } else { "api" }.parse().expect("a view");
    RolloutEvent::Appeared { router: router(number), zone, view, has: GenerationNumber(7) }
}

/// A rollout with this many routers, at moment 0.
fn with_routers(lane: RolloutLane, count: u64) -> Rollout {
    let mut rollout = begin(lane);
    for number in 0..count {
        rollout.on(appeared(number), Now::default());
    }
    rollout.on(RolloutEvent::Tick, Now::default());
    rollout
}

fn having(rollout: &Rollout) -> BTreeSet<RouterId> {
    let has = |router: &&RouterId| rollout.wanted(router) == Some(GenerationNumber(8));
    rollout.routers.keys().filter(has).cloned().collect()
}

fn acknowledge_all(rollout: &mut Rollout, now: Now) {
    for router in having(rollout) {
        rollout.on(RolloutEvent::Acknowledged { router, digest: digest(8) }, now);
    }
}

/// How many routers have the generation when nothing goes wrong, wave by wave.
#[track_caller]
fn check_waves(lane: RolloutLane, count: u64, expected: &[usize]) {
    let mut rollout = with_routers(lane, count);
    let (mut now, mut reached) = (Now::default(), vec![having(&rollout).len()]);
    while rollout.state() != RolloutState::Done {
        acknowledge_all(&mut rollout, now);
        if having(&rollout).len() == reached[reached.len() - 1] && rollout.state() != RolloutState::Done {
            now = rollout.next_call().expect("there is a next moment");
            rollout.on(RolloutEvent::Tick, now);
        }
        if having(&rollout).len() > reached[reached.len() - 1] {
            reached.push(having(&rollout).len());
        }
    }
    assert_eq!(reached, expected, "{lane:?} of {count}");
}

#[test]
fn each_lane_has_its_waves() {
    // 500 of web, 100 of api.
    check_waves(RolloutLane::SlotChange, 600, &[6, 600]);
    check_waves(RolloutLane::Weights, 600, &[6, 150, 600]);
    // 5 % are 25 of web, but api has its 8 canaries already.
    check_waves(RolloutLane::Routes, 600, &[16, 33, 150, 300, 450, 600]);
    check_waves(RolloutLane::Rollback, 600, &[600]);
    check_waves(RolloutLane::Routes, 1, &[1]);
    check_waves(RolloutLane::Routes, 2, &[1, 2]);
}

#[test]
fn canaries_are_spread_over_zones_and_differ_by_generation() {
    let rollout = with_routers(RolloutLane::Routes, 600);
    let zones =
        having(&rollout).iter().map(|router| rollout.routers[router].zone.clone()).collect::<BTreeSet<_>>();
    assert_eq!(zones.len(), 3);
    let mut other =
        Rollout::begin(texts(9), texts(7), RolloutLane::Routes, RolloutSettings::default(), &BTreeSet::new())
            .expect("it begins");
    (0..600).for_each(|number| other.on(appeared(number), Now::default()));
    other.on(RolloutEvent::Tick, Now::default());
    let others = other.routers.keys().filter(|router| other.wanted(router) == Some(GenerationNumber(9)));
    assert_ne!(others.cloned().collect::<BTreeSet<_>>(), having(&rollout));
}

#[test]
fn one_crash_in_a_canary_halts_and_condemns_the_text() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 600);
    let told = having(&rollout);
    acknowledge_all(&mut rollout, Now::at_ms(100));
    let router = told.first().expect("a canary").clone();
    rollout.on(RolloutEvent::Crashed { router, reason: "ended by signal 11".into() }, Now::at_ms(1_900));
    rollout.on(RolloutEvent::Resume { excused: having(&rollout) }, Now::at_ms(3_000));
    rollout.on(RolloutEvent::Tick, Now::at_ms(10_000_000));
    assert!(matches!(rollout.state(), RolloutState::Halted(_)), "{:?}", rollout.state());
    assert_eq!(having(&rollout), told);
    let again = Rollout::begin(
        texts(8),
        texts(7),
        RolloutLane::Routes,
        RolloutSettings::default(),
        rollout.condemned(),
    );
    assert!(matches!(again, Err(RolloutError::RefusedText { .. })));
}

#[test]
fn a_rollback_is_a_new_generation_with_the_old_content() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 600);
    let old = rollout.roll_back(GenerationNumber(8)).err();
    assert_eq!(old, Some(RolloutError::NotNewer { found: GenerationNumber(8), base: GenerationNumber(8) }));
    let mut back = rollout.roll_back(GenerationNumber(9)).expect("a newer number");
    assert_eq!(rollout.state(), RolloutState::RollingBack { to: GenerationNumber(9) });
    back.on(RolloutEvent::Tick, Now::at_ms(1));
    for number in 0..600 {
        assert_eq!(back.wanted(&router(number)), Some(GenerationNumber(9)));
        back.on(RolloutEvent::Acknowledged { router: router(number), digest: digest(7) }, Now::at_ms(2));
    }
    assert_eq!(back.state(), RolloutState::Done);
}

#[test]
fn canaries_that_fall_silent_are_replaced_once_and_then_halt() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 50);
    let mut silent = BTreeSet::new();
    for round in 0..2 {
        for router in having(&rollout).difference(&silent.clone()) {
            rollout.on(
                RolloutEvent::Silent { router: router.clone(), since: Now::at_ms(round * 30_000) },
                Now::at_ms(round * 30_000),
            );
            silent.insert(router.clone());
        }
        rollout.on(RolloutEvent::Tick, Now::at_ms(round * 30_000 + 26_000));
    }
    assert!(matches!(
        rollout.state(),
        RolloutState::Halted(HaltEvidence::Router { shortfall: Shortfall::FellSilent, .. })
    ));
    assert_eq!(having(&rollout).len(), 4, "of two views, one canary each and one in its place");
}

fn halted_by(rollout: &Rollout) -> Option<Shortfall> {
    match rollout.state() {
        RolloutState::Halted(HaltEvidence::Router { shortfall, .. }) => Some(shortfall),
        _ => None,
    }
}

fn acknowledged(router: &RouterId) -> RolloutEvent {
    RolloutEvent::Acknowledged { router: router.clone(), digest: digest(8) }
}

fn refused(router: &RouterId) -> RolloutEvent {
    RolloutEvent::Refused { router: router.clone(), reason: "it was not loaded".to_owned() }
}

#[test]
fn a_living_canary_that_never_answers_is_replaced_and_too_many_halt_until_they_answer() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 5);
    let first = having(&rollout);
    assert_eq!(rollout.next_call(), Some(Now::at_ms(300_000)));
    rollout.on(RolloutEvent::Tick, Now::at_ms(300_000));
    assert_eq!((halted_by(&rollout), having(&rollout).len()), (None, 2), "it is no fault of the text");
    rollout.on(RolloutEvent::Tick, Now::at_ms(600_000));
    assert_eq!((halted_by(&rollout), having(&rollout).len()), (Some(Shortfall::NoAnswer), 2));
    let answers = first.first().expect("a canary");
    rollout.on(acknowledged(answers), Now::at_ms(700_000));
    assert_eq!(halted_by(&rollout), None);
    rollout.on(RolloutEvent::Tick, Now::at_ms(702_000));
    acknowledge_all(&mut rollout, Now::at_ms(702_000));
    assert_eq!(rollout.state(), RolloutState::Done);
}

#[test]
fn a_router_whose_file_somebody_else_has_written_halts_nothing_and_holds_up_nobody() {
    for is_canary in [true, false] {
        let mut rollout = with_routers(RolloutLane::SlotChange, 50);
        let canaries = having(&rollout);
        let all = rollout.routers.keys().cloned().collect::<BTreeSet<_>>();
        let of = if is_canary { canaries.clone() } else { all.difference(&canaries).cloned().collect() };
        let aside = of.first().expect("a router").clone();
        rollout.on(RolloutEvent::SetAside { router: aside.clone() }, Now::at_ms(1));
        for second in 1..20 {
            let now = Now::at_ms(second * 1000);
            for router in having(&rollout).iter().filter(|router| **router != aside) {
                rollout.on(acknowledged(router), now);
            }
            rollout.on(RolloutEvent::SetAside { router: aside.clone() }, now);
            rollout.on(RolloutEvent::Tick, now);
        }
        assert_eq!(rollout.state(), RolloutState::Done, "canary: {is_canary}");
        assert_eq!(rollout.set_aside().collect::<Vec<_>>(), [&aside]);
        rollout
            .on(RolloutEvent::Acknowledged { router: aside.clone(), digest: digest(7) }, Now::at_ms(30_000));
        assert_eq!(rollout.set_aside().count(), 0, "its file is its agent's again");
        assert!(
            matches!(rollout.state(), RolloutState::Going { waits_for: Some(router), .. } if router == aside)
        );
        rollout.on(acknowledged(&aside), Now::at_ms(31_000));
        assert_eq!(rollout.state(), RolloutState::Done);
    }
}

/// A rollout that a router halts which is no canary.
fn halted_by_a_refusal() -> (Rollout, RouterId) {
    let mut rollout = with_routers(RolloutLane::SlotChange, 50);
    let canaries = having(&rollout);
    acknowledge_all(&mut rollout, Now::at_ms(1));
    rollout.on(RolloutEvent::Tick, Now::at_ms(2_001));
    let router = having(&rollout).difference(&canaries).next().expect("another router").clone();
    rollout.on(refused(&router), Now::at_ms(2_100));
    assert!(matches!(halted_by(&rollout), Some(Shortfall::Refused(_))));
    (rollout, router)
}

#[test]
fn a_halt_ends_when_its_cause_is_gone() {
    let causes: [fn(RouterId) -> RolloutEvent; 3] = [
        |router| acknowledged(&router),
        |router| RolloutEvent::Left { router },
        |router| RolloutEvent::SetAside { router },
    ];
    for gone in causes {
        let (mut rollout, router) = halted_by_a_refusal();
        let other = having(&rollout).into_iter().find(|other| *other != router).expect("another one");
        rollout.on(refused(&other), Now::at_ms(2_200));
        rollout.on(gone(router), Now::at_ms(2_300));
        assert!(halted_by(&rollout).is_some(), "another router refuses it as well");
        rollout.on(gone(other), Now::at_ms(2_400));
        assert_eq!(halted_by(&rollout), None);
    }
}

#[test]
fn a_person_lets_a_rollout_go_on_without_a_router_which_halts_it_no_more() {
    let (mut rollout, router) = halted_by_a_refusal();
    assert_eq!(rollout.failing(), [router.clone()].into());
    let mut excused = rollout.failing();
    rollout.on(RolloutEvent::Resume { excused: excused.clone() }, Now::at_ms(3_000));
    for other in having(&rollout).iter().filter(|other| **other != router) {
        rollout.on(acknowledged(other), Now::at_ms(3_000));
    }
    rollout.on(refused(&router), Now::at_ms(4_000));
    rollout.on(RolloutEvent::Tick, Now::at_ms(10_000));
    assert_eq!(rollout.state(), RolloutState::Done);
    // What others refuse that a person has not seen halts it.
    let (mut rollout, _) = halted_by_a_refusal();
    excused.insert("r99".parse().expect("a name"));
    let other = having(&rollout).into_iter().find(|other| !excused.contains(other)).expect("another one");
    rollout.on(RolloutEvent::Resume { excused }, Now::at_ms(3_000));
    rollout.on(refused(&other), Now::at_ms(4_000));
    assert!(halted_by(&rollout).is_some());
}

#[test]
fn a_person_halts_resumes_and_hurries_a_rollout() {
    let mut rollout = with_routers(RolloutLane::Routes, 600);
    acknowledge_all(&mut rollout, Now::at_ms(1));
    rollout.on(RolloutEvent::Halt { reason: "we look".to_owned() }, Now::at_ms(2));
    rollout.on(RolloutEvent::Tick, Now::at_ms(10_000_000));
    let reason = "we look".to_owned();
    assert_eq!(rollout.state(), RolloutState::Halted(HaltEvidence::Person { reason }));
    let canaries = having(&rollout).len();
    rollout.on(RolloutEvent::Hurry, Now::at_ms(10_000_001));
    assert_eq!(having(&rollout).len(), canaries, "halted is halted");
    rollout.on(RolloutEvent::Resume { excused: BTreeSet::new() }, Now::at_ms(10_000_002));
    assert_eq!(having(&rollout).len(), 600);
    // Before the canaries have loaded it, nobody else gets it, however much in a hurry somebody is.
    let mut rollout = with_routers(RolloutLane::Routes, 600);
    rollout.on(RolloutEvent::Hurry, Now::at_ms(1));
    assert_eq!(having(&rollout).len(), canaries);
}

#[test]
fn what_a_router_says_of_a_text_that_all_have_had_halts_nothing_unless_the_text_has_ended_it() {
    let mut rollout = with_routers(RolloutLane::Rollback, 50);
    acknowledge_all(&mut rollout, Now::at_ms(1));
    assert_eq!(rollout.state(), RolloutState::Done);
    rollout.on(refused(&router(3)), Now::at_ms(2));
    assert_eq!(rollout.state(), RolloutState::Done);
    rollout.on(RolloutEvent::Crashed { router: router(4), reason: "ended".to_owned() }, Now::at_ms(3));
    assert!(matches!(halted_by(&rollout), Some(Shortfall::Crashed(_))));
}

/// One random history of two controllers: the invariants hold after every event, and it ends when events end.
fn random_history(seed: u64) {
    let mut prng = Prng::new(seed);
    let lanes = [RolloutLane::SlotChange, RolloutLane::Weights, RolloutLane::Routes, RolloutLane::Rollback];
    let lane = lanes[prng.below(4) as usize];
    let count = 1 + prng.below(120);
    let mut rollout = with_routers(lane, count);
    let mut twin = with_routers(lane, count);
    let (mut now, mut wanted) = (Now::default(), BTreeMap::<RouterId, GenerationNumber>::new());
    let mut is_condemned = false;
    for _ in 0..300 {
        now.us += prng.below(20_000_000);
        let some = router(prng.below(count + 3));
        let event = match prng.below(40) {
            0 => RolloutEvent::Crashed { router: some, reason: "signal".into() },
            1 => RolloutEvent::Refused { router: some, reason: "no".into() },
            2 | 3 => RolloutEvent::Silent { router: some, since: now },
            4 => RolloutEvent::Left { router: some },
            5 => appeared(prng.below(count + 3)),
            6 => RolloutEvent::Freeze,
            7 | 8 => RolloutEvent::Thaw,
            9 => RolloutEvent::Halt { reason: "person".into() },
            10 | 11 => RolloutEvent::Resume { excused: [some].into() },
            12 => RolloutEvent::Heard { router: some },
            13..20 => RolloutEvent::Tick,
            20 => RolloutEvent::Acknowledged { router: some, digest: digest(6) },
            21 => RolloutEvent::Unanswered { router: some },
            _ => RolloutEvent::Acknowledged { router: some, digest: digest(8) },
        };
        let (before, was_stopped) = (having(&rollout), rollout.is_stopped());
        let was_by_hand = rollout.is_frozen || rollout.halted_by_hand.is_some();
        let is_by_hand = matches!(event, RolloutEvent::Thaw | RolloutEvent::Resume { .. });
        rollout.on(event.clone(), now);
        twin.on(event, now);
        let after = having(&rollout);
        let fresh = after.difference(&before).collect::<Vec<_>>();
        assert_eq!(after, having(&twin), "seed {seed}: two controllers differ");
        let is_stopped = was_stopped && rollout.is_stopped() || was_by_hand && !is_by_hand;
        assert!(fresh.is_empty() || !is_stopped, "seed {seed}: went on while halted");
        assert!(fresh.is_empty() || !is_condemned, "seed {seed}: condemned and published");
        is_condemned |= !rollout.condemned().is_empty();
        wanted.retain(|router, _| rollout.wanted(router).is_some());
        for router in rollout.routers.keys() {
            let now_wanted = rollout.wanted(router).expect("it is known");
            let old = wanted.insert(router.clone(), now_wanted);
            assert!(old.is_none_or(|old| old <= now_wanted), "seed {seed}: {router} goes back");
        }
        if let RolloutWave::Zone(zone) = &rollout.wave {
            let others = fresh.iter().filter(|router| !rollout.routers[**router].is_canary);
            assert!(
                others.clone().all(|router| rollout.routers[*router].zone == *zone),
                "seed {seed}: two zones"
            );
        }
    }
    finish(&mut rollout, seed);
}

/// Events have stopped, only time passes.
#[track_caller]
fn finish(rollout: &mut Rollout, seed: u64) {
    for _ in 0..1_000 {
        let Some(next) = rollout.next_call() else { break };
        assert!(next > rollout.now, "seed {seed}: the same moment again");
        rollout.on(RolloutEvent::Tick, next);
    }
    let has_ended = match rollout.state() {
        RolloutState::Going { waits_for, .. } => waits_for.is_some() || rollout.routers.is_empty(),
        _ => true,
    };
    assert!(has_ended && rollout.next_call().is_none(), "seed {seed}: {:?}", rollout.state());
}

#[test]
fn random_histories_keep_the_invariants() {
    (0..150).for_each(random_history);
}

#[test]
fn a_router_that_comes_back_behind_the_fence_has_the_time_of_one_that_is_told() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 50);
    let away = having(&rollout).into_iter().next().expect("a canary");
    rollout.on(RolloutEvent::Silent { router: away.clone(), since: Now::at_ms(1) }, Now::at_ms(1));
    rollout.on(RolloutEvent::Tick, Now::at_ms(250_000));
    let number = away.as_str()[1..].parse().expect("a number");
    rollout.on(appeared(number), Now::at_ms(400_000));
    rollout.on(RolloutEvent::Heard { router: away.clone() }, Now::at_ms(400_000));
    let no_answer = |rollout: &Rollout| match rollout.state() {
        RolloutState::Halted(HaltEvidence::Router { router, shortfall, .. }) => {
            (router == away && shortfall == Shortfall::NoAnswer).then_some(())
        }
        _ => None,
    };
    assert_eq!(no_answer(&rollout), None);
}

#[test]
fn a_canary_that_does_not_answer_has_its_time_anew_and_another_router_is_not_missed() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 50);
    let canaries = having(&rollout);
    acknowledge_all(&mut rollout, Now::default());
    let ended = canaries.first().expect("a canary").clone();
    rollout.on(RolloutEvent::Unanswered { router: ended.clone() }, Now::at_ms(1_900));
    rollout.on(RolloutEvent::Tick, Now::at_ms(10_000));
    assert_eq!(having(&rollout), canaries, "nobody else gets the text");
    rollout.on(RolloutEvent::Acknowledged { router: ended, digest: digest(8) }, Now::at_ms(10_000));
    rollout.on(RolloutEvent::Tick, Now::at_ms(11_999));
    assert_eq!(having(&rollout), canaries);
    rollout.on(RolloutEvent::Tick, Now::at_ms(12_000));
    assert_eq!(having(&rollout).len(), 50);
    acknowledge_all(&mut rollout, Now::at_ms(12_000));
    for router in having(&rollout) {
        rollout.on(RolloutEvent::Unanswered { router }, Now::at_ms(13_000));
    }
    assert_eq!(rollout.state(), RolloutState::Done);
}

#[test]
fn a_router_that_has_just_fallen_silent_is_no_canary() {
    let mut rollout = begin(RolloutLane::SlotChange);
    let all = with_routers(RolloutLane::SlotChange, 50);
    (0..50).for_each(|number| rollout.on(appeared(number), Now::default()));
    let silent = having(&all);
    for router in &silent {
        let event = RolloutEvent::Silent { router: router.clone(), since: Now::default() };
        rollout.on(event, Now::default());
    }
    rollout.on(RolloutEvent::Tick, Now::at_ms(1));
    assert_eq!((having(&rollout).len(), having(&rollout).intersection(&silent).count()), (silent.len(), 0));
}

/// Something that may happen to one of a few routers.
fn draw(prng: &mut Prng, now: Now) -> RolloutEvent {
    let number = prng.below(30);
    let router = router(number);
    match prng.below(12) {
        0 | 1 => appeared(number),
        2..=5 => RolloutEvent::Acknowledged { router, digest: digest(7 + prng.below(2)) },
        6 => RolloutEvent::Silent { router, since: now },
        7 => RolloutEvent::Heard { router },
        8 => RolloutEvent::Left { router },
        9 if prng.below(20) == 0 => RolloutEvent::Crashed { router, reason: "it ended".to_owned() },
        10 if prng.below(4) == 0 => RolloutEvent::Freeze,
        10 => RolloutEvent::Thaw,
        _ => RolloutEvent::Tick,
    }
}

#[test]
fn a_look_at_all_routers_that_is_left_out_would_have_changed_nothing() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let lane = [RolloutLane::SlotChange, RolloutLane::Weights, RolloutLane::Routes][(seed % 3) as usize];
        let (mut lazy, mut eager, mut now) = (with_routers(lane, 20), with_routers(lane, 20), Now::default());
        for step in 0..400 {
            // Short times beside those of waves, and now and then a long one.
            let ms = if prng.below(10) == 0 { prng.below(70_000) } else { prng.below(100) };
            now = Now::at_ms(now.ms() + ms);
            let event = draw(&mut prng, now);
            lazy.on(event.clone(), now);
            eager.is_changed = true;
            eager.on(event, now);
            assert_eq!(lazy.state(), eager.state(), "seed {seed}, step {step}");
            assert_eq!(having(&lazy), having(&eager), "seed {seed}, step {step}");
            assert_eq!(lazy.take_admitted(), eager.take_admitted(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn what_is_noted_is_acted_on_at_the_next_moment() {
    let mut rollout = with_routers(RolloutLane::SlotChange, 50);
    let canaries = having(&rollout);
    assert_eq!(rollout.take_admitted().len(), canaries.len());
    for router in &canaries {
        let event = RolloutEvent::Acknowledged { router: router.clone(), digest: digest(8) };
        rollout.note(event, Now::at_ms(1));
    }
    rollout.note(RolloutEvent::Tick, Now::at_ms(1));
    rollout.on(RolloutEvent::Tick, Now::at_ms(2));
    assert_eq!(rollout.next_call(), Some(Now::at_ms(2001)), "the canaries have had their time");
    rollout.on(RolloutEvent::Tick, Now::at_ms(2002));
    assert_eq!(rollout.take_admitted().len(), 50 - canaries.len());
}

#[test]
fn a_halt_is_told_in_words() {
    let halt = |is_canary, shortfall| {
        HaltEvidence::Router { router: "r1".parse().expect("a name"), is_canary, shortfall }.to_string()
    };
    assert_eq!(
        halt(false, Shortfall::Refused("line 3".to_owned())),
        "the router r1 does not load the text: line 3"
    );
    assert_eq!(
        halt(true, Shortfall::NoAnswer),
        "the router r1, a canary, says nothing about the text, and its agent lives"
    );
    assert_eq!(HaltEvidence::Person { reason: "the big day".to_owned() }.to_string(), "by hand: the big day");
}
