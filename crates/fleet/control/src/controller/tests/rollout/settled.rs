//! Settled generations: those that all routers have had, in the register and after a restart.

use super::*;

fn restart(stage: &mut Stage) {
    stage.seats = Arc::default();
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, stage.unix_s);
}

fn routes(name: &str) -> ChangeQuestion {
    policy(&format!("{{\"route\": \"PoolRoute|web\", \"{name}\": 1}}"))
}

/// How often the register was written.
fn writes(stage: &Stage) -> Revision {
    let key = "/evenkeel/".parse().expect("a prefix");
    crate::register::Register::range(&stage.register, &key).expect("an answer").revision
}

#[test]
fn a_restarted_controller_gives_a_generation_that_was_overtaken_on_its_way_to_nobody() {
    let mut stage = Stage::known(40);
    assert_eq!(decisions(&stage.register).settled().expect("an answer"), Some(GenerationNumber(1)));
    assert_eq!(stage.apply(&routes("unproven")).status, 200);
    stage.rounds(3);
    assert_eq!(stage.apply(&routes("later")).status, 200);
    stage.rounds(3);
    let has = |agent: &&FakeAgent| agent.texts.values().any(|text| text.contains("unproven"));
    assert_eq!(stage.agents.iter().filter(has).count(), 8, "the canaries");
    restart(&mut stage);
    stage.rounds(40);
    assert_eq!(stage.agents.iter().filter(has).count(), 8, "the same canaries");
    assert_eq!(stage.loaded().iter().filter(|generation| **generation == 3).count(), 8, "others");
}

#[test]
fn a_rollout_is_one_write_and_nothing_is_written_afterwards() {
    let mut stage = Stage::known(4);
    let before = writes(&stage);
    stage.rounds(20);
    assert_eq!(writes(&stage), before);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    let published = writes(&stage);
    stage.rounds(8);
    assert_eq!(decisions(&stage.register).settled().expect("an answer"), Some(GenerationNumber(2)));
    assert_eq!(writes(&stage), Revision(published.0 + 1));
    stage.rounds(20);
    assert_eq!(writes(&stage), Revision(published.0 + 1));
}

#[test]
fn a_restarted_controller_knows_that_routes_are_everywhere_without_canaries() {
    let mut stage = Stage::known(4);
    assert_eq!(stage.apply(&routes("later")).status, 200);
    stage.rounds(850);
    assert_eq!(decisions(&stage.register).settled().expect("an answer"), Some(GenerationNumber(2)));
    restart(&mut stage);
    stage.rounds(1);
    assert!(!stage.controller.rollout.is_rolled_out(), "routers may be missing");
    stage.controller.rollout.forget_the_start();
    stage.rounds(2);
    assert!(stage.controller.rollout.is_rolled_out());
}

#[test]
fn a_controller_that_has_just_started_writes_nothing_down() {
    let mut stage = Stage::running(4);
    stage.rounds(10);
    assert!(stage.controller.rollout.is_rolled_out());
    assert_eq!(decisions(&stage.register).settled().expect("an answer"), None, "it may not know all routers");
}

#[test]
fn a_record_that_could_not_be_written_is_written_later() {
    let replacing = || {
        let mut stage = Stage::known(4);
        assert_eq!(stage.apply(&replace("m1")).status, 200);
        stage
    };
    let mut stage = replacing();
    let rounds = (1..100).find(|_| {
        stage.rounds(1);
        stage.controller.rollout.seen_settled() == Some(GenerationNumber(2))
    });
    let mut stage = replacing();
    stage.rounds(rounds.expect("it settles") - 1);
    // For a look whether the register is there, and for the record.
    stage.register.add_fault(SimulatedFault::NotReached);
    stage.register.add_fault(SimulatedFault::NotReached);
    stage.rounds(1);
    let written = |stage: &Stage| {
        let asked = (0..3).find_map(|_| decisions(&stage.register).settled().ok());
        asked.expect("an answer")
    };
    assert_eq!(stage.controller.rollout.seen_settled(), Some(GenerationNumber(2)));
    assert_eq!(written(&stage), Some(GenerationNumber(1)));
    stage.rounds(4);
    assert_eq!(written(&stage), Some(GenerationNumber(2)));
}
