//! StagingRoute: a is warm, b is staging.

use super::config;
use super::play;

fn staging() -> String {
    config(r#"{"type": "StagingRoute", "warm": "PoolRoute|A", "staging": "PoolRoute|B"}"#)
}

#[test]
fn a_hit_of_warm_is_answered_at_once_and_copied_if_staging_misses() {
    play(
        &staging(),
        "clock 1700000000
         > get k
         a> get k
         a< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END
         b> mg k O1
         b< EN
         a> mg k v f t O1
         a< VA 20000 f5 t5000000 O1\\r\\n{x*20000}
         b> add k 5 1705000000 20000
         b> {x*20000}
         b< STORED
         > get k
         a> get k
         a< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END
         b> mg k O2
         b< HD O2
         nothing
         > get k
         a> get k
         a< END
         < END
         nothing",
    );
}

#[test]
fn what_staging_does_is_never_the_clients_concern() {
    let hit = "> get k\na> get k\na< VALUE k 5 3\\r\\nabc\\r\\nEND\n< VALUE k 5 3\n< abc\n< END\n";
    for after in [
        "b> mg k O1\nb!\nnothing",
        "b> mg k O1\nb< SERVER_ERROR 307 busy\nnothing",
        "b> mg k O1\nwait 1100\nb< EN\nnothing",
        "b> mg k O1\nb< VALUE k 0 1\\r\\nx\\r\\nEND\nb closed\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< EN\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< ERROR\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na!\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< VA 1 f0 t0 O1\\r\\nx\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< VA 1 f0 t9 W X O1\\r\\nx\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< VA 1 f0 t9 O1\\r\\nx\nb> add k 0 9 1\nb> x\nb!\nnothing",
        "b> mg k O1\nb< EN\na> mg k v f t O1\na< VA 1 f0 t9 O1\\r\\nx\nb> add k 0 9 1\nb> x\nb< DELETED\nb closed",
    ] {
        play(&staging(), &format!("{hit}{after}"));
    }
    for reply in ["SERVER_ERROR x", "END"] {
        play(&staging(), &format!("> get k\na> get k\na< {reply}\n< {reply}\nnothing"));
    }
}

#[test]
fn what_warm_stores_is_set_in_staging() {
    play(
        &staging(),
        "> set k 1 2 3\\r\\nabc
         a> set k 1 2 3
         a> abc
         nothing
         a< STORED
         < STORED
         b> set k 1 2 3
         b> abc
         b< SERVER_ERROR x
         > cas k 1 2 20000 99\\r\\n{x*20000}
         a> cas k 1 2 20000 99
         a> {x*20000}
         a< STORED
         < STORED
         b> set k 1 2 20000
         b> {x*20000}
         b< STORED
         > cas k 1 2 3 99\\r\\nabc
         a> cas k 1 2 3 99
         a> abc
         a< EXISTS
         < EXISTS
         nothing
         > set k 1 2 3 noreply\\r\\nabc
         a> set k 1 2 3
         a> abc
         a< STORED
         b> set k 1 2 3
         b> abc
         b< STORED
         > ms /././k 3 C7 T9 F4 O5 c\\r\\nabc
         a> ms k 3 C7 T9 F4 O5 c
         a> abc
         a< HD O5 c8
         < HD O5 c8
         b> ms k 3 F4 T9 O1
         b> abc
         b< HD O1
         > ms a2V5 3 b q\\r\\nabc\\r\\nmn
         a> ms a2V5 3 b O1
         a> abc
         a< HD O1
         < MN
         b> ms a2V5 3 b F0 T0 O2
         b> abc
         b< HD O2
         > add k 1 2 3\\r\\nabc
         a> add k 1 2 3
         a> abc
         a< NOT_STORED
         < NOT_STORED
         b> add k 1 2 3
         b> abc
         b< STORED",
    );
}

#[test]
fn deletes_go_to_both_and_the_worse_reply_counts() {
    play(
        &staging(),
        "> delete k
         a> delete k
         b> delete k
         a< DELETED
         nothing
         b< NOT_FOUND
         < NOT_FOUND
         > md k q\\r\\nmn
         a> md k O1
         b> md k O1
         b< HD O1
         a< HD O1
         < MN",
    );
}

#[test]
fn other_requests_reach_staging_after_warm_unless_that_fails() {
    play(
        &staging(),
        "> incr k 1
         a> incr k 1
         a< 5
         < 5
         b> incr k 1
         b< NOT_FOUND
         > touch k 9
         a> touch k 9
         a!
         < SERVER_ERROR remote error
         nothing
         > gets k
         a> gets k
         a< VALUE k 0 1 5\\r\\nx\\r\\nEND
         < VALUE k 0 1 5
         < x
         < END
         b> mg k O1
         b< EN
         nothing
         > gat 5 k
         a> gat 5 k
         a< END
         < END
         b> gat 5 k
         b< END
         > mg k v c
         a> mg k v c O1
         a< VA 1 c9 O1\\r\\nx
         < VA 1 c9
         < x
         b> mg k O2
         b< EN
         nothing
         > mg k t
         a> mg k t O2
         a< EN
         < EN
         b> mg k t O3
         b< EN",
    );
}

#[test]
fn meta_gets_are_copied_in_their_own_protocol() {
    play(
        &staging(),
        "> mg a2V5 b v k O5
         a> mg a2V5 b v k O5
         a< VA 1 b ka2V5 O5\\r\\nx
         < VA 1 b ka2V5 O5
         < x
         b> mg a2V5 b O1
         b< EN b O1
         a> mg a2V5 b v f t O1
         a< VA 1 b f3 t-1 O1\\r\\ny
         b> ms a2V5 1 b F3 T0 ME O2
         b> y
         b< HD O2",
    );
}

#[test]
fn each_key_of_a_multiget_is_looked_for_in_staging() {
    play(
        &staging(),
        "> get j k
         a> get j
         a> get k
         a< VALUE j 0 1\\r\\nx\\r\\nEND\\r\\nEND
         < VALUE j 0 1
         < x
         < END
         b> mg j O1
         b< HD O1",
    );
}
