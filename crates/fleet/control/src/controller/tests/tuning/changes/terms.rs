//! Settings of changes, from the policy, from a person, and from what is done.

use super::*;

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
