//! Compound routes: whom they ask, and whose reply is the answer.

mod big_value;
mod changes;
pub(super) mod conversations;
mod failover;
mod fill;
mod late_failover;
mod limits;
mod migrate;
mod prefixes;
mod replicas;
mod shadows;
mod size_split;
mod staging;
mod test_routes;

use super::*;

/// A configuration with pools A to D of one server each.
pub(super) fn config(route: &str) -> String {
    let pools =
        ["a", "b", "c", "d"].map(|name| format!(r#""{}": {{"servers": ["{name}:1"]}}"#, name.to_uppercase()));
    format!(r#"{{"pools": {{{}}}, "route": {route}}}"#, pools.join(", "))
}

/// The lines for the operator about a configuration.
pub(super) fn config_notes(config: &str) -> Vec<String> {
    Conversation::new(config).shared.plan().notes.clone()
}

fn of(kind: &str, children: &str) -> String {
    format!(r#"{{"type": "{kind}", "children": [{children}]}}"#)
}

const AB: &str = r#""PoolRoute|A", "PoolRoute|B""#;
const ABC: &str = r#""PoolRoute|A", "PoolRoute|B", "PoolRoute|C""#;

const ASK_AB: &str = "a> delete k\nb> delete k\n";
const ASK_ABC: &str = "a> delete k\nb> delete k\nc> delete k\n";

#[test]
fn all_sync_answers_the_worst_reply_once_all_are_there() {
    let route = config(&of("AllSyncRoute", ABC));
    play(&route, &format!("> delete k\n{ASK_ABC}b< NOT_FOUND\na< DELETED\nnothing\nc< DELETED\n< NOT_FOUND"));
    play(
        &route,
        &format!("> delete k\n{ASK_ABC}b< NOT_FOUND\na< DELETED\nc<| SERVER_ERROR x\\r\\n\n< SERVER_ERROR x"),
    );
    play(&route, &format!("> delete k\n{ASK_ABC}b< DELETED\na< DELETED\nc!\n< SERVER_ERROR remote error"));
    play(
        &route,
        &format!(
            "> delete k\n{ASK_ABC}b< DELETED\na< DELETED\nwait 1100\n< SERVER_ERROR Reply timeout\nc< DELETED\nnothing"
        ),
    );
}

#[test]
fn all_fastest_answers_the_first_good_reply_or_the_last_error() {
    let route = config(&of("AllFastestRoute", ABC));
    play(&route, &format!("> delete k\n{ASK_ABC}b< NOT_FOUND\n< NOT_FOUND\na< DELETED\nc!\nnothing"));
    play(
        &route,
        &format!("> delete k\n{ASK_ABC}b!\nnothing\na!\nnothing\nc< SERVER_ERROR x\n< SERVER_ERROR x"),
    );
    play(
        &route,
        &format!("> delete k\n{ASK_ABC}b!\na< DELETED\n< DELETED\nwait 1100\nc< NOT_FOUND\nnothing"),
    );
}

#[test]
fn all_initial_answers_the_reply_of_the_first() {
    let route = config(&of("AllInitialRoute", AB));
    play(&route, &format!("> delete k\n{ASK_AB}b< DELETED\nnothing\na< NOT_FOUND\n< NOT_FOUND"));
    play(&route, &format!("> delete k\n{ASK_AB}a!\n< SERVER_ERROR remote error\nb< DELETED\nnothing"));
    let none_first = config(&of("AllInitialRoute", r#""NullRoute", "PoolRoute|B""#));
    play(&none_first, "> delete k\n< NOT_FOUND\nb> delete k\nb< DELETED\nnothing");
}

#[test]
fn all_async_answers_at_once() {
    let route = config(&of("AllAsyncRoute", AB));
    play(&route, &format!("> delete k\n< NOT_FOUND\n{ASK_AB}b< DELETED\na!\nnothing"));
    play(&route, "> mg k v q\\r\\nmn\n< MN\na> mg k v O1\nb> mg k v O1\na< EN\nb< EN");
}

#[test]
fn all_majority_answers_what_most_reply() {
    let route = config(&of("AllMajorityRoute", ABC));
    play(
        &route,
        &format!("> delete k\n{ASK_ABC}b< DELETED\nnothing\na< DELETED\n< DELETED\nc< NOT_FOUND\nnothing"),
    );
    play(
        &route,
        &format!("> delete k\n{ASK_ABC}b< DELETED\na< NOT_FOUND\nnothing\nc< NOT_FOUND\n< NOT_FOUND"),
    );
    play(&route, &format!("> delete k\n{ASK_ABC}b< DELETED\na!\nc< NOT_FOUND\n< SERVER_ERROR remote error"));
}

#[test]
fn failover_goes_on_after_errors_only() {
    let route = config(&of("FailoverRoute", ABC));
    play(&route, "> get k\na> get k\na< END\n< END");
    play(
        &route,
        "> get k\na> get k\na!\nb> get k\nb< SERVER_ERROR x\nc> get k\nc< SERVER_ERROR y\n< SERVER_ERROR y",
    );
    play(
        &route,
        "> get k\na> get k\nwait 1100\nb> get k\nb< VALUE k 0 1\\r\\nx\\r\\nEND\n< VALUE k 0 1\n< x\n< END\na< END\nnothing",
    );
    play(&route, "> incr k 1\na> incr k 1\na< CLIENT_ERROR x\n< CLIENT_ERROR x");
}

#[test]
fn failover_has_errors_by_class() {
    let children = format!(
        r#"{{"type": "FailoverRoute", "children": [{AB}], "failover_errors":
        {{"gets": ["notfound", "remote_error"], "updates": [], "deletes": ["mc_res_timeout"]}}}}"#
    );
    let route = config(&children);
    play(&route, "> get k\na> get k\na< END\nb> get k\nb< END\n< END");
    play(&route, "> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\na!\n< SERVER_ERROR remote error");
    play(&route, "> delete k\na> delete k\na!\n< SERVER_ERROR remote error");
    play(&route, "> delete k\na> delete k\nwait 1100\nb> delete k\nb< DELETED\n< DELETED\na< DELETED");
    play(&route, "> touch k 1\na> touch k 1\na!\nb> touch k 1\nb< TOUCHED\n< TOUCHED");
}

#[test]
fn miss_failover_goes_on_after_misses() {
    let last = config(&of("MissFailoverRoute", AB));
    play(
        &last,
        "> get k\na> get k\na< END\nb> get k\nb< VALUE k 0 1\\r\\nx\\r\\nEND\n< VALUE k 0 1\n< x\n< END",
    );
    play(&last, "> get k\na> get k\na< END\nb> get k\nb< SERVER_ERROR x\n< SERVER_ERROR x");
    play(&last, "> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\na< NOT_STORED\n< NOT_STORED");
    let best =
        format!(r#"{{"type": "MissFailoverRoute", "children": [{AB}], "return_best_on_error": true}}"#);
    play(&config(&best), "> get k\na> get k\na< END\nb> get k\nb< SERVER_ERROR x\n< END");
}

#[test]
fn compound_routes_stand_inside_of_each_other() {
    let failover = of("FailoverRoute", &format!("{}, \"PoolRoute|C\"", of("AllSyncRoute", AB)));
    play(
        &config(&failover),
        &format!("> delete k\n{ASK_AB}a< DELETED\nb!\nc> delete k\nc< NOT_FOUND\n< NOT_FOUND"),
    );
    let sync = of(
        "AllSyncRoute",
        &format!("{}, {}", of("FailoverRoute", AB), of("FailoverRoute", r#""PoolRoute|C", "PoolRoute|D""#)),
    );
    play(
        &config(&sync),
        "> delete k\na> delete k\nc> delete k\na!\nb> delete k\nb< DELETED\nc!\nd> delete k\nd< NOT_FOUND\n< NOT_FOUND",
    );
    let initial = of(
        "FailoverRoute",
        &format!("\"ErrorRoute|x\", {}", of("AllInitialRoute", r#""NullRoute", "PoolRoute|B""#)),
    );
    play(&config(&initial), "> delete k\n< NOT_FOUND\nb> delete k\nb< DELETED\nnothing");
}

#[test]
fn answers_without_a_server_count_like_replies() {
    play(
        &config(&of("AllSyncRoute", r#""NullRoute", "PoolRoute|A""#)),
        "> delete k\na> delete k\na< DELETED\n< NOT_FOUND",
    );
    play(
        &config(&of("AllFastestRoute", r#""NullRoute", "PoolRoute|A""#)),
        "> delete k\n< NOT_FOUND\na> delete k\na< DELETED\nnothing",
    );
    play(&config(&of("AllSyncRoute", r#""ErrorRoute|x", "ErrorRoute|y""#)), "> delete k\n< SERVER_ERROR x");
    play(
        &config(&of("FailoverRoute", r#""ErrorRoute|x", "NullRoute""#)),
        "> get k\n< END\n> mg k v q\\r\\nmn\n< MN",
    );
    play(
        &config(&of("AllMajorityRoute", r#""NullRoute", "NullRoute", "ErrorRoute|y""#)),
        "> delete k\n< NOT_FOUND",
    );
}

#[test]
fn thousands_of_unavailable_children_are_asked_one_after_the_other() {
    let servers: Vec<String> = (1..=10_000).map(|port| format!("\"a:{port}\"")).collect();
    for kind in ["FailoverRoute", "AllSyncRoute", "AllFastestRoute", "AllMajorityRoute", "MissFailoverRoute"]
    {
        let config = format!(
            r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": {{"type": "{kind}", "children": "Pool|A"}}}}"#,
            servers.join(",")
        );
        let mut conversation = Conversation::new(&config);
        let worker = conversation.worker();
        for destination in worker.servers.destinations() {
            let now = stdx::clock::Now::default();
            worker.shared.failed(&destination.health, crate::Outcome::ConnectError, now);
        }
        let line = "< SERVER_ERROR Server unavailable. Reason: connect_error";
        conversation.play(&format!("> get k\n{line}\n> get j k\n{line}\n> delete k\n{line}"));
        conversation.end();
    }
}

#[test]
fn each_key_of_a_multiget_has_its_own_failover() {
    play(
        &config(&of("FailoverRoute", AB)),
        "> get j k l
         a> get j k l
         a<| VALUE j 0 1\\r\\nx\\r\\nSERVER_ERROR y\\r\\n
         b> get k
         b> get l
         b<| VALUE k 0 20000\\r\\n{y*20000}\\r\\nEND\\r\\nVALUE l 0 20000\\r\\n{x*20000}\\r\\nEND\\r\\n
         < VALUE j 0 1
         < x
         < VALUE k 0 20000
         < {y*20000}
         < VALUE l 0 20000
         < {x*20000}
         < END",
    );
}

#[test]
fn each_key_of_a_multiget_has_its_copies() {
    play(
        &config(&of("AllInitialRoute", AB)),
        "> get j k
         a> get j
         a> get k
         b> get j
         b> get k
         a< VALUE j 0 1\\r\\nx\\r\\nEND\\r\\nVALUE k 0 20000\\r\\n{y*20000}\\r\\nEND
         < VALUE j 0 1
         < x
         < VALUE k 0 20000
         < {y*20000}
         < END
         > get j k
         a> get j
         a> get k
         b> get j
         b> get k
         a< END
         a!
         < SERVER_ERROR remote error",
    );
}

#[test]
fn held_bodies_reach_all_copies() {
    play(
        &config(&of("AllSyncRoute", AB)),
        "> set k 0 0 1000000\\r\\n{x*1000000}
         a> set k 0 0 1000000
         a> {x*1000000}
         b> set k 0 0 1000000
         b> {x*1000000}
         a< STORED
         b< STORED
         < STORED
         > ms k 20000 T9\\r\\n{y*20000}
         a> ms k 20000 T9 O1
         a> {y*20000}
         b> ms k 20000 T9 O1
         b> {y*20000}
         a< HD O1
         b< NS O1
         < NS",
    );
}
