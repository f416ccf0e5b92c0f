//! Lists of routers: who is in which, who gets which, and when they change.

use std::fmt::Write;

use protocol::discovery::DISCOVERY_MEMBERS_MAX;

use super::*;
use crate::controller::lists::router_lists::{GONE_AFTER_MS, LISTS_MAX};
use crate::service::turn::is_client_address;

/// A fleet whose routers all tell clients of routers. Odd hosts are in zone b, even ones in a.
fn listed(hosts: usize) -> Stage {
    let mut stage = Stage::new(hosts);
    stage.agents.iter_mut().enumerate().for_each(|(at, agent)| tell_clients(agent, at + 1));
    stage.rounds(12);
    stage
}

fn tell_clients(agent: &mut FakeAgent, number: usize) {
    let router = &mut agent.report.routers[0];
    (router.client_address, router.has_cluster_file) = (Some(format!("10.0.0.{number}:5000")), true);
}

/// A list with this revision and the routers of these hosts.
fn list(revision: u64, hosts: &[usize]) -> Option<String> {
    let mut text = format!("{revision}\n");
    for host in hosts {
        writeln!(text, "10.0.0.{host}|10.0.0.{host}|5000").expect("memory");
    }
    Some(text)
}

fn lists(stage: &Stage) -> Vec<Option<String>> {
    stage.agents.iter().map(|agent| agent.list.clone()).collect()
}

#[test]
fn a_router_tells_clients_of_the_routers_of_its_view_and_zone() {
    let mut stage = Stage::new(6);
    stage.agents.iter_mut().enumerate().for_each(|(at, agent)| tell_clients(agent, at + 1));
    stage.agents[4].report.routers[0].view = "other".parse().expect("a name");
    stage.agents[5].report.routers[0].has_cluster_file = false;
    stage.rounds(12);
    let (zone_a, zone_b) = (list(1, &[2, 4, 6]), list(1, &[1, 3]));
    let expected = [zone_b.clone(), zone_a.clone(), zone_b, zone_a, list(1, &[5]), None];
    assert_eq!(lists(&stage), expected);
}

#[test]
fn clients_follow_routers_that_come_and_go() {
    let mut stage = listed(3);
    assert_eq!(lists(&stage), [list(1, &[1, 3]), list(1, &[2]), list(1, &[1, 3])]);
    let mut newcomer = FakeAgent::new(5, "b");
    tell_clients(&mut newcomer, 5);
    stage.agents.push(newcomer);
    stage.rounds(8);
    let three = list(2, &[1, 3, 5]);
    assert_eq!(lists(&stage), [three.clone(), list(1, &[2]), three.clone(), three]);
    // Its agent says that it is none any more.
    stage.agents[0].report.routers[0].client_address = None;
    stage.rounds(8);
    assert_eq!(stage.agents[2].list, list(3, &[3, 5]));
    stage.rounds(30);
    assert_eq!(stage.agents[2].list, list(3, &[3, 5]), "nothing has changed");
}

#[test]
fn a_router_of_which_nothing_is_heard_leaves_late_and_only_if_most_are_heard() {
    let mut stage = listed(6);
    stage.agents[0].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.agents[2].list, list(1, &[1, 3, 5]), "a restart takes no longer");
    stage.now_ms += GONE_AFTER_MS;
    stage.rounds(8);
    assert_eq!(stage.agents[2].list, list(2, &[3, 5]));
    for at in [2, 4] {
        stage.agents[at].is_gone = true;
    }
    stage.now_ms += GONE_AFTER_MS;
    stage.rounds(60);
    let kept = decisions(&stage.register).router_lists().expect("an answer");
    let routers: Vec<usize> = kept.values().map(|(list, _)| list.routers.len()).collect();
    assert_eq!(routers, [3, 2], "whoever hears nobody changes nothing");
}

