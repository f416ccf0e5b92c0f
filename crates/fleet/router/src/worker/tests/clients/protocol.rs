//! Commands through the router: what servers get, and what clients get back.

use super::{Conversation, End, ONE, THREE, play};

#[test]
fn a_get_is_forwarded_and_its_reply_comes_back() {
    play(
        ONE,
        "> get k
         a> get k
         a< VALUE k 5 3\\r\\nabc\\r\\nEND
         < VALUE k 5 3
         < abc
         < END",
    );
}

#[test]
fn replies_come_in_the_order_of_requests() {
    play(
        THREE,
        "> get key:1
         > get abc
         > get key:3
         b> get key:1
         a> get abc
         b> get key:3
         a< END
         nothing
         b< VALUE key:1 0 1\\r\\nx\\r\\nEND\\r\\nEND
         < VALUE key:1 0 1
         < x
         < END
         < END
         < END",
    );
}

#[test]
fn every_classic_command_reaches_the_server_as_it_was_written() {
    for (request, reply) in [
        ("set k 1 0 3\\r\\nabc", "STORED"),
        ("add k 1 0 3\\r\\nabc", "NOT_STORED"),
        ("replace k 1 0 3\\r\\nabc", "STORED"),
        ("append k 1 0 3\\r\\nabc", "STORED"),
        ("prepend k 1 0 3\\r\\nabc", "NOT_STORED"),
        ("cas k 1 0 3 99\\r\\nabc", "EXISTS"),
        ("cas k 1 0 3 99\\r\\nabc", "NOT_FOUND"),
        ("delete k", "DELETED"),
        ("delete k 0", "NOT_FOUND"),
        ("incr k 5", "12"),
        ("decr k 5", "NOT_FOUND"),
        ("touch k 100", "TOUCHED"),
        ("gets k", "VALUE k 0 1 77\\r\\nx\\r\\nEND"),
        ("gat 100 k", "VALUE k 0 1\\r\\nx\\r\\nEND"),
        ("gats 100 k", "END"),
        ("set k 1 0 3\\r\\nabc", "SERVER_ERROR out of memory storing object"),
        ("incr k 5", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ] {
        let lines = |sign: &str, text: &str| -> String {
            text.split("\\r\\n").map(|line| format!("{sign} {line}\n")).collect()
        };
        let script = format!("> {request}\n{}a< {reply}\n{}", lines("a>", request), lines("<", reply));
        play(ONE, &script);
    }
}

#[test]
fn a_request_without_a_reply_asks_its_server_for_one() {
    play(
        ONE,
        "> set k 0 0 1 noreply\\r\\nx\\r\\ndelete k noreply\\r\\nincr k 1 noreply\\r\\nget k
         a> set k 0 0 1
         a> x
         a> delete k
         a> incr k 1
         a> get k
         a< SERVER_ERROR out of memory\\r\\nNOT_FOUND\\r\\n5\\r\\nEND
         < END",
    );
}

#[test]
fn a_key_that_is_only_a_prefix_is_refused_and_its_body_is_never_read_as_commands() {
    play(
        ONE,
        "> get /r/c/
         < CLIENT_ERROR bad key
         > set /r/c/ 0 0 9\\r\\nflush_all
         < CLIENT_ERROR bad key
         > set /r/c/ 0 0 9 noreply\\r\\nflush_all
         > ms /r/c/ 9\\r\\nflush_all
         < CLIENT_ERROR bad key
         > mg /r/c/ v
         < CLIENT_ERROR bad key
         > get a /r/c/
         a> get a
         a< END
         < CLIENT_ERROR bad key",
    );
}

#[test]
fn meta_requests_carry_an_opaque_of_the_routers_unless_they_have_their_own() {
    play(
        ONE,
        "> mg k v t
         a> mg k v t O1
         a< VA 2 t-1 O1\\r\\nab
         < VA 2 t-1
         < ab
         > mg k v O77 t
         a> mg k v O77 t
         a< VA 2 O77 t-1\\r\\nab
         < VA 2 O77 t-1
         < ab
         > ms k 2 T0\\r\\nab
         a> ms k 2 T0 O2
         a> ab
         a< HD O2
         < HD
         > md k
         a> md k O3
         a< NF O3
         < NF
         > ma k v
         a> ma k v O4
         a< VA 1 O4\\r\\n5
         < VA 1
         < 5
         > mg k
         a> mg k O5
         a< EN
         < EN
         > me k
         a> me k
         a< ME k exp=-1 la=3
         < ME k exp=-1 la=3",
    );
}

#[test]
fn quiet_requests_report_what_is_unusual_and_mn_waits_for_them() {
    play(
        ONE,
        "> mg a v q\\r\\nmg b v q\\r\\nms c 1 q\\r\\nx\\r\\nmd d q\\r\\nmn
         a> mg a v O1
         a> mg b v O2
         a> ms c 1 O3
         a> x
         a> md d O4
         a< EN\\r\\nVA 1 O2\\r\\ny
         < VA 1
         < y
         nothing
         a< HD O3\\r\\nHD O4
         < MN",
    );
}

#[test]
fn meta_replies_of_the_router_itself_repeat_opaque_and_key() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}},
        "route": {"type": "OperationSelectorRoute", "default_policy": "NullRoute", "operation_policies": {
            "delete": "ErrorRoute|no", "set": {"type": "AllAsyncRoute", "children": ["PoolRoute|A"]}}}}"#;
    play(
        config,
        "> mg abc v O12 k
         < EN O12 kabc
         > mg YWJj b k Oq v
         < EN kYWJj b Oq
         > mg abc v
         < EN
         > mg abc v q O3
         > mn
         < MN
         > ma /././abc N0 O5 k
         < NF O5 k/././abc
         > ms abc 1 O6 k T0
         > x
         a> ms abc 1 O6 k T0
         a> x
         < NS O6 kabc
         a< HD O6 kabc
         > md abc O7
         < SERVER_ERROR no
         > me abc
         < EN",
    );
}

