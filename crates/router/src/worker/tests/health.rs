//! Servers that are unavailable: requests fail at once, and probes find out when that ends.

use super::{Conversation, ONE, play};

const THREE_TIMEOUTS: &str = "> get k
     > get k
     > get k
     a> get k
     a> get k
     a> get k
     wait 1100
     < SERVER_ERROR Reply timeout
     < SERVER_ERROR Reply timeout
     < SERVER_ERROR Reply timeout
     > get k
     < SERVER_ERROR Server unavailable. Reason: timeout
     nothing";

#[test]
fn three_timeouts_make_a_server_unavailable_until_a_probe_is_answered() {
    let script = format!(
        "{THREE_TIMEOUTS}
         a awaits 15100
         a> version
         > get k
         < SERVER_ERROR Server unavailable. Reason: timeout
         a< END\\r\\nEND\\r\\nEND
         > get k
         < SERVER_ERROR Server unavailable. Reason: timeout
         a< VERSION 1
         > get k
         a> get k
         a< END
         < END"
    );
    play(ONE, &script);
}

#[test]
fn a_probe_without_an_answer_is_followed_by_another_over_a_new_connection() {
    let script = format!(
        "{THREE_TIMEOUTS}
         a awaits 15100
         a> version
         wait 1100
         a closed
         a awaits 35000
         a> version
         > get k
         < SERVER_ERROR Server unavailable. Reason: timeout
         a< VERSION 1
         > get k
         a> get k
         a< END
         < END"
    );
    play(ONE, &script);
}

#[test]
fn a_probe_that_is_answered_with_something_else_is_not_answered() {
    let script = format!(
        "{THREE_TIMEOUTS}
         a awaits 15100
         a> version
         a< END\\r\\nEND\\r\\nEND\\r\\nERROR
         a closed
         > get k
         < SERVER_ERROR Server unavailable. Reason: timeout
         a awaits 35000
         a> version
         a< VERSION 1
         > get k
         a> get k
         a< END
         < END"
    );
    play(ONE, &script);
}

#[test]
fn two_timeouts_and_a_reply_are_no_reason() {
    let two = "> get k
         > get k
         a> get k
         a> get k
         wait 1100
         < SERVER_ERROR Reply timeout
         < SERVER_ERROR Reply timeout
         a< END\\r\\nEND";
    play(ONE, &format!("{two}\n{two}\n> get k\na> get k\na< END\n< END"));
}

#[test]
fn a_server_that_cannot_be_reached_is_unavailable_after_one_attempt() {
    let mut conversation = Conversation::new(ONE);
    conversation.play(
        "a down
         > get k
         wait 1100
         < SERVER_ERROR connection timeout
         > get k
         < SERVER_ERROR Server unavailable. Reason: connect_timeout
         wait 15100
         a up
         a awaits 35000
         a> version
         a< VERSION 1
         wait 500",
    );
    assert_eq!(conversation.worker().destinations[0].health.unavailable(), None);
    conversation.end();
}

#[test]
fn a_refused_connection_is_an_error_for_all_who_wait_for_it() {
    let mut conversation = Conversation::new(ONE);
    conversation.stop("a");
    conversation.play(
        ">| get k\\r\\nset k 0 0 1\\r\\nx\\r\\nget j k\\r\\n
         < SERVER_ERROR connection error
         < SERVER_ERROR connection error
         < SERVER_ERROR connection error
         > get k
         < SERVER_ERROR Server unavailable. Reason: connect_error
         wait 200000
         > get k
         < SERVER_ERROR Server unavailable. Reason: connect_error",
    );
    conversation.end();
}

#[test]
fn a_reset_is_followed_by_a_new_connection() {
    let once = "> get k\na> get k\na!\n< SERVER_ERROR remote error\n";
    play(ONE, &once.repeat(10));
}

#[test]
fn a_server_that_closes_while_nothing_is_on_its_way_does_no_harm() {
    play(ONE, &"> get k\na> get k\na< END\n< END\na!\n".repeat(5));
}
