//! KeySplitRoute: an item under several keys.

use super::config;
use super::{Conversation, compiled, play};
use crate::config::CompileOptions;

/// Of three replicas, this host's is the first: its number is 0 in the tests.
fn split(fields: &str) -> String {
    config(&format!(r#"{{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 3, {fields}}}"#))
}

const ASYNC: &str = r#""all_sync": false"#;
const SYNC: &str = r#""all_sync": true"#;
const FIRST_HIT: &str = r#""all_sync": true, "first_hit": true"#;

#[test]
fn a_get_goes_to_one_replica_and_a_delete_to_all() {
    play(
        &split(ASYNC),
        "> get k
         a> get k
         a< VALUE k 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END
         > set k 0 0 1\\r\\nx
         a> set k 0 0 1
         a> x
         a< STORED
         < STORED
         > delete k
         a> delete k::1
         a> delete k::2
         a> delete k
         a< NOT_FOUND\\r\\nSERVER_ERROR x\\r\\nDELETED
         < DELETED
         > delete k|#|x noreply
         a> delete k::1|#|x
         a> delete k::2|#|x
         a> delete k|#|x
         a< DELETED\\r\\nDELETED\\r\\nDELETED
         nothing
         > md /././k k
         a> md k::1 k O1
         a> md k::2 k O2
         a> md k k O3
         a< HD kk::1 O1\\r\\nHD kk::2 O2\\r\\nNF kk O3
         < NF k/././k
         > incr k 1
         a> incr k 1
         a< 5
         < 5",
    );
}

#[test]
fn a_set_goes_to_all_replicas_if_they_are_kept_alike() {
    play(
        &split(SYNC),
        "> set k 1 2 20000\\r\\n{x*20000}
         a> set k::1 1 2 20000
         a> {x*20000}
         a> set k::2 1 2 20000
         a> {x*20000}
         a> set k 1 2 20000
         a> {x*20000}
         a< SERVER_ERROR out of memory\\r\\nSTORED\\r\\nSTORED
         < STORED
         > ms a2V5 1 b T5\\r\\nx
         a> ms a2V5Ojox 1 b T5 O1
         a> x
         a> ms a2V5Ojoy 1 b T5 O2
         a> x
         a> ms a2V5 1 b T5 O3
         a> x
         a< HD O1\\r\\nHD O2\\r\\nHD O3
         < HD
         > cas k 0 0 1 5\\r\\nx
         a> cas k 0 0 1 5
         a> x
         a< STORED
         < STORED
         > ms k 1 C5\\r\\nx
         a> ms k 1 C5 O4
         a> x
         a< HD O4
         < HD",
    );
}

#[test]
fn the_first_hit_of_all_replicas_may_be_the_answer() {
    let route = split(FIRST_HIT);
    let ask = "> get k\na> get k\na> get k::1\na> get k::2\n";
    play(
        &route,
        &format!(
            "{ask}a< END\\r\\nVALUE k::1 0 1\\r\\nx\\r\\nEND\n< VALUE k 0 1\n< x\n< END\na< END\nnothing"
        ),
    );
    play(&route, &format!("{ask}a< END\\r\\nSERVER_ERROR x\nnothing\na< END\n< END"));
    play(&route, &format!("{ask}a< END\\r\\nEND\nnothing\na!\n< SERVER_ERROR remote error"));
    play(&route, &format!("{ask}wait 1100\n< SERVER_ERROR Reply timeout"));
    play(
        &route,
        "> mg k k v q\\r\\nmn
         a> mg k k v O1
         a> mg k::1 k v O2
         a> mg k::2 k v O3
         a< EN\\r\\nVA 1 kk::1 O2\\r\\nx\\r\\nEN
         < VA 1 kk
         < x
         < MN
         > gets k
         a> gets k
         a< END
         < END
         > mg k c v
         a> mg k c v O4
         a< EN
         < EN",
    );
}

#[test]
fn each_key_of_a_multiget_has_its_replicas() {
    play(
        &split(FIRST_HIT),
        "> get j k
         a> get j
         a> get j::1
         a> get j::2
         a> get k
         a> get k::1
         a> get k::2
         a< END\\r\\nVALUE j::1 0 20000\\r\\n{x*20000}\\r\\nEND\\r\\nEND\\r\\nEND\\r\\nEND\\r\\nEND
         < VALUE j 0 20000
         < {x*20000}
         < END",
    );
}

#[test]
fn a_key_without_room_for_a_number_is_not_split() {
    play(
        &split(SYNC),
        "> delete {k*247}
         a> delete {k*247}::1
         a> delete {k*247}::2
         a> delete {k*247}
         a< DELETED\\r\\nDELETED\\r\\nDELETED
         < DELETED
         > delete {k*248}
         a> delete {k*248}
         a< DELETED
         < DELETED
         > set {k*250} 0 0 1\\r\\nx
         a> set {k*250} 0 0 1
         a> x
         a< STORED
         < STORED",
    );
}

#[test]
fn a_host_uses_the_replica_of_its_number() {
    let mut conversation = Conversation::new(&split(SYNC));
    let options = CompileOptions { host_id: 4, ..CompileOptions::default() };
    conversation.shared.replace(compiled(&split(SYNC), 2, &conversation.places, &options));
    conversation.settle(conversation.router);
    conversation.play(
        "> get k
         a> get k::1
         a< VALUE k::1 0 1\\r\\nx\\r\\nEND
         < VALUE k 0 1
         < x
         < END
         > set /././k 0 0 1\\r\\ny
         a> set k 0 0 1
         a> y
         a> set k::2 0 0 1
         a> y
         a> set k::1 0 0 1
         a> y
         a< STORED\\r\\nSTORED\\r\\nSERVER_ERROR x
         < SERVER_ERROR x
         > mg a2V5 b v k
         a> mg a2V5Ojox b v k O1
         a< VA 1 b ka2V5Ojox O1\\r\\nx
         < VA 1 b ka2V5
         < x
         > append k 0 0 1\\r\\nz
         a> append k::1 0 0 1
         a> z
         a< STORED
         < STORED",
    );
    conversation.end();
}
