//! Orders of failover, held to the figures of mcrouter's own tests: servers that never answer, and are unavailable after
//! one timeout. What is counted are the failures that a FailoverRoute has judged, and of these the unavailable servers.

use std::collections::HashSet;
use std::sync::Arc;

use crate::config::json::parse;
use crate::config::{CompileOptions, compile};
use crate::flight::{FlightReply, Flights, Leg, Marks};
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::plan::choices::Choices;
use crate::plan::{RoutePlan, ServerId};
use crate::servers::destination::{ReplyKind, ReplyTarget};

const WEIGHTS: &str = r#"{"hash_func": "WeightedCh3", "weights": [0.7, 0.65, 1.0, 0.8, 0.5, 0.7, 0.65, 1.0, 0.8, 0.7,
    0.65, 1.0, 0.8, 0.5, 0.75, 0.5, 0.75, 0.7, 0.65, 1.0, 0.5, 0.75, 0.55, 0.81]}"#;

fn servers(first: u16, count: u16) -> String {
    let servers: Vec<String> = (first..first + count).map(|port| format!("\"localhost:{port}\"")).collect();
    format!("[{}]", servers.join(", "))
}

fn compiled(config: &str) -> Arc<RoutePlan> {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let plan = compile(&json, 1, &CompileOptions::default(), &mut resolve);
    Arc::new(plan.unwrap_or_else(|error| panic!("{error}")))
}

/// Sends keys, one after the other. After each: failures judged, and unavailable servers among them. A route judges at
/// most `asked_max - 1` failures: the last child's reply is the answer, whatever it is.
fn failures(config: &str, asked_max: usize, keys: impl Iterator<Item = String>) -> Vec<(usize, usize)> {
    let plan = compiled(config);
    let mut choices = Choices::new(1, 0);
    choices.adopt(plan.generation, &plan.states, |_| true);
    let (mut flights, mut unavailable) = (Flights::default(), HashSet::<ServerId>::new());
    let (mut errors, mut known) = (0, 0);
    keys.map(|key| {
        let message = RoutedRequest {
            operation: Operation::Get,
            expected: ReplyKind::Values,
            before: b"get ",
            key: RoutedKey::new(key.as_bytes()),
            shown: &[],
            after: b"\r\n",
            opaque: &[],
            body: RequestBody::None,
        };
        let request = flights.store(&message, Arc::clone(&plan));
        let leg = Leg { request, owner: ReplyTarget::Nobody, marks: Marks::default() };
        let root = plan.roots.default.expect("a route");
        assert!(flights.begin(&plan, root, leg, &mut choices).is_none());
        flights.release(request);
        let mut asked = 0;
        while let Some(send) = flights.sends.pop_front() {
            asked += 1;
            let is_new = unavailable.insert(send.server);
            let outcome = if is_new { Outcome::Timeout } else { Outcome::Unavailable };
            if asked < asked_max {
                errors += usize::from(is_new);
                known += usize::from(!is_new);
            }
            let ReplyTarget::Frame(frame, child) = send.target else { panic!("{send:?}") };
            let reply = FlightReply::error(outcome, "");
            flights.on_reply((frame, child), reply, &mut choices);
            flights.release(send.request);
        }
        assert_eq!(flights.len(), 0);
        (errors, known)
    })
    .collect()
}

fn deterministic(pools: &str, normal: &str, others: &str, policy: &str) -> String {
    format!(
        r#"{{"pools": {{{pools}}}, "route": {{"type": "FailoverRoute", "children": [{normal}, {others}],
            "failover_policy": {{"type": "DeterministicOrderPolicy", {policy}}}}}}}"#
    )
}

