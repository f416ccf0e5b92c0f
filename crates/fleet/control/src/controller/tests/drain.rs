//! Drains from their plan to their end, and what comes between.

use fleet::drain::DrainPhase;

use super::*;
use crate::service::questions::DrainQuestion;

fn drain(warm_up_s: u32) -> ChangeQuestion {
    let member = "m1".parse().expect("a name");
    ChangeQuestion::Drain(DrainQuestion { member, to: None, warm_up_s })
}

fn cancel(member: &str) -> ChangeQuestion {
    ChangeQuestion::CancelDrain(member.parse().expect("a name"))
}

/// Four hosts whose routers have the first phase of a drain of m1 to m3.
fn draining(warm_up_s: u32) -> Stage {
    let mut stage = Stage::running(4);
    assert_eq!(stage.apply(&drain(warm_up_s)).status, 200);
    assert_eq!(phase(&stage), "m1 ReadOld");
    stage
}

/// `m1 ReadOld`: the member that is read in the first slot, and the phase of its drain.
fn phase(stage: &Stage) -> String {
    let content = stage.controller.register.view().content();
    let slot = &content.clusters[0].slots[0];
    let phase = slot.drain.as_ref().map(|drain| format!(" {:?}", drain.phase));
    format!("{}{}", slot.member, phase.unwrap_or_default())
}

/// Seconds until the drain is this far.
#[track_caller]
fn until(stage: &mut Stage, expected: &str, seconds: usize) {
    for _ in 0..seconds {
        if phase(stage) == expected {
            return;
        }
        stage.rounds(1);
    }
    let status = stage.text(ControlQuestion::Status);
    assert_eq!(phase(stage), expected, "{status}");
}

/// What routers do with the keys of the first slot, by the texts that they have.
fn has_text(agent: &FakeAgent, words: &str) -> bool {
    agent.report.routers[0].loaded.as_ref().is_some_and(|digest| agent.texts[digest].contains(words))
}

/// A router that copies from the old member or reads it, beside one that deletes from the new one alone, would bring a deleted
/// value back; so would one that deletes from the old one alone beside one that reads the new one.
#[track_caller]
fn check_deletes(stage: &Stage) {
    let any = |is_meant: fn(&FakeAgent) -> bool| stage.agents.iter().any(is_meant);
    let knows_old_alone = any(|agent| has_text(agent, "10.0.0.1:") && !has_text(agent, "10.0.0.3:"));
    let knows_new_alone = any(|agent| has_text(agent, "10.0.0.3:") && !has_text(agent, "10.0.0.1:"));
    let reads_new = any(|agent| {
        has_text(agent, "10.0.0.3:")
            && !has_text(agent, "\"default_policy\":{\"type\":\"PoolRoute\",\"pool\":\"web:s0:m1\"")
    });
    let reads_old = any(|agent| {
        has_text(agent, "\"default_policy\":{\"type\":\"PoolRoute\",\"pool\":\"web:s0:m1\"")
            || has_text(agent, "WarmUpRoute")
    });
    assert!(!(knows_old_alone && reads_new), "a delete from the old member alone is missed by the new one");
    assert!(!(knows_new_alone && reads_old), "a delete from the new member alone is missed by the old one");
}

#[test]
fn a_drain_is_planned_shown_and_goes_through_its_phases() {
    let mut stage = Stage::running(4);
    let plan = stage.plan(&drain(5));
    let text = plan["text"].as_str().expect("a text").to_owned();
    for words in [
        "m1 leaves slot s0 to m3",
        "1. m1 is read, deletes go to it and to m3",
        "905 s at most beside the time of the rollouts: 300 s for each of three phases",
        "of the keys change their server (5000 sampled); deletes reach both",
        "goes out as a slot change",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(stage.apply(&drain(5)).status, 200);
    let mut seen = vec![phase(&stage)];
    for _ in 0..60 {
        stage.rounds(1);
        check_deletes(&stage);
        if seen.last() != Some(&phase(&stage)) {
            seen.push(phase(&stage));
        }
    }
    assert_eq!(seen, ["m1 ReadOld", "m3 ReadNew", "m3 NewOnly", "m3"]);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m3 m2", vec![5, 5, 5, 5]));
    let m1 = "m1".parse().expect("a name");
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Spare, "it is emptied");
    let flushes = |at: usize| stage.agents[at].report.members[0].flushes;
    assert_eq!((flushes(0), flushes(2)), (5, 2), "the new one at the end of the first phase");
    let history = stage.text(ControlQuestion::History);
    assert!(history.contains("the drain of slot s0: m3 is read and warmed up from m1"), "{history}");
    assert_eq!(stage.plan(&ChangeQuestion::Policy(None))["text"], "nothing to do\n");
}

