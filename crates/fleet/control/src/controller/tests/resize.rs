//! Resizes from their plan to their end, and what comes between.

use fleet::resize::ClusterResize;

use super::*;
use crate::service::questions::ScaleQuestion;

fn scale(slots: usize, warm_up_s: u32) -> ChangeQuestion {
    let cluster = "web".parse().expect("a name");
    ChangeQuestion::Scale(ScaleQuestion { cluster, slots, warm_up_s: Some(warm_up_s), now: false })
}

fn cancel() -> ChangeQuestion {
    ChangeQuestion::CancelScale("web".parse().expect("a name"))
}

fn resize(stage: &Stage) -> Option<ClusterResize> {
    stage.controller.register.view().content().clusters[0].resize.clone()
}

/// `m1 m2 m3 2>3 ReadOld`: members of all slots, and the resize.
fn phase(stage: &Stage) -> String {
    let words = resize(stage).map(|one| format!(" {}>{} {:?}", one.from, one.to, one.phase));
    format!("{}{}", stage.slots(), words.unwrap_or_default())
}

#[track_caller]
fn until(stage: &mut Stage, expected: &str, seconds: usize) {
    for _ in 0..seconds {
        if phase(stage).ends_with(expected) {
            return;
        }
        stage.rounds(1);
        check_owners(stage);
    }
    let status = stage.text(ControlQuestion::Status);
    assert!(phase(stage).ends_with(expected), "{} for {expected}: {status}", phase(stage));
}

/// How a router treats keys that move from or to the third of three slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sight {
    reads_third: bool,
    deletes_both: bool,
    copies: bool,
}

fn sight(agent: &FakeAgent) -> Option<Sight> {
    let text = &agent.texts[agent.report.routers[0].loaded.as_ref()?];
    let third = "\"pool\":\"web:s2:";
    let reads = |words: &str| text.contains(&format!("\"default_policy\":{{\"type\":\"PoolRoute\",{words}"));
    let cold = |words: &str| text.contains(&format!("\"cold\":{{\"type\":\"PoolRoute\",{words}"));
    let deletes_both = text.contains("AllSyncRoute");
    let reads_third = match deletes_both {
        false => text.matches(":11211").count() == 3,
        true => reads(third) || cold(third),
    };
    Some(Sight { reads_third, deletes_both, copies: text.contains("WarmUpRoute") })
}

/// Routers that read different owners of a key, or copy from one to the other, all delete from both.
#[track_caller]
fn check_owners(stage: &Stage) {
    let all: Vec<Sight> = stage.agents.iter().filter_map(sight).collect();
    let reads_both = all.iter().any(|one| one.reads_third) && all.iter().any(|one| !one.reads_third);
    let copies = all.iter().any(|one| one.copies);
    assert!(!(reads_both || copies) || all.iter().all(|one| one.deletes_both), "{all:?}");
}

/// Phases as they follow each other in so many seconds.
fn history(stage: &mut Stage, seconds: usize) -> Vec<String> {
    let mut seen = vec![phase(stage)];
    for _ in 0..seconds {
        stage.rounds(1);
        check_owners(stage);
        if seen.last() != Some(&phase(stage)) {
            seen.push(phase(stage));
        }
    }
    seen
}

/// Five hosts, whose cluster has grown to three slots.
fn grown() -> Stage {
    let mut stage = Stage::running(5);
    assert_eq!(stage.apply(&scale(3, 5)).status, 200);
    until(&mut stage, "m1 m2 m3", 120);
    stage.rounds(10);
    stage
}

const SHRINKS: [&str; 4] = ["m1 m2 m3 3>2 ReadOld", "m1 m2 m3 3>2 ReadNew", "m1 m2 m3 3>2 NewOnly", "m1 m2"];

