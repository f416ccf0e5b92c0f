//! Hot values: which gets they answer, and that no client reads what it has replaced.

use super::*;

mod random;
mod routes;

/// A pool with hot values.
const HOT: &str =
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 200}}}, "route": "PoolRoute|A"}"#;

/// Gets go to a pool with hot values, everything else to the same server without them.
const TWO_WAYS: &str = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "B": {"servers": ["a:1"]}},
    "route": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|B", "operation_policies": {"get": "PoolRoute|A"}}}"#;

const UDP: &str =
    r#"{"pools": {"A": {"servers": ["a:1"], "transport": "udp", "hot_cache": {}}}, "route": "PoolRoute|A"}"#;

/// Gets that make a key hot. The reply to the last is kept, if it has a value.
const GETS: usize = 32;

/// The server `a` has `k`.
const GET: &str = "> get k\na> get k\na< VALUE k 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END\n";
/// The answer without the server.
const HIT: &str = "> get k\n< VALUE k 3 1\n< x\n< END\nnothing\n";

impl Conversation {
    /// With a key that is hot, of which no value is kept.
    #[track_caller]
    fn warm(config: &str) -> Conversation {
        let mut conversation = Conversation::new(config);
        conversation.heat("k");
        conversation
    }

    /// Makes a key hot at server a, which does not have it.
    #[track_caller]
    fn heat(&mut self, key: &str) {
        (0..GETS).for_each(|_| self.play(&format!("> get {key}\na> get {key}\na< END\n< END")));
    }

    /// What was counted: hits, fills, dropped values.
    #[track_caller]
    fn hot_counts(&mut self) -> [u64; 3] {
        ["hits_total{}", "fills_total{}", "drops_total{reason=update}"]
            .map(|name| self.sample(&format!("evenkeel_route_hot_cache_{name}")) as u64)
    }
}

/// Plays a script in which `GET` and `HIT` are lines, after `k` has become hot.
#[track_caller]
fn check(config: &str, script: &str) -> Conversation {
    let mut conversation = Conversation::warm(config);
    conversation.play(&written_out(script));
    conversation.end();
    conversation
}

fn written_out(script: &str) -> String {
    let line = |line: &str| match line.trim() {
        "GET" => GET.to_owned(),
        "HIT" => HIT.to_owned(),
        line => format!("{line}\n"),
    };
    script.lines().map(line).collect()
}

#[test]
fn a_hot_value_answers_gets_until_its_time_is_over() {
    let mut conversation = check(
        HOT,
        "GET
         HIT
         1> get k
         1< VALUE k 3 1
         1< x
         1< END
         wait 200
         GET
         HIT",
    );
    assert_eq!(conversation.hot_counts(), [3, 2, 0]);
    assert_eq!(conversation.sample("evenkeel_route_requests_total{command=get}"), GETS as f64 + 5.0);
    assert_eq!(conversation.sample("evenkeel_route_sent_total{command=get,kind=normal}"), GETS as f64 + 2.0);
    assert!(conversation.sample("evenkeel_route_hot_cache_bytes{}") > 100.0);
}

#[test]
fn what_hot_values_do_is_in_the_statistics_and_marks_their_keys() {
    let mut conversation = Conversation::warm(HOT);
    conversation.play("> get j\na> get j\na< END\n< END");
    conversation.play(&format!("{GET}{HIT}{HIT}> delete k\na> delete k\na< DELETED\n< DELETED"));
    let stats = conversation.stats("all");
    let counts = ["hits_count", "fills_count", "drops_count", "bytes"];
    assert_eq!(counts.map(|name| stats[&format!("hot_cache_{name}")].as_str()), ["2", "1", "1", "0"]);
    let lines = conversation.hot_lines();
    let marked = |mark: &str| lines.iter().any(|line| line.ends_with(mark));
    assert!(marked("1:key k") && marked("1:hot_cache 1") && marked("2:key j"), "{lines:?}");
    assert!(!marked("2:hot_cache 1"), "{lines:?}");
    let json = conversation.shared.hot_keys_json(&conversation.hot_facts()).expect("a list");
    assert_eq!(json.matches("\"hot_cache\": true").count(), 1, "{json}");
    assert_eq!(json.matches("\"hot_cache\": false").count(), 1, "{json}");
}

