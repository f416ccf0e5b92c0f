//! A register that was restored from a backup, and routers that have more than it knows.

use fleet::NUMBERS_LOST_MAX;

use super::*;
use crate::audit::{AuditHead, AuditLog};
use crate::testing::Scratch;

/// A fleet whose register has forgotten generation 2, in which m3 had m1's slot, and a controller that was started since.
fn restored(name: &str) -> Stage {
    let mut stage = Stage::running(4);
    let backup = stage.register.backup();
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(6);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m3 m2", vec![2; 4]));
    stage.register.restore(backup);
    stage.seats = Arc::default();
    stage.controller = controller_at(&stage.register, &stage.seats, name, stage.now_ms, stage.unix_s);
    stage
}

#[test]
fn what_the_register_has_goes_out_once_more_above_what_routers_have() {
    let mut stage = restored("c1");
    let scratch = Scratch::new();
    let (log, _) = AuditLog::open(&scratch.path("audit"), &AuditHead::START, None).expect("a log");
    stage.controller.trail.record_in(log);
    stage.rounds(55);
    assert_eq!((stage.target(), stage.loaded()), (1, vec![2; 4]), "agents may be late");
    let mut first = Vec::new();
    for _ in 0..10 {
        stage.rounds(1);
        first.push(stage.loaded().iter().filter(|generation| **generation == 3).count());
    }
    assert!(first.contains(&1), "a canary before the others: {first:?}");
    assert_eq!((stage.target(), stage.loaded()), (3, vec![3; 4]));
    assert_eq!(stage.slots(), "m1 m2");
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert_eq!(
        lines,
        [
            "the register has forgotten generations that routers have: 2 is beyond its 1; what 1 has goes out once more, as 3"
        ]
    );
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 3: the content of generation 1 once more: "), "{history}");
    let audit = std::fs::read_to_string(scratch.path("audit")).expect("a log");
    assert_eq!(audit.lines().filter(|line| line.contains("rollback")).count(), 2, "begun and done: {audit}");
    stage.rounds(70);
    assert_eq!(stage.target(), 3, "once");
}

#[test]
fn nothing_goes_out_while_most_routers_are_away() {
    let mut stage = restored("c1");
    stage.rounds(5);
    stage.agents[1..].iter_mut().for_each(|agent| agent.is_gone = true);
    stage.rounds(70);
    assert_eq!(stage.target(), 1);
    stage.agents[1..].iter_mut().for_each(|agent| agent.is_gone = false);
    stage.rounds(10);
    assert_eq!((stage.target(), stage.loaded()), (3, vec![3; 4]));
}

#[test]
fn a_number_that_no_backup_explains_changes_nothing() {
    let mut stage = Stage::running(4);
    stage.agents[0].report.routers[0].generation = Some(GenerationNumber(2 * NUMBERS_LOST_MAX));
    stage.rounds(70);
    assert_eq!(stage.target(), 1);
    stage.agents[1].report.routers[0].generation = Some(GenerationNumber(9));
    stage.rounds(15);
    assert_eq!(stage.target(), 10);
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert!(lines[0].contains("have: 9 is beyond its 1"), "{lines:?}");
}

#[test]
fn the_first_controller_by_name_does_it() {
    let mut stage = restored("c2");
    for _ in 0..70 {
        stage.controller.peers.note_heard(&"c1".parse().expect("a name"), Now::at_ms(stage.now_ms));
        stage.rounds(1);
    }
    assert_eq!(stage.target(), 1);
    stage.rounds(6);
    assert_eq!(stage.target(), 3, "it is away");
}

#[test]
fn a_freeze_of_the_fleet_holds_it_back_and_a_line_says_so_once() {
    let mut stage = restored("c1");
    let (scope, why): (FreezeScope, _) = ("fleet".parse().expect("a scope"), "we look at it".to_owned());
    stage.text(ControlQuestion::Freeze { scope: scope.clone(), why: why.clone() });
    stage.rounds(100);
    assert_eq!(stage.target(), 1);
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert!(
        lines.len() == 1 && lines[0].ends_with("does not go out once more yet: the fleet is frozen"),
        "{lines:?}"
    );
    stage.text(ControlQuestion::Thaw { scope, why });
    stage.rounds(15);
    assert_eq!((stage.target(), stage.loaded()), (3, vec![3; 4]));
}

#[test]
fn a_text_that_no_router_takes_does_not_go_out_once_more() {
    let mut stage = restored("c1");
    let digest = stage
        .controller
        .rollout
        .digests_of(GenerationNumber(1))
        .digests
        .values()
        .next()
        .expect("a view")
        .clone();
    stage.controller.failures.add([digest]);
    stage.rounds(70);
    assert_eq!((stage.target(), stage.loaded()), (1, vec![2; 4]));
    let lines: Vec<String> = stage.controller.take_log_lines().collect();
    assert!(
        lines.iter().any(|line| line.contains("this very text has failed in a router before")),
        "{lines:?}"
    );
}
