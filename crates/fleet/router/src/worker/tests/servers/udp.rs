//! Gets over UDP: what is lost is a miss, and what is not for us is ignored.

use std::sync::atomic::Ordering::Relaxed;

use super::{Conversation, End, play, shortened};
use crate::servers::destination::EXCHANGES_MAX;

const UDP: &str = r#"{"pools": {"A": {"servers": ["a:1"], "transport": "udp"}}, "route": "PoolRoute|A"}"#;

/// The first get goes over TCP, while a socket for datagrams is made.
const FIRST: &str = "> get first\na> get first\na< END\n< END\n";

/// With a socket, and counts of what was asked and lost.
#[track_caller]
fn check(script: &str, asked: u64, lost: u64) -> Conversation {
    let conversation = play(UDP, &format!("{FIRST}{script}"));
    let counts = conversation.shared.udp_counts();
    assert_eq!((counts.asked.load(Relaxed), counts.lost.load(Relaxed)), (asked, lost));
    conversation
}

#[test]
fn gets_are_datagrams_and_all_else_is_not() {
    check(
        "> get k
         au> get k
         au< VALUE k 3 1\\r\\nx\\r\\nEND
         < VALUE k 3 1
         < x
         < END
         > get k
         au> get k
         au< END
         < END
         > gets k
         a> gets k
         a< END
         < END
         > set k 0 0 1\\r\\ny
         a> set k 0 0 1
         a> y
         a< STORED
         < STORED
         > delete k
         a> delete k
         a< DELETED
         < DELETED
         > mg k v O1
         a> mg k v O1
         a< EN
         < EN",
        2,
        0,
    );
}

#[test]
fn each_key_of_a_multiget_is_a_datagram_and_the_answers_keep_their_order() {
    check(
        "> get j k l
         au> get j
         au> get k
         au> get l
         au< VALUE j 0 1\\r\\nx\\r\\nEND
         au< END
         nothing
         au< VALUE l 0 1\\r\\nz\\r\\nEND
         < VALUE j 0 1
         < x
         < VALUE l 0 1
         < z
         < END",
        3,
        0,
    );
}

#[test]
fn parts_come_in_any_order_and_twice() {
    check(
        "> get k
         au> get k
         au% VALUE k 0 100\\r\\n{x*100}\\r\\nEND
         < VALUE k 0 100
         < {x*100}
         < END
         > get j k
         au> get j
         au> get k
         au% VALUE j 0 100\\r\\n{y*100}\\r\\nEND
         au% VALUE k 0 60000\\r\\n{z*600}
         wait 1100
         < VALUE j 0 100
         < {y*100}
         < END",
        3,
        1,
    );
}

#[test]
fn large_values_come_in_many_datagrams() {
    check(
        "> get k j
         au> get k
         au> get j
         au< VALUE k 0 50000\\r\\n{x*50000}\\r\\nEND
         au< VALUE j 0 13000\\r\\n{y*13000}\\r\\nEND
         < VALUE k 0 50000
         < {x*50000}
         < VALUE j 0 13000
         < {y*13000}
         < END",
        2,
        0,
    );
}

#[test]
fn a_lost_or_late_datagram_is_a_miss() {
    check(
        "> get k
         au> get k
         wait 1100
         < END
         au< VALUE k 0 1\\r\\nx\\r\\nEND
         nothing
         > get j k
         au> get j
         au> get k
         au- lost
         au< VALUE k 0 1\\r\\nx\\r\\nEND
         wait 1100
         < VALUE k 0 1
         < x
         < END",
        3,
        2,
    );
}

#[test]
fn what_answers_nothing_is_ignored_and_lies_are_misses() {
    check(
        "> get k
         au> get k
         au? VALUE k 0 1\\r\\nf\\r\\nEND
         nothing
         au< VALUE other 0 1\\r\\nf\\r\\nEND
         said a:1 sent *
         < END
         > get k
         au> get k
         au< VALUE k 0 5\\r\\nf
         < END
         > get k
         au> get k
         au< SERVER_ERROR out of memory
         < SERVER_ERROR out of memory
         > get k j
         au> get k
         au> get j
         au< VALUE k 0 1\\r\\nx\\r\\nVALUE j 0 1\\r\\nf\\r\\nEND
         said a:1 sent *
         au< END
         < VALUE k 0 1
         < x
         < END",
        5,
        2,
    );
}

