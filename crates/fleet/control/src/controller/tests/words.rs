//! Texts for people: each names the cause that decided.

use super::*;

mod summary;

#[test]
fn a_plan_names_the_lane_in_which_its_generation_goes_out() {
    let mut stage = Stage::known(12);
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"unproven\": 1}")).status, 200);
    stage.rounds(3);
    // Some routers have the routes of generation 1, so what follows brings them other routes.
    let plan = stage.plan(&replace("m1"));
    let text = plan["text"].as_str().expect("a text");
    assert!(
        text.contains("goes out as other routes: canaries for 10 min, 5 %, 25 %, then zone by zone"),
        "{text}"
    );
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(6);
    assert!(stage.text(ControlQuestion::Status).contains("rollout: canaries"), "not over after 6 s");
}

#[test]
fn a_replacement_in_a_frozen_scope_is_refused_for_that() {
    // There is no spare either.
    let mut stage = Stage::running(2);
    let plan = stage.plan(&replace("m1"));
    let error = plan["error"].as_str().expect("no spare");
    assert!(
        error.contains("find a member for slot 0 of the cluster web: of 2 members: 2 × it has a slot"),
        "{error}"
    );
    let scope: FreezeScope = "cluster/web".parse().expect("a scope");
    stage.controller.answer(ControlQuestion::Freeze { scope, why: "we look".to_owned() }, &owner());
    let plan = stage.plan(&replace("m1"));
    assert_eq!(plan["error"], "m1 keeps its slot: cluster/web is frozen: we look");
}

#[test]
fn each_spare_that_does_not_do_is_named_with_its_one_cause() {
    let mut stage = Stage::running(5);
    stage.agents[2].is_hung = true;
    let whose: FreezeScope = "member/m4".parse().expect("a scope");
    stage.controller.answer(ControlQuestion::Freeze { scope: whose, why: "bad".to_owned() }, &owner());
    stage.agents[4].report.members[0].flushes = 0;
    stage.rounds(1);
    stage.controller.probes.forget(&"m5".parse().expect("a name"));
    let plan = stage.plan(&replace("m1"));
    let error = plan["error"].as_str().expect("no spare");
    for words in [
        "m3: it does not answer probes",
        "m4: it or its host is in quarantine",
        "m5: no probe of it was answered yet",
        "2 × it has a slot",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn the_status_names_routers_that_are_behind_and_agents_that_cannot_go_on() {
    let mut stage = Stage::known(4);
    assert!(stage.text(ControlQuestion::Status).contains("rollout: all routers have it\n"));
    stage.agents[3].is_gone = true;
    let full = "sync /var/agent: No space left on device".to_owned();
    stage.agents[0].report.routers[0].trouble = Some(full);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(60);
    let text = stage.text(ControlQuestion::Status);
    let behind = "rollout: all other routers have it; r4 has generation 1, and its agent is silent\n";
    assert!(text.contains(behind), "{text}");
    assert!(text.contains("its agent cannot go on: sync /var/agent: No space left on device"), "{text}");
    for debug in ["RouterId", "Canaries", "{ "] {
        assert!(!text.contains(debug), "{debug}: {text}");
    }
}

#[test]
fn a_register_that_is_away_is_in_the_status_at_once() {
    let mut stage = Stage::running(2);
    stage.rounds(5);
    stage.register.add_fault(SimulatedFault::NotReached);
    let text = stage.text(ControlQuestion::Status);
    assert!(text.contains("the register is away, so nothing new is decided: "), "{text}");
}

#[test]
fn the_policy_in_force_is_shown_as_it_was_given() {
    let mut stage = Stage::running(2);
    assert_eq!(stage.text(ControlQuestion::Policy), POLICY);
    let mut stage = Stage::new(1);
    let reply = stage.controller.answer(ControlQuestion::Policy, &owner());
    assert_eq!(reply.status, 404, "{}", reply.json);
}

#[test]
fn the_history_says_when_each_generation_was_made_by_whom_and_why() {
    let mut stage = Stage::known(6);
    stage.unix_s += 60;
    stage.agents[0].is_gone = true;
    suspect(&mut stage, &["10.0.0.1:11211"]);
    stage.rounds(60);
    stage.unix_s += 3600;
    stage.rounds(1);
    let change = replace("m2");
    let plan = stage.plan(&change)["plan"].as_str().expect("a plan").to_owned();
    let ann = Requester::Certified("evenkeel://f/operator/ann".parse().expect("an identity"));
    let why = "its disk groans".to_owned();
    let reply = stage.controller.answer(ControlQuestion::Apply { change, plan, why }, &ann);
    assert_eq!(reply.status, 200, "{}", reply.json);
    let reply = stage.controller.answer(ControlQuestion::History, &owner());
    let history: Value = serde_json::from_str(&reply.json).expect("JSON");
    let rows = history["generations"].as_array().expect("generations").iter();
    let known: Vec<[&str; 2]> =
        rows.map(|row| ["at", "who"].map(|name| row[name].as_str().expect("a text"))).collect();
    let expected = [
        ["2027-01-15T09:01:00Z", "ann"],
        ["2027-01-15T08:01:00Z", "controller/c1"],
        ["2027-01-15T08:00:00Z", "socket-owner"],
    ];
    assert_eq!(known, expected, "{history}");
    assert_eq!(history["generations"][2]["unix_s"], UNIX_S);
    let text = history["text"].as_str().expect("a text");
    let words = "generation 3: its disk groans\n  made 2027-01-15T09:01:00Z by ann\n  cluster web: ";
    assert!(text.starts_with(words) && text.contains("\ngeneration 2: m1 is lost"), "{text}");
}
