//! TCP Fast Open: only gets are sent before the server has answered.

use super::{Conversation, play};

const FAST: &str = r#"{"pools": {"A": {"servers": ["a:1"], "tcp_fast_open": true}}, "route": "PoolRoute|A"}"#;

#[test]
fn what_must_not_arrive_twice_waits_for_the_first_answer() {
    play(
        FAST,
        ">| get k\\r\\nget i\\r\\nset j 0 0 1\\r\\nx\\r\\nget l m\\r\\nincr n 1\\r\\n
         a> get k
         a> get i
         nothing
         a< END
         < END
         a> set j 0 0 1
         a> x
         a> get l m
         a> incr n 1
         a<| END\\r\\nSTORED\\r\\nEND\\r\\n7\\r\\n
         < END
         < STORED
         < END
         < 7
         > set k 0 0 1\\r\\ny
         a> set k 0 0 1
         a> y
         a< STORED
         < STORED",
    );
}

#[test]
fn a_connection_for_anything_else_is_made_as_usual() {
    play(
        FAST,
        "> set k 0 0 1\\r\\ny
         a> set k 0 0 1
         a> y
         > get k
         a> get k
         a< STORED
         < STORED
         a< END
         < END",
    );
}

#[test]
fn a_connection_that_ends_before_the_first_answer_was_none() {
    let mut conversation = Conversation::new(FAST);
    conversation.play(
        ">| get k\\r\\nset j 0 0 1\\r\\nx\\r\\n
         a> get k
         a!
         < SERVER_ERROR connection error
         < SERVER_ERROR connection error
         said server a:1 is unavailable (connect_error); unavailable now: 1
         a awaits 15100
         a> version
         a< VERSION 1
         wait 5
         > set j 0 0 1\\r\\nx
         a> set j 0 0 1
         a> x
         a< STORED
         < STORED",
    );
    conversation.end();
}

#[test]
fn silence_ends_a_connection_that_was_never_heard_of() {
    play(
        FAST,
        ">| get k\\r\\ndelete k\\r\\n
         a> get k
         wait 1100
         < SERVER_ERROR Reply timeout
         < SERVER_ERROR Reply timeout
         a closed
         > get k
         a> get k
         a< END
         < END",
    );
}

#[test]
fn a_get_of_a_meta_command_may_change_something_and_waits() {
    play(
        FAST,
        ">| get k\\r\\nmg k v N30 t O1\\r\\n
         a> get k
         nothing
         a< END
         < END
         a> mg k v N30 t O1
         a< EN
         < EN",
    );
}