#[test]
fn keys_that_are_not_hot_and_pools_without_the_setting_always_ask() {
    let mut conversation = play(HOT, &format!("{GET}{GET}"));
    assert_eq!(conversation.hot_counts(), [0, 0, 0]);
    let mut conversation = Conversation::warm(ONE);
    conversation.play(&format!("{GET}{GET}"));
    assert!(conversation.worker().hot.cache().is_none());
    assert_eq!(conversation.hot_counts(), [0, 0, 0]);
}

#[test]
fn misses_and_errors_are_not_kept() {
    let script = "> get k
         a> get k
         a< SERVER_ERROR no
         < SERVER_ERROR no
         > get k
         a> get k
         a< END
         < END
         GET
         HIT";
    check(HOT, script);
}

#[test]
fn commands_that_need_the_server_go_there_and_leave_the_value() {
    for (command, reply) in [
        ("gets k", "VALUE k 3 1 9\\r\\ny\\r\\nEND"),
        ("mg k v O1", "VA 1 O1\\r\\ny"),
        ("mg aw== v b O1", "VA 1 b O1\\r\\ny"),
        ("mg k s f O1", "HD s1 f3 O1"),
        ("me k", "ME k exp=-1"),
    ] {
        let lines: String = reply.split("\\r\\n").map(|line| format!("< {line}\n")).collect();
        // What `gets` has read is kept, in place of the older value.
        let after = if command == "gets k" { "> get k\n< VALUE k 3 1\n< y\n< END" } else { "HIT" };
        check(HOT, &format!("GET\n> {command}\na> {command}\na< {reply}\n{lines}{after}"));
    }
}

#[test]
fn meta_gets_are_answered_from_meta_replies() {
    let get = "> mg k v f O1\na> mg k v f O1\na< VA 1 f3 O1\\r\\nx\n< VA 1 f3 O1\n< x\n";
    let mut conversation = check(
        HOT,
        &format!(
            "{get}
             HIT
             > mg k v
             < VA 1
             < x
             > mg /././k k s v O22 f q\\r\\nmn
             < VA 1 k/././k s1 O22 f3
             < x
             < MN
             nothing
             > mg k v t O1
             a> mg k v t O1
             a< VA 1 t-1 O1\\r\\nx
             < VA 1 t-1 O1
             < x
             > mg aw== b v O1
             a> mg aw== b v O1
             a< VA 1 b O1\\r\\nx
             < VA 1 b O1
             < x
             > mg k f O1
             a> mg k f O1
             a< HD f3 O1
             < HD f3 O1
             HIT
             > md k O1
             a> md k O1
             a< HD O1
             < HD O1
             {get}
             wait 200
             {get}"
        ),
    );
    assert_eq!(conversation.hot_counts(), [4, 3, 1]);
    // What a `get` has read may have to be stored anew by one who asks with `mg`.
    check(HOT, &format!("GET\n{get}> mg k v\n< VA 1\n< x\nnothing\nHIT"));
}

#[test]
fn what_a_client_is_to_store_anew_is_not_kept() {
    for mark in ["W", "X Z", "Z"] {
        let get =
            format!("> mg k v f O1\na> mg k v f O1\na< VA 1 f3 O1 {mark}\\r\\nx\n< VA 1 f3 O1 {mark}\n< x\n");
        check(HOT, &format!("GET\n{get}{get}GET\nHIT"));
    }
}

#[test]
fn a_miss_drops_an_older_value() {
    check(HOT, "GET\n> gets k\na> gets k\na< END\n< END\nGET\nHIT");
    check(HOT, "GET\n> mg k v f O1\na> mg k v f O1\na< EN\n< EN\nGET\nHIT");
}

