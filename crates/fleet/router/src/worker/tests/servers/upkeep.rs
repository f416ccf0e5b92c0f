//! Lines for the operator, guards of pools, additional connections, and connections that nobody uses.

use super::{Conversation, ONE, play};

#[test]
fn the_operator_hears_of_servers_that_fail_and_recover() {
    let script = "a down
         > get k
         wait 1100
         < SERVER_ERROR connection timeout
         said server a:1 is unavailable (connect_timeout: timed out); unavailable now: 1
         wait 15100
         a up
         a awaits 35000
         a> version
         a< VERSION 1
         wait 500
         said server a:1 is available again after * s; unavailable now: 0
         > get k
         > get k
         > get k
         a> get k
         a> get k
         a> get k
         wait 1100
         < SERVER_ERROR Reply timeout
         < SERVER_ERROR Reply timeout
         < SERVER_ERROR Reply timeout
         said server a:1 is unavailable (timeout); unavailable now: 1
         said nothing";
    play(ONE, script);
}

#[test]
fn a_fleet_that_goes_down_is_a_few_lines() {
    let servers: Vec<String> = (1..=40).map(|port| format!("\"a:{port}\"")).collect();
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": {{"type": "AllAsyncRoute", "children": "Pool|A"}}}}"#,
        servers.join(",")
    );
    let mut conversation = Conversation::new(&config);
    conversation.play("a down\n> get k\n< END\nwait 1100");
    for _ in 0..10 {
        conversation.play("said server a:* is unavailable (connect_timeout: timed out); unavailable now: *");
    }
    conversation.play(
        "said nothing
         wait 10000
         said lines left out in 10 s: 30 of servers that became unavailable
         said nothing",
    );
    conversation.end();
}

/// All three are asked each time, and the client waits for none.
const GUARDED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"], "server_timeout": 500, "tko_tracker": {"num_tko_threshold_upper": 1, "percent_tko_threshold_lower": 34}}}, "route": {"type": "AllAsyncRoute", "children": "Pool|A"}}"#;

const ASK: &str = "> get k\n< END\nc> get k\nc< END\nwait 600\n";

#[test]
fn a_guard_keeps_trying_servers_beyond_its_limit() {
    let mut conversation = Conversation::new(GUARDED);
    conversation.play("a down\n> get k\n< END\nb> get k\nb< END\nc> get k\nc< END\nwait 600");
    conversation.play("said server a:1 is unavailable (connect_timeout: timed out); unavailable now: 1");
    // The second server that fails is one too many: it is asked again and again.
    conversation.play("b!\nb down");
    conversation.play(ASK);
    conversation
        .play("said pool A: more than 1 servers fail: no further one becomes unavailable (tko_tracker)");
    conversation.play(&format!("{ASK}{ASK}said nothing"));
    let b = &conversation.worker().servers.destinations()[1];
    assert_eq!((b.health.unavailable(), b.health.failures()), (None, 3));
    conversation.play(
        "wait 15000
         a up
         a awaits 35000
         a> version
         a< VERSION 1
         wait 500
         said server a:1 is available again after * s; unavailable now: 0
         said pool A: servers that fail become unavailable again (tko_tracker)
         > get k
         < END
         a> get k
         a< END
         c> get k
         c< END
         wait 600
         said server b:1 is unavailable (connect_timeout: timed out); unavailable now: 1",
    );
    conversation.end();
}

#[test]
fn a_guard_survives_another_configuration_and_ends_with_its_pool() {
    let mut conversation = Conversation::new(GUARDED);
    conversation.play("a down\nb down");
    conversation.play(ASK);
    conversation.play(
        "said server * is unavailable (connect_timeout: timed out); unavailable now: 1
         said pool A: more than 1 servers fail: no further one becomes unavailable (tko_tracker)",
    );
    // It is open, whatever the limit is now.
    conversation
        .replace(&GUARDED.replace("\"num_tko_threshold_upper\": 1", "\"num_tko_threshold_upper\": 2"));
    conversation.play(&format!("{ASK}said nothing"));
    conversation.replace(&GUARDED.replace("tko_tracker", "qos"));
    conversation.play(ASK);
    conversation.play("said server * is unavailable (connect_timeout: timed out); unavailable now: 2");
    conversation.end();
}

