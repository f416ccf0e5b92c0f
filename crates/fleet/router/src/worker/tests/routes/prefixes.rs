//! Routing prefixes and key prefixes.

use super::{Conversation, ONE, play};
use crate::config::CompileOptions;
use crate::message::routing_prefix::RoutingPrefix;
use crate::plan::hash::spooky32;
use crate::routes::requests::big_value::BigValue;

const REGIONS: &str = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}},
    "routes": [{"aliases": ["/././", "/x/one/"], "route": "PoolRoute|A"},
               {"aliases": ["/x/two/"], "route": "PoolRoute|B"},
               {"aliases": ["/y/one/", "/y/fallback/"], "route": "PoolRoute|C"}]}"#;

#[test]
fn servers_see_keys_without_their_routing_prefix_and_clients_with_it() {
    play(
        ONE,
        "> get /././k
         a> get k
         a< VALUE k 5 3 9\\r\\nabc\\r\\nEND
         < VALUE /././k 5 3 9
         < abc
         < END
         > get /././j k
         a> get j k
         a< VALUE j 0 20000\\r\\n{x*20000}\\r\\nVALUE k 0 1\\r\\ny\\r\\nEND
         < VALUE /././j 0 20000
         < {x*20000}
         < VALUE k 0 1
         < y
         < END
         > set /././k 0 0 1\\r\\nx
         a> set k 0 0 1
         a> x
         a< STORED
         < STORED
         > mg /././k k v O5
         a> mg k k v O5
         a< VA 1 kk O5\\r\\nx
         < VA 1 k/././k O5
         < x
         > mg /././k k q
         a> mg k k O1
         a< HD kk O1
         < HD k/././k
         > me /././k
         a> me k
         a< ME k exp=-1 la=3
         < ME /././k exp=-1 la=3
         > mg L3MvYi9r b k v
         a> mg L3MvYi9r b k v O2
         a< VA 1 b kL3MvYi9r O2\\r\\nx
         < VA 1 b kL3MvYi9r
         < x",
    );
}

#[test]
fn a_prefix_chooses_the_route() {
    play(
        REGIONS,
        "> get k /x/two/k /y/one/k /x/one/k
         a> get k k
         b> get k
         c> get k
         a< VALUE k 0 1\\r\\n1\\r\\nVALUE k 0 1\\r\\n4\\r\\nEND
         c< VALUE k 0 1\\r\\n3\\r\\nEND
         b< VALUE k 0 1\\r\\n2\\r\\nEND
         < VALUE k 0 1
         < 1
         < VALUE /x/two/k 0 1
         < 2
         < VALUE /y/one/k 0 1
         < 3
         < VALUE /x/one/k 0 1
         < 4
         < END
         > get /y/other/k
         c> get k
         c< END
         < END
         > get /z/one/k
         < SERVER_ERROR RootRoute: No rh found",
    );
}

#[test]
fn stars_are_for_all_clusters() {
    play(
        REGIONS,
        "> delete /*/*/k
         a> delete k
         b> delete k
         c> delete k
         c< DELETED
         b< SERVER_ERROR x
         nothing
         a< DELETED
         < DELETED
         > delete /x/*/k
         a> delete k
         b> delete k
         b< NOT_FOUND
         a< DELETED
         < DELETED
         > delete /y/*/k
         c> delete k
         c< NOT_FOUND
         < NOT_FOUND",
    );
}

#[test]
fn the_longest_beginning_of_a_key_decides() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}},
        "route": {"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A", "ab": "PoolRoute|B"},
                  "wildcard": "PoolRoute|C"}}"#;
    play(
        config,
        "> get a ab abc b /././ab
         a> get a
         b> get ab abc ab
         c> get b
         a< END
         b< END
         c< END
         < END",
    );
}

#[test]
fn keys_have_at_most_250_bytes_with_their_prefix() {
    play(
        ONE,
        "> get {k*250}
         a> get {k*250}
         a< END
         < END
         > get /././{k*245}
         a> get {k*245}
         a< VALUE {k*245} 0 1\\r\\nx\\r\\nEND
         < VALUE /././{k*245} 0 1
         < x
         < END
         > get /././{k*246}
         < CLIENT_ERROR bad command line format
         > get j /././{k*246}
         < CLIENT_ERROR bad command line format",
    );
}

#[test]
fn with_only_gets_allowed_nothing_else_reaches_a_server() {
    let mut conversation = Conversation::new(ONE);
    conversation.options = CompileOptions { only_gets: true, ..CompileOptions::default() };
    conversation.replace(ONE);
    for (line, expected) in
        [("get k", "END"), ("gets k", "END"), ("gat 5 k", "END"), ("gats 5 k", "END"), ("mg k v O1", "EN")]
    {
        conversation.play(&format!("> {line}\na> {line}\na< {expected}\n< {expected}"));
    }
    for (line, expected) in [
        ("set k 0 0 1\\r\\nx", "NOT_STORED"),
        ("add k 0 0 1\\r\\nx", "NOT_STORED"),
        ("append k 0 0 1\\r\\nx", "NOT_STORED"),
        ("cas k 0 0 1 7\\r\\nx", "NOT_STORED"),
        ("delete k", "NOT_FOUND"),
        ("incr k 1", "NOT_FOUND"),
        ("touch k 5", "NOT_FOUND"),
        ("ms k 1\\r\\nx", "NS"),
        ("md /././k", "NF"),
        ("ma k", "NF"),
    ] {
        conversation.play(&format!("> {line}\n< {expected}\nnothing"));
    }
    conversation.end();
}

