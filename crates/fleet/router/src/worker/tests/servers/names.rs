//! Servers with names: lookups that take time, fail, or bring other addresses.

use super::{Conversation, play};

const NAMED: &str = r#"{"pools": {"A": {"servers": ["cache:11211"]}}, "route": "PoolRoute|A"}"#;

#[test]
fn requests_wait_for_the_address_of_their_server() {
    play(
        NAMED,
        "> get k\n> get j\nnothing\ndns cache a\na> get k\na> get j\na< END\\r\\nEND\n< END\n< END\ndns idle",
    );
}

#[test]
fn a_name_that_cannot_be_resolved_is_an_unavailable_server() {
    play(
        NAMED,
        "dns cache fails
         said cannot resolve cache: no such name
         > get k
         seconds 1
         dns cache fails
         < SERVER_ERROR connection error
         said server cache:11211 is unavailable (connect_error: its name cannot be resolved); unavailable now: 1
         said nothing
         > get k
         < SERVER_ERROR Server unavailable. Reason: connect_error
         seconds 1
         dns cache a
         said cache is *
         wait 15100
         a> version
         a< VERSION 1
         said server cache:11211 is available again after * s; unavailable now: 0
         > get k
         a> get k
         a< END
         < END",
    );
}

#[test]
fn a_resolver_that_hangs_delays_only_servers_with_names() {
    let config = r#"{"pools": {"A": {"servers": ["cache:11211"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A",
            "operation_policies": {"delete": "PoolRoute|B"}}}"#;
    play(
        config,
        "> get k
         1> delete k
         b> delete k
         b< DELETED
         1< DELETED
         wait 1100
         < SERVER_ERROR Reply timeout
         said server cache:11211 is unavailable (connect_timeout: its name is not resolved yet); unavailable now: 1
         wait 120000
         seconds 100
         1> delete k
         b> delete k
         b< DELETED
         1< DELETED
         dns cache a
         dns idle",
    );
}

/// Looked up again: 24 to 36 seconds later.
const LATER: &str = "seconds 36\n";

#[test]
fn a_name_that_moves_takes_its_requests_along() {
    play(
        NAMED,
        &format!(
            "dns cache a
             > get k
             a> get k
             {LATER}
             dns cache b
             said cache was *, and is * now
             > get j
             b> get j
             a< END
             < END
             b< VALUE j 0 1\\r\\nx\\r\\nEND
             < VALUE j 0 1
             < x
             < END
             wait 2000
             > get j
             b> get j
             a closed
             b< END
             < END"
        ),
    );
}

#[test]
fn a_lookup_that_fails_later_changes_nothing() {
    let ask = "> get k\na> get k\na< END\n< END\n";
    let line = "said cannot resolve cache: no such name; * stays in use\n";
    play(
        NAMED,
        &format!(
            "dns cache a\n{ask}{LATER}dns cache fails\n{line}{ask}{LATER}dns cache fails\nsaid nothing\n{ask}a!\n{ask}"
        ),
    );
}

#[test]
fn addresses_in_another_order_or_more_of_them_change_nothing() {
    let mut conversation = Conversation::new(NAMED);
    conversation.play("dns cache a b c");
    conversation.play("> get k\nwait 10");
    let first = ["a", "b", "c"].into_iter().find(|name| {
        let host = conversation.host(name);
        !conversation.world.handler::<super::End>(host).received.is_empty()
    });
    let first = first.expect("one of them is asked");
    conversation.play(&format!("{first}> get k\n{first}< END\n< END\n{LATER}dns cache c a b"));
    conversation.play(&format!("{LATER}dns cache {first}\nsaid nothing"));
    conversation.play(&format!("> get k\n{first}> get k\n{first}< END\n< END"));
    conversation.end();
}

#[test]
fn the_next_dial_goes_to_the_address_of_the_other_family() {
    play(
        NAMED,
        "dns cache ::1 a
         > get k
         wait 1100
         < SERVER_ERROR connection timeout
         said server cache:11211 is unavailable (connect_timeout: timed out); unavailable now: 1
         a awaits 15100
         a> version
         a< VERSION 1
         wait 5
         said server cache:11211 is available again after * s; unavailable now: 0
         a!
         > get k
         a> get k
         a< END
         < END",
    );
}

#[test]
fn an_address_that_refuses_is_followed_by_the_other_at_once() {
    let mut conversation = Conversation::new(NAMED);
    conversation.play("dns cache a ::1");
    conversation.stop("a");
    // Nothing answers at the other one, so it is the time that ends this.
    conversation.play(
        "> get k
         wait 900
         said nothing
         wait 300
         < SERVER_ERROR connection timeout
         said server cache:11211 is unavailable (connect_timeout: timed out); unavailable now: 1",
    );
}

#[test]
fn a_server_that_fails_is_looked_up_again() {
    let mut conversation = Conversation::new(NAMED);
    conversation.play("dns cache a\ndns idle");
    conversation.stop("a");
    conversation.play(
        "seconds 1
         > get k
         < SERVER_ERROR connection error
         said server cache:11211 is unavailable (connect_error: connection refused); unavailable now: 1
         dns cache b
         said cache was *, and is * now
         wait 15100
         b> version
         b< VERSION 1
         > get k
         b> get k
         b< END
         < END",
    );
    conversation.end();
}

#[test]
fn a_name_that_moves_each_second_costs_no_request_and_no_memory() {
    let mut conversation = Conversation::new(NAMED);
    conversation.play("dns cache a");
    for round in 0..50 {
        let (now, then) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        // On its way while the name moves.
        conversation.play(&format!("> get k\n{now}> get k\nseconds 36\ndns cache {then}"));
        conversation.play(&format!("{now}< END\n< END\nwait 1100"));
    }
    conversation.play("wait 3000\n> get k\na> get k\na< END\n< END\nwait 3000");
    let worker = conversation.worker();
    assert!(worker.servers.destinations().len() <= 3, "{}", worker.servers.destinations().len());
    assert_eq!(worker.servers.known().1.values().map(Vec::len).sum::<usize>(), 1);
    let connections = conversation.world.connections(conversation.host("b"), conversation.router);
    assert!(connections.len() <= 1, "{}", connections.len());
    conversation.end();
}