#[test]
fn additional_connections_share_the_keys_and_the_health_of_their_server() {
    let config =
        r#"{"pools": {"A": {"servers": ["a:1", "b:1"], "additional_fanout": 3}}, "route": "PoolRoute|A"}"#;
    let mut conversation = Conversation::new(config);
    assert_eq!(conversation.worker().servers.destinations().len(), 8);
    let keys: Vec<String> = (0..60).map(|number| format!("key:{number}")).collect();
    let mut of_a = Vec::new();
    for key in &keys {
        // mcrouter chooses among the connections of all servers, which stand behind each other server by server.
        let server = ["a", "b"][crate::plan::hash::ch3(key.as_bytes(), 8) as usize / 4];
        conversation.play(&format!("> get {key}\n{server}> get {key}\n{server}< END\n< END"));
        if server == "a" {
            of_a.push(key);
        }
    }
    let open = |conversation: &mut Conversation, name: &str| {
        conversation.world.connections(conversation.host(name), conversation.router).len()
    };
    assert_eq!((open(&mut conversation, "a"), open(&mut conversation, "b")), (4, 4));
    // One connection has three timeouts: the server is unavailable for all of them.
    let slow = of_a[0];
    for _ in 0..3 {
        conversation.play(&format!("> get {slow}\na> get {slow}"));
    }
    conversation.play(&"< SERVER_ERROR Reply timeout\n".repeat(3).replacen('<', "wait 1100\n<", 1));
    for key in of_a {
        conversation.play(&format!("> get {key}\n< SERVER_ERROR Server unavailable. Reason: timeout"));
    }
    conversation.play("said server a:1 is unavailable (timeout); unavailable now: 1\nsaid nothing");
    // The probe follows the three on the same connection.
    conversation.play("a awaits 15100\na> version\na< END\\r\\nEND\\r\\nEND\na< VERSION 1\nwait 5");
    conversation.play("said server a:1 is available again after * s; unavailable now: 0");
}

#[test]
fn weights_count_for_each_connection_of_their_server() {
    let config = r#"{"pools": {"A": {"servers": ["a:1", "b:1"], "additional_fanout": 1, "weights": [0, 1]}},
        "route": "PoolRoute|A"}"#;
    let mut conversation = Conversation::new(&config.replace('\n', " "));
    for number in 0..20 {
        conversation.play(&format!("> get key:{number}\nb> get key:{number}\nb< END\n< END"));
    }
    conversation.end();
}

#[test]
fn connections_that_nobody_uses_are_closed_and_made_again() {
    let script = "> get k
         a> get k
         wait 900
         a< END
         < END
         wait 58000
         > get k
         a> get k
         a< END
         < END
         wait 60000
         > get k
         a> get k
         a< END
         < END";
    let mut conversation = play(ONE, script);
    let open = |conversation: &mut Conversation| {
        conversation.world.connections(conversation.host("a"), conversation.router).len()
    };
    assert_eq!(open(&mut conversation), 1, "it was used in each minute");
    conversation.play("wait 121000\na closed");
    assert_eq!(open(&mut conversation), 0);
    let line = &conversation.stats("servers")["a:1:ascii:plain:notcompressed-1000"];
    assert!(line.contains(" closed:1;"), "{line}");
    // A request that waits for its reply is a use.
    conversation.play("> get k\na> get k\nwait 150000\n< SERVER_ERROR Reply timeout");
    assert_eq!(open(&mut conversation), 1, "the late reply is still waited for");
    conversation.play("a< END\n> get k\na> get k\na< END\n< END\nsaid nothing");
    let line = &conversation.stats("servers")["a:1:ascii:plain:notcompressed-1000"];
    assert!(line.contains(" up:1;"), "{line}");
    conversation.end();
}

#[test]
fn a_client_and_an_idle_server_wait_for_nothing() {
    let mut conversation = play(ONE, "> get k\na> get k\na< END\n< END\nwait 200000\na closed");
    assert_eq!(
        conversation.worker().servers.next_upkeep(),
        None,
        "nobody wakes a router without connections to servers"
    );
    conversation.play("> get k\na> get k\na< END\n< END");
    conversation.end();
}

#[test]
fn a_connection_that_was_unused_and_cannot_be_made_again_is_down() {
    let mut conversation = play(ONE, "> get k\na> get k\na< END\n< END\nwait 121000\na closed\na down");
    conversation.play("> get k\nwait 1100\n< SERVER_ERROR connection timeout");
    let line = &conversation.stats("servers")["a:1:ascii:plain:notcompressed-1000"];
    assert!(line.contains(" down:1;"), "{line}");
}
