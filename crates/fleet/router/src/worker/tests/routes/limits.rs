//! Limits: rates, and outstanding requests.

use super::config;
use super::{Conversation, play};
use crate::client::WINDOW_MAX;

fn limited(parameters: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1"]}}, "B": {{"servers": ["b:1"]}}}},
            "route": {{"type": "PoolRoute", "pool": "A", {parameters}}}}}"#
    )
    .replace('\n', "")
}

#[test]
fn requests_beyond_a_rate_are_answered_as_if_there_were_no_item() {
    let config = limited(r#""rates": {"gets_rate": 2, "sets_rate": 1, "sets_burst": 2, "deletes_rate": 1}"#);
    play(
        &config,
        "> get k
         < END
         > delete k
         < NOT_FOUND
         > set k 0 0 1\\r\\nx
         < NOT_STORED
         > incr k 1
         a> incr k 1
         a< 5
         < 5
         > touch k 0
         a> touch k 0
         a< TOUCHED
         < TOUCHED
         wait 5000
         > get k1 k2 k3
         a> get k1 k2
         a< END
         < END
         > delete k
         a> delete k
         a< DELETED
         < DELETED
         > delete k
         < NOT_FOUND
         > set k 0 0 1\\r\\nx
         a> set k 0 0 1
         a> x
         a< STORED
         < STORED
         > mg k v
         < EN
         > mg k v q\\r\\nmn
         < MN
         wait 500
         > mg k v
         a> mg k v O1
         a< EN
         < EN
         > set k 0 0 1 noreply\\r\\nx
         a> set k 0 0 1
         a> x
         a< STORED
         > set k 0 0 1 noreply\\r\\nx
         nothing",
    );
}

#[test]
fn a_burst_below_one_allows_nothing_and_operations_without_a_rate_are_not_limited() {
    play(
        &limited(r#""rates": {"gets_rate": 0.5}"#),
        "wait 10000\n> get k\n< END\n> delete k\na> delete k\na< DELETED\n< DELETED",
    );
}

#[test]
fn a_rate_limit_route_has_a_fallback() {
    let config = config(
        r#"{"type": "RateLimitRoute", "target": "PoolRoute|A", "fallback": "PoolRoute|B", "rates": {"gets_rate": 1}}"#,
    );
    play(
        &config,
        "> get k\nb> get k\nb< END\n< END\nwait 1500\n> get k\na> get k\na< END\n< END\n> get k l\nb> get k l\nb< END\n< END",
    );
    // Another plan begins without tokens.
    play(&config, &format!("wait 1500\nplan {config}\n> get k\nb> get k\nb< END\n< END"));
}

#[test]
fn requests_beyond_the_outstanding_ones_wait_for_their_turn() {
    let config = limited(r#""max_outstanding": 2"#);
    play(
        &config,
        "> get a\\r\\nget b\\r\\nget c\\r\\nget d
         1> get e
         a> get a
         a> get b
         nothing
         a< END
         < END
         a> get c
         nothing
         a< END
         < END
         a> get e
         nothing
         a<| VALUE c 0 1\\r\\nx\\r\\nEND\\r\\nEND\\r\\n
         < VALUE c 0 1
         < x
         < END
         1< END
         a> get d
         nothing
         a< END
         < END
         > get a b c
         a> get a
         a> get b
         nothing
         a<| END\\r\\nVALUE b 0 1\\r\\ny\\r\\nEND\\r\\n
         a> get c
         a< END
         < VALUE b 0 1
         < y
         < END",
    );
}

#[test]
fn servers_that_fail_let_others_have_their_turn() {
    let config = limited(r#""max_outstanding": 1"#);
    play(
        &config,
        "> get a\\r\\nget b\\r\\nget c\\r\\nget d
         a> get a
         wait 1100
         < SERVER_ERROR Reply timeout
         a> get b
         a!
         < SERVER_ERROR remote error
         a> get c
         a< END
         < END
         a> get d
         a< END
         < END",
    );
    let mut conversation = Conversation::new(&config);
    conversation.stop("a");
    let refused =
        "< SERVER_ERROR connection error\n< SERVER_ERROR Server unavailable. Reason: connect_error\n";
    conversation.play(&format!("> get a\\r\\nget b\n{refused}nothing"));
    conversation.end();
}

#[test]
fn gets_of_a_client_that_has_gone_are_not_sent() {
    let config = limited(r#""max_outstanding": 1"#);
    play(
        &config,
        "> get a\\r\\nget b\\r\\ndelete c noreply\\r\\nget d
         1> get e
         a> get a
         gone
         nothing
         a< END
         a> delete c
         a< DELETED
         a> get e
         a< END
         1< END",
    );
    // A route that waits for such a request goes on without it.
    let all = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}}, "route": {"type": "AllSyncRoute",
        "children": [{"type": "PoolRoute", "pool": "A", "max_outstanding": 1}, "PoolRoute|B"]}}"#;
    play(
        &all.replace('\n', ""),
        "> get a\\r\\nget b
         a> get a
         b> get a
         b> get b
         gone
         b< END
         b< END
         a< END
         nothing",
    );
}

#[test]
fn requests_beyond_those_that_may_wait_are_refused() {
    let mut conversation = Conversation::new(&limited(r#""max_outstanding": 1"#));
    let value = "v".repeat(12_000);
    // The server gets the first. Two windows are more than what may wait.
    for client in ["0", "2"] {
        let sets = format!("set k 0 0 {} noreply\\r\\n{value}\\r\\n", value.len()).repeat(WINDOW_MAX);
        conversation.send(conversation.host(client), &sets);
        conversation.world.run_for(400_000);
    }
    conversation.play(&format!(
        "1> set k 0 0 {}\\r\\n{value}\n1< SERVER_ERROR too many outstanding requests\n1> get k",
        value.len()
    ));
    conversation.play("0 gone\n2 gone\n1 gone");
    for _ in 0..2 * WINDOW_MAX {
        conversation.reset(conversation.host("a"));
        conversation.world.run_for(2_000_000);
        if conversation.worker().flights.len() == 0 {
            break;
        }
    }
    assert_eq!(conversation.worker().flights.len(), 0);
}

#[test]
fn another_plan_has_its_own_limit() {
    let config = limited(r#""max_outstanding": 1"#);
    play(
        &config,
        &format!(
            "> get a\\r\\nget b
             a> get a
             plan {config}
             > get c
             a> get c
             nothing
             a<| END\\r\\nEND\\r\\n
             < END
             a> get b
             a< END
             < END
             < END"
        ),
    );
}