#[test]
fn a_cluster_grows_by_phases_and_shrinks_by_phases() {
    let mut stage = Stage::running(5);
    let plan = stage.plan(&scale(3, 5));
    let text = plan["text"].as_str().unwrap_or_else(|| panic!("{plan}")).to_owned();
    for words in [
        "cluster web: grows from 2 to 3 slots, in phases",
        "cluster web: slot s2 is added, m3 takes it",
        "1. the old owners of keys that move are read, deletes go to both",
        "members of added slots are emptied",
        "of the keys change their server (5000 sampled); deletes reach both",
        "it would multiply the misses by 1 + 0.3",
        "goes out as a slot change",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(stage.apply(&scale(3, 5)).status, 200);
    let grows = ["m1 m2 m3 2>3 ReadOld", "m1 m2 m3 2>3 ReadNew", "m1 m2 m3 2>3 NewOnly", "m1 m2 m3"];
    assert_eq!(history(&mut stage, 60), grows);
    assert_eq!(stage.agents[2].report.members[0].flushes, 2, "at the end of the first phase");
    assert!(stage.agents.iter().all(|agent| agent.swept.is_empty()), "nobody who stays gets keys");
    assert_eq!(stage.plan(&ChangeQuestion::Policy(None))["text"], "nothing to do\n", "the policy has three");
    assert!(stage.plan(&scale(3, 5))["text"].as_str().expect("a text").contains("web has 3 slots"));

    let text = stage.plan(&scale(2, 5))["text"].as_str().expect("a plan").to_owned();
    assert!(text.contains("members that stay lose what they have of keys that are not theirs"), "{text}");
    assert_eq!(stage.apply(&scale(2, 5)).status, 200);
    assert_eq!(history(&mut stage, 60), SHRINKS);
    let swept: Vec<_> = stage.agents.iter().map(|agent| agent.swept.clone()).collect();
    assert_eq!(swept, [vec![(0, 3)], vec![(1, 3)], vec![], vec![], vec![]]);
    let m3 = "m3".parse().expect("a name");
    assert_eq!(stage.controller.facts().state(&m3), MemberState::Spare, "it is emptied");
    let history = stage.text(ControlQuestion::History);
    assert!(history.contains("cluster web has 2 slots: the new owners have their keys"), "{history}");
}

#[test]
fn a_policy_with_other_slots_goes_the_same_way() {
    let mut stage = Stage::running(5);
    let text = POLICY.replace("slots = 2", "slots = 3\nresize_warm_up_s = 5");
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(text.clone()))).status, 200);
    assert_eq!(history(&mut stage, 60).len(), 4);
    let other =
        text.replace("slots = 3", "slots = 2").replace("PoolRoute|web\"", "PoolRoute|web\", \"x\": 1");
    let plan = stage.plan(&ChangeQuestion::Policy(Some(other)));
    assert!(plan["error"].as_str().is_some_and(|error| error.contains("something else as well")), "{plan}");
}

#[test]
fn nobody_is_read_before_all_routers_delete_from_both_and_no_time_ends_that() {
    let mut stage = Stage::running(5);
    stage.agents[4].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.apply(&scale(3, 5)).status, 200);
    stage.rounds(290);
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("deletes go to both; waits for r5\n"), "{status}");
    stage.rounds(400);
    assert_eq!(phase(&stage), "m1 m2 m3 2>3 ReadOld");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("has not loaded the phase for 5 min: if its host is gone for good"), "{status}");
    stage.agents[4].is_gone = false;
    until(&mut stage, "m1 m2 m3", 60);
}

#[test]
fn members_that_stay_are_swept_before_they_get_keys_back() {
    let mut stage = grown();
    stage.agents[1].report.members[0].sweep =
        Some(SweepReport { done: 0, trouble: Some("list its keys: it says no".to_owned()) });
    stage.agents[1].cannot_sweep = true;
    assert_eq!(stage.apply(&scale(2, 5)).status, 200);
    assert_eq!(history(&mut stage, 100), SHRINKS[..1]);
    let status = stage.text(ControlQuestion::Status);
    assert!(
        status.contains("m2 must lose keys that are not its own, and has not: list its keys: it says no"),
        "{status}"
    );
    stage.agents[1].cannot_sweep = false;
    assert_eq!(history(&mut stage, 60), SHRINKS);
}

#[test]
fn an_older_agent_is_said_before_a_cluster_shrinks() {
    let mut stage = grown();
    stage.agents[0].report.members[0].sweep = None;
    stage.rounds(2);
    let plan = stage.plan(&scale(2, 5));
    assert!(
        plan["error"].as_str().is_some_and(|error| error.contains("is older than this controller")),
        "{plan}"
    );
    assert!(plan["hint"].as_str().is_some_and(|hint| hint.contains("control scale web 2 --now")), "{plan}");
    let now = match scale(2, 5) {
        ChangeQuestion::Scale(scale) => ChangeQuestion::Scale(ScaleQuestion { now: true, ..scale }),
        other => other,
    };
    let plan = stage.plan(&now);
    assert!(
        plan["text"].as_str().is_some_and(|text| text.contains("at once: keys of web that move are cold")),
        "{plan}"
    );
    assert_eq!(stage.apply(&now).status, 200);
    assert_eq!(phase(&stage), "m1 m2");
}