#[test]
fn the_new_member_is_warmed_up_for_as_long_as_was_asked() {
    let mut stage = draining(60);
    until(&mut stage, "m3 ReadNew", 10);
    stage.rounds(55);
    assert_eq!(phase(&stage), "m3 ReadNew");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("m3 gets warm"), "{status}");
    until(&mut stage, "m3 NewOnly", 20);
}

#[test]
fn a_warm_up_ends_before_when_the_hit_ratio_is_that_of_the_peers() {
    let mut stage = draining(3_600);
    until(&mut stage, "m3 ReadNew", 10);
    for _ in 0..30 {
        for agent in &mut stage.agents {
            agent.report.members[0].hits += 95 * 50;
            agent.report.members[0].misses += 5 * 50;
        }
        stage.rounds(1);
    }
    assert_eq!(phase(&stage), "m3");
}

#[test]
fn a_phase_waits_for_a_silent_router_until_the_fence_and_then_empties_the_old_member() {
    let mut stage = Stage::running(4);
    stage.agents[3].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.apply(&drain(5)).status, 200);
    stage.rounds(280);
    assert_eq!(phase(&stage), "m1 ReadOld", "r4 may delete from m1 alone");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("waits for r4"), "{status}");
    let before = stage.agents[0].report.members[0].flushes;
    until(&mut stage, "m3 NewOnly", 40);
    assert_eq!((before, stage.agents[0].report.members[0].flushes), (1, 2), "m1 is emptied first");
    until(&mut stage, "m3", 320);
}

#[test]
fn another_controller_goes_on_with_a_drain() {
    for at in ["m1 ReadOld", "m3 ReadNew", "m3 NewOnly"] {
        let mut stage = draining(5);
        until(&mut stage, at, 60);
        stage.seats = Arc::default();
        stage.controller = controller(&stage.register, &stage.seats);
        stage.rounds(20);
        assert_eq!(phase(&stage), at, "agents come back first");
        for _ in 0..100 {
            stage.rounds(1);
            check_deletes(&stage);
        }
        assert_eq!(phase(&stage), "m3", "from {at}");
    }
}

#[test]
fn a_drain_is_given_up_before_the_new_member_is_read() {
    let mut stage = draining(5);
    let text = stage.plan(&cancel("m1"))["text"].as_str().expect("a plan").to_owned();
    assert!(text.contains("m1 keeps slot s0, and m3 is emptied"), "{text}");
    assert_eq!(stage.apply(&cancel("m1")).status, 200);
    stage.rounds(8);
    assert_eq!((phase(&stage).as_str(), stage.target()), ("m1", 3));
    assert_eq!(stage.agents[2].report.members[0].flushes, 3);
    assert!(
        stage.plan(&cancel("m1"))["error"].as_str().expect("an error").contains("m1 is not being drained")
    );
}

#[test]
fn a_drain_is_given_up_by_the_same_phases_once_the_new_member_is_read() {
    let mut stage = draining(600);
    until(&mut stage, "m3 ReadNew", 10);
    stage.rounds(5);
    assert_eq!(stage.apply(&cancel("m1")).status, 200);
    assert_eq!(phase(&stage), "m3 ReadOld");
    until(&mut stage, "m1 ReadNew", 20);
    assert_eq!(stage.agents[0].report.members[0].flushes, 4, "m1 is empty before it is read again");
    until(&mut stage, "m1", 700);
    stage.rounds(10);
    assert_eq!(stage.controller.facts().state(&"m3".parse().expect("a name")), MemberState::Spare);
}

