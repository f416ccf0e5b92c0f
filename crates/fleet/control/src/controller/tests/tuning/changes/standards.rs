//! Standards beside a change: a host that is in one is not brought to its standard meanwhile.

use fleet::tuning::standards::{REPAIRS_AT_ONCE_MAX, StandardWord};

use super::*;
use crate::service::turn::StandardReport;

#[test]
fn a_host_in_a_change_is_not_brought_to_its_standard_until_the_change_is_over() {
    let mut fleet = ChangingFleet::new(40, 1.0);
    let policy = format!("{POLICY}[[tuning]]\nprofile = \"memcached\"\ndrift = \"repair\"\n");
    assert_eq!(fleet.stage.apply(&ChangeQuestion::Policy(Some(policy))).status, 200);
    let word = StandardWord::Drifted { settings: 1, first: "a is 1, and 2 is wanted".to_owned() };
    let wish = Some(PlanWish::Profile("memcached".to_owned()));
    for agent in &mut fleet.stage.agents {
        agent.report.standard = Some(StandardReport { wish: wish.clone(), word: word.clone() });
    }
    let granted = |fleet: &ChangingFleet| {
        let standards = &fleet.stage.controller.tuning.standards;
        let host = |number: usize| format!("h{number}").parse().expect("a name");
        (1..=40).filter(|number| standards.is_granted(&host(*number))).count()
    };
    fleet.turns(2);
    assert_eq!(granted(&fleet), REPAIRS_AT_ONCE_MAX);
    let begun = fleet.begin();
    fleet.turns(1);
    assert_eq!(granted(&fleet), 0);
    // Halted, it has its hosts still; undone, it has none.
    let number = ChangeNumber(begun["number"].as_u64().expect("a number"));
    let steer = |act| ControlQuestion::SteerChange { number, act, why: "a test".to_owned() };
    assert_eq!(fleet.ask(steer(ChangeSteer::Halt)).0, 200);
    fleet.turns(1);
    assert_eq!(granted(&fleet), 0);
    assert_eq!(fleet.ask(steer(ChangeSteer::Undo)).0, 200);
    fleet.turns(4);
    assert_eq!(granted(&fleet), REPAIRS_AT_ONCE_MAX);
}
