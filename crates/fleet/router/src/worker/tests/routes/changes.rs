//! Routes that change requests on their way: other keys, other times of expiry. Clients see their own keys.

use super::config;
use super::{Conversation, play};

fn modify_key(fields: &str) -> String {
    config(&format!(r#"{{"type": "ModifyKeyRoute", "target": "PoolRoute|A", {fields}}}"#))
}

fn modify_exptime(fields: &str) -> String {
    config(&format!(r#"{{"type": "ModifyExptimeRoute", "target": "PoolRoute|A", {fields}}}"#))
}

#[test]
fn servers_get_the_changed_key_and_clients_see_their_own() {
    play(
        &modify_key(r#""ensure_key_prefix": "foo:", "set_key_suffix": "@1""#),
        "> get k
         a> get foo:k@1
         a< VALUE foo:k@1 7 3\\r\\nabc\\r\\nEND
         < VALUE k 7 3
         < abc
         < END
         > gets foo:x
         a> gets foo:x@1
         a< VALUE foo:x@1 0 1 99\\r\\ny\\r\\nEND
         < VALUE foo:x 0 1 99
         < y
         < END
         > gat 30 /././k
         a> gat 30 foo:k@1
         a< VALUE foo:k@1 0 20000\\r\\n{v*20000}\\r\\nEND
         < VALUE /././k 0 20000
         < {v*20000}
         < END
         > set k 1 2 3\\r\\nabc\\r\\nset k 1 2 3 noreply\\r\\nabc
         a> set foo:k@1 1 2 3
         a> abc
         a> set foo:k@1 1 2 3
         a> abc
         a< STORED\\r\\nSTORED
         < STORED
         > delete k
         a> delete foo:k@1
         a< DELETED
         < DELETED
         > incr k 2
         a> incr foo:k@1 2
         a< 5
         < 5",
    );
}

#[test]
fn keys_of_meta_requests_change_also_in_base64() {
    play(
        &modify_key(r#""ensure_key_prefix": "foo:""#),
        "> mg k k v O7
         a> mg foo:k k v O7
         a< VA 1 kfoo:k O7\\r\\nx
         < VA 1 kk O7
         < x
         > mg a2V5 b k v
         a> mg Zm9vOmtleQ== b k v O1
         a< VA 1 b kZm9vOmtleQ== O1\\r\\nx
         < VA 1 b ka2V5
         < x
         > ms k 20000 T5 q\\r\\n{x*20000}\\r\\nmn
         a> ms foo:k 20000 T5 O2
         a> {x*20000}
         a< HD O2
         < MN
         > md k q k
         a> md foo:k k O3
         a< NF kfoo:k O3
         < NF kk
         > me k
         a> me foo:k
         a< ME foo:k exp=-1
         < ME k exp=-1",
    );
}

#[test]
fn each_key_of_a_multiget_is_changed() {
    play(
        &modify_key(r#""set_key_suffix": "@""#),
        "> get j k j
         a> get j@
         a> get k@
         a> get j@
         a< VALUE j@ 0 1\\r\\nx\\r\\nEND\\r\\nEND\\r\\nVALUE j@ 0 1\\r\\ny\\r\\nEND
         < VALUE j 0 1
         < x
         < VALUE j 0 1
         < y
         < END",
    );
}

#[test]
fn a_key_that_becomes_too_long_is_refused_and_not_sent() {
    let line = "< SERVER_ERROR ModifyKeyRoute: invalid key: invalid key: too long";
    play(
        &modify_key(r#""set_key_suffix": "0123456789""#),
        &format!(
            "> get {{k*240}}
             a> get {{k*240}}0123456789
             a< VALUE {{k*240}}0123456789 0 1\\r\\nx\\r\\nEND
             < VALUE {{k*240}} 0 1
             < x
             < END
             > get {{k*241}}
             {line}
             > get j {{k*241}}
             a> get j0123456789
             a< END
             {line}
             > set {{k*250}} 0 0 9\\r\\nflush_all\\r\\nset {{k*250}} 0 0 9 noreply\\r\\nflush_all
             {line}
             > set {{k*250}} 0 0 20000\\r\\n{{x*20000}}
             {line}
             > mg {{k*241}} v q
             {line}
             > mg {{QUJD*60}} b
             {line}"
        ),
    );
}

#[test]
fn a_line_that_becomes_too_long_is_refused_and_not_sent() {
    let route = modify_key(r#""ensure_key_prefix": "foo:""#);
    play(
        &route,
        "> touch k{ *2034}1
         a> touch foo:k{ *2034}1
         a< TOUCHED
         < TOUCHED
         > touch k{ *2035}1
         < CLIENT_ERROR line is too long
         > get k{ *4000}l
         a> get foo:k
         a> get foo:l
         a< END\\r\\nEND
         < END",
    );
}

#[test]
fn a_key_that_vanishes_is_refused() {
    play(
        &modify_key(r#""replace_key_prefix": "foo", "ensure_key_prefix": """#),
        "> get foo
         < SERVER_ERROR ModifyKeyRoute: invalid key: invalid key: missing
         > set foo 0 0 9\\r\\nflush_all
         < SERVER_ERROR ModifyKeyRoute: invalid key: invalid key: missing
         > get foofoo
         a> get foo
         a< END
         < END",
    );
}

#[test]
fn a_set_routing_prefix_shows_where_prefixes_are_kept() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "keep_routing_prefix": true}},
        "route": {"type": "ModifyKeyRoute", "target": "PoolRoute|A", "set_routing_prefix": "/a/b/", "ensure_key_prefix": "foo:"}}"#;
    play(
        config,
        "> get key
         a> get /a/b/foo:key
         a< VALUE /a/b/foo:key 0 1\\r\\nx\\r\\nEND
         < VALUE key 0 1
         < x
         < END
         > get /././foo:key
         a> get /a/b/foo:key
         a< END
         < END",
    );
}

#[test]
fn changes_inside_of_changes_show_the_clients_key() {
    let inner = r#"{"type": "ModifyKeyRoute", "target": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]},
                    "set_key_suffix": "2"}"#;
    let outer = format!(r#"{{"type": "ModifyKeyRoute", "target": {inner}, "set_key_suffix": "1"}}"#)
        .replace('\n', " ");
    play(
        &config(&outer),
        "> get k
         a> get k12
         a< SERVER_ERROR x
         b> get k12
         b!
         < SERVER_ERROR remote error
         > mg k k
         a> mg k12 k O1
         wait 1100
         b> mg k12 k O1
         a< EN
         b< HD kk12 O1
         < HD kk",
    );
}

#[test]
fn replies_without_a_server_show_the_clients_key() {
    let change = r#"{"type": "ModifyKeyRoute", "target": "NullRoute", "ensure_key_prefix": "foo:"}"#;
    play(
        &config(change),
        "> mg k k v O7
         < EN kk O7
         > md k q k
         < NF kk
         > mg azE= b k
         < EN kazE= b",
    );
}

#[test]
fn a_server_that_answers_with_the_clients_key_is_not_believed() {
    play(
        &modify_key(r#""set_key_suffix": "@""#),
        "> get k
         a> get k@
         a< VALUE k 0 1\\r\\nx\\r\\nEND
         a closed
         < SERVER_ERROR remote error",
    );
}

#[test]
fn times_of_expiry_are_set_in_every_request_that_has_one() {
    let route = modify_exptime(r#""exptime": 7"#);
    for (request, sent) in [
        ("set k 1 0 3\\r\\nabc", "set k 1 7 3\\r\\nabc"),
        ("cas k 1 100 3 99\\r\\nabc", "cas k 1 7 3 99\\r\\nabc"),
        ("touch k 100", "touch k 7"),
        ("gat 100 k", "gat 7 k"),
        ("get k", "get k"),
        ("delete k", "delete k"),
        ("incr k 5", "incr k 5"),
        ("ms k 3 c T100\\r\\nabc", "ms k 3 c T7 O1\\r\\nabc"),
        ("ms k 3 O5\\r\\nabc", "ms k 3 O5 T7\\r\\nabc"),
        ("mg k v T100", "mg k v T7 O1"),
        ("mg k v N100 t", "mg k v N7 t O1"),
        ("mg k v t", "mg k v t O1"),
        ("ma k N0 J5", "ma k N7 J5 O1"),
        ("md k I T30", "md k I T30 O1"),
    ] {
        let lines = |sign: &str, text: &str| -> String {
            text.split("\\r\\n").map(|line| format!("{sign} {line}\n")).collect()
        };
        let end = "a< SERVER_ERROR x\n< SERVER_ERROR x";
        play(&route, &format!("> {request}\n{}{end}", lines("a>", sent)));
    }
}

#[test]
fn a_limit_leaves_sooner_times_as_they_are() {
    let route = modify_exptime(r#""exptime": 60, "action": "min""#);
    for (asked, sent) in [(0, 60), (61, 60), (1_900_000_000, 60), (60, 60), (1, 1), (-1, -1)] {
        play(
            &route,
            &format!(
                "> set k 0 {asked} 20000 noreply\\r\\n{{x*20000}}
                 a> set k 0 {sent} 20000
                 a> {{x*20000}}
                 a< STORED
                 > gats {asked} j k
                 a> gats {sent} j
                 a> gats {sent} k
                 a< END\\r\\nEND
                 < END"
            ),
        );
    }
    let never = modify_exptime(r#""exptime": 0, "action": "min""#);
    play(&never, "> touch k 100\na> touch k 100\na< TOUCHED\n< TOUCHED");
}

const GUTTER: &str = r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|B", "PoolRoute|C"],
    "failover_exptime": 10}"#;

#[test]
fn substitutes_keep_items_for_a_limited_time() {
    let gutter = config(&GUTTER.replace('\n', " "));
    play(&gutter, "> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\na< STORED\n< STORED");
    play(
        &gutter,
        "> set k 0 0 1\\r\\nx
         a> set k 0 0 1
         a> x
         a!
         b> set k 0 10 1
         b> x
         b!
         c> set k 0 10 1
         c> x
         c< STORED
         < STORED
         > set k 0 5 20000\\r\\n{y*20000}
         a> set k 0 5 20000
         a> {y*20000}
         wait 1100
         b> set k 0 5 20000
         b> {y*20000}
         b< STORED
         < STORED
         a< STORED
         nothing
         > ms k 1 T0\\r\\nx
         a> ms k 1 T0 O1
         a> x
         a!
         b> ms k 1 T10 O1
         b> x
         b< HD O1
         < HD
         > get j k
         a> get j k
         a!
         b> get j
         b> get k
         b< END\\r\\nVALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END
         > delete k
         a> delete k
         a!
         b> delete k
         b< NOT_FOUND
         < NOT_FOUND",
    );
}

#[test]
fn without_a_limit_substitutes_get_what_was_sent() {
    let route = r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B", "failover_exptime": 0}"#;
    play(&config(route), "> touch k 100\na> touch k 100\na!\nb> touch k 100\nb< TOUCHED\n< TOUCHED");
    let default = route.replace(r#", "failover_exptime": 0"#, "");
    play(&config(&default), "> touch k 100\na> touch k 100\na!\nb> touch k 60\nb< TOUCHED\n< TOUCHED");
    let alone = r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A"}"#;
    play(&config(alone), "> get k\na> get k\na!\n< SERVER_ERROR remote error");
}

#[test]
fn a_client_that_leaves_and_another_plan_leave_changed_requests_to_nobody() {
    let gutter = config(&GUTTER.replace('\n', " "));
    let mut conversation = Conversation::new(&gutter);
    conversation.play("> get secret\na> get secret\n> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\ngone");
    conversation.replace(&modify_key(r#""set_key_suffix": "@""#));
    conversation.play("back\n> get k\na> get k@\na!\nb> set k 0 10 1\nb> x");
    conversation.play("< SERVER_ERROR remote error\nb< STORED\nnothing");
    conversation.end();
}
