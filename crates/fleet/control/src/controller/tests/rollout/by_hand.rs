//! Rollouts that halt: what ends that, and that lost members do not wait for it.

use super::*;
use crate::service::questions::RolloutAct;

pub(super) fn wants(stage: &mut Stage, act: RolloutAct) -> ApiReply {
    let question = ControlQuestion::Rollout { act, why: "a test".to_owned() };
    stage.controller.answer(question, &owner())
}

pub(super) fn status(stage: &mut Stage) -> String {
    stage.text(ControlQuestion::Status)
}

/// Twelve routers with traffic, of which the canaries of other routes have them.
pub(super) fn other_routes() -> Stage {
    let mut stage = Stage::known(12);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}")).status, 200);
    stage.rounds(3);
    assert_eq!(having(&stage, 2), 8, "the canaries");
    stage
}

pub(super) fn having(stage: &Stage, generation: u64) -> usize {
    stage.loaded().iter().filter(|loaded| **loaded == generation).count()
}

/// The host of m1 is gone, for so many seconds.
pub(super) fn lose_m1(stage: &mut Stage, seconds: usize) {
    stage.agents[0].is_gone = true;
    suspect(stage, &["10.0.0.1:11211"]);
    stage.rounds(seconds);
}

/// A suspect member is gone for certain after this, and a rollout is waited for so long.
pub(super) const HEALED_WITHIN: usize = 12 + 15 + 4;

#[test]
fn a_file_that_somebody_has_edited_halts_nothing_and_a_lost_member_is_replaced() {
    for is_put_back in [true, false] {
        let mut stage = Stage::known(6);
        suspect(&mut stage, &[]);
        stage.rounds(70);
        let before = stage.agents[3].report.routers[0].loaded.clone();
        stage.agents[3].report.routers[0].text = TextReport::Foreign;
        stage.agents[3].report.routers[0].loaded = Some("9".repeat(32).parse().expect("a digest"));
        stage.rounds(3);
        let said = status(&mut stage);
        assert!(said.contains("r4 keeps a file that somebody else has written"), "{said}");
        assert!(said.contains("rollout: all routers have it"), "{said}");
        if is_put_back {
            (stage.agents[3].report.routers[0].text, stage.agents[3].report.routers[0].loaded) =
                (TextReport::Loaded, before);
            stage.rounds(2);
            assert!(!status(&mut stage).contains("keeps a file"), "it is its agent's again");
        }
        lose_m1(&mut stage, HEALED_WITHIN);
        assert_eq!(stage.slots(), "m3 m2", "put back: {is_put_back}: {}", status(&mut stage));
    }
}

type Halt = fn(&mut Stage);

/// The routers that have the text report that they do not load it.
fn refuse_in_canaries(stage: &mut Stage) {
    let generation = GenerationNumber(2);
    for agent in &mut stage.agents {
        if agent.report.routers[0].generation == Some(generation) {
            let reason = "it was not loaded".to_owned();
            agent.report.routers[0].text = TextReport::Refused { generation, reason };
        }
    }
}

#[test]
fn a_lost_member_is_replaced_whatever_has_halted_a_rollout() {
    // What happens to it, and whether the routes that are on their way go on with the replacement.
    let halts: [(Halt, bool); 4] = [
        (|_| {}, true),
        (|stage| assert_eq!(wants(stage, RolloutAct::Halt).status, 200), true),
        // Whoever gets the text from now on ends with it: the canaries that get it with other members.
        (|stage| stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("later")), false),
        (refuse_in_canaries, false),
    ];
    for (number, (halt, goes_on)) in halts.into_iter().enumerate() {
        let mut stage = other_routes();
        halt(&mut stage);
        lose_m1(&mut stage, HEALED_WITHIN);
        let said = status(&mut stage);
        assert!(!stage.slots().contains("m1 ") && stage.slots().ends_with(" m10"), "{number}: {said}");
        stage.rounds(10);
        let content = stage.controller.register.view().content();
        assert_eq!(content.views[0].routes.contains("later"), goes_on, "{number}: {said}");
        let has = |agent: &&FakeAgent| agent.texts.values().any(|text| text.contains("later"));
        // One of the canaries was beside m1. If the routes go on, another router takes its place.
        assert!(has(&&stage.agents[0]), "{number}: the lost host had a canary");
        let with_text = stage.agents.iter().filter(has).count();
        assert_eq!(with_text, if number == 0 { 9 } else { 8 }, "{number}: the canaries");
    }
}