#[test]
fn what_exceeds_the_window_goes_over_tcp() {
    let keys: Vec<String> = (0..25).map(|number| format!("k{number}")).collect();
    let mut script = format!("> get {}\n", keys.join(" "));
    let (datagrams, others) = keys.split_at(10);
    datagrams.iter().for_each(|key| script.push_str(&format!("au> get {key}\n")));
    script.push_str(&format!("a> get {}\nnothing\n", others.join(" ")));
    script.push_str(&"au< END\n".repeat(10));
    script.push_str("nothing\na< END\n< END\n");
    // All of them have come: there is room for one more.
    script.push_str(&format!("> get {}\n", keys.join(" ")));
    keys[..10].iter().for_each(|key| script.push_str(&format!("au> get {key}\n")));
    script.push_str(&format!("a> get {}\na< END\n", others.join(" ")));
    // None of them: half of it is left.
    script.push_str(&"au- lost\n".repeat(10));
    script
        .push_str("wait 1100\n< END\nsaid server a:1 does not answer over UDP: gets go over TCP for 10 s\n");
    script.push_str("> get k\na> get k\na< END\n< END\nwait 10000\n");
    script.push_str(&format!("> get {}\n", keys.join(" ")));
    keys[..5].iter().for_each(|key| script.push_str(&format!("au> get {key}\n")));
    script.push_str(&format!("a> get {}\na< END\n{}< END", keys[5..].join(" "), "au< END\n".repeat(5)));
    check(&script, 25, 10);
}

#[test]
fn a_server_that_is_unavailable_gets_no_datagrams() {
    let mut conversation = play(UDP, FIRST);
    conversation.play("a down\n> get k\n> get k\n> get k\nwait 1100\n< END\n< END\n< END");
    conversation.play("said server a:1 does not answer over UDP: gets go over TCP for 10 s");
    conversation.play("> set k 0 0 1\\r\\nx\n> set k 0 0 1\\r\\nx\n> get k\nwait 1100");
    conversation.play(&"< SERVER_ERROR Reply timeout\n".repeat(3));
    conversation.play("said server a:1 is unavailable (timeout); unavailable now: 1");
    conversation.play("> get k\n< SERVER_ERROR Server unavailable. Reason: timeout\nwait 9000");
    conversation.play("> get k\n< SERVER_ERROR Server unavailable. Reason: timeout");
}

#[test]
fn a_miss_is_no_error_for_a_failover() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "transport": "udp"}, "B": {"servers": ["b:1"]}},
        "route": {"type": "MissFailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    play(
        config,
        "> get first
         a> get first
         a< END
         b> get first
         b< END
         < END
         > get k
         au> get k
         wait 1100
         b> get k
         b< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END",
    );
}

#[test]
fn keys_with_a_routing_prefix_come_back_with_it() {
    check(
        "> get /././k
         au> get k
         au< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE /././k 0 1
         < x
         < END",
        1,
        0,
    );
}

#[test]
fn a_client_that_is_gone_and_a_server_that_leaves_do_no_harm() {
    let mut conversation =
        check("> get k\nau> get k\ngone\nback\nau< VALUE k 0 1\\r\\nx\\r\\nEND\nnothing", 1, 0);
    conversation.play("> get k\nau> get k");
    conversation.replace(r#"{"pools": {"B": {"servers": ["b:1"]}}, "route": "PoolRoute|B"}"#);
    conversation.play("wait 1100\n< END\nwait 3000\n> get k\nb> get k\nb< END\n< END\nwait 3000\n> get k\nb> get k\nb< END\n< END");
    let worker = conversation.worker();
    assert_eq!((worker.servers.datagram_sockets(), worker.servers.known().1.len()), (0, 1));
    conversation.end();
}

#[test]
fn statistics_have_gets_over_udp_with_their_server() {
    let mut conversation = check(
        "> get k
         au> get k
         au< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END
         > get j
         au> get j
         wait 1100
         < END
         > get m
         au> get m",
        3,
        1,
    );
    let line = &conversation.stats("servers")["a:1:ascii:plain:notcompressed-1000"];
    assert!(line.ends_with("inflight_reqs:1 up:1; found:1 notfound:1 timeout:1"), "{line}");
    assert_eq!(conversation.stats("servers").len(), 1, "what reads datagrams is no server");
    let stats = conversation.stats("all");
    assert_eq!((&*stats["cmd_get_count"], &*stats["num_servers"]), ("4", "1"));
}

#[test]
fn keys_on_their_way_are_answered_once_though_the_rest_is_refused() {
    let mut conversation = play(UDP, FIRST);
    // The server answers none of these, so there is no room for another request over TCP.
    for _ in 0..EXCHANGES_MAX / 1000 {
        conversation.send(conversation.host("2"), &"set k 0 0 1 noreply\\r\\ny\\r\\n".repeat(1000));
        conversation.world.run_for(50_000);
        conversation.play("2 gone\n2 back");
    }
    assert_eq!(conversation.worker().servers.unanswered(0), EXCHANGES_MAX);
    // Ten of these are datagrams.
    let keys: Vec<char> = ('a'..='l').collect();
    let line: String = keys.iter().map(|key| format!(" {key}")).collect();
    conversation.play(&format!("> get{line}"));
    let client = conversation.host("0");
    assert_eq!(shortened(&conversation.world.handler::<End>(client).received), "", "ten are on their way");
    for key in &keys[..10] {
        conversation.play(&format!("au> get {key}\nau< VALUE {key} 0 1\\r\\nx\\r\\nEND"));
    }
    conversation.play("< SERVER_ERROR too many outstanding requests");
    // Its place among the client's requests is free, and the next ones have theirs.
    conversation.play("> get m\nau> get m\nau< END\n< END");
}
