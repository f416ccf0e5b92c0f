//! Statistics: what a conversation counts, and how clients are told.

use std::collections::BTreeMap;

use stdx::clock::Now;

use super::*;

impl Conversation {
    /// What `stats` with this argument answers, by name.
    pub(crate) fn stats(&mut self, group: &str) -> BTreeMap<String, String> {
        let client = self.clients[2];
        self.send(client, &format!("stats {group}\\r\\n"));
        let received = std::mem::take(&mut self.world.handler::<End>(client).received);
        let text = String::from_utf8(received).expect("text");
        let lines = text.strip_suffix("END\r\n").unwrap_or_else(|| panic!("no END: {text}"));
        let mut stats = BTreeMap::new();
        for line in lines.split_terminator("\r\n") {
            let (name, value) =
                line.strip_prefix("STAT ").and_then(|line| line.split_once(' ')).expect("STAT");
            assert!(stats.insert(name.to_owned(), value.to_owned()).is_none(), "{name} twice");
        }
        stats
    }

    /// Statistics of `stats all` by name, one `name=value` each.
    #[track_caller]
    fn counts(&mut self, expected: &str) {
        let stats = self.stats("all");
        let found = |name: &str| stats.get(name).map_or("nothing", String::as_str);
        for pair in expected.split_whitespace() {
            let (name, value) = pair.split_once('=').expect("name=value");
            assert_eq!(found(name), value, "{name}");
        }
    }
}

#[test]
fn requests_and_replies_are_counted_by_command() {
    let mut conversation = play(
        THREE,
        "> get abc
         a> get abc
         a< VALUE abc 0 1
         a< x
         a< END
         < VALUE abc 0 1
         < x
         < END
         > set abc 0 0 1
         > y
         a> set abc 0 0 1
         a> y
         a< STORED
         < STORED
         > delete key:1 noreply
         b> delete key:1
         b< NOT_FOUND
         > mg abc v
         a> mg abc v O1
         a< EN
         < EN
         > ma key:1
         b> ma key:1 O1
         b< HD O1
         < HD
         > get abc key:1 key:3
         a> get abc
         b> get key:1 key:3
         a< END
         b< VALUE key:3 0 1
         b< z
         b< END
         < VALUE key:3 0 1
         < z
         < END",
    );
    conversation.counts(
        "cmd_get_count=5 cmd_set_count=1 cmd_delete_count=1 cmd_incr_count=1 cmd_touch_count=0
         get_hits_count=2 get_misses_count=3 request_sent_count=8 request_replied_count=8 request_success_count=8 request_error_count=0
         proxy_reqs_processing=0 destination_inflight_reqs=0 num_servers=3 num_servers_up=2 num_servers_new=1
         num_connections_opened=2 result_error_all_count=0 num_client_connections=3",
    );
    let servers = conversation.stats("servers");
    let figures = |name: &str| servers[&format!("{name}:ascii:plain:notcompressed-1000")].clone();
    let without_time = |text: String| text.split_once(' ').expect("two figures").1.to_owned();
    assert_eq!(
        without_time(figures("a:1")),
        "pending_reqs:0 inflight_reqs:0 up:1; found:1 notfound:2 stored:1"
    );
    assert_eq!(without_time(figures("b:1")), "pending_reqs:0 inflight_reqs:0 up:1; found:1 notfound:2 ok:1");
    assert_eq!(figures("c:1"), "avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 new:1");
    assert_ne!(figures("a:1").split_once(' ').expect("a time").0, "avg_latency_us:0.000");
}

#[test]
fn what_has_no_reply_yet_is_outstanding() {
    let mut conversation = play(
        ONE,
        "> get abc
         > get abc def
         a> get abc
         a> get abc def",
    );
    conversation.counts("proxy_reqs_processing=3 destination_inflight_reqs=3 destination_pending_reqs=0");
    conversation.play("gone");
    conversation.counts("proxy_reqs_processing=3 destination_inflight_reqs=3 num_client_connections=2");
    conversation.play(
        "a< END
         a< VALUE abc 0 1
         a< x
         a< END",
    );
    conversation
        .counts("proxy_reqs_processing=0 destination_inflight_reqs=0 destination_max_inflight_reqs=0");
}

#[test]
fn failures_are_counted_by_their_reason_and_once() {
    let mut conversation = play(
        ONE,
        "> get abc
         a> get abc
         a< SERVER_ERROR out of memory
         < SERVER_ERROR out of memory
         > get abc def
         a> get abc def
         wait 1200
         < SERVER_ERROR Reply timeout
         > touch abc 1
         a> touch abc 1
         a< END
         a< TOUCHED
         < TOUCHED
         > get abc
         a> get abc
         a!
         < SERVER_ERROR remote error",
    );
    conversation.counts(
        "result_error_count=4 result_remote_error_count=2 result_data_timeout_count=2 result_tko_count=0
         request_error_count=4 request_success_count=1 num_suspect_servers=0 num_servers_down=1
         num_connections_closed=1",
    );
    assert_eq!(conversation.stats("suspect_servers"), BTreeMap::new());
}