#[test]
fn a_person_halts_a_rollout_and_every_controller_knows_until_it_goes_on() {
    let mut stage = other_routes();
    assert_eq!(wants(&mut stage, RolloutAct::Halt).status, 200);
    stage.rounds(2);
    let said = status(&mut stage);
    assert!(said.contains("generation 2 is halted by a person, until `control rollout resume`"), "{said}");
    stage.rounds(30);
    assert_eq!(having(&stage, 2), 8);
    stage.seats = Arc::default();
    stage.controller = controller(&stage.register, &stage.seats);
    stage.rounds(30);
    assert_eq!(having(&stage, 2), 8, "one that was started again");
    assert_eq!(wants(&mut stage, RolloutAct::Hurry).status, 200);
    stage.rounds(5);
    assert_eq!(having(&stage, 2), 12);
    let late = wants(&mut stage, RolloutAct::Abandon);
    assert!(late.status == 409 && late.json.contains("all routers have generation 2"), "{}", late.json);
}

#[test]
fn a_rollout_that_a_router_has_halted_goes_on_without_it() {
    let mut stage = Stage::known(12);
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}")).status, 200);
    assert_eq!(wants(&mut stage, RolloutAct::Hurry).status, 200);
    let refuse = |stage: &mut Stage| {
        let (generation, reason) = (GenerationNumber(2), "it was not loaded".to_owned());
        stage.agents[11].report.routers[0].text = TextReport::Refused { generation, reason };
    };
    // It gets the text last, and does not load it.
    stage.agents[11].is_gone = true;
    stage.rounds(30);
    stage.agents[11].is_gone = false;
    stage.agents[11].fails_with = Some("nothing");
    refuse(&mut stage);
    stage.turn_of_report(11);
    stage.rounds(1);
    assert_eq!(having(&stage, 2), 12, "it is that router's matter: all others had it");
}

#[test]
fn a_rollout_is_given_up_and_routers_have_what_they_had_before() {
    let mut stage = other_routes();
    let reply = wants(&mut stage, RolloutAct::Abandon);
    assert!(reply.status == 200 && reply.json.contains("generation 2 is given up"), "{}", reply.json);
    stage.rounds(8);
    assert_eq!(having(&stage, 3), 12);
    assert!(!stage.controller.register.view().content().views[0].routes.contains("later"));
    // A slot goes on and not back.
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    let reply = wants(&mut stage, RolloutAct::Abandon);
    assert!(reply.status == 409 && reply.json.contains("a slot goes on and not back"), "{}", reply.json);
}

#[test]
fn a_text_that_has_failed_does_not_go_on_whoever_wants_it() {
    let mut stage = Stage::running(3);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("10.0.0.3"));
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(10);
    for act in [RolloutAct::Resume, RolloutAct::Hurry] {
        let reply = wants(&mut stage, act);
        assert!(reply.status == 409 && reply.json.contains("no other one gets it"), "{}", reply.json);
    }
    assert_eq!(stage.loaded(), [1; 3]);
}

#[test]
fn a_controller_without_its_register_sends_its_agents_away_and_keeps_them_when_it_is_back() {
    let mut stage = Stage::running(2);
    let answer = |stage: &mut Stage| {
        let mut report = stage.agents[0].report.clone();
        report.stays = Some(false);
        stage
            .runtime
            .block_on(stage.seats.answer(&report, Duration::from_millis(1)))
            .expect("a seat")
            .elsewhere
    };
    assert!(!answer(&mut stage));
    (0..1_000).for_each(|_| stage.register.add_fault(SimulatedFault::NotReached));
    // Nothing has told it: it asks by itself.
    stage.rounds(3);
    assert!(answer(&mut stage));
    let said = status(&mut stage);
    assert!(said.contains("the register is away"), "{said}");
    while decisions(&stage.register).target().is_err() {}
    stage.rounds(2);
    assert!(!answer(&mut stage));
}
