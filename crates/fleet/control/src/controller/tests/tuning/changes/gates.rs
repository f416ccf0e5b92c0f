//! Changes of hosts that wait for a shadow: refused until it is compared often enough, and halted when it is worse.

use fleet::figures::shadow::ShadowTally;
use fleet::figures::{RouterPageTally, RouterTally};

use super::*;

pub(super) const WITH_SHADOW: &str = "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[cluster]]\nname = \"new\"\nslots = 1\n\
     [[shadow]]\nfrom = \"web\"\nto = \"new\"\n[[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n";

/// A round of turns, in which the first router says that it has compared so many requests so far, of which so many differ.
fn compare(fleet: &mut ChangingFleet, compared: u64, differed: u64) {
    let at_ms = fleet.stage.now_ms + TURN_S * 1000;
    let shadow = ShadowTally {
        loads: 1,
        compared,
        other_values: differed,
        hits: [compared, compared],
        times: vec![(9, compared, compared)],
        ..ShadowTally::default()
    };
    let compared = [("web->new".to_owned(), shadow)].into();
    let page = RouterPageTally { at_ms, uptime_ms: at_ms, compared, ..RouterPageTally::default() };
    let tally = RouterTally { at_ms, pid: Some(1), page: Some(page), ..RouterTally::default() };
    fleet.stage.agents[0].report.routers[0].figures = Some(Box::new(tally));
    fleet.turns(1);
}

/// A fleet with a change that has a gate, which is fulfilled.
fn gated(settings: &[(&str, Value)]) -> ChangingFleet {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let policy = ChangeQuestion::Policy(Some(WITH_SHADOW.to_owned()));
    assert_eq!(fleet.stage.apply(&policy).status, 200);
    let mut wanted = fleet.planned();
    wanted.terms.gate = Some("shadow:web->new,samples=1000,differ=0.01".parse().expect("a gate"));
    wanted.terms.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    compare(&mut fleet, 0, 0);
    compare(&mut fleet, 2000, 0);
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    fleet.confirm(wanted, &shown);
    fleet
}

fn error(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"].as_str().unwrap_or_else(|| panic!("{}", answer.1)))
}

#[test]
fn a_change_begins_when_its_gate_is_fulfilled_and_halts_when_that_is_missed() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let mut wanted = fleet.planned();
    let gate = "shadow:web->new,samples=1000,differ=0.01".parse().expect("a gate");
    wanted.terms.gate = Some(gate);
    let try_begin = |fleet: &mut ChangingFleet| {
        let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
        let plan = shown["plan"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned();
        let confirmed = Some((plan, "a test".to_owned()));
        (fleet.ask(ControlQuestion::ChangeHosts(ChangeWanted { confirmed, ..wanted.clone() })), shown)
    };
    let (refused, shown) = try_begin(&mut fleet);
    assert_eq!(
        error(&refused),
        (409, "the gate is not fulfilled yet: the policy in force has no shadow web->new")
    );
    let text = shown["text"].as_str().expect("a text");
    assert!(
        text.contains("it begins when shadow:web->new,samples=1000") && text.contains("not yet: "),
        "{text}"
    );
    let policy = ChangeQuestion::Policy(Some(WITH_SHADOW.to_owned()));
    assert_eq!(fleet.stage.apply(&policy).status, 200);
    compare(&mut fleet, 0, 0);
    compare(&mut fleet, 900, 0);
    let (refused, _) = try_begin(&mut fleet);
    assert_eq!(
        error(&refused),
        (409, "the gate is not fulfilled yet: 900 of 1000 samples in the last 30 min")
    );
    compare(&mut fleet, 2000, 0);
    let (begun, _) = try_begin(&mut fleet);
    assert_eq!(begun.0, 200, "{}", begun.1);
    compare(&mut fleet, 3000, 0);
    assert_eq!(fleet.status(1)["state"], "going");
    compare(&mut fleet, 4000, 900);
    let undone = fleet.until(1, &["undone", "done"]);
    let text = undone["text"].as_str().expect("a text");
    assert_eq!(undone["state"], "undone", "{text}");
    assert!(text.contains("the gate is missed: 900 of 4000 samples"), "{text}");
    assert_eq!(fleet.changed(), 0);
    let (refused, _) = try_begin(&mut fleet);
    let (status, why) = error(&refused);
    assert!(status == 422 && why.starts_with("the gate is missed: "), "{why}");
}

#[test]
fn status_has_the_gate_and_a_person_who_resumes_is_not_halted_by_it_again() {
    let mut fleet = gated(&[("on_halt", json!("keep"))]);
    let going = fleet.status(1);
    let text = going["text"].as_str().expect("a text");
    assert!(
        text.contains("\ngate: shadow:web->new,samples=1000") && text.contains(", fulfilled: "),
        "{text}"
    );
    assert_eq!(going["gate"]["state"], "fulfilled", "{going}");
    compare(&mut fleet, 4000, 900);
    let halted = fleet.until(1, &["halted", "done"]);
    let why = halted["state_why"].as_str().expect("a reason");
    assert!(why.starts_with("the gate is missed: 900 of "), "{why}");
    assert_eq!(halted["gate"]["state"], "missed", "{halted}");
    assert_eq!(fleet.steer(1, ChangeSteer::Resume).0, 200);
    fleet.turns(1);
    assert_eq!(fleet.status(1)["state"], "going");
    fleet.restart();
    compare(&mut fleet, 4000, 900);
    compare(&mut fleet, 6000, 1900);
    let going = fleet.status(1);
    assert_eq!((&going["state"], &going["gate"]["state"]), (&json!("going"), &json!("missed")), "{going}");
    compare(&mut fleet, 1_000_000, 1900);
    assert_eq!(fleet.status(1)["gate"]["state"], "fulfilled");
    compare(&mut fleet, 1_100_000, 91_900);
    assert_eq!(fleet.status(1)["state"], "halted");
}

#[test]
fn a_gate_that_is_missed_while_another_halt_stands_halts_after_it() {
    let mut fleet = gated(&[("on_halt", json!("keep"))]);
    assert_eq!(fleet.steer(1, ChangeSteer::Halt).0, 200);
    compare(&mut fleet, 4000, 900);
    assert_eq!(fleet.steer(1, ChangeSteer::Resume).0, 200);
    fleet.turns(1);
    let halted = fleet.status(1);
    let why = halted["state_why"].as_str().unwrap_or_else(|| panic!("{halted}"));
    assert!(why.starts_with("the gate is missed: "), "{why}");
}

#[test]
fn a_gate_without_samples_enough_lets_no_further_host_have_it_and_halts_nothing() {
    let mut fleet = gated(&[]);
    // All who have compared are forgotten with the controller.
    fleet.restart();
    fleet.turns(12);
    let status = fleet.status(1);
    let waits_for = status["waits_for"].as_str().unwrap_or_else(|| panic!("{}", status["text"]));
    assert!(waits_for.starts_with("waits for the gate: "), "{waits_for}");
    assert_eq!((fleet.reached, &status["state"]), (0, &json!("going")));
    let mut compared = 2000;
    while fleet.status(1)["state"] == "going" {
        compared += 1000;
        assert!(compared < 100_000, "{}", fleet.status(1)["text"]);
        compare(&mut fleet, compared, 0);
    }
    assert_eq!((&fleet.status(1)["state"], fleet.changed()), (&json!("done"), 24));
}
