//! Servers that answer wrongly, late or not at all: nobody gets another's reply, and everybody gets one.

use super::{Conversation, End, ONE, THREE, play};

/// What a server sends as the reply to `get k` has its connection closed, and is an error for the client. The next request
/// goes over a new connection.
#[track_caller]
fn check_refused(request: &str, reply: &str) {
    let sent = request.replace(" q ", " ");
    let lines: String = sent.split("\\r\\n").map(|line| format!("a> {line}\n")).collect();
    play(
        ONE,
        &format!(
            "> {request}
             {lines}
             a<| {reply}
             a closed
             < SERVER_ERROR remote error
             > get next
             a> get next
             a< END
             < END"
        ),
    );
}

#[test]
fn a_reply_that_is_not_for_the_request_closes_the_connection() {
    check_refused("get k", "VALUE other 0 1\\r\\nx\\r\\nEND\\r\\n");
    check_refused("get k", "STORED\\r\\n");
    check_refused("get k", "nonsense\\r\\n");
    check_refused("get k", "{x*3000}");
    check_refused("get k", "VALUE k 0 1\\r\\nxyz\\r\\nEND\\r\\n");
    check_refused("get k", "VALUE k 0 1\\r\\nx\\r\\nVALUE k 0 1\\r\\nx\\r\\nEND\\r\\n");
    check_refused("get k", "VALUE k 0 20000\\r\\n{x*20000}xxEND\\r\\n");
    check_refused("get k", "VALUE k 0 2147483640\\r\\nx");
    check_refused("get k", "VALUE k 0 99999999999999999999\\r\\nx");
    check_refused("get k", "VALUE k 0 134217729\\r\\nx");
    check_refused("get j k", "VALUE j 0 1\\r\\nx\\r\\nVALUE j 0 1\\r\\nx\\r\\nEND\\r\\n");
    check_refused("delete k", "STORED\\r\\n");
    check_refused("touch k 1", "DELETED\\r\\n");
    check_refused("incr k 1", "TOUCHED\\r\\n");
    check_refused("mg k v O9", "VA 1 O8\\r\\nx\\r\\n");
    check_refused("mg k v O9", "VA 1\\r\\nx\\r\\n");
    check_refused("mg k v O9", "VA 1 O9\\r\\nxyz\\r\\n");
    check_refused("mg k v O9", "VA 20000 O9\\r\\n{x*20000}yz\\r\\n");
    check_refused("mg k v O9", "NF O9\\r\\n");
    check_refused("md k O9", "EN\\r\\n");
    // Half a reply and another one, which has the right opaque.
    check_refused("md k k O9", "HD kkHD kk O9\\r\\n");
    check_refused("ma k v q O9", "VA 1 O9\\r\\n123\\r\\n");
    check_refused("ma k v q O9", "VA 20000 O9\\r\\n{x*20000}\\r\\n");
    check_refused("ms k 1 O9\\r\\nx", "NS O8\\r\\n");
}

#[test]
fn a_reply_that_nobody_waits_for_closes_the_connection() {
    play(
        ONE,
        "> get k
         a> get k
         a<| END\\r\\nEND\\r\\n
         < END
         a closed
         > get k
         a> get k
         a< END
         < END
         a< END
         a closed
         nothing",
    );
}

#[test]
fn a_value_too_many_closes_the_connection_after_the_others_were_given() {
    play(
        ONE,
        "> get j k
         a> get j k
         a<| VALUE j 0 1\\r\\nx\\r\\nVALUE k 0 1\\r\\ny\\r\\nVALUE k 0 1\\r\\nz\\r\\nEND\\r\\n
         a closed
         < VALUE j 0 1
         < x
         < VALUE k 0 1
         < y
         < END",
    );
}

#[test]
fn half_a_reply_is_an_error_once_the_connection_ends() {
    for half in ["VALUE k 0 5\\r\\nab", "VAL", "VALUE k 0 20000\\r\\n{x*15000}", "VALUE k 0 2\\r\\nab\\r\\n"]
    {
        let script = "> get k\na> get k\na<| HALF\nnothing\na!\n< SERVER_ERROR remote error";
        play(ONE, &script.replace("HALF", half));
    }
}

#[test]
fn a_late_reply_is_dropped_and_later_ones_match() {
    for (request, late) in [
        ("get k", "VALUE k 0 1\\r\\nx\\r\\nEND\\r\\n"),
        ("get j k l", "VALUE j 0 1\\r\\nx\\r\\nVALUE l 0 1\\r\\nx\\r\\nEND\\r\\n"),
        ("get j k l", "SERVER_ERROR out of memory\\r\\n"),
        ("get j k l", "VALUE j 0 20000\\r\\n{x*20000}\\r\\nVALUE l 0 20000\\r\\n{x*20000}\\r\\nEND\\r\\n"),
        ("get k", "VALUE k 0 20000\\r\\n{x*20000}\\r\\nEND\\r\\n"),
        ("mg k v O9", "VA 1 O9\\r\\nx\\r\\n"),
        ("delete k", "DELETED\\r\\n"),
    ] {
        let script = format!(
            "> {request}
             a> {request}
             wait 1100
             < SERVER_ERROR Reply timeout
             > get next
             a> get next
             a<| {late}
             nothing
             a< VALUE next 0 1\\r\\ny\\r\\nEND
             < VALUE next 0 1
             < y
             < END"
        );
        play(ONE, &script);
    }
}