#[test]
fn a_meta_line_that_gets_too_long_is_refused_and_the_connection_stays() {
    play(
        ONE,
        "> get abc
         a> get abc
         > mg abc{ *2029}v
         > mg abc{ *2000}v
         a> mg abc{ *2000}v O1
         a< END
         < END
         < CLIENT_ERROR options flags are too long
         a< EN
         < EN
         > mg abc{ *2029}v O1
         a> mg abc{ *2029}v O1
         a< HD O1
         < HD O1",
    );
}

#[test]
fn servers_get_no_words_that_some_do_not_know() {
    for (written, sent) in [
        ("set k 1 2 3 junk junk", "set k 1 2 3"),
        ("add k 1 2 3 a b c noreply", "add k 1 2 3"),
        ("replace k  1  2 3 ", "replace k 1 2 3"),
        ("set k {0*2000}1 -2 3 noreply", "set k 1 -2 3"),
        ("cas k 1 2 3 4 junk junk", "cas k 1 2 3 4"),
        ("cas k 1 2 3 18446744073709551615 noreply", "cas k 1 2 3 18446744073709551615"),
    ] {
        let reply = if written.contains("noreply") { "" } else { "< STORED" };
        play(ONE, &format!("> {written}\\r\\nabc\na> {sent}\na> abc\na< STORED\n{reply}\nnothing"));
    }
}

#[test]
fn a_meta_request_has_no_more_words_than_all_servers_read() {
    // With the opaque, and without `q`.
    play(
        ONE,
        "> ms k 3 f k s t v h l c T0 N0 R0 E5 I F1 D1 q\\r\\nabc
         a> ms k 3 f k s t v h l c T0 N0 R0 E5 I F1 D1 O1
         a> abc
         a< HD O1
         > ms k 9 f k s t v h l c T0 N0 R0 E5 I F1 D1 J1\\r\\nflush_all
         < CLIENT_ERROR options flags are too long
         > ms k 3 f k s t v h l c T0 N0 R0 E5 I F1 D1 O9\\r\\nabc
         a> ms k 3 f k s t v h l c T0 N0 R0 E5 I F1 D1 O9
         a> abc
         a< HD O9 kk
         < HD O9 kk",
    );
}