#[test]
fn nothing_else_changes_while_a_member_is_drained() {
    let mut stage = draining(5);
    for (change, words) in [
        (replace("m2"), "m1 is drained to m3, and nothing else changes meanwhile"),
        (ChangeQuestion::Rollback(GenerationNumber(1)), "nothing else changes meanwhile"),
        (ChangeQuestion::Policy(Some(POLICY.to_owned())), "nothing else changes meanwhile"),
        (drain(5), "at most 1 is at a time"),
    ] {
        let plan = stage.plan(&change);
        assert!(plan["error"].as_str().is_some_and(|error| error.contains(words)), "{change:?}: {plan}");
        assert!(
            plan["hint"].as_str().is_some_and(|hint| hint.contains("control drain m1 --cancel")),
            "{plan}"
        );
    }
    let m3: MemberId = "m3".parse().expect("a name");
    let question = ControlQuestion::Members {
        members: Vec::new(),
        remove: vec![m3],
        remove_hosts: Vec::new(),
        why: Some("x".to_owned()),
    };
    assert_eq!(stage.controller.answer(question, &owner()).status, 422, "it is about to have a slot");
}

#[test]
fn a_member_without_a_slot_or_without_a_spare_is_not_drained() {
    let mut stage = Stage::running(2);
    let error =
        |stage: &mut Stage, change| stage.plan(&change)["error"].as_str().unwrap_or_default().to_owned();
    assert!(error(&mut stage, drain(5)).contains("find a member for slot 0 of the cluster web"));
    let member = "m9".parse().expect("a name");
    let unknown = ChangeQuestion::Drain(DrainQuestion { member, to: None, warm_up_s: 5 });
    assert!(error(&mut stage, unknown).contains("drain m9: it has no slot in any cluster"));
}

#[test]
fn a_freeze_refuses_a_drain_and_halts_one_that_is_going_on() {
    let mut stage = draining(5);
    let scope: FreezeScope = "cluster/web".parse().expect("a scope");
    let why = "we look".to_owned();
    stage.text(ControlQuestion::Freeze { scope: scope.clone(), why: why.clone() });
    stage.rounds(400);
    assert_eq!(phase(&stage), "m1 ReadOld");
    let status = stage.text(ControlQuestion::Status);
    let words = "the drain of m1 (web/s0) to m3 waits: cluster/web is frozen: we look";
    assert!(status.contains(words), "{status}");
    assert_eq!(stage.apply(&cancel("m1")).status, 409);
    stage.text(ControlQuestion::Thaw { scope, why });
    until(&mut stage, "m3", 60);
}

#[test]
fn what_is_frozen_is_refused_for_that_also_while_a_member_is_drained() {
    let mut stage = draining(600);
    until(&mut stage, "m3 ReadNew", 10);
    stage.rounds(5);
    assert_eq!(stage.apply(&cancel("m1")).status, 200, "it goes on, back to m1");
    let freeze = |stage: &mut Stage, scope: &str| {
        let (scope, why) = (scope.parse().expect("a scope"), "we look".to_owned());
        stage.text(ControlQuestion::Freeze { scope, why });
    };
    let check = |stage: &mut Stage, change: ChangeQuestion, error: &str, hint: &str| {
        let plan = stage.plan(&change);
        assert!(plan["error"].as_str().is_some_and(|said| said.contains(error)), "{change:?}: {plan}");
        assert!(plan["hint"].as_str().is_some_and(|said| said.starts_with(hint)), "{change:?}: {plan}");
    };
    check(&mut stage, replace("m2"), "m3 is drained to m1, and nothing else", "wait until it is done");
    // Of the zone of m2 alone: the drain goes on.
    freeze(&mut stage, "zone/a");
    let thaw = "`control thaw zone/a --why …` when that is over";
    check(&mut stage, replace("m2"), "m2 keeps its slot: zone/a is frozen: we look", thaw);
    // Of the drain's own cluster: what is not about one of its slots waits as long as the drain.
    freeze(&mut stage, "cluster/web");
    let frozen = "m1 keeps its slot: cluster/web is frozen: we look";
    check(&mut stage, drain(5), frozen, "`control thaw cluster/web");
    let words = "nothing else changes meanwhile; the drain waits, because cluster/web is frozen: we look";
    let policy = ChangeQuestion::Policy(Some(POLICY.to_owned()));
    check(&mut stage, policy, words, "`control thaw cluster/web --why …` when that is over; then wait");
}