#[test]
fn a_deterministic_order_is_that_of_mcrouter() {
    let pools = format!(r#""A": {{"servers": {}}}"#, servers(5001, 5));
    let others = format!(r#"{{"type": "Pool", "name": "B1", "servers": {}}}"#, servers(5006, 12));
    let config =
        deterministic(&pools, r#""PoolRoute|A""#, &others, r#""max_tries": 10, "max_error_tries": 3"#);
    assert_eq!(
        failures(&config, 10, (0..10).map(|i| format!("key_{i}_abc_{}", 17 * i))),
        [(3, 0), (6, 0), (9, 3), (12, 9), (13, 17), (14, 25), (14, 34), (15, 42), (15, 51), (16, 59)]
    );
}

fn long_key(i: usize) -> String {
    format!("key_{}_hYgGEs_{i}_kBVq9Z_{}", 13 * i, 71 * i)
}

#[test]
fn a_weighted_order_passes_over_the_server_of_the_normal_route() {
    let pools = format!(r#""A": {{"servers": {}}}"#, servers(5001, 23));
    let policy = format!(r#""max_tries": 12, "max_error_tries": 3, "hash": {WEIGHTS}"#);
    let config = deterministic(&pools, r#""PoolRoute|A""#, r#""Pool|A""#, &policy);
    assert_eq!(
        failures(&config, 12, (0..10).map(long_key)),
        [(3, 0), (6, 0), (9, 2), (12, 3), (15, 5), (17, 14), (19, 23), (21, 32), (21, 43), (23, 52)]
    );
    let normal = format!(r#"{{"type": "PoolRoute", "pool": "A", "hash": {WEIGHTS}}}"#);
    let config = deterministic(&pools, &normal, r#""Pool|A""#, &policy);
    assert_eq!(
        failures(&config, 12, (0..8).map(long_key)),
        [(3, 0), (6, 0), (9, 2), (12, 3), (15, 5), (18, 9), (20, 18), (20, 29)]
    );
}

#[test]
fn servers_of_a_failed_domain_are_passed_over() {
    let domains: Vec<String> = (0..23).map(|index| (index % 12 + 1).to_string()).collect();
    let pools =
        format!(r#""A": {{"servers": {}, "failure_domains": [{}]}}"#, servers(5001, 23), domains.join(", "));
    let policy = format!(
        r#""max_tries": 12, "max_error_tries": 3, "enable_failure_domains": true, "hash": {WEIGHTS}"#
    );
    let normal = format!(r#"{{"type": "PoolRoute", "pool": "A", "hash": {WEIGHTS}}}"#);
    let config = deterministic(&pools, &normal, r#""Pool|A""#, &policy);
    assert_eq!(
        failures(&config, 12, (0..8).map(long_key)),
        [(3, 0), (6, 0), (9, 2), (12, 3), (15, 5), (18, 13), (20, 22), (21, 32)]
    );
}

#[test]
fn a_rendezvous_order_asks_each_server_once() {
    let servers = servers(5001, 5);
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": {servers}}}}}, "route": {{"type": "FailoverRoute",
            "children": ["PoolRoute|A", "Pool|A"],
            "failover_policy": {{"type": "RendezvousPolicy", "tags": {servers}}}}}}}"#
    );
    let keys = (0..10).map(|i| format!("key_{i}_abc_{}", 17 * i));
    let expected: Vec<(usize, usize)> = (0..10).map(|i| (4, 4 * i)).collect();
    assert_eq!(failures(&config, 5, keys), expected);
}

/// A hash of a deterministic order may lead to the first child again, which has failed before.
#[test]
fn each_further_child_is_tagged() {
    use crate::routes::route::Route;
    use crate::routes::substitutes::failover::{Failover, FailoverErrors, FailoverSettings};

    let tagged = FailoverSettings { has_tag: true, ..FailoverSettings::in_order(FailoverErrors::default()) };
    for (settings, is_tagged) in
        [(tagged, true), (FailoverSettings::in_order(FailoverErrors::default()), false)]
    {
        let route = Failover(Box::new(settings));
        assert_eq!([0, 1].map(|child| route.marks(child, Marks::default()).is_tagged), [is_tagged; 2]);
    }
}