/// A region a and a region b, each with a cluster a and a cluster b. The router is in `/a/a/`.
const FOUR: &str = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]},
        "D": {"servers": ["d:1"]}},
    "routes": {"/b/a/": "PoolRoute|C", "/a/b/": "PoolRoute|B", "/b/b/": "PoolRoute|D", "/a/a/": "PoolRoute|A"}}"#;

/// A router with these routes, in `/a/a/`.
fn in_a(config: &str, options: CompileOptions) -> Conversation {
    let mut conversation = Conversation::new(ONE);
    let default_prefix = RoutingPrefix::parse("/a/a/").expect("a prefix");
    conversation.options = CompileOptions { default_prefix, ..options };
    conversation.replace(config);
    conversation
}

#[track_caller]
fn play_in_a(config: &str, options: CompileOptions, script: &str) {
    let mut conversation = in_a(config, options);
    conversation.play(script);
    conversation.end();
}

#[test]
fn a_pattern_is_for_all_routes_that_it_matches_and_the_local_one_answers() {
    play_in_a(
        FOUR,
        CompileOptions::default(),
        "> delete /*/a/k
         a> delete k
         c> delete k
         c< NOT_FOUND
         nothing
         a< DELETED
         < DELETED
         > set /b*/*/k 0 0 1\\r\\nx
         c> set k 0 0 1
         c> x
         d> set k 0 0 1
         d> x
         d< SERVER_ERROR x
         nothing
         c< STORED
         < STORED
         > set /b/*b*/k 0 0 1\\r\\nx
         d> set k 0 0 1
         d> x
         d< STORED
         < STORED
         > get /*/**b/k j
         b> get k
         d> get k
         a> get j
         d< END
         a< END
         nothing
         b< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE /*/**b/k 0 1
         < x
         < END
         > mg /*/b/k v
         b> mg k v O1
         d> mg k v O1
         b< VA 1 O1\\r\\nx
         d< EN
         < VA 1
         < x
         > incr /**/a/k 1 noreply
         a> incr k 1
         c> incr k 1
         a< 2
         c< NOT_FOUND
         nothing",
    );
}

#[test]
fn a_pattern_that_matches_no_route_is_an_error_unless_the_default_route_stands_in() {
    let keys = ["/*/c/k", "/c*/*/k", "/*a/ab*/k", "/*//k", "//*/k", "/b/c*/k"];
    let refused = |key: &&str| format!("> delete {key}\n< SERVER_ERROR RootRoute: No rh found\n");
    play_in_a(FOUR, CompileOptions::default(), &keys.iter().map(refused).collect::<String>());
    let options = CompileOptions { invalid_to_default: true, ..CompileOptions::default() };
    let local = |key: &&str| format!("> delete {key}\na> delete k\na< DELETED\n< DELETED\n");
    play_in_a(FOUR, options.clone(), &keys.iter().map(local).collect::<String>());
    let others = "> delete /*/b/k\nb> delete k\nd> delete k\nd< DELETED\nb< NOT_FOUND\n< NOT_FOUND";
    play_in_a(FOUR, options, others);
}

#[test]
fn a_route_with_a_star_in_its_own_prefix_is_reached_by_patterns_alone() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "routes": {"/a/a/": "PoolRoute|A", "/b*/b/": "PoolRoute|B"}}"#;
    let script = "> delete /b*/b/k\nb> delete k\nb< DELETED\n< DELETED
        > delete /*/*/k\na> delete k\nb> delete k\nb< NOT_FOUND\na< DELETED\n< DELETED
        > delete /bc/b/k\n< SERVER_ERROR RootRoute: No rh found";
    play_in_a(config, CompileOptions::default(), script);
}

#[test]
fn prefixes_of_routes_get_the_slashes_that_are_missing_and_the_last_of_equal_ones_counts() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}},
        "routes": [{"aliases": ["/a/a/", "b/b"], "route": "PoolRoute|C"},
                   {"aliases": ["a/a/"], "route": "PoolRoute|A"}, {"aliases": ["/b/b"], "route": "PoolRoute|B"}]}"#;
    let script = "> delete k\na> delete k\na< DELETED\n< DELETED
        > delete /b/b/k\nb> delete k\nb< DELETED\n< DELETED
        > delete /*/*/k\na> delete k\nb> delete k\nb< NOT_FOUND\na< DELETED\n< DELETED";
    play_in_a(config, CompileOptions::default(), script);
}

