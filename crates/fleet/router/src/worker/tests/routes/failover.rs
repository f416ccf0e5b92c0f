//! FailoverRoute: limits, policies, tags.

use super::{Conversation, play};
use super::{config, config_notes};

/// A FailoverRoute over pools A to C with these parameters.
fn route(parameters: &str) -> String {
    config(&format!(
        r#"{{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"], {parameters}}}"#
    ))
}

const FAILS: &str = "SERVER_ERROR x";

/// A request to `first` that fails, and what follows.
fn asked(first: &str, rest: &str) -> String {
    format!("> delete k\n{first}> delete k\n{first}< {FAILS}\n{rest}\n")
}

#[test]
fn a_limit_counts_failovers_per_request() {
    let config = route(r#""failover_limit": {"rate": 0.5, "burst": 1}"#);
    let refused = asked("a", &format!("< {FAILS}"));
    let allowed = asked("a", "b> delete k\nb< DELETED\n< DELETED");
    play(&config, &[&*allowed, &refused, &allowed, &refused, &allowed].concat());
    // The second failover of a request needs a token, too.
    let second = asked("a", &format!("b> delete k\nb< {FAILS}\n< {FAILS}"));
    play(&config, &second);
}

#[test]
fn a_limit_of_nothing_allows_no_failover_and_a_burst_is_allowed_at_once() {
    let refused = asked("a", &format!("< {FAILS}"));
    play(&route(r#""failover_limit": {"rate": 0}"#), &refused);
    play(&route(r#""failover_limit": {"rate": -5, "burst": -1}"#), &refused);
    let allowed = asked("a", "b> delete k\nb< DELETED\n< DELETED");
    let config = route(r#""failover_limit": {"rate": 0.001, "burst": 3}"#);
    play(&config, &format!("{}{refused}{refused}", allowed.repeat(3)));
    // A rate above 1 is 1: each request brings a token.
    play(&route(r#""failover_limit": {"rate": 7, "burst": 0}"#), &allowed.repeat(5));
}

#[test]
fn unavailable_servers_cost_neither_tokens_nor_tries() {
    let mut conversation = Conversation::new(&route(
        r#""failover_limit": {"rate": 0, "burst": 1}, "failover_policy": {"type": "FailoverInOrderPolicy", "max_tries": 1}"#,
    ));
    conversation.stop("a");
    // The refused connection, then an unavailable server.
    conversation.play(
        "> delete k\nb> delete k\nb< DELETED\n< DELETED\n> delete k\nb> delete k\nb< DELETED\n< DELETED",
    );
    conversation.play(&format!("> delete k\nb> delete k\nb< {FAILS}\n< {FAILS}"));
    conversation.end();
}

#[test]
fn tries_are_limited_and_excluded_errors_are_none() {
    let in_order = |rest: &str| {
        route(&format!(r#""failover_policy": {{"type": "FailoverInOrderPolicy", "max_tries": 2{rest}}}"#))
    };
    let end = asked("a", &format!("b> delete k\nb< {FAILS}\n< {FAILS}"));
    play(&in_order(""), &end);
    play(&in_order(r#", "exclude_errors": ["timeout"]"#), &end);
    let on = asked("a", &format!("b> delete k\nb< {FAILS}\nc> delete k\nc< {FAILS}\n< {FAILS}"));
    play(&in_order(r#", "exclude_errors": ["remote_error"]"#), &on);
    // A time limit that has passed is an error like any other.
    play(
        &in_order(""),
        &format!(
            "> delete k\na> delete k\nwait 1100\nb> delete k\nb< {FAILS}\n< {FAILS}\na< DELETED\nnothing"
        ),
    );
}

#[test]
fn the_child_with_the_fewest_failures_is_asked_second() {
    let config = route(r#""failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 2}"#);
    let b_fails = asked("a", &format!("b> delete k\nb< {FAILS}\n< {FAILS}"));
    let c_answers = asked("a", "c> delete k\nc< DELETED\n< DELETED");
    let c_fails = asked("a", &format!("c> delete k\nc< {FAILS}\n< {FAILS}"));
    let b_answers = asked("a", "b> delete k\nb< DELETED\n< DELETED");
    play(&config, &[&*b_fails, &c_answers, &c_fails, &b_answers, &b_answers].concat());
    // The first is the first however often it fails.
    play(&config, &[&*b_fails, &c_fails, "> delete k\na> delete k\na< DELETED\n< DELETED"].concat());
    // A new plan forgets.
    play(&config, &format!("{b_fails}plan {config}\n{b_fails}"));
}

#[test]
fn tags_stand_behind_keys_with_a_hash_stop() {
    let config = route(r#""failover_tag": true"#);
    play(
        &config,
        "> get k|#|x
         a> get k|#|x
         a!
         b> get k|#|x:failover=1
         b<| VALUE k|#|x:failover=1 3 2\\r\\nhi\\r\\nEND\\r\\n
         < VALUE k|#|x 3 2
         < hi
         < END
         > get k
         a> get k
         a!
         b> get k
         b< END
         < END
         > get k|#|y /././k|#|z
         a> get k|#|y k|#|z
         a< END
         < END
         > mg k|#|x k v
         a> mg k|#|x k v O1
         a!
         b> mg k|#|x:failover=1 k v O1
         b< VA 1 kk|#|x:failover=1 O1\\r\\ny
         < VA 1 kk|#|x
         < y",
    );
    let without_room = format!("k|#|{}", "x".repeat(240));
    play(
        &config,
        &format!(
            "> delete {without_room}\na> delete {without_room}\na!\nb> delete {without_room}\nb< DELETED\n< DELETED"
        ),
    );
}

#[test]
fn numbers_of_tries_above_the_number_of_children_are_lowered_with_a_line() {
    let notes = config_notes(&route(r#""failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 9}"#));
    assert_eq!(notes, ["`max_tries` of a failover_policy is 9: taken as 3, of which there are no more"]);
    let policy =
        r#""failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 2, "max_error_tries": 3}"#;
    let notes = config_notes(&route(policy));
    assert_eq!(
        notes,
        ["`max_error_tries` of a failover_policy is 3: taken as 2, of which there are no more"]
    );
}

#[test]
fn a_deterministic_order_asks_no_child_twice_while_others_are_left() {
    let config = route(
        r#""failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 3,
            "ignore_normal_reply_index": true}"#,
    );
    for key in 0..20 {
        let mut conversation = Conversation::new(&config.replace('\n', ""));
        conversation.play(&format!("> delete k{key}\na> delete k{key}\na< {FAILS}"));
        let b_first = !conversation.world.handler::<super::End>(conversation.host("b")).received.is_empty();
        let order = if b_first { ["b", "c"] } else { ["c", "b"] };
        let [first, second] = order;
        conversation.play(&format!(
            "{first}> delete k{key}\n{first}< {FAILS}\n{second}> delete k{key}\n{second}< DELETED\n< DELETED"
        ));
        conversation.end();
    }
}

#[test]
fn a_child_that_lies_or_answers_late_is_passed_over() {
    let config = route(r#""failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 3}"#);
    play(
        &config,
        "> get k l
         a> get k
         a> get l
         a< VALUE other 0 1\\r\\nx\\r\\nEND
         a closed
         b> get k
         b> get l
         wait 1100
         c> get k
         c> get l
         b< VALUE k 0 1\\r\\nx\\r\\nEND\\r\\nEND
         nothing
         c<| VALUE k 0 1\\r\\ny\\r\\nEND\\r\\nEND\\r\\n
         < VALUE k 0 1
         < y
         < END
         > delete k noreply
         a> delete k
         a< STORED
         a closed
         c> delete k
         c< DELETED
         nothing",
    );
}
