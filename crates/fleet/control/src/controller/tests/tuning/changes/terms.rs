//! Settings of changes, from the policy, from a person, and from what is done.

use super::*;
use crate::service::turn::AgentFacts;

/// How many hosts may fail with a plan for this wish.
#[track_caller]
fn check_troubled(wish: PlanWish, policy: Option<usize>, person: Option<usize>, expected: usize) {
    let mut fleet = ChangingFleet::new(24, 1.0);
    for agent in &mut fleet.stage.agents {
        agent.report.changes.as_mut().expect("it says so").allowed.push(ActKind::Upgrade);
    }
    if let Some(most) = policy {
        let policy = format!("{}[waves]\ntroubled_max = {most}\n", gates::WITH_SHADOW);
        let applied = fleet.stage.apply(&ChangeQuestion::Policy(Some(policy)));
        assert_eq!(applied.status, 200, "{}", applied.json);
    }
    let scope = "all".parse().expect("a scope");
    let (_, asked) = fleet.ask(ControlQuestion::TuneAsk { scope, what: TuneWhat::Plan(wish) });
    fleet.turns(4);
    let id = asked["id"].as_str().expect("a name").parse().expect("a name");
    let settings = person.map(|most| ("troubled_max".to_owned(), json!(most))).into_iter().collect();
    let terms = ChangeTerms { settings, accept: vec!["all".to_owned()], ..ChangeTerms::default() };
    let (status, shown) =
        fleet.ask(ControlQuestion::ChangeHosts(ChangeWanted { id, terms, confirmed: None }));
    assert_eq!((status, &shown["settings"]["troubled_max"]), (200, &json!(expected)), "{shown}");
}

#[test]
fn no_host_may_fail_with_an_upgrade_unless_the_policy_or_a_person_says_otherwise() {
    let upgrade = || PlanWish::Version("0.2.0".to_owned());
    check_troubled(PlanWish::Profile("memcached".to_owned()), None, None, 2);
    check_troubled(upgrade(), None, None, 0);
    check_troubled(upgrade(), Some(5), None, 5);
    check_troubled(upgrade(), Some(5), Some(1), 1);
    check_troubled(upgrade(), None, Some(2), 2);
}

#[test]
fn a_plan_names_servers_without_a_take_over_and_how_people_upgrade_them() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    for (at, agent) in fleet.stage.agents.iter_mut().enumerate() {
        agent.report.changes.as_mut().expect("it says so").allowed.push(ActKind::Upgrade);
        let member = agent.report.members[0].member.clone();
        let by_hand = if at < 2 { vec![member] } else { Vec::new() };
        agent.report.agent = Some(Box::new(AgentFacts {
            version: "0.1.0".to_owned(),
            program: None,
            controllers: 0,
            by_hand,
        }));
    }
    fleet.turns(1);
    let mut shown = |wish| {
        let scope = "all".parse().expect("a scope");
        let (_, asked) = fleet.ask(ControlQuestion::TuneAsk { scope, what: TuneWhat::Plan(wish) });
        fleet.turns(4);
        let id = asked["id"].as_str().expect("a name").parse().expect("a name");
        let terms = ChangeTerms { accept: vec!["all".to_owned()], ..ChangeTerms::default() };
        fleet.ask(ControlQuestion::ChangeHosts(ChangeWanted { id, terms, confirmed: None })).1
    };
    let upgrade = shown(PlanWish::Version("0.2.0".to_owned()));
    let text = upgrade["text"].as_str().expect("a text");
    assert!(
        text.contains("by hand, since nothing takes over from them: 2 servers, one after the other"),
        "{text}"
    );
    let first = upgrade["by_hand"][0]["member"].as_str().expect("a member");
    let command = format!("  evenkeel control drain {first} --apply --why \"upgrade to 0.2.0\"\n");
    assert!(text.contains(&command), "{text}");
    assert_eq!(upgrade["by_hand"].as_array().map(Vec::len), Some(2));
    let tuning = shown(PlanWish::Profile("memcached".to_owned()));
    assert_eq!(tuning["by_hand"], json!([]));
}