#[test]
fn another_controller_goes_on_with_a_resize() {
    for at in ["2>3 ReadOld", "2>3 ReadNew", "2>3 NewOnly"] {
        let mut stage = Stage::running(5);
        assert_eq!(stage.apply(&scale(3, 5)).status, 200);
        until(&mut stage, at, 60);
        stage.seats = Arc::default();
        stage.controller = controller(&stage.register, &stage.seats);
        stage.rounds(20);
        assert!(phase(&stage).ends_with(at), "agents come back first: {}", phase(&stage));
        until(&mut stage, "m1 m2 m3", 100);
    }
}

#[test]
fn a_resize_is_given_up_at_once_or_by_the_same_phases() {
    let mut stage = Stage::running(5);
    assert_eq!(stage.apply(&scale(3, 600)).status, 200);
    assert_eq!(stage.apply(&cancel()).status, 200);
    assert_eq!(phase(&stage), "m1 m2", "nobody has read the new one");
    stage.rounds(15);
    assert_eq!(
        stage.plan(&ChangeQuestion::Policy(None))["text"],
        "nothing to do\n",
        "nor does the policy want it"
    );

    assert_eq!(stage.apply(&scale(3, 600)).status, 200);
    until(&mut stage, "2>3 ReadNew", 30);
    stage.rounds(5);
    assert_eq!(stage.apply(&scale(2, 600)).status, 200, "the same as giving up");
    assert_eq!(phase(&stage), "m1 m2 m3 3>2 ReadOld");
    until(&mut stage, "m1 m2", 700);
    assert_eq!(stage.agents[0].swept, [(0, 3)], "what it had before it was not read is gone");
    let error = stage.plan(&cancel())["error"].as_str().expect("an error").to_owned();
    assert!(error.contains("web is not being resized"), "{error}");
}

#[test]
fn nothing_else_changes_while_a_cluster_is_resized() {
    let mut stage = Stage::running(5);
    assert_eq!(stage.apply(&scale(3, 600)).status, 200);
    let member = "m1".parse().expect("a name");
    let drain =
        ChangeQuestion::Drain(crate::service::questions::DrainQuestion { member, to: None, warm_up_s: 5 });
    for change in [
        scale(4, 5),
        drain,
        ChangeQuestion::Policy(Some(POLICY.to_owned())),
        ChangeQuestion::Rollback(GenerationNumber(1)),
    ] {
        let plan = stage.plan(&change);
        assert!(
            plan["error"].as_str().is_some_and(|error| error.contains("nothing else changes meanwhile")),
            "{plan}"
        );
        assert!(
            plan["hint"].as_str().is_some_and(|hint| hint.contains("control scale web --cancel")),
            "{plan}"
        );
    }
}

#[test]
fn members_that_are_missing_are_counted() {
    let mut stage = Stage::running(3);
    let plan = stage.plan(&scale(5, 5));
    let error = plan["error"].as_str().expect("an error");
    assert!(error.contains("3 members are needed, and 2 are missing: find a member for slot 3"), "{error}");
    let text = POLICY.replace("slots = 2", "slots = 4\nclass = \"large\"\nzones = [\"a\"]");
    let plan = stage.plan(&ChangeQuestion::Policy(Some(text)));
    let error = plan["error"].as_str().expect("an error");
    assert!(error.contains("2 members are needed, and 2 are missing of class large in zone a"), "{error}");
}

#[test]
fn a_freeze_halts_a_resize() {
    let mut stage = Stage::running(5);
    assert_eq!(stage.apply(&scale(3, 5)).status, 200);
    let scope: FreezeScope = "cluster/web".parse().expect("a scope");
    let why = "we look".to_owned();
    stage.text(ControlQuestion::Freeze { scope: scope.clone(), why: why.clone() });
    stage.rounds(60);
    assert_eq!(phase(&stage), "m1 m2 m3 2>3 ReadOld");
    let status = stage.text(ControlQuestion::Status);
    assert!(
        status.contains("the resize of web from 2 to 3 slots waits: cluster/web is frozen: we look"),
        "{status}"
    );
    assert_eq!(stage.apply(&cancel()).status, 409);
    stage.text(ControlQuestion::Thaw { scope, why });
    until(&mut stage, "m1 m2 m3", 60);
}

#[test]
fn a_phase_whose_text_fails_goes_back_and_the_resize_waits_for_a_person() {
    let mut stage = Stage::running(5);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("WarmUpRoute"));
    assert_eq!(stage.apply(&scale(3, 5)).status, 200);
    stage.rounds(60);
    assert_eq!(phase(&stage), "m1 m2 m3 2>3 ReadOld");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("waits: view main: this very text has failed in a router before"), "{status}");
    assert_eq!(stage.apply(&cancel()).status, 200);
    stage.rounds(8);
    assert_eq!(phase(&stage), "m1 m2");
}