#[test]
fn a_line_with_a_zero_byte_ends_the_connection() {
    for line in [
        "set k\0k 0 0 9\\r\\nflush_all",
        "set k 0 0 9 \0 noreply\\r\\nflush_all",
        "ms k 9 O\0\\r\\nflush_all",
        "get k\0",
        "get l l\0",
        "delete \0",
    ] {
        let mut conversation = play(ONE, "> get k\na> get k");
        conversation.play(&format!("> {line}\na< END\n< END"));
        conversation.play("< CLIENT_ERROR malformed request\nclosed\nnothing");
        conversation.end();
    }
    // A line that is longer than a buffer: what stands before the byte has been asked for.
    let nowhere = r#"{"route": "NullRoute"}"#;
    play(nowhere, "> get {a *20000}k\0\n< END\n< CLIENT_ERROR malformed request\nclosed");
}

#[test]
fn a_client_of_the_binary_protocol_is_closed_and_nothing_it_sends_is_read_as_a_command() {
    // A key of ten bytes, whose length ends a line, and one of another length; the value is a command.
    for key_len in [10, 9] {
        let mut conversation = Conversation::new(ONE);
        let client = conversation.clients[0];
        let packet = [&[0x80, 1, 0, key_len, 8][..], &[0; 27], b"key\r\ndelete k\r\n"].concat();
        conversation.world.handler::<End>(client).to_send = packet;
        conversation.settle(client);
        conversation.play("closed");
        conversation.end();
    }
}

#[test]
fn commands_about_one_server_are_refused_without_a_word_if_no_reply_is_expected() {
    play(
        ONE,
        "> cache_memlimit 64 noreply
         > lru_crawler crawl all noreply
         > slabs automove 1 noreply
         > lru mode flat noreply
         > refresh_certs noreply
         nothing
         > cache_memlimit 64
         < SERVER_ERROR Command disabled
         > lru_crawler crawl all
         < SERVER_ERROR Command disabled
         > get k
         a> get k
         a< END
         < END",
    );
}

#[test]
fn a_line_for_which_servers_close_their_connection_ends_the_clients() {
    for line in ["set { *3000}k 0 0 1\\r\\na", "touch k 1 {x*3000}", "gat 10{ k*1500}", "mg k{ *3000}v"] {
        let mut conversation = play(ONE, "1> get k\na> get k");
        conversation.play(&format!("> {line}"));
        conversation.play("< CLIENT_ERROR malformed request\nclosed\na< END\n1< END\nnothing");
        conversation.end();
    }
    let long = vec!["k".repeat(240); 10].join(" ");
    play(ONE, &format!("> get {long}\na> get {long}\na< END\n< END"));
}

#[test]
fn a_quiet_request_may_be_the_last_of_a_pipeline() {
    play(
        ONE,
        "> get k\\r\\nmg k v q\\r\\nmg k v q
         a> get k
         a> mg k v O1
         a> mg k v O2
         a< END\\r\\nEN\\r\\nEN
         < END
         > get j
         a> get j
         a< END
         < END",
    );
}

#[test]
fn a_key_that_a_server_could_take_for_noreply_is_not_the_last_word() {
    play(
        ONE,
        "> delete noreply
         a> delete noreply 0
         a< DELETED
         > delete noreply noreply
         a> delete noreply 0
         a< NOT_FOUND
         nothing
         > delete /././noreply
         a> delete noreply 0
         a< DELETED
         < DELETED
         > get noreply
         a> get noreply
         a< END
         < END",
    );
}