#[test]
fn a_server_that_is_unavailable_is_suspect() {
    let mut conversation = Conversation::new(ONE);
    conversation.stop("a");
    conversation.play(
        "> get abc
         < SERVER_ERROR connection error
         > get abc
         < SERVER_ERROR Server unavailable. Reason: connect_error",
    );
    conversation.counts(
        "result_connect_error_count=1 result_tko_count=1 num_suspect_servers=1 num_hard_tko_count=1
         num_soft_tko_count=0 num_servers_down=1",
    );
    let suspects = conversation.stats("suspect_servers");
    assert_eq!(suspects["a:1"], "status:tko num_failures:1");
    let servers = conversation.stats("servers");
    let line = &servers["a:1:ascii:plain:notcompressed-1000"];
    assert_eq!(
        line,
        "avg_latency_us:0.000 pending_reqs:0 inflight_reqs:0 hard_tko;  down:1; connect_error:1 tko:1"
    );
}

#[test]
fn what_routes_drop_or_give_to_another_server_is_counted() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "OperationSelectorRoute", "default_policy": "DevNullRoute", "operation_policies":
            {"get": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "DevNullRoute"]},
             "set": "NullRoute"}}}"#;
    let mut conversation = play(
        config,
        "> delete k
         < NOT_FOUND
         > incr k 1
         < NOT_FOUND
         > set k 0 0 1\\r\\nx
         < NOT_STORED
         > get k
         a> get k
         a< SERVER_ERROR no
         b> get k
         b< SERVER_ERROR no
         < END
         a down
         a!
         > get k
         wait 1100
         b> get k
         b< END
         < END",
    );
    conversation
        .counts("failover_policy_result_error=3 failover_policy_tko_error=0 failover_all_failed_count=0");
    conversation.counts("dev_null_requests=3");
}

#[test]
fn failovers_are_counted_apart() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = play(
        config,
        "> get abc
         a> get abc
         a< SERVER_ERROR no
         b> get abc
         b< END
         < END
         > set abc 0 0 1
         > x
         a> set abc 0 0 1
         a> x
         a< SERVER_ERROR no
         b> set abc 0 0 1
         b> x
         b< SERVER_ERROR no
         < SERVER_ERROR no",
    );
    conversation.counts(
        "failover_all_failed_count=1 result_error_count=2 result_error_all_count=3 request_error_count=1
         request_sent_count=2",
    );
    conversation.shared.tick(Now::at_ms(0));
    conversation.play(
        "> get abc
         a> get abc
         a< SERVER_ERROR no
         b> get abc
         b< END
         < END",
    );
    conversation.shared.tick(Now::at_ms(2000));
    // One in two seconds.
    conversation.counts("failover_all=0.5 failover_all_failed=0 result_error=0.5 request_sent=0.5");
    conversation.counts("cmd_get=0.5 cmd_get_out=0.5 cmd_get_out_all=1 cmd_set=0 cmd_set_count=1");
}

#[test]
fn only_known_groups_are_answered() {
    let mut conversation = play(
        ONE,
        "> stats nothing
         < CLIENT_ERROR bad stats command
         > stats servers all
         < CLIENT_ERROR bad stats command
         > stats version
         < STAT mcrouter-version 1.6.45
         < END
         > stats external
         < END
         > stats cmd-error
         < END",
    );
    let basic = conversation.stats("");
    assert_eq!(basic, conversation.stats("basic"));
    assert!(basic.contains_key("uptime") && !basic.contains_key("config_age"), "{basic:?}");
    let count = conversation.stats("count");
    let is_count = |name: &String| name.ends_with("_count") || name.starts_with("failover_policy_");
    assert!(count.keys().all(is_count), "{count:?}");
    let (detailed, all) = (conversation.stats("detailed"), conversation.stats("all"));
    assert!(detailed.contains_key("config_age") && detailed.keys().all(|name| all.contains_key(name)));
    assert!(conversation.stats("cmd").keys().all(|name| name.starts_with("cmd_")));
}

#[test]
fn reports_keep_their_place_among_the_answers_and_are_made_once_for_all() {
    let mut conversation = play(ONE, "");
    let client = conversation.clients[0];
    let mut asked = String::new();
    (0..300).for_each(|_| asked.push_str("stats version\\r\\nmn\\r\\n"));
    conversation.send(client, &asked);
    conversation.world.run_for(50_000);
    conversation.report();
    let received = std::mem::take(&mut conversation.world.handler::<End>(client).received);
    let one = "STAT mcrouter-version 1.6.45\r\nEND\r\nMN\r\n";
    assert_eq!(String::from_utf8(received).expect("text"), one.repeat(300));
}

#[test]
fn a_destination_that_is_forgotten_is_not_reported_and_its_counts_stay() {
    let mut conversation = play(
        ONE,
        "> get abc
         a> get abc
         a< END
         < END
         plan {\"pools\": {\"B\": {\"servers\": [\"b:1\"]}}, \"route\": \"PoolRoute|B\"}
         wait 5000
         > get abc
         b> get abc
         b< END
         < END
         wait 5000
         > get abc
         b> get abc
         b< END
         < END",
    );
    let servers = conversation.stats("servers");
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["b:1:ascii:plain:notcompressed-1000"]);
    conversation.counts("num_servers=1 cmd_get_count=3 num_connections_opened=2 num_connections_closed=1");
}
