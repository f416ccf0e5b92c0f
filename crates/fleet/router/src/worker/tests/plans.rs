//! Other plans while requests are on their way.

use super::{Conversation, play};

const A_THEN_B: &str = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
    "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
const ONLY_C: &str = r#"{"pools": {"C": {"servers": ["c:1"]}}, "route": "PoolRoute|C"}"#;

fn one_line(config: &str) -> String {
    config.replace('\n', " ")
}

#[test]
fn a_request_ends_on_the_plan_that_it_began_with() {
    play(
        A_THEN_B,
        &format!(
            "> get k
             a> get k
             plan {ONLY_C}
             > get k
             c> get k
             c< END
             a!
             b> get k
             b< VALUE k 0 1\\r\\nx\\r\\nEND
             < VALUE k 0 1
             < x
             < END
             < END
             plan {}
             > get k
             a> get k
             a< END
             < END",
            one_line(A_THEN_B)
        ),
    );
}

#[test]
fn copies_for_nobody_are_sent_by_their_own_plan() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}}, "route": {"type": "FailoverRoute",
        "children": ["PoolRoute|A", {"type": "AllInitialRoute", "children": ["NullRoute", "PoolRoute|B"]}]}}"#;
    let script = "> get k\na> get k\nplan ONLY_C\na!\n< END\nb> get k\nb< END";
    play(config, &script.replace("ONLY_C", ONLY_C));
}

#[test]
fn servers_that_stay_keep_their_connections_and_their_health() {
    let config = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}}, "route": {"type": "HashRoute", "children": "Pool|A"}}"#;
    let other = r#"{"pools": {"A": {"servers": ["b:1", "a:1"]}}, "route": "PoolRoute|A"}"#;
    let mut conversation = Conversation::new(config);
    conversation.play("> get key:1\nb> get key:1\nb< END\n< END\n> get key:1\nb> get key:1");
    for round in 0..100 {
        conversation.replace(if round % 2 == 0 { other } else { config });
    }
    conversation.play("b< END\n< END\n> get key:1\nb> get key:1\nb< END\n< END\n");
    let connections = conversation.world.connections(conversation.host("b"), conversation.router);
    assert_eq!(connections.len(), 1);
    assert_eq!(conversation.worker().servers.destinations().len(), 2);
    assert!(conversation.worker().plans.len_earlier().0 <= 2, "plans without requests are forgotten");
    conversation.end();
}

#[test]
fn servers_that_no_plan_names_are_forgotten_once_they_are_idle() {
    let config =
        |port: u32| format!(r#"{{"pools": {{"A": {{"servers": ["a:{port}"]}}}}, "route": "PoolRoute|A"}}"#);
    let mut conversation = Conversation::new(&config(1));
    conversation.play("> get k\na> get k");
    conversation.replace(&config(2));
    conversation.play("a< END\n< END");
    for port in 3..100 {
        conversation.replace(&config(port));
        conversation.play("> get k\na> get k\na< END\n< END");
    }
    conversation.play("wait 3000");
    let connections = conversation.world.connections(conversation.host("a"), conversation.router);
    assert_eq!(connections.len(), 1);
    let worker = conversation.worker();
    assert_eq!(worker.servers.known().0, 1);
    assert_eq!(worker.servers.known().1.len(), 1);
    let before = worker.servers.destinations().len();
    conversation.replace(&config(1));
    conversation.play("> get k\na> get k\na< END\n< END");
    assert_eq!(conversation.worker().servers.destinations().len(), before, "places are used again");
    conversation.end();
}

#[test]
fn servers_of_a_plan_are_forgotten_when_its_last_request_has_ended() {
    let mut conversation = Conversation::new(A_THEN_B);
    conversation.play("> get k\na> get k");
    conversation.replace(ONLY_C);
    conversation.play("wait 1100\nb> get k\nb< END\n< END\nwait 5000");
    for server in ["a", "b"] {
        let connections = conversation.world.connections(conversation.host(server), conversation.router);
        assert_eq!(connections, [], "the reply of a is awaited by nobody");
    }
    let worker = conversation.worker();
    assert_eq!((worker.servers.known().0, worker.servers.known().1.len()), (1, 1));
    assert_eq!(worker.plans.len_earlier().0, 0);
    conversation.end();
}
