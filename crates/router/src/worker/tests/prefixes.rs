//! Routing prefixes and key prefixes.

use super::{Conversation, ONE, play};
use crate::config::CompileOptions;

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