#[test]
fn an_update_by_a_client_is_seen_at_once() {
    for (request, sent, reply) in [
        ("set k 0 0 1\\r\\ny", "set k 0 0 1\\r\\ny", "STORED"),
        ("add k 0 0 1\\r\\ny", "add k 0 0 1\\r\\ny", "NOT_STORED"),
        ("replace k 0 0 1\\r\\ny", "replace k 0 0 1\\r\\ny", "STORED"),
        ("append k 0 0 1\\r\\ny", "append k 0 0 1\\r\\ny", "STORED"),
        ("prepend k 0 0 1\\r\\ny", "prepend k 0 0 1\\r\\ny", "STORED"),
        ("cas k 0 0 1 7\\r\\ny", "cas k 0 0 1 7\\r\\ny", "EXISTS"),
        ("delete k", "delete k", "DELETED"),
        ("incr k 1", "incr k 1", "5"),
        ("decr k 1", "decr k 1", "5"),
        ("touch k 9", "touch k 9", "TOUCHED"),
        ("gat 9 k", "gat 9 k", "END"),
        ("gats 9 k", "gats 9 k", "END"),
        ("ms k 1 O1\\r\\ny", "ms k 1 O1\\r\\ny", "HD O1"),
        ("ms aw== 1 b O1\\r\\ny", "ms aw== 1 b O1\\r\\ny", "HD O1"),
        ("md k O1", "md k O1", "HD O1"),
        ("md aw== b O1", "md aw== b O1", "HD O1"),
        ("ma k O1", "ma k O1", "HD O1"),
        ("mg k v T9 O1", "mg k v T9 O1", "EN O1"),
        ("mg k v N9 O1", "mg k v N9 O1", "EN O1"),
        ("mg k v R9 O1", "mg k v R9 O1", "EN O1"),
        ("mg k E9 O1", "mg k E9 O1", "EN O1"),
    ] {
        let sent: String = sent.split("\\r\\n").map(|line| format!("a> {line}\n")).collect();
        let mut conversation =
            check(HOT, &format!("GET\nHIT\n> {request}\n{sent}a< {reply}\n< {reply}\nGET\nHIT"));
        assert_eq!(conversation.hot_counts(), [2, 2, 1], "{request}");
    }
    let noreply = "GET\nHIT\n> set k 0 0 1 noreply\\r\\ny\na> set k 0 0 1\na> y\na< STORED\nGET\nHIT";
    check(HOT, noreply);
    // Of several keys, nobody knows which were touched before the answer.
    check(HOT, "GET\nHIT\n> gat 9 j k\na> gat 9 j k\na< END\n< END\nGET\nHIT");
}

#[test]
fn nothing_is_kept_that_was_read_before_an_update_was_answered() {
    let mut conversation = check(
        HOT,
        "> get k
         a> get k
         1> set k 3 0 1\\r\\nx
         a> set k 3 0 1
         a> x
         2> get k
         a> get k
         a< VALUE k 0 3\\r\\nold\\r\\nEND
         < VALUE k 0 3
         < old
         < END
         a< STORED
         1< STORED
         a< VALUE k 3 1\\r\\nx\\r\\nEND
         2< VALUE k 3 1
         2< x
         2< END
         GET
         HIT",
    );
    assert_eq!(conversation.hot_counts(), [1, 1, 0]);
}

#[test]
fn a_pipeline_reads_what_it_has_written() {
    check(
        HOT,
        "GET
         > get k\\r\\nset k 0 0 1\\r\\ny\\r\\nget k
         a> set k 0 0 1
         a> y
         a> get k
         a< STORED\\r\\nVALUE k 0 1\\r\\ny\\r\\nEND
         < VALUE k 3 1
         < x
         < END
         < STORED
         < VALUE k 0 1
         < y
         < END",
    );
}