#[test]
fn the_status_has_a_line_for_a_drain_from_its_beginning_to_its_end() {
    let mut stage = Stage::running(4);
    assert_eq!(stage.apply(&drain(5)).status, 200);
    let mut generations = BTreeSet::new();
    for _ in 0..60 {
        let (at, status) = (phase(&stage), stage.text(ControlQuestion::Status));
        assert_eq!(status.contains("the drain of m1 (web/s0) to m3"), at.contains(' '), "{at}: {status}");
        generations.insert(stage.target());
        stage.rounds(1);
    }
    assert_eq!(generations.len(), 4, "three phases and the end");
}

#[test]
fn a_new_member_that_ends_before_it_is_read_leaves_the_old_one_as_it_was() {
    let mut stage = Stage::running(4);
    stage.agents[3].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.apply(&drain(5)).status, 200);
    stage.rounds(5);
    stage.agents[2].is_hung = true;
    until(&mut stage, "m1", 15);
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 3: m3 does not answer: m1 keeps its slot"), "{history}");
}

#[test]
fn a_new_member_that_is_lost_while_it_is_read_gives_way_to_the_old_one_which_is_empty() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    assert_eq!(stage.apply(&drain(600)).status, 200);
    until(&mut stage, "m3 ReadNew", 20);
    stage.rounds(70);
    let flushes = stage.agents[0].report.members[0].flushes;
    stage.agents[2].is_gone = true;
    suspect(&mut stage, &["10.0.0.3:11211"]);
    until(&mut stage, "m1", 80);
    assert!(flushes < 3 && stage.agents[0].report.members[0].flushes == 3, "it lacks what m3 had got");
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 4: m3 is lost while its slot is drained: "), "{history}");
}

#[test]
fn an_old_member_that_is_lost_gives_its_slot_to_the_new_one_alone() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    // A router that does not come back keeps the first phase.
    stage.agents[5].is_gone = true;
    stage.rounds(40);
    assert_eq!(stage.apply(&drain(5)).status, 200);
    stage.rounds(5);
    stage.agents[0].is_gone = true;
    suspect(&mut stage, &["10.0.0.1:11211"]);
    until(&mut stage, "m3", 80);
    assert_eq!(stage.agents[2].report.members[0].flushes, 2, "it is empty");
}

#[test]
fn an_old_host_that_is_gone_ends_the_warm_up() {
    let mut stage = draining(3_600);
    until(&mut stage, "m3 ReadNew", 10);
    stage.rounds(5);
    stage.agents[0].is_gone = true;
    until(&mut stage, "m3 NewOnly", 60);
}

#[test]
fn a_phase_whose_text_fails_goes_back_and_the_drain_waits_for_a_person() {
    let mut stage = Stage::running(4);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("WarmUpRoute"));
    assert_eq!(stage.apply(&drain(5)).status, 200);
    stage.rounds(40);
    assert_eq!(phase(&stage), "m1 ReadOld");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("waits: view main: this very text has failed in a router before"), "{status}");
    assert_eq!(stage.apply(&cancel("m1")).status, 200);
    stage.rounds(8);
    assert_eq!((phase(&stage).as_str(), stage.controller.register.view().content().draining()), ("m1", None));
}

#[test]
fn a_rollback_to_a_generation_of_a_drain_leaves_the_member_that_was_read() {
    let mut stage = draining(5);
    until(&mut stage, "m3", 60);
    stage.rounds(10);
    let back = ChangeQuestion::Rollback(GenerationNumber(2));
    assert_eq!(stage.apply(&back).status, 200);
    assert_eq!(phase(&stage), "m3 ReadOld", "it comes back by phases");
    until(&mut stage, "m1", 120);
}

#[test]
fn a_phase_is_written_in_the_register_by_its_name() {
    let json = serde_json::to_value(DrainPhase::ReadNew).expect("JSON");
    assert_eq!(json, json!("read-new"));
}
