//! Slots that get other members because a person wants it.

mod warm_up;

use super::*;
use crate::service::questions::DrainQuestion;

fn by_phases(members: &[&str]) -> ChangeQuestion {
    let wish = |member: &&str| {
        let member = member.parse().expect("a name");
        ChangeRequest::Replace { member, by: None, now: false }
    };
    ChangeQuestion::Requests(members.iter().map(wish).collect())
}

fn text(plan: &Value) -> &str {
    plan["text"].as_str().or_else(|| plan["error"].as_str()).unwrap_or_else(|| panic!("no text: {plan}"))
}

/// `m3 m2`, and what is drained.
fn slots(stage: &Stage) -> String {
    let content = stage.controller.register.view().content();
    let drained =
        content.draining().map(|(_, _, drain)| format!(" {:?} beside {}", drain.phase, drain.other));
    format!("{}{}", stage.slots(), drained.unwrap_or_default())
}

/// Slots as they follow each other in so many seconds.
fn history(stage: &mut Stage, seconds: usize) -> Vec<String> {
    let mut seen = vec![slots(stage)];
    for _ in 0..seconds {
        stage.rounds(1);
        if seen.last() != Some(&slots(stage)) {
            seen.push(slots(stage));
        }
    }
    seen
}

const PHASES: [&str; 4] =
    ["m1 m2 ReadOld beside m3", "m3 m2 ReadNew beside m1", "m3 m2 NewOnly beside m1", "m3 m2"];

#[test]
fn a_member_that_lives_is_replaced_by_the_phases_of_a_drain() {
    let mut stage = Stage::running(4);
    let plan = stage.plan(&by_phases(&["m1"]));
    assert!(text(&plan).contains("m1 leaves slot s0 to m3, in phases"), "{plan}");
    assert_eq!(stage.apply(&by_phases(&["m1"])).status, 200);
    assert_eq!(history(&mut stage, 120), PHASES);
}

#[test]
fn a_phase_of_a_replacement_waits_for_a_router_that_was_not_heard_of_lately() {
    let mut stage = Stage::running(4);
    stage.agents[3].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.apply(&by_phases(&["m1"])).status, 200);
    assert_eq!(history(&mut stage, 280), PHASES[..1], "r4 may delete from m1 alone");
    assert_eq!(history(&mut stage, 700), [PHASES[0], PHASES[2], PHASES[3]], "m1 is emptied first");
}

#[test]
fn members_that_live_are_replaced_one_after_the_other() {
    let mut stage = Stage::running(6);
    let plan = stage.plan(&by_phases(&["m1", "m2"]));
    assert!(
        text(&plan).contains("replace m1: it lives, and leaves its slot by phases, one member at a time"),
        "{plan}"
    );
    assert!(plan["hint"].as_str().is_some_and(|hint| hint.contains("--now")), "{plan}");
}

#[test]
fn at_once_a_plan_says_what_may_be_lost_unless_the_member_is_gone() {
    let mut stage = Stage::running(4);
    let words = "m1 lives: until all routers have this generation, what one of them deletes or sets is missed by others";
    let plan = stage.plan(&replace("m1"));
    assert!(text(&plan).contains(words), "{plan}");
    stage.agents[0].is_gone = true;
    stage.rounds(40);
    for change in [replace("m1"), by_phases(&["m1"])] {
        let plan = stage.plan(&change);
        assert!(
            text(&plan).contains("m3 takes slot s0 in place of m1") && !text(&plan).contains("lives"),
            "{plan}"
        );
    }
}

/// Routes were gone back from, which the policy still wants.
fn gone_back() -> Stage {
    let mut stage = Stage::running(6);
    assert_eq!(stage.apply(&policy("{\"route\": \"NullRoute\"}")).status, 200);
    assert_eq!(stage.apply(&ChangeQuestion::Rollback(GenerationNumber(1))).status, 200);
    stage.rounds(40);
    stage
}

#[test]
fn routes_that_were_gone_back_from_do_not_come_again_whoever_changes_slots() {
    let member = || "m1".parse().expect("a name");
    let drain = ChangeQuestion::Drain(DrainQuestion { member: member(), to: None, warm_up_s: 0 });
    for change in [replace("m1"), by_phases(&["m1"]), drain] {
        let mut stage = gone_back();
        let plan = stage.plan(&change);
        assert!(
            text(&plan).contains("goes out as a slot change") && !text(&plan).contains("routes"),
            "{plan}"
        );
        assert_eq!(stage.apply(&change).status, 200);
        stage.rounds(90);
        assert_eq!(stage.slots(), "m3 m2");
        let content = stage.controller.register.view().content();
        assert!(content.views[0].routes.contains("PoolRoute|web"), "{change:?}: {:?}", content.views);
        assert_eq!(stage.controller.facts().state(&member()), MemberState::Spare, "{change:?}");
    }
}

#[test]
fn a_rollback_brings_routes_back_and_slots_keep_their_members() {
    let mut stage = Stage::running(4);
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}")).status, 200);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(1_000);
    let back = ChangeQuestion::Rollback(GenerationNumber(1));
    let plan = stage.plan(&back);
    assert!(text(&plan).contains("m3 keeps its slot: `control replace m3 --by m1` moves it"), "{plan}");
    assert_eq!(stage.apply(&back).status, 200);
    stage.rounds(1_000);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m3 m2", vec![4; 4]));
    assert!(!stage.controller.register.view().content().views[0].routes.contains("later"));
}

#[test]
fn a_rollback_of_one_member_goes_by_phases_and_one_of_several_says_how() {
    let mut stage = Stage::running(6);
    let back = ChangeQuestion::Rollback(GenerationNumber(1));
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(8);
    assert_eq!(stage.apply(&back).status, 200);
    let phases = ["m3 m2 ReadOld beside m1", "m1 m2 ReadNew beside m3", "m1 m2 NewOnly beside m3", "m1 m2"];
    assert_eq!(history(&mut stage, 120), phases);
    for member in ["m1", "m2"] {
        assert_eq!(stage.apply(&replace(member)).status, 200);
        stage.rounds(8);
    }
    let plan = stage.plan(&back);
    assert!(text(&plan).contains("generation 1 differs in nothing but 2 members"), "{plan}");
    let hint = plan["hint"].as_str().expect("a hint");
    assert!(hint.contains("`control replace m3 --by m1`, then `control replace m4 --by m2`"), "{hint}");
}
