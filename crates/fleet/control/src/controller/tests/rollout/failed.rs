//! Slot changes whose text fails in a router.

use super::*;

fn fail_with(stage: &mut Stage, words: &'static str) {
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some(words));
}

fn flushes(stage: &Stage) -> Vec<u64> {
    stage.agents.iter().map(|agent| agent.report.members[0].flushes).collect()
}

#[test]
fn a_slot_does_not_go_back_to_a_member_that_has_left_it() {
    let mut stage = Stage::running(4);
    fail_with(&mut stage, "10.0.0.3");
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(2);
    assert_eq!((stage.slots().as_str(), stage.target()), ("m4 m2", 3));
    assert_eq!(flushes(&stage), [1, 1, 1, 1], "routers use m1 still, or m3");
    stage.rounds(8);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m4 m2", vec![3; 4]));
    assert_eq!(flushes(&stage), [2, 1, 3, 1], "m1 has left with the second generation, m3 with the third");
    let history = stage.text(ControlQuestion::History);
    let first = "generation 3: in place of m3, with whom a text has failed: r";
    assert!(history.starts_with(first), "{history}");
}

#[test]
fn without_a_spare_a_slot_waits_for_one_and_a_restart_changes_nothing() {
    let mut stage = Stage::running(3);
    fail_with(&mut stage, "10.0.0.3");
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(10);
    for restarts in 0..2 {
        assert_eq!((stage.slots().as_str(), stage.loaded(), stage.target()), ("m3 m2", vec![1; 3], 2));
        let status = stage.text(ControlQuestion::Status);
        let note = "nobody can take the place of m3, so it waits for a spare: find a member for slot 0";
        assert!(status.contains(note), "{restarts}: {status}");
        stage.controller = controller(&stage.register, &stage.seats);
        stage.controller.now = Now::at_ms(stage.now_ms);
        stage.rounds(3);
    }
    let json = json!({"id": "m4", "host": "h4", "zone": "a", "address": "10.0.0.4:11211"});
    assert!(
        decisions(&stage.register).set_member("m4", &json.to_string(), Revision::ABSENT).expect("an answer")
    );
    stage.agents.push(FakeAgent::new(4, "a"));
    stage.agents[3].fails_with = Some("10.0.0.3");
    stage.message(ControllerMessage::Changed);
    stage.rounds(12);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m4 m2", vec![3; 4]));
}

#[test]
fn after_some_texts_in_a_row_a_person_is_waited_for() {
    let mut stage = Stage::running(9);
    // Every text has it.
    fail_with(&mut stage, "10.0.0.2");
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(30);
    assert_eq!((stage.slots().as_str(), stage.target()), ("m7 m2", 4));
    assert_eq!(stage.loaded(), vec![1; 9]);
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("3 texts in a row have failed, so nobody takes the place of m7"), "{status}");
}

#[test]
fn a_member_is_not_emptied_while_a_router_may_have_a_generation_with_it() {
    let mut stage = Stage::running(4);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(1);
    assert_eq!(stage.loaded().iter().filter(|loaded| **loaded == 1).count(), 3, "all but a canary");
    // It overtakes the replacement, and takes its time.
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}")).status, 200);
    stage.rounds(30);
    assert_eq!((stage.target(), flushes(&stage)), (3, vec![1; 4]));
    assert_eq!(stage.controller.facts().state(&"m1".parse().expect("a name")), MemberState::Stale);
}