#[test]
fn an_update_over_another_connection_counts() {
    check(
        TWO_WAYS,
        "GET\nHIT\n> set k 3 0 1\\r\\nx\na> set k 3 0 1\na> x\na< STORED\n< STORED\na other\nGET\nHIT",
    );
    // A reply from before it comes late.
    let mut conversation = check(
        TWO_WAYS,
        "> get k
         a> get k
         1> set k 3 0 1\\r\\nx
         a> set k 3 0 1
         a> x
         a< STORED
         1< STORED
         a other
         a< VALUE k 0 3\\r\\nold\\r\\nEND
         < VALUE k 0 3
         < old
         < END
         GET
         HIT",
    );
    assert_eq!(conversation.hot_counts(), [1, 1, 0]);
}

#[test]
fn a_get_after_an_update_over_another_connection_may_be_the_earlier_one() {
    check(
        TWO_WAYS,
        "GET
         1> set k 3 0 1\\r\\nx
         a> set k 3 0 1
         a> x
         > get k
         a> get k
         a< VALUE k 0 3\\r\\nold\\r\\nEND
         < VALUE k 0 3
         < old
         < END
         a other
         a< STORED
         1< STORED
         GET
         HIT",
    );
}

#[test]
fn datagrams_are_kept_unless_an_update_was_answered_since() {
    let get = "> get k\nau> get k\nau< VALUE k 0 1\\r\\nx\\r\\nEND\n< VALUE k 0 1\n< x\n< END\n";
    let hit = "> get k\n< VALUE k 0 1\n< x\n< END\nnothing\n";
    let mut conversation = Conversation::new(UDP);
    conversation.play("> get k\na> get k\na< END\n< END");
    (0..GETS).for_each(|_| conversation.play("> get k\nau> get k\nau< END\n< END"));
    conversation.play(&format!("{get}{hit}"));
    conversation.play("> delete k\na> delete k\na< NOT_FOUND\n< NOT_FOUND");
    conversation.play(
        "> get k
         au> get k
         1> set k 0 0 1\\r\\nx
         a> set k 0 0 1
         a> x
         a< STORED
         1< STORED
         au< VALUE k 0 3\\r\\nold\\r\\nEND
         < VALUE k 0 3
         < old
         < END",
    );
    conversation.play(&format!("{get}{hit}"));
    // Over TCP, too, where there is no room for datagrams; and of several keys.
    conversation.play(
        "> delete k
         a> delete k
         a< DELETED
         < DELETED
         > get j k
         au> get j
         au> get k
         au< END
         au< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END",
    );
    conversation.play(hit);
    conversation.end();
}

#[test]
fn what_was_on_its_way_when_the_pool_got_hot_values_counts() {
    let mut conversation = Conversation::new(ONE);
    conversation.play("> set k 3 0 1\\r\\nx\na> set k 3 0 1\na> x");
    conversation.replace(HOT);
    // The client waits for its answer: others make the key hot, over a connection of their own.
    (0..GETS).for_each(|_| conversation.play("1> get k\na> get k\na< END\n1< END"));
    let old = "1> get k\na> get k\na< VALUE k 0 3\\r\\nold\\r\\nEND\n1< VALUE k 0 3\n1< old\n1< END\n";
    conversation.play(&format!("{old}{old}"));
    conversation.play("a other\na< STORED\n< STORED");
    conversation.play(&format!("{GET}{HIT}"));
    conversation.end();
    assert_eq!(conversation.hot_counts(), [1, 1, 0]);
}

#[test]
fn an_update_that_has_begun_on_an_earlier_plan_counts() {
    let longer = HOT.replace("200", "300");
    let mut conversation = Conversation::warm(HOT);
    conversation.play(GET);
    conversation.play("> set k 3 0 1\\r\\nx\na> set k 3 0 1\na> x");
    conversation.replace(&longer);
    (0..GETS).for_each(|_| conversation.play("1> get k\na> get k\na< END\n1< END"));
    let old = "1> get k\na> get k\na< VALUE k 0 3\\r\\nold\\r\\nEND\n1< VALUE k 0 3\n1< old\n1< END\n";
    conversation.play(&format!("{old}{old}"));
    conversation.play("a other\na< STORED\n< STORED");
    conversation.play(&format!("{GET}{HIT}"));
    // And without, and with it again.
    conversation.replace(ONE);
    assert!(conversation.worker().hot.cache().is_none());
    conversation.play(&format!("{GET}{GET}"));
    conversation.replace(HOT);
    conversation.play(GET);
    conversation.end();
}

