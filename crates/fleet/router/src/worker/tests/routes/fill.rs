//! Caches that are filled from others: WarmUpRoute (a is cold, b is warm) and L1L2CacheRoute (a is L1, b is L2).

use super::config;
use super::{Conversation, play};
use crate::flight::COPIED_MAX;

fn warm_up(fields: &str) -> String {
    config(&format!(r#"{{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B"{fields}}}"#))
}

fn l1_l2(fields: &str) -> String {
    config(&format!(
        r#"{{"type": "L1L2CacheRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "upgradingL1Exptime": 90{fields}}}"#
    ))
}

#[test]
fn a_get_that_cold_misses_is_answered_by_warm_and_copied() {
    play(
        &warm_up(r#", "exptime": 20"#),
        "> get k
         a> get k
         a< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END
         > get k
         a> get k
         a< END
         b> get k
         b< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END
         a> add k 5 20 3
         a> abc
         a< NOT_STORED
         nothing
         > get k
         a> get k
         a< END
         b> get k
         b< END
         < END
         > get k
         a> get k
         a< END
         b> get k
         b< SERVER_ERROR x
         < SERVER_ERROR x",
    );
}

#[test]
fn cold_and_warm_may_fail_be_late_or_lie() {
    let route = warm_up(r#", "exptime": 20"#);
    play(
        &route,
        "> get k
         a> get k
         a!
         b> get k
         b< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END
         a> add k 5 20 3
         a> abc
         a!
         nothing
         > get k
         a> get k
         wait 1100
         b> get k
         wait 1100
         < SERVER_ERROR Reply timeout
         a< END
         b< VALUE k 5 3\\r\\nabc\\r\\nEND
         nothing
         > get k
         a> get k
         a< END
         b> get k
         b< VALUE other 5 3\\r\\nabc\\r\\nEND
         b closed
         < SERVER_ERROR remote error
         > get k
         a> get k
         a< END
         b> get k
         b!
         < SERVER_ERROR remote error",
    );
}

#[test]
fn a_server_that_answers_a_copy_wrongly_loses_its_connection_and_nobody_gets_the_answer() {
    play(
        &warm_up(r#", "exptime": 20"#),
        "> get k
         a> get k
         a< END
         b> get k
         b< VALUE k 5 3\\r\\nabc\\r\\nEND
         a> add k 5 20 3
         a> abc
         < VALUE k 5 3
         < abc
         < END
         > get next
         a> get next
         a< VALUE k 0 1\\r\\nx\\r\\nEND
         a closed
         b> get next
         b< END
         < END
         > get next
         a> get next
         a< END
         b> get next
         b< END
         < END",
    );
}

#[test]
fn with_metaget_the_copy_ends_with_its_original() {
    let route = warm_up(r#", "enable_metaget": true"#);
    for (ttl, exptime) in [("-1", "0"), ("77", "77"), ("2592000", "2592000"), ("2592001", "1702592001")] {
        let script = "clock 1700000000
             > get /././k
             a> get k
             a< END
             b> mg k v f t O1
             b< VA 3 f9 tTTL O1\\r\\nabc
             < VALUE /././k 9 3
             < abc
             < END
             a> add k 9 EXPTIME 3
             a> abc
             a< STORED
             nothing";
        play(&route, &script.replace("TTL", ttl).replace("EXPTIME", exptime));
    }
    for reply in ["VA 3 f9 t0 O1", "VA 3 f9 t50 W X O1", "VA 3 f9 O1"] {
        play(
            &route,
            &format!(
                "> get k\na> get k\na< END\nb> mg k v f t O1\nb< {reply}\\r\\nabc\n< VALUE k 9 3\n< abc\n< END\nnothing"
            ),
        );
    }
    play(&route, "> get k\na> get k\na< END\nb> mg k v f t O1\nb< EN\n< END\nnothing");
    play(&route, "> get k\na> get k\na< END\nb> mg k v f t O1\nb< ERROR\n< ERROR\nnothing");
}

#[test]
fn requests_about_the_item_itself_are_answered_by_cold_once_it_has_the_copy() {
    let route = warm_up(r#", "exptime": 20"#);
    for (request, exptime) in [("gets k", 20), ("gat 7 k", 7), ("gats 7 k", 7)] {
        for reply in ["STORED", "NOT_STORED", "SERVER_ERROR x"] {
            play(
                &route,
                &format!(
                    "> {request}
                     a> {request}
                     a< END
                     b> get k
                     b< VALUE k 5 3\\r\\nabc\\r\\nEND
                     a> add k 5 {exptime} 3
                     a> abc
                     a< {reply}
                     a> {request}
                     a< VALUE k 5 3 77\\r\\nnew\\r\\nEND
                     < VALUE k 5 3 77
                     < new
                     < END"
                ),
            );
        }
    }
    play(&route, "> gets k\na> gets k\na< END\nb> get k\nb< END\n< END");
    play(&route, "> gets k\na> gets k\na< END\nb> get k\nb!\n< END");
    play(&route, "> gets k\na> gets k\na< SERVER_ERROR x\nb> get k\nb!\n< SERVER_ERROR x");
    let ttl = warm_up(r#", "enable_metaget": true"#);
    play(
        &ttl,
        "> gets k
         a> gets k
         a< END
         b> mg k v f t O1
         b< VA 20000 f5 t66 O1\\r\\n{x*20000}
         a> add k 5 66 20000
         a> {x*20000}
         a!
         a> gets k
         a< END
         < END",
    );
}

#[test]
fn meta_gets_are_filled_with_what_they_did_not_ask_for() {
    let ttl = warm_up(r#", "enable_metaget": true"#);
    play(
        &ttl,
        "> mg k v k O5
         a> mg k v k O5
         a< EN kk O5
         b> mg k v k O5 f t
         b< VA 3 kk O5 f9 t30\\r\\nabc
         < VA 3 kk O5
         < abc
         a> ms k 3 F9 T30 ME O1
         a> abc
         a< NS O1
         > mg /././k t v q
         a> mg k t v O2
         a< EN
         b> mg k t v f O1
         b< VA 20000 t-1 f9 O1\\r\\n{x*20000}
         < VA 20000 t-1
         < {x*20000}
         a> ms k 20000 F9 T0 ME O3
         a> {x*20000}
         a< HD O3
         > mg a2V5 b v q\\r\\nmn
         a> mg a2V5 b v O4
         a< EN
         b> mg a2V5 b v f t O2
         b< EN
         < MN
         > mg a2V5 b v
         a> mg a2V5 b v O5
         a< EN
         b> mg a2V5 b v f t O3
         b< VA 1 b f0 t5 O3\\r\\nx
         < VA 1 b
         < x
         a> ms a2V5 1 b F0 T5 ME O6
         a> x
         a!",
    );
}

#[test]
fn meta_gets_that_change_items_are_answered_by_cold_and_never_reach_warm_as_they_are() {
    let route = warm_up(r#", "exptime": 20"#);
    play(
        &route,
        "> mg k v c T50
         a> mg k v c T50 O1
         a< EN
         b> mg k v f O1
         b< VA 3 f9 O1\\r\\nabc
         a> ms k 3 F9 T50 ME O2
         a> abc
         a< HD O2
         a> mg k v c T50 O3
         a< VA 3 c88 O3\\r\\nabc
         < VA 3 c88
         < abc
         > mg k T50
         a> mg k T50 O4
         a< EN
         < EN
         > mg k v N30
         a> mg k v N30 O5
         a< VA 0 W O5\\r\\n
         < VA 0 W
         <
         > mg k s t
         a> mg k s t O6
         a< EN
         b> mg k s t O2
         b< HD s3 t9 O2
         < HD s3 t9
         > me k
         a> me k
         a< EN
         b> me k
         b< ME k exp=1
         < ME k exp=1",
    );
}

#[test]
fn only_cold_gets_what_is_no_read() {
    let route = warm_up("");
    for request in ["delete k", "touch k 1", "incr k 1", "md k", "ma k"] {
        let opaque = if request.starts_with('m') { " O1" } else { "" };
        play(&route, &format!("> {request}\na> {request}{opaque}\na< SERVER_ERROR x\n< SERVER_ERROR x"));
    }
    play(&route, "> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\na< STORED\n< STORED");
    play(
        &route,
        "> get k\na> get k\na< END\nb> get k\nb< VALUE k 1 1\\r\\nx\\r\\nEND\na> add k 1 0 1\na> x\na< STORED\n< VALUE k 1 1\n< x\n< END",
    );
}

#[test]
fn each_key_of_a_multiget_is_filled() {
    play(
        &warm_up(r#", "enable_metaget": true"#),
        "> get i j k
         a> get i
         a> get j
         a> get k
         a<| VALUE i 0 1\\r\\n1\\r\\nEND\\r\\nEND\\r\\nEND\\r\\n
         b> mg j v f t O1
         b> mg k v f t O2
         b<| VA 1000000 f0 t5 O1\\r\\n{x*1000000}\\r\\nEN\\r\\n
         a> add j 0 5 1000000
         a> {x*1000000}
         a< STORED
         < VALUE i 0 1
         < 1
         < VALUE j 0 1000000
         < {x*1000000}
         < END",
    );
}

#[test]
fn values_of_any_size_and_kind_are_copied() {
    for size in [0, 12_287, 12_288, 1 << 20] {
        let script = "> get k
             a> get k
             a< END
             b> mg k v f t O1
             b< VA SIZE f1 t-1 O1\\r\\n{x*SIZE}
             < VALUE k 1 SIZE
             < {x*SIZE}
             < END
             a> add k 1 0 SIZE
             a> {x*SIZE}
             a< STORED";
        play(&warm_up(r#", "enable_metaget": true"#), &script.replace("SIZE", &size.to_string()));
    }
    // A value is never read as protocol.
    let value = "END\\r\\nSTORED\\r\\nVALUE k 0 1\\r\\nflush_all";
    let script = "> get k
         a> get k
         a< END
         b> get k
         b< VALUE k 0 35\\r\\nVALUE\\r\\nEND
         < VALUE k 0 35
         LINES
         < END
         a> add k 0 0 35
         ALINES
         a< STORED";
    let lines =
        |sign: &str| -> String { value.split("\\r\\n").map(|line| format!("{sign} {line}\n")).collect() };
    let script = script.replace("ALINES", &lines("a>")).replace("LINES", &lines("<"));
    play(&warm_up(""), &script.replacen("\\r\\nVALUE\\r\\nEND", &format!("\\r\\n{value}\\r\\nEND"), 1));
}

#[test]
fn a_client_that_leaves_and_another_plan_do_not_stop_a_copy() {
    let mut conversation = Conversation::new(&warm_up(r#", "exptime": 20"#));
    conversation.play("> get k\na> get k\n> gets j\na> gets j\ngone");
    conversation.replace(&config("\"PoolRoute|C\""));
    conversation.play(
        "a< END\\r\\nEND
         b> get k
         b> get j
         b< VALUE k 0 1\\r\\nx\\r\\nEND\\r\\nVALUE j 0 1\\r\\ny\\r\\nEND
         a> add k 0 20 1
         a> x
         a> add j 0 20 1
         a> y
         a< STORED\\r\\nSTORED
         a> gets j
         a< VALUE j 0 1 5\\r\\ny\\r\\nEND
         nothing",
    );
    conversation.end();
}

#[test]
fn an_l1_is_filled_from_l2() {
    play(
        &l1_l2(""),
        "> get k
         a> get k
         a< END
         b> get k
         b< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END
         a> add k 5 90 3
         a> abc
         a< STORED
         > get k
         a> get k
         a< END
         b> get k
         b< END
         < END
         nothing
         > delete k
         a> delete k
         a< DELETED
         < DELETED",
    );
}

#[test]
fn misses_of_l2_are_kept_in_l1_and_renewed_every_so_many_times() {
    let miss = "> get k\na> get k\na< VALUE k 65536 6\\r\\nncache\\r\\nEND\n< END\n";
    play(
        &l1_l2(r#", "ncacheExptime": 8, "ncacheUpdatePeriod": 3"#),
        &format!(
            "> get k
             a> get k
             a< END
             b> get k
             b< END
             < END
             a> add k 65536 8 6
             a> ncache
             a< STORED
             {miss}{miss}{miss}b> get k
             b< END
             a> set k 65536 8 6
             a> ncache
             a< STORED
             {miss}{miss}{miss}b> get k
             b< VALUE k 1 3\\r\\nabc\\r\\nEND
             a> set k 1 90 3
             a> abc
             a< STORED
             nothing
             {miss}nothing
             > mg k k O5
             a> mg k k O5 f
             a< HD kk O5 f65536
             < EN kk O5
             > mg k v q\\r\\nmn
             a> mg k v f O1
             a< VA 6 f65536 O1\\r\\nncache
             < MN
             b> mg k v f O1
             b!
             a> ms k 6 F65536 T8 O2
             a> ncache
             a< HD O2
             > mg k v
             a> mg k v f O3
             a< VA 3 f1 O3\\r\\nabc
             < VA 3
             < abc
             > gets k
             a> gets k
             a< VALUE k 65536 6 9\\r\\nncache\\r\\nEND
             < END"
        ),
    );
}

#[test]
fn l2_answers_every_read_as_its_client_wrote_it_while_l1_fails() {
    let route = l1_l2("");
    for (request, answer) in [
        ("gets k", "VALUE k 5 3 77\\r\\nabc\\r\\nEND"),
        ("gat 7 k", "VALUE k 5 3\\r\\nabc\\r\\nEND"),
        ("gats 7 k", "VALUE k 5 3 77\\r\\nabc\\r\\nEND"),
        ("gets k", "END"),
        ("gat 7 k", "SERVER_ERROR y"),
    ] {
        let shown = answer.replace("\\r\\n", "\n< ");
        // It refuses connections, answers an error, or is too late.
        let asked = format!("b> {request}\nb< {answer}\n< {shown}\nnothing");
        play(&route, &format!("a down\n> {request}\nwait 1100\n{asked}"));
        play(&route, &format!("> {request}\na> {request}\na< SERVER_ERROR x\n{asked}"));
        play(&route, &format!("> {request}\na> {request}\nwait 1100\n{asked}"));
    }
    play(
        &route,
        "a down
         > mg k v f T0
         wait 1100
         b> mg k v f T0 O1
         b< VA 3 f5 O1\\r\\nabc
         < VA 3 f5
         < abc
         > mg k T0 k O7
         b> mg k T0 k O7
         b< HD kk O7
         < HD kk O7
         > mg k v
         b> mg k v f O2
         b< VA 3 f5 O2\\r\\nabc
         < VA 3
         < abc
         nothing",
    );
}

#[test]
fn l2_answers_if_l1_fails_while_it_is_filled() {
    for request in ["gets k", "gat 7 k"] {
        let exptime = if request == "gets k" { 90 } else { 7 };
        let filled = format!(
            "> {request}
             a> {request}
             a< END
             b> get k
             b< VALUE k 5 3\\r\\nabc\\r\\nEND
             a> add k 5 {exptime} 3
             a> abc\n"
        );
        let asked =
            format!("b> {request}\nb< VALUE k 5 3 9\\r\\nabc\\r\\nEND\n< VALUE k 5 3 9\n< abc\n< END");
        play(&l1_l2(""), &format!("{filled}a< SERVER_ERROR out of memory storing object\n{asked}"));
        play(&l1_l2(""), &format!("{filled}a< STORED\na> {request}\na!\n{asked}"));
        let of_l2 =
            format!("> {request}\na> {request}\na< END\nb> get k\nb< SERVER_ERROR y\n< SERVER_ERROR y");
        play(&l1_l2(""), &of_l2);
    }
}

#[test]
fn misses_of_requests_about_the_item_are_kept_in_l1_too() {
    for request in ["gets k", "gat 7 k", "gats 7 k"] {
        play(
            &l1_l2(r#", "ncacheExptime": 8, "ncacheUpdatePeriod": 3"#),
            &format!(
                "> {request}
                 a> {request}
                 a< END
                 b> get k
                 b< END
                 < END
                 a> add k 65536 8 6
                 a> ncache
                 a< STORED
                 > {request}
                 a> {request}
                 a< VALUE k 65536 6 3\\r\\nncache\\r\\nEND
                 < END
                 nothing"
            ),
        );
    }
}

#[test]
fn copies_that_nobody_waits_for_are_bounded() {
    // Copies go through a failover, which keeps them until c has answered.
    let cold = r#"{"type": "OperationSelectorRoute", "default_policy": "NullRoute", "operation_policies":
        {"add": {"type": "FailoverRoute", "children": ["PoolRoute|C", "PoolRoute|D"]}}}"#;
    let route = format!(r#"{{"type": "WarmUpRoute", "cold": {cold}, "warm": "PoolRoute|B"}}"#);
    let mut conversation = Conversation::new(&config(&route));
    let get = "> get k
         b> get k
         b< VALUE k 0 4000000\\r\\n{x*4000000}\\r\\nEND
         wait 5
         < VALUE k 0 4000000
         < {x*4000000}
         < END\n";
    let add = "c> add k 0 0 4000000\nc> {x*4000000}\n";
    let copies = 16;
    conversation.play(&format!("{get}{add}").repeat(copies));
    assert!(copies * 4_000_000 < COPIED_MAX && (copies + 1) * 4_000_000 > COPIED_MAX);
    conversation.play(&format!("{get}nothing"));
    conversation.play(&"c< STORED\n".repeat(copies));
    conversation.play(&format!("{get}{add}c< STORED"));
    conversation.end();
}
