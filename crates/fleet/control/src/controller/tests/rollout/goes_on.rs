//! Members that are lost while other routes are on their way: these go on, and reach nobody sooner.

use super::by_hand::{having, lose_m1, other_routes, status, wants};
use super::*;
use crate::service::questions::RolloutAct;

/// A suspect member is gone for certain after this, and its replacement with all routers.
const REPLACED_WITHIN: usize = 26;

/// The routers that have text with the other routes in it.
fn with_routes(stage: &Stage) -> Vec<usize> {
    let has = |agent: &FakeAgent| {
        let loaded = agent.report.routers[0].loaded.as_ref().and_then(|loaded| agent.texts.get(loaded));
        loaded.is_some_and(|text| text.contains("later"))
    };
    (0..stage.agents.len()).filter(|at| has(&stage.agents[*at])).collect()
}

/// The living routers whose text has an address.
fn asking(stage: &Stage, address: &str) -> usize {
    let living = stage.agents.iter().filter(|agent| !agent.is_gone);
    let asks = living.filter(|agent| {
        let loaded = agent.report.routers[0].loaded.as_ref().and_then(|loaded| agent.texts.get(loaded));
        loaded.is_some_and(|text| text.contains(address))
    });
    asks.count()
}

fn lose(stage: &mut Stage, number: usize) {
    stage.agents[number - 1].is_gone = true;
    let gone = stage.agents.iter().filter(|agent| agent.is_gone);
    let addresses: Vec<String> =
        gone.map(|agent| format!("10.0.0.{}:11211", &agent.report.members[0].member.as_str()[1..])).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    suspect(stage, &addresses);
}

fn restart(stage: &mut Stage) {
    stage.seats = Arc::default();
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, stage.unix_s);
}

#[test]
fn a_host_that_is_lost_while_canaries_have_other_routes_is_replaced_everywhere_and_they_stay_canaries() {
    let mut stage = other_routes();
    let canaries = with_routes(&stage);
    lose_m1(&mut stage, REPLACED_WITHIN);
    assert!(!stage.slots().contains("m1 "), "{}", status(&mut stage));
    assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{}", status(&mut stage));
    let now = with_routes(&stage);
    assert!(canaries.iter().all(|canary| now.contains(canary)) && now.len() <= 9, "{canaries:?} {now:?}");
    let history = stage.text(ControlQuestion::History);
    assert!(
        history.contains("m1 is lost: ") && history.contains("(for routers whose turn has not come)"),
        "{history}"
    );
    assert!(history.contains("(with the routes of generation 2, whose rollout goes on)"), "{history}");
    let settled = decisions(&stage.register).settled().expect("an answer");
    assert_eq!(settled, Some(GenerationNumber(1)), "not all routers have the routes");
    stage.rounds(850);
    assert_eq!((having(&stage, 4), stage.target()), (11, 4), "{}", status(&mut stage));
    assert_eq!(with_routes(&stage).len(), 12);
}

#[test]
fn a_host_that_is_lost_between_waves_does_not_begin_them_again() {
    let mut stage = other_routes();
    // The canaries' time and that of the first share are over.
    stage.rounds(600 + 30);
    let before = with_routes(&stage).len();
    lose_m1(&mut stage, REPLACED_WITHIN);
    assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{}", status(&mut stage));
    assert!(with_routes(&stage).len() <= before + 1, "{before}: {:?}", with_routes(&stage));
    stage.rounds(300);
    assert_eq!(with_routes(&stage).len(), 12, "{}", status(&mut stage));
}

#[test]
fn what_a_person_has_halted_stays_halted_also_in_a_controller_that_is_started_again() {
    let mut stage = other_routes();
    assert_eq!(wants(&mut stage, RolloutAct::Halt).status, 200);
    lose_m1(&mut stage, REPLACED_WITHIN);
    assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{}", status(&mut stage));
    stage.rounds(30);
    restart(&mut stage);
    stage.rounds(100);
    assert_eq!(with_routes(&stage).len(), 8, "{}", status(&mut stage));
    assert!(status(&mut stage).contains("generation 4 is halted by a person"), "{}", status(&mut stage));
    assert_eq!(wants(&mut stage, RolloutAct::Hurry).status, 200);
    stage.rounds(10);
    assert_eq!(with_routes(&stage).len(), 12, "{}", status(&mut stage));
}

#[test]
fn a_lost_host_in_a_frozen_cluster_waits_and_its_routes_go_on_when_it_is_thawed() {
    let mut stage = other_routes();
    let scope: FreezeScope = "cluster/web".parse().expect("a scope");
    let frozen = ControlQuestion::Freeze { scope: scope.clone(), why: "we look".to_owned() };
    assert_eq!(stage.controller.answer(frozen, &owner()).status, 200);
    lose_m1(&mut stage, 60);
    assert_eq!((stage.target(), stage.slots().as_str()), (2, "m1 m10"), "{}", status(&mut stage));
    let thawed = ControlQuestion::Thaw { scope, why: "we have looked".to_owned() };
    assert_eq!(stage.controller.answer(thawed, &owner()).status, 200);
    stage.rounds(REPLACED_WITHIN);
    assert_eq!((stage.target(), asking(&stage, "10.0.0.1:")), (4, 0), "{}", status(&mut stage));
    assert!(with_routes(&stage).len() <= 9);
}