#[test]
fn another_plan_begins_without_values() {
    let mut conversation = Conversation::warm(HOT);
    conversation.play(&format!("{GET}{HIT}"));
    conversation.replace(HOT);
    conversation.play(&format!("{GET}{HIT}"));
    conversation.end();
    assert_eq!(conversation.hot_counts(), [2, 2, 1]);
}

#[test]
fn flush_all_drops_all_values_and_keeps_none_until_it_is_answered() {
    let settings = || Settings { flush_enabled: true, ..Settings::default() };
    let mut conversation = Conversation::with_settings(HOT, settings());
    conversation.heat("k");
    conversation.play(&written_out(
        "GET
         HIT
         > flush_all
         a> flush_all
         1> get k
         a> get k
         a< OK
         < OK
         a< VALUE k 0 3\\r\\nold\\r\\nEND
         1< VALUE k 0 3
         1< old
         1< END
         GET
         HIT",
    ));
    conversation.end();
}

#[test]
fn a_lost_connection_drops_the_values_of_its_server() {
    check(HOT, "GET\nHIT\na!\nGET\nHIT");
    // With an update that will have no answer.
    check(
        HOT,
        "GET
         > delete k
         a> delete k
         a!
         < SERVER_ERROR remote error
         GET
         HIT",
    );
}

#[test]
fn a_server_that_is_unavailable_is_not_spoken_for() {
    let config = HOT.replace("200", "10000");
    let mut conversation = Conversation::warm(&config);
    conversation.play(&format!("{GET}{HIT}"));
    conversation.play("a down");
    for _ in 0..3 {
        // Another key, which waits in vain.
        conversation.play("> get j\nwait 1000\n< SERVER_ERROR Reply timeout");
    }
    conversation.play("> get k\n< SERVER_ERROR Server unavailable. Reason: timeout");
}

#[test]
fn a_get_that_waits_in_vain_leaves_the_young_value_of_another_one() {
    // It is down, but nobody knows yet: within its time, the value is an answer.
    let mut conversation = Conversation::warm(HOT);
    conversation.play(&format!("{GET}a down\n{HIT}"));
}

#[test]
fn a_key_is_the_one_that_the_server_gets_and_is_answered_as_it_was_written() {
    let mut conversation = Conversation::warm(HOT);
    conversation.play(GET);
    conversation.play(
        "> get /././k
         < VALUE /././k 3 1
         < x
         < END
         > delete /././k
         a> delete k
         a< DELETED
         < DELETED",
    );
    conversation.play(GET);
    conversation.end();
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}}, "route": {"type": "ModifyKeyRoute",
        "target": "PoolRoute|A", "set_key_suffix": "@1"}}"#;
    let mut conversation = Conversation::new(config);
    let get = "> get k\na> get k@1\na< VALUE k@1 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END";
    (0..GETS).for_each(|_| conversation.play(get));
    conversation.play(&format!("{HIT}> delete k\na> delete k@1\na< DELETED\n< DELETED\n{get}"));
    conversation.end();
}

#[test]
fn hot_keys_of_a_multiget_are_answered_here_and_keep_their_places() {
    let mut conversation = check(
        HOT,
        "GET
         > get j k l
         a> get j l
         a< VALUE l 0 1\\r\\nz\\r\\nEND
         < VALUE k 3 1
         < x
         < VALUE l 0 1
         < z
         < END
         > get k k
         < VALUE k 3 1
         < x
         < VALUE k 3 1
         < x
         < END
         wait 200
         > get j k l
         a> get j k l
         a< VALUE k 3 1\\r\\nx\\r\\nEND
         < VALUE k 3 1
         < x
         < END
         HIT",
    );
    assert_eq!(conversation.hot_counts(), [4, 2, 0]);
}