#[test]
fn a_reply_may_be_half_received_when_its_time_is_over() {
    for (request, first, rest) in [
        ("get k", "VALUE k 0 20000\\r\\n{x*9000}", "{x*11000}\\r\\nEND\\r\\n"),
        ("get k", "VALUE k 0 9000\\r\\n{x*8000}", "{x*1000}\\r\\nEND\\r\\n"),
        ("get j k", "VALUE j 0 20000\\r\\n{x*9000}", "{x*11000}\\r\\nVALUE k 0 1\\r\\nx\\r\\nEND\\r\\n"),
        ("get j k", "VALUE j 0 1\\r\\nx\\r\\n", "VALUE k 0 1\\r\\nx\\r\\nEND\\r\\n"),
        ("get j k", "VALUE j 0 1\\r\\nx\\r\\n", "VALUE k 0 20000\\r\\n{x*20000}\\r\\nEND\\r\\n"),
        ("get j k", "VALUE j 0 1\\r\\nx\\r\\n", "END\\r\\n"),
        ("get j k", "VALUE k 0 20000\\r\\n{x*9000}", "{x*11000}\\r\\nEND\\r\\n"),
        ("mg k v O9", "VA 20000 O9\\r\\n{x*9000}", "{x*11000}\\r\\n"),
    ] {
        let script = format!(
            "> {request}
             a> {request}
             a<| {first}
             wait 1100
             < SERVER_ERROR Reply timeout
             > get next
             a> get next
             a<| {rest}
             nothing
             a< END
             < END"
        );
        play(ONE, &script);
    }
}

#[test]
fn an_error_in_the_middle_of_values_fails_the_rest_of_the_keys_only() {
    let script = "> get j k
         a> get j k
         a<| VALUE j 0 1\\r\\nx\\r\\nSERVER_ERROR out of memory writing get response\\r\\n
         < SERVER_ERROR out of memory writing get response
         > get k
         a> get k
         a< END
         < END";
    play(ONE, script);
}

#[test]
fn requests_on_their_way_are_answered_once_when_the_connection_is_reset() {
    play(
        THREE,
        "> get abc
         1> get abc
         1> get key:1 abc key:3
         2> delete abc noreply
         > mg abc v
         a> get abc
         a> get abc
         b> get key:1 key:3
         a> get abc
         a> delete abc
         a> mg abc v O1
         a!
         < SERVER_ERROR remote error
         < SERVER_ERROR remote error
         1< SERVER_ERROR remote error
         nothing
         b< VALUE key:1 0 1\\r\\nx\\r\\nEND
         1< SERVER_ERROR remote error
         nothing
         > get abc
         a> get abc
         a< END
         < END",
    );
}

#[test]
fn a_client_that_has_gone_leaves_its_replies_to_nobody() {
    play(
        ONE,
        "> get secret
         > get j k
         a> get secret
         a> get j k
         gone
         back
         > get z
         a> get z
         a< VALUE secret 0 1\\r\\nx\\r\\nEND
         nothing
         a< VALUE j 0 1\\r\\nx\\r\\nEND
         nothing
         a< VALUE z 0 1\\r\\ny\\r\\nEND
         < VALUE z 0 1
         < y
         < END",
    );
}

#[test]
fn the_replies_of_a_gone_clients_requests_are_awaited_by_later_ones() {
    play(
        ONE,
        "> get secret
         a> get secret
         gone
         1> get z
         a> get z
         wait 1100
         1< SERVER_ERROR Reply timeout
         a< VALUE secret 0 1\\r\\nx\\r\\nEND
         a< VALUE z 0 1\\r\\nx\\r\\nEND
         nothing
         1> get z
         a> get z
         a< END
         1< END",
    );
}

#[test]
fn white_space_at_the_end_of_a_line_belongs_to_its_last_word() {
    let spaces = " ".repeat(9);
    for (request, at_server, reply, expected) in [
        ("mg k v O7\t", "mg k v O7\t", "VA 1 O7\t\r\nx", "VA 1 O7\t\r\nx"),
        ("mg k v O7\r", "mg k v O7\r", "VA 1 O7\r\r\nx", "VA 1 O7\r\r\nx"),
        ("mg k O7\x0b q", "mg k O7\x0b", "HD O7\x0b", "HD O7\x0b"),
        ("mg k v  ", "mg k v O1", "HD O1 \t\t\t\t\t\t\t\t", "HD \t\t\t\t\t\t\t\t"),
        ("mg k v", "mg k v O1", &format!("HD O1{spaces}"), "HD"),
        ("mg k v", "mg k v O1", &format!("VA 1 O1{spaces}\r\nx"), "VA 1\r\nx"),
        ("me k\t", "me k\t", "EN", "EN"),
        ("get k\x0c", "get k\x0c", "END", "END"),
        ("delete k  noreply  ", "delete k", "DELETED", ""),
    ] {
        let mut conversation = Conversation::new(ONE);
        let (client, server) = (conversation.host("0"), conversation.host("a"));
        for (from, to, sent, received) in
            [(client, server, request, at_server), (server, client, reply, expected)]
        {
            conversation.send(from, &format!("{sent}\r\n"));
            let found = std::mem::take(&mut conversation.world.handler::<End>(to).received);
            let received = if received.is_empty() { String::new() } else { format!("{received}\r\n") };
            assert_eq!(String::from_utf8(found).expect("text"), received, "{request:?}");
        }
        conversation.end();
    }
}