#[test]
fn a_controller_that_is_started_in_the_middle_goes_on() {
    for seconds in [12, 13, 14, 17] {
        let mut stage = other_routes();
        lose_m1(&mut stage, seconds);
        restart(&mut stage);
        stage.rounds(70 + REPLACED_WITHIN);
        assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{seconds} s: {}", status(&mut stage));
        assert!(with_routes(&stage).len() <= 10, "{seconds} s: {:?}", with_routes(&stage));
        assert!(stage.controller.register.view().content().views[0].routes.contains("later"));
    }
}

#[test]
fn two_hosts_that_are_lost_one_after_the_other_are_both_replaced() {
    for seconds in [0, 3, 13, 16, 40] {
        let mut stage = other_routes_of("slots = 3");
        let slots = stage.slots();
        let mut members = slots.split(' ').map(|member| member[1..].parse::<usize>().expect("a number"));
        let (first, second) = (members.next().expect("three"), members.next().expect("three"));
        let canaries = with_routes(&stage).len();
        lose(&mut stage, first);
        stage.rounds(seconds);
        lose(&mut stage, second);
        stage.rounds(2 * REPLACED_WITHIN);
        for number in [first, second] {
            let address = format!("10.0.0.{number}:");
            assert_eq!(asking(&stage, &address), 0, "{seconds} s: {}", status(&mut stage));
        }
        assert!(with_routes(&stage).len() <= canaries + 2, "{seconds} s: {:?}", with_routes(&stage));
        assert!(stage.controller.register.view().content().views[0].routes.contains("later"));
    }
}

fn other_routes_of(slots: &str) -> Stage {
    let mut stage = Stage::new(12);
    stage.rounds(3);
    let more = POLICY.replace("slots = 2", slots);
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(more.clone()))).status, 200);
    // The controller knows all routers by then.
    stage.rounds(63);
    suspect(&mut stage, &[]);
    let later =
        more.replace("{\"route\": \"PoolRoute|web\"}", "{\"route\": \"PoolRoute|web\", \"later\": 1}");
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(later))).status, 200);
    stage.rounds(3);
    stage
}

#[test]
fn routes_that_fail_with_the_other_member_go_back_and_the_replacement_stays() {
    let mut stage = other_routes();
    // Whoever gets a text of them from now on ends with it.
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("later"));
    lose_m1(&mut stage, REPLACED_WITHIN + 15);
    assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{}", status(&mut stage));
    let content = stage.controller.register.view().content();
    assert!(!content.views[0].routes.contains("later") && !stage.slots().contains("m1 "));
    assert_eq!(with_routes(&stage), [0], "the lost host keeps what it had: {}", status(&mut stage));
    let again = stage.plan(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}"));
    assert!(again.to_string().contains("failed"), "it is known: {again}");
}

#[test]
fn a_member_with_whom_the_lower_text_fails_gives_way_to_another_one_and_the_routes_are_given_up() {
    let mut probe = other_routes();
    lose_m1(&mut probe, REPLACED_WITHIN);
    let taken = probe.slots().split(' ').next().expect("a member")[1..].to_owned();
    for is_restarted in [false, true] {
        let mut stage = other_routes();
        let bad: &'static str = Box::leak(format!("10.0.0.{taken}:").into_boxed_str());
        // Of those whose turn has not come.
        let canaries = with_routes(&stage);
        for at in (0..12).filter(|at| !canaries.contains(at)) {
            stage.agents[at].fails_with = Some(bad);
        }
        lose_m1(&mut stage, 14);
        if is_restarted {
            restart(&mut stage);
        }
        stage.rounds(90);
        let said = status(&mut stage);
        assert_eq!((asking(&stage, "10.0.0.1:"), asking(&stage, bad)), (0, 0), "{said}");
        let history = stage.text(ControlQuestion::History);
        assert!(history.contains("with whom a text has failed") || is_restarted, "{history}");
        assert!(!stage.slots().contains(&format!("m{taken} ")), "{said} {history}");
    }
}

#[test]
fn a_host_that_is_lost_while_routes_go_back_is_replaced_and_they_stay_away() {
    for seconds in [0, 1, 2, 5, 12, 20] {
        let mut stage = other_routes();
        let lost = |stage: &mut Stage| {
            stage.agents[0].is_gone = true;
            suspect(stage, &["10.0.0.1:11211"]);
        };
        lost(&mut stage);
        stage.rounds(seconds);
        let canary = with_routes(&stage).into_iter().find(|at| *at != 0).expect("a canary");
        let generation = stage.agents[canary].report.routers[0].generation.expect("it has one");
        let reason = "the router ended".to_owned();
        stage.agents[canary].report.routers[0].text = TextReport::Crashed { generation, reason };
        stage.agents[canary].fails_with = Some("later");
        stage.rounds(2 * REPLACED_WITHIN);
        let said = status(&mut stage);
        assert_eq!(asking(&stage, "10.0.0.1:"), 0, "{seconds} s: {said}");
        assert_eq!(with_routes(&stage), [0], "{seconds} s: {said}");
        assert!(!stage.controller.register.view().content().views[0].routes.contains("later"));
    }
}