#[test]
fn large_values_are_held_and_longer_ones_are_not_kept() {
    for len in [1, 12_000, 13_000, 31_000, 40_000, 65_536] {
        let get = format!(
            "> get k\na> get k\na< VALUE k 7 {len}\\r\\n{{x*{len}}}\\r\\nEND\n< VALUE k 7 {len}\n< {{x*{len}}}\n< END\n"
        );
        let hit = format!("> get k\n< VALUE k 7 {len}\n< {{x*{len}}}\n< END\nnothing\n");
        let several =
            format!("> get j k\na> get j\na< END\n< VALUE k 7 {len}\n< {{x*{len}}}\n< END\nnothing\n");
        check(HOT, &format!("{get}{hit}{several}"));
    }
    let len = 65_537;
    let get = format!(
        "> get k\na> get k\na< VALUE k 7 {len}\\r\\n{{x*{len}}}\\r\\nEND\n< VALUE k 7 {len}\n< {{x*{len}}}\n< END\n"
    );
    check(HOT, &format!("{get}{get}"));
}

#[test]
fn a_client_that_asks_for_many_keys_has_none_of_them_kept() {
    let mut conversation = Conversation::new(HOT);
    for number in 0..3000 {
        let key = format!("k{}", number % 1500);
        conversation.play(&format!("> get {key}\na> get {key}\na< VALUE {key} 0 1\\r\\nx\\r\\nEND"));
        let client = conversation.clients[0];
        conversation.world.handler::<End>(client).received.clear();
    }
    assert_eq!(conversation.hot_counts(), [0, 0, 0]);
    assert_eq!(conversation.sample("evenkeel_route_hot_cache_bytes{}"), 0.0);
}

#[test]
fn a_late_reply_of_a_request_that_has_timed_out_is_too_old() {
    let mut conversation = Conversation::warm(HOT);
    conversation.play(
        "> get k
         a> get k
         wait 1100
         < SERVER_ERROR Reply timeout
         a< VALUE k 3 1\\r\\nx\\r\\nEND",
    );
    conversation.play(&format!("{GET}{HIT}"));
    // An update that has timed out may still be done: nothing is kept until its late answer.
    conversation.play(
        "> delete k
         a> delete k
         wait 1100
         < SERVER_ERROR Reply timeout",
    );
    conversation.play(
        "> get k
         a> get k
         a< DELETED\\r\\nVALUE k 0 3\\r\\nold\\r\\nEND
         < VALUE k 0 3
         < old
         < END",
    );
    conversation.play(&format!("{GET}{HIT}"));
    conversation.end();
}

#[test]
fn compressed_values_are_kept_as_they_are_stored() {
    let pool = |more: &str| {
        format!(
            r#"{{"pools": {{"A": {{"servers": ["a:1"], "compression": {{"codec": "lz4", "flag_bit": 30}}{more}}}}},
                "route": "PoolRoute|A"}}"#
        )
    };
    // What the router stores for 1000 times the same letter.
    let mut conversation = Conversation::new(&pool(""));
    conversation.play("> set k 5 0 1000\\r\\n{x*1000}");
    let server = conversation.host("a");
    let stored = std::mem::take(&mut conversation.world.handler::<End>(server).received);
    let (head, body) = stored.split_at(stored.iter().position(|byte| *byte == b'\n').expect("a line") + 1);
    let head: Vec<&str> = std::str::from_utf8(head).expect("ASCII").trim_end().split(' ').collect();
    let reply = [format!("VALUE k {} {}\r\n", head[2], head[4]).as_bytes(), body, b"END\r\n"].concat();
    let mut conversation = Conversation::warm(&pool(r#", "hot_cache": {}"#));
    let server = conversation.host("a");
    conversation.play("> get k\na> get k");
    conversation.world.handler::<End>(server).to_send.extend_from_slice(&reply);
    conversation.settle(server);
    conversation.play("< VALUE k 5 1000\n< {x*1000}\n< END");
    conversation.play("> get k\n< VALUE k 5 1000\n< {x*1000}\n< END");
    conversation.end();
    assert_eq!(conversation.hot_counts(), [1, 1, 0]);
}