#[test]
fn a_host_that_left_for_good_leaves_the_list_at_once() {
    let mut stage = listed(4);
    stage.agents[2].is_gone = true;
    stage.rounds(27);
    let (members, remove, remove_hosts) = (Vec::new(), Vec::new(), vec!["h3".parse().expect("a name")]);
    let question = ControlQuestion::Members { members, remove, remove_hosts, why: Some("gone".to_owned()) };
    assert_eq!(stage.controller.answer(question, &owner()).status, 200);
    stage.rounds(8);
    assert_eq!(stage.agents[0].list, list(2, &[1]));
}

#[test]
fn a_controller_that_takes_over_says_the_same_before_it_has_heard_all() {
    let mut stage = listed(4);
    stage.seats = Arc::default();
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, UNIX_S);
    stage.agents.iter_mut().for_each(|agent| agent.list = None);
    stage.agents[2].is_gone = true;
    stage.rounds(8);
    assert_eq!(lists(&stage), [list(1, &[1, 3]), list(1, &[2, 4]), None, list(1, &[2, 4])]);
}

#[test]
fn another_controller_gives_the_list_and_does_not_write_it() {
    let mut stage = listed(2);
    stage.controller = controller_at(&stage.register, &stage.seats, "c2", stage.now_ms, UNIX_S);
    let mut newcomer = FakeAgent::new(3, "b");
    tell_clients(&mut newcomer, 3);
    stage.agents.push(newcomer);
    for _ in 0..8 {
        stage.controller.peers.note_heard(&"c1".parse().expect("a name"), Now::at_ms(stage.now_ms));
        stage.rounds(1);
    }
    assert_eq!(stage.agents[2].list, list(1, &[1]));
    stage.rounds(12);
    assert_eq!(stage.agents[2].list, list(2, &[1, 3]), "the first one is away");
}

#[test]
fn an_address_that_is_none_or_is_there_twice_spoils_no_list() {
    let mut stage = listed(5);
    let set = |stage: &mut Stage, number: usize, address: &str| {
        stage.agents[number - 1].report.routers[0].client_address = Some(address.to_owned());
    };
    set(&mut stage, 3, "10.0.0.9:5000\n10.0.0.8|10.0.0.8:5000");
    set(&mut stage, 5, "10.0.0.1:5000");
    stage.rounds(8);
    assert_eq!(stage.agents[0].list, list(2, &[1]));
    for (address, is_one) in [
        ("10.0.0.1:5000", true),
        ("r1.example:1", true),
        ("[::1]:5000", true),
        ("::1:5000", false),
        ("[r1]:5000", false),
        ("10.0.0.1", false),
        ("10.0.0.1:70000", false),
        ("10.0.0.1:+5", false),
        (":5000", false),
        ("a|b:5000", false),
    ] {
        assert_eq!(is_client_address(address), is_one, "{address}");
    }
}

/// A controller that has heard of so many routers, each in the zone of this number, and looks at its lists.
fn heard(routers: usize, zone: impl Fn(usize) -> usize) -> Stage {
    let mut stage = Stage::new(0);
    for number in 1..=routers {
        let mut agent = FakeAgent::new(number, &format!("z{}", zone(number)));
        let router = &mut agent.report.routers[0];
        router.client_address = Some(format!("r{number}:5000"));
        stage.message(ControllerMessage::Turn(agent.report));
    }
    stage.controller.tick(Now::at_ms(stage.now_ms + 5_000), stage.unix_s);
    stage
}

#[test]
fn a_list_has_no_more_routers_than_clients_take_and_a_fleet_no_more_lists_than_the_limit() {
    let stage = heard(DISCOVERY_MEMBERS_MAX + 5, |_| 1);
    let (list, _) = stage.controller.register.view().router_lists().values().next().expect("a list");
    assert_eq!((list.revision, list.routers.len()), (1, DISCOVERY_MEMBERS_MAX));
    let stage = heard(LISTS_MAX + 5, |number| number);
    assert_eq!(stage.controller.register.view().router_lists().len(), LISTS_MAX);
}
