//! LatestRoute, BlackholeRoute, LoggingRoute, LatencyInjectionRoute, weights from a runtime variable.

use std::collections::BTreeSet;

use super::{Conversation, compiled, play};
use super::{config, config_notes};
use crate::config::CompileOptions;
use crate::config::json::parse;

const ABCD: &str = r#""PoolRoute|A", "PoolRoute|B", "PoolRoute|C", "PoolRoute|D""#;

/// The servers in the order in which a route asks them, all of which fail.
fn order(route: &str) -> String {
    let mut conversation = Conversation::new(&config(route));
    conversation.play("> delete k");
    let mut order = String::new();
    loop {
        let names: Vec<String> = conversation.servers.keys().cloned().collect();
        let asked = names.into_iter().find(|name| {
            let host = conversation.host(name);
            !std::mem::take(&mut conversation.world.handler::<super::End>(host).received).is_empty()
        });
        let Some(name) = asked else { break };
        conversation.play(&format!("{name}< SERVER_ERROR {name}"));
        order.push_str(&name);
    }
    conversation.play(&format!("< SERVER_ERROR {}", order.chars().last().expect("a server")));
    conversation.end();
    order
}

#[test]
fn a_latest_route_asks_in_the_order_of_its_host() {
    let latest = |rest: &str| {
        order(&format!(r#"{{"type": "LatestRoute", "children": [{ABCD}]{rest}}}"#).replace('\n', " "))
    };
    let all = latest("");
    assert_eq!(all.chars().collect::<BTreeSet<_>>().len(), 4, "{all}");
    assert_eq!(latest(r#", "failover_count": 2"#), all[..2]);
    assert_eq!(latest(r#", "failover_count": 1"#), all[..1]);
    assert_eq!(latest(r#", "failover_count": 100"#), all);
    assert_eq!(latest(r#", "weights": [1, 1, 1, 1]"#), all);
    let salted: BTreeSet<String> =
        (0..8).map(|salt| latest(&format!(r#", "salt": "{salt}", "failover_count": 1"#))).collect();
    assert!(salted.len() > 1, "{salted:?}");
    // Weights of 0 keep the others from being the first.
    for salt in 0..4 {
        assert_eq!(
            latest(&format!(r#", "salt": "{salt}", "failover_count": 1, "weights": [0, 0, 1, 0]"#)),
            "c"
        );
    }
    assert_eq!(latest(r#", "failover_errors": ["timeout"]"#), all[..1]);
    assert_eq!(
        order(&format!(r#"{{"type": "HashRoute", "hash_func": "Latest", "children": [{ABCD}]}}"#)),
        all
    );
    let policy = r#", "failover_policy": {"type": "FailoverInOrderPolicy", "max_tries": 3}"#;
    assert_eq!(latest(policy), all[..3]);
}

#[test]
fn each_worker_may_have_an_order_of_its_own() {
    let route = config(&format!(
        r#"{{"type": "LatestRoute", "children": [{ABCD}], "thread_local_failover": true, "failover_count": 1}}"#
    ));
    let conversation = Conversation::new(&route);
    let options = CompileOptions { proxies: 40, ..CompileOptions::default() };
    let plan = compiled(&route, 2, &conversation.places, &options);
    let root = plan.roots.default.expect("a route");
    let crate::plan::Node::Plain(crate::plan::plain_route::PlainRoute::ByWorker(routes)) =
        &plan.nodes[root.0 as usize]
    else {
        panic!("{plan:?}")
    };
    assert_eq!(routes.len(), 40);
    let chosen: BTreeSet<u32> = routes.iter().map(|node| node.0).collect();
    assert_eq!(chosen.len(), 4, "each server is the first of some worker");
}

#[test]
fn without_children_there_is_no_item() {
    play(&config(r#"{"type": "LatestRoute", "children": []}"#), "> get k\n< END");
    play(
        &config(&format!(r#"{{"type": "LatestRoute", "children": [{ABCD}], "failover_count": 0}}"#)),
        "> get k\n< END",
    );
}

#[test]
fn keys_for_which_a_policy_holds_disappear() {
    let blackhole = |policies: &str, rest: &str| {
        config(&format!(
            r#"{{"type": "BlackholeRoute", "default": "PoolRoute|A", "policies": {policies}{rest}}}"#
        ))
    };
    let equals = r#"{"key": [{"op": "equals", "value": "k"}, {"op": "equals", "value": "/././l"}]}"#;
    play(
        &blackhole(equals, ""),
        "> get k m /././l l /././k
         a> get m l k
         a< END
         < END
         > set k 0 0 1\\r\\nx
         < NOT_STORED
         > delete k noreply
         nothing",
    );
    let not = r#"{"key": [{"op": "not_equals", "value": "k"}]}"#;
    play(
        &blackhole(not, r#", "blackhole_child": "PoolRoute|B""#),
        "> get k m\na> get k\nb> get m\na< END\nb< END\n< END",
    );
    play(&blackhole("{}", ""), "> get k\n< END");
    play(&blackhole(r#"{"key": []}"#, ""), "> get k\na> get k\na< END\n< END");
}

fn delayed(parameters: &str) -> String {
    config(&format!(r#"{{"type": "LatencyInjectionRoute", "child": "PoolRoute|A", {parameters}}}"#))
}

#[test]
fn requests_and_replies_are_delayed() {
    play(
        &delayed(r#""before_latency_ms": 300, "after_latency_ms": 200"#),
        "> get k
         1> delete l
         nothing
         wait 200
         nothing
         wait 100
         a> get k
         a> delete l
         a<| VALUE k 0 2\\r\\nhi\\r\\nEND\\r\\n
         nothing
         a!
         wait 100
         nothing
         wait 100
         < VALUE k 0 2
         < hi
         < END
         1< SERVER_ERROR remote error",
    );
    play(
        &delayed(r#""before_latency_ms": 300"#),
        "> get k l\nwait 310\na> get k\na> get l\na< END\na< END\n< END\n> delete k noreply\nnothing\nwait 310\na> delete k\na< DELETED",
    );
}

#[test]
fn a_total_is_reached_by_waiting_and_a_slower_server_is_not_delayed() {
    let config = delayed(r#""total_latency_ms": 300"#);
    play(&config, "> get k\na> get k\na< END\nnothing\nwait 250\nnothing\nwait 60\n< END");
    play(&config, "> get k\na> get k\nwait 400\na< END\n< END");
    play(&config, "> get k\na> get k\nwait 1100\n< SERVER_ERROR Reply timeout\na< END\nnothing");
    let percentiles = delayed(r#""total_latency_percentile_ms": [[50, 100], [100, 400]]"#);
    let mut conversation = Conversation::new(&percentiles);
    let mut slow = 0;
    for _ in 0..100 {
        conversation.play("> get k\na> get k\na< END\nwait 150");
        let host = conversation.clients[0];
        let is_slow = conversation.world.handler::<super::End>(host).received.is_empty();
        slow += i32::from(is_slow);
        conversation.play(if is_slow { "wait 300\n< END" } else { "< END" });
    }
    assert!((30..=70).contains(&slow), "{slow} of 100");
    conversation.end();
}

#[test]
fn delays_end_without_their_client_and_on_their_plan() {
    let config = delayed(r#""before_latency_ms": 300, "after_latency_ms": 300"#);
    play(
        &config,
        "> get k\\r\\ndelete l\ngone\nwait 310\na> get k\na> delete l\na< END\na< DELETED\nwait 310\nnothing",
    );
    play(
        &config,
        &format!(
            "> get k\nplan {}\nwait 310\na> get k\na< END\nnothing\nwait 310\n< END",
            super::ONE.replace("a:1", "b:1")
        ),
    );
}

#[test]
fn more_delayed_requests_than_there_is_room_for_are_refused() {
    let delayed = r#"{"type": "LatencyInjectionRoute", "child": "PoolRoute|A", "before_latency_ms": 100000}"#;
    let mut conversation = Conversation::new(&format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1"]}}}}, "route": {{"type": "AllSyncRoute", "children": [{}]}}}}"#,
        [delayed; 22].join(",")
    ));
    let value = "v".repeat(1 << 20);
    for client in 0..3 {
        conversation.play(&format!("{client}> set k 0 0 {} noreply\\r\\n{value}", value.len()));
    }
    conversation.reset(conversation.clients[0]);
    conversation.reset(conversation.clients[1]);
    conversation.reset(conversation.clients[2]);
    conversation.world.run_for(110_000_000);
    let sent = conversation.world.handler::<super::End>(conversation.host("a")).received.len();
    assert!((62..64).contains(&(sent >> 20)), "{sent} bytes");
    assert_eq!(conversation.worker().flights.len(), 0);
}

#[test]
fn requests_that_find_or_store_an_item_are_logged() {
    let route = config(r#"{"type": "LoggingRoute", "target": "PoolRoute|A"}"#);
    let mut conversation = Conversation::new(&route);
    conversation.play("> get k l\na> get k\na> get l\na<| VALUE k 0 1\\r\\nx\\r\\nEND\\r\\nEND\\r\\n\n< VALUE k 0 1\n< x\n< END\nsaid log: get k: found, a reply of 21 bytes");
    conversation.play("> set k 0 0 1 noreply\\r\\nx\na> set k 0 0 1\na> x\na< STORED\nsaid log: set k: stored, a reply of 8 bytes\n> delete k\na> delete k\na!\n< SERVER_ERROR remote error");
    conversation.end();
    play(&config(r#""LoggingRoute""#), "> get k\n< END");
}

#[test]
fn all_routes_are_logged_with_the_flag() {
    let conversation = Conversation::new(super::ONE);
    let options = CompileOptions { log_requests: true, ..CompileOptions::default() };
    let plan = compiled(super::ONE, 2, &conversation.places, &options);
    let is_log = |node: crate::plan::NodeId| {
        matches!(plan.compound(node).kind, crate::routes::CompoundKind::Logging(_))
    };
    assert!(is_log(plan.roots.default.expect("a route")));
    assert!(plan.roots.by_prefix.values().all(|node| is_log(*node)) && !plan.roots.by_prefix.is_empty());
}

const BY_VARIABLE: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}},
    "route": {"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "WeightedCh3Rv", "weights_rv": "w"}}}"#;

#[test]
fn weights_of_a_variable_move_keys_while_the_plan_stays() {
    let mut conversation = Conversation::new(&BY_VARIABLE.replace('\n', ""));
    let get_all = |conversation: &mut Conversation| {
        let keys: Vec<String> = (0..20).map(|key| format!("key{key}")).collect();
        conversation.play(&format!("> get {}", keys.join(" ")));
        ["a", "b"].map(|name| {
            let host = conversation.host(name);
            let line = std::mem::take(&mut conversation.world.handler::<super::End>(host).received);
            if !line.is_empty() {
                conversation.play(&format!("{name}< END"));
            }
            line.split(|byte| *byte == b' ').count().saturating_sub(1)
        })
    };
    let mut set = |weights: &str| {
        let json =
            parse(0, format!(r#"{{"hash_route_weights": {{"w": {weights}}}}}"#).as_bytes()).expect("JSON");
        let wrong = conversation.shared.plan().update_variables(&json);
        let keys = get_all(&mut conversation);
        conversation.play("< END");
        (wrong.len(), keys)
    };
    assert_eq!(set("[1, 0]"), (0, [20, 0]));
    assert_eq!(set("[0, 1]"), (0, [0, 20]));
    assert_eq!(set("[0, 7]"), (1, [0, 20]), "what is wrong changes nothing");
    let (_, [first, second]) = set("[1, 1]");
    assert!(first > 3 && second > 3, "{first} {second}");
    conversation.end();
}

#[test]
fn a_configuration_needs_the_variables_that_it_names() {
    let conversation = Conversation::new(&BY_VARIABLE.replace('\n', ""));
    let variables = parse(0, b"{\"hash_route_weights\": {\"other\": [1, 1]}}").expect("JSON");
    let options = CompileOptions { variables: Some(variables.into()), ..CompileOptions::default() };
    let json = parse(0, BY_VARIABLE.as_bytes()).expect("JSON");
    let mut resolve = |host: &str, _: u16| Some(conversation.places[host]);
    let error = crate::config::compile(&json, 1, &options, &mut resolve).expect_err("is refused");
    assert_eq!(
        error.to_string(),
        "line 2: expected an array `w` in the object `hash_route_weights`, found none"
    );
    let notes = config_notes(&delayed(r#""request_payload_latency": true"#));
    assert_eq!(
        notes,
        ["`request_payload_latency` has no effect: requests of memcached's protocol have no latency"]
    );
}