#[test]
fn a_broadcast_leaves_out_routes_that_have_none_for_the_beginning_of_the_key() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}},
        "routes": {
            "/a/a/": {"type": "PrefixSelectorRoute", "policies": {"u:": "PoolRoute|A"}},
            "/a/b/": {"type": "PrefixSelectorRoute", "policies": {"u:1": "PoolRoute|C"}, "wildcard": "PoolRoute|B"},
            "/b/b/": "PoolRoute|B"}}"#;
    let script = "> delete /*/*/u:1\na> delete u:1\nc> delete u:1\nb> delete u:1
        b< DELETED\nc< DELETED\na< NOT_FOUND\n< NOT_FOUND
        > delete /*/*/x\nb> delete x\nb< DELETED\n< DELETED
        > delete /*/a/x\n";
    let big_value = Some(BigValue { threshold: 10, batch: 10, hides_flag: false });
    for options in
        [CompileOptions::default(), CompileOptions { log_requests: true, ..CompileOptions::default() }]
    {
        let refused = format!("{script}< SERVER_ERROR RootRoute: No rh found");
        play_in_a(config, options.clone(), &refused);
        // With long values in parts, which are routes in front of these.
        play_in_a(config, CompileOptions { big_value, ..options.clone() }, &refused);
        let default = "> delete /*/a/x\n< SERVER_ERROR RootRoute: No rh found";
        play_in_a(config, CompileOptions { invalid_to_default: true, ..options }, default);
    }
}

#[test]
fn what_follows_the_hash_stop_does_not_choose_a_route_by_its_beginning() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "PrefixSelectorRoute", "policies": {"a|#|b": "PoolRoute|A"}, "wildcard": "PoolRoute|B"}}"#;
    play(config, "> get a|#|bc\nb> get a|#|bc\nb< END\n< END");
}

#[test]
fn routes_that_change_keys_keep_the_pattern_in_front_of_them() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "keep_routing_prefix": true}, "B": {"servers": ["b:1"]},
            "C": {"servers": ["c:1"], "keep_routing_prefix": true}},
        "routes": {
            "/a/a/": {"type": "KeySplitRoute", "replicas": 2, "all_sync": true, "destination": "PoolRoute|A"},
            "/a/b/": {"type": "ModifyKeyRoute", "ensure_key_prefix": "v:", "target": "PoolRoute|B"},
            "/b/b/": {"type": "ModifyKeyRoute", "set_routing_prefix": "x/y", "target": "PoolRoute|C"}}}"#;
    let script = "> delete /*/*/k
        a> delete /*/*/k::1
        a> delete /*/*/k
        b> delete v:k
        c> delete /x/y/k
        c< DELETED
        b< DELETED
        a< DELETED
        a< NOT_FOUND
        < NOT_FOUND";
    play_in_a(config, CompileOptions::default(), script);
}

#[test]
fn long_values_are_written_in_parts_by_all_routes_of_a_pattern() {
    let options = CompileOptions {
        big_value: Some(BigValue { threshold: 10, batch: 10, hides_flag: false }),
        ..CompileOptions::default()
    };
    let suffix = spooky32(b"aaaaaaaaaabb", 10);
    let script = "> set /*/b/k 0 0 12\\r\\naaaaaaaaaabb
        b> set k:0:SUFFIX 0 0 10
        b> aaaaaaaaaa
        b> set k:1:SUFFIX 0 0 2
        b> bb
        d> set k:0:SUFFIX 0 0 10
        d> aaaaaaaaaa
        d> set k:1:SUFFIX 0 0 2
        d> bb
        b< STORED\\r\\nSTORED
        b> set k 32768 0 LEN
        b> 1-2-SUFFIX
        b< STORED
        < STORED
        d< STORED\\r\\nSTORED
        d> set k 32768 0 LEN
        d> 1-2-SUFFIX
        d< STORED";
    let len = format!("1-2-{suffix}").len().to_string();
    let script = script.replace("SUFFIX", &suffix.to_string()).replace("LEN", &len);
    play_in_a(FOUR, options, &script);
}

#[test]
fn reports_name_all_routes_of_a_pattern_below_the_root() {
    let mut conversation = in_a(FOUR, CompileOptions::default());
    assert_eq!(conversation.about("route(delete,/*/a/k)"), "a:1\r\nc:1");
    assert_eq!(conversation.about("route(set,/b*/*/k)"), "c:1\r\nd:1");
    assert_eq!(conversation.about("route(set,/*/c/k)"), "");
    let pools = |conversation: &mut Conversation, key: &str| -> Vec<String> {
        let tree = conversation.about(&format!("route_handles(delete,{key})"));
        let lines = tree.lines().filter(|line| !line.trim_start().starts_with("host|"));
        lines.map(str::to_owned).collect()
    };
    let expected = ["proxy", " root", "  asynclog:A", "  asynclog:C"];
    assert_eq!(pools(&mut conversation, "/*/a/k"), expected);
    assert_eq!(pools(&mut conversation, "/*/c/k"), ["proxy", " root"]);
    conversation.expect_nothing();
}
