//! Files of clusters' members: who gets which, and when.

use super::*;

const FIRST: &str = "1\n10.0.0.1|10.0.0.1|11211\n10.0.0.2|10.0.0.2|11211\n";

/// The files of all members.
fn files(stage: &Stage) -> Vec<Option<&str>> {
    stage.agents.iter().map(|agent| agent.file.as_deref()).collect()
}

#[test]
fn members_with_a_slot_get_their_clusters_file_when_all_routers_have_the_generation() {
    let mut stage = Stage::running(4);
    assert_eq!(files(&stage), [Some(FIRST), Some(FIRST), None, None]);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(1);
    assert!(stage.loaded().contains(&1) && stage.loaded().contains(&2), "a canary");
    assert_eq!(files(&stage), [Some(FIRST), Some(FIRST), None, None], "not before all have it");
    stage.rounds(5);
    assert_eq!(stage.slots(), "m3 m2");
    let second = "2\n10.0.0.3|10.0.0.3|11211\n10.0.0.2|10.0.0.2|11211\n";
    assert_eq!(files(&stage), [Some(FIRST), Some(second), Some(second), None], "m1 has left its slot");
}

#[test]
fn a_generation_that_has_failed_is_told_to_no_server() {
    let mut stage = Stage::running(4);
    for agent in &mut stage.agents {
        agent.fails_with = Some("10.0.0.3");
    }
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(1);
    assert_eq!(files(&stage), [Some(FIRST), Some(FIRST), None, None]);
    stage.rounds(10);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m4 m2", vec![3, 3, 3, 3]));
    let third = "3\n10.0.0.4|10.0.0.4|11211\n10.0.0.2|10.0.0.2|11211\n";
    assert_eq!(files(&stage), [Some(FIRST), Some(third), None, Some(third)]);
}

#[test]
fn a_router_that_appears_later_takes_no_file_back() {
    let mut stage = Stage::running(2);
    stage.agents[0].file = None;
    let mut newcomer = FakeAgent::new(9, "a");
    newcomer.report.members.clear();
    let mut report = newcomer.report.clone();
    report.turn = 1;
    stage.message(ControllerMessage::Turn(report));
    let state = stage.controller.rollout.state().expect("a rollout");
    assert_ne!(state, fleet::rollout::RolloutState::Done, "the newcomer has nothing yet");
    stage.turn(0);
    assert_eq!(stage.agents[0].file.as_deref(), Some(FIRST));
}

#[test]
fn a_server_without_such_a_file_gets_no_text() {
    let mut stage = Stage::new(2);
    stage.agents[1].report.members[0].has_cluster_file = false;
    stage.rounds(3);
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(POLICY.to_owned()))).status, 200);
    stage.rounds(3);
    assert_eq!(files(&stage), [Some(FIRST), None]);
    assert!(stage.agents[1].texts.values().all(|text| !text.contains("10.0.0.1|")));
}

#[test]
fn a_controller_that_takes_over_says_the_same() {
    let mut stage = Stage::running(4);
    stage.controller = controller(&stage.register, &stage.seats);
    for agent in &mut stage.agents {
        agent.file = None;
    }
    // It hears of all routers first.
    stage.rounds(30);
    assert_eq!(files(&stage), [Some(FIRST), Some(FIRST), None, None]);
}