#[test]
fn a_member_that_is_lost_in_the_middle_is_replaced_in_its_slot() {
    for lost in [0, 2] {
        let mut stage = Stage::running(8);
        suspect(&mut stage, &[]);
        stage.rounds(70);
        assert_eq!(stage.apply(&scale(3, 300)).status, 200);
        until(&mut stage, "2>3 ReadNew", 40);
        stage.agents[lost].is_gone = true;
        suspect(&mut stage, &[&format!("10.0.0.{}:11211", lost + 1)]);
        let name = format!("m{}", lost + 1);
        for _ in 0..90 {
            stage.rounds(1);
        }
        assert!(!stage.slots().contains(&name) && stage.slots().split(' ').count() == 3, "{}", stage.slots());
        assert_eq!(resize(&stage).map(|one| (one.from, one.to)), Some((2, 3)), "it goes on");
    }
}

#[test]
fn a_cluster_with_a_gutter_is_resized_in_all_views_that_have_it() {
    let text = "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\ngutter = { cluster = \"spares\" }\n\
                [[cluster]]\nname = \"spares\"\nslots = 1\n[[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n\
                [[view]]\nname = \"bare\"\nclusters = [\"web\", \"spares\"]\nroutes = '{\"route\": \"PoolRoute|web\"}'\n\
                [[view]]\nname = \"other\"\nclusters = [\"spares\"]\nroutes = '{\"route\": \"PoolRoute|spares\"}'\n";
    let mut stage = Stage::running(8);
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(text.to_owned()))).status, 200);
    stage.text(ControlQuestion::Rollout {
        act: crate::service::questions::RolloutAct::Hurry,
        why: "now".to_owned(),
    });
    stage.rounds(40);
    let plan = stage.plan(&scale(4, 5));
    let words = plan["text"].as_str().unwrap_or_else(|| panic!("{plan}"));
    for view in ["main", "bare"] {
        assert!(words.contains(&format!("view {view}: 5")), "{words}");
    }
    assert!(!words.contains("view other"), "{words}");
    assert_eq!(stage.apply(&scale(4, 5)).status, 200);
    stage.rounds(60);
    assert_eq!(
        (resize(&stage), stage.slots().split(' ').count()),
        (None, 4),
        "{}",
        stage.text(ControlQuestion::Status)
    );
    assert_eq!(stage.apply(&scale(2, 5)).status, 200);
    stage.rounds(60);
    assert_eq!((resize(&stage), stage.slots().split(' ').count()), (None, 2));
}

/// Other routes and another number of slots.
fn both(slots: usize) -> String {
    let routes = "{\"route\": \"PoolRoute|web\", \"later\": 1}";
    POLICY.replace("{\"route\": \"PoolRoute|web\"}", routes).replace("slots = 2", &format!("slots = {slots}"))
}

#[test]
fn a_policy_that_changes_more_than_the_slots_can_go_at_once() {
    let mut stage = Stage::running(5);
    let plan = stage.plan(&ChangeQuestion::Policy(Some(both(3))));
    assert!(plan["hint"].as_str().is_some_and(|hint| hint.contains("--policy FILE --now")), "{plan}");
    assert_eq!(stage.apply(&ChangeQuestion::PolicyAtOnce(both(3))).status, 200);
    assert_eq!(phase(&stage), "m1 m2 m3");
}

#[test]
fn a_policy_at_once_ends_a_resize() {
    for at in ["2>3 ReadOld", "2>3 ReadNew", "2>3 NewOnly"] {
        for slots in [2, 3, 4] {
            let mut stage = Stage::running(5);
            assert_eq!(stage.apply(&scale(3, 5)).status, 200);
            until(&mut stage, at, 60);
            let error = stage.plan(&ChangeQuestion::Policy(Some(both(slots))));
            assert!(error.to_string().contains("nothing else changes meanwhile"), "{error}");
            let plan = stage.plan(&ChangeQuestion::PolicyAtOnce(both(slots)));
            assert!(plan["text"].as_str().is_some_and(|text| text.contains("ends where it is")), "{plan}");
            assert_eq!(stage.apply(&ChangeQuestion::PolicyAtOnce(both(slots))).status, 200);
            let members = ["m1", "m2", "m3", "m4"][..slots].join(" ");
            assert_eq!(phase(&stage), members, "{at}");
        }
    }
}
