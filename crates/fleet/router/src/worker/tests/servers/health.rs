//! Servers that are unavailable: requests fail at once, and probes find out when that ends.

use net::Handler;
use stdx::clock::Now;

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
    assert_eq!(conversation.worker().servers.destinations()[0].health.unavailable(), None);
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

/// 256 KiB of a value of `mebibytes`, as often as that takes, every `ms`.
fn arrives(mebibytes: usize, ms: usize) -> String {
    let quarter = format!("a<| {{x*{}}}\nwait {ms}\n", 256 << 10);
    quarter.repeat(4 * mebibytes)
}

#[test]
fn a_server_whose_large_values_still_arrive_has_not_timed_out() {
    let (len, value) = (2 << 20, arrives(2, 600));
    play(
        ONE,
        &format!(
            "> get big
             1> get small
             2> delete k
             a> get big
             a> get small
             a> delete k
             a<| VALUE big 0 {len}\\r\\n
             {value}a< \\r\\nEND
             < VALUE big 0 {len}
             < {{x*{len}}}
             < END
             a< VALUE small 0 1\\r\\ns\\r\\nEND
             1< VALUE small 0 1
             1< s
             1< END
             a< DELETED
             2< DELETED
             said nothing"
        ),
    );
}

#[test]
fn a_server_that_stops_amid_a_large_value_times_out_as_any_other() {
    let arrived = arrives(1, 0);
    play(
        ONE,
        &format!(
            "> get big
             1> get small
             2> get k
             a> get big
             a> get small
             a> get k
             wait 700
             a<| VALUE big 0 9000000\\r\\n
             {arrived}wait 900
             nothing
             wait 150
             < SERVER_ERROR Reply timeout
             1< SERVER_ERROR Reply timeout
             2< SERVER_ERROR Reply timeout
             said server a:1 is unavailable (timeout); unavailable now: 1
             > get k
             < SERVER_ERROR Server unavailable. Reason: timeout"
        ),
    );
}

#[test]
fn a_large_value_that_comes_drop_by_drop_is_no_progress() {
    let drops = "a<| {x*20000}\nwait 200\n".repeat(6);
    play(
        ONE,
        &format!(
            "> get big
             1> get small
             2> get k
             a> get big
             a> get small
             a> get k
             a<| VALUE big 0 9000000\\r\\n
             {drops}< SERVER_ERROR Reply timeout
             1< SERVER_ERROR Reply timeout
             2< SERVER_ERROR Reply timeout
             said server a:1 is unavailable (timeout); unavailable now: 1"
        ),
    );
}

#[test]
fn a_request_waits_for_large_values_of_others_no_longer_than_ten_time_limits() {
    let (len, value) = (9 << 20, arrives(9, 300));
    play(
        ONE,
        &format!(
            "> get big
             1> get small
             2> get k
             a> get big
             a> get small
             a> get k
             a<| VALUE big 0 {len}\\r\\n
             {value}< SERVER_ERROR Reply timeout
             1< SERVER_ERROR Reply timeout
             2< SERVER_ERROR Reply timeout
             said nothing
             > get k
             a> get k
             a<| \\r\\nEND\\r\\nEND\\r\\nEND\\r\\n
             a< END
             < END"
        ),
    );
}

#[test]
fn a_large_value_is_an_answer_between_two_timeouts() {
    let mut script = String::new();
    for _ in 0..4 {
        script += "> get k
             a> get k
             wait 1100
             < SERVER_ERROR Reply timeout
             a< END
             > get big
             a> get big
             a< VALUE big 0 20000\\r\\n{x*20000}\\r\\nEND
             < VALUE big 0 20000
             < {x*20000}
             < END\n";
    }
    // Late replies count, too, large ones as small ones.
    let late = "> get big
             a> get big
             wait 1100
             < SERVER_ERROR Reply timeout
             a< VALUE big 0 20000\\r\\n{x*20000}\\r\\nEND\n";
    play(ONE, &format!("{script}{}said nothing", late.repeat(4)));
}

#[test]
fn a_router_that_was_late_reads_before_requests_time_out() {
    let mut conversation = Conversation::new(ONE);
    conversation.play("> get k\n1> get k\n2> get k\na> get k\na> get k\na> get k");
    // Its thread does not get a CPU for five seconds; the replies came after the first moment.
    let now = conversation.worker().now;
    let late = Now { us: now.us + 5_000_000 };
    conversation.worker().begin_turn(late);
    let due = conversation.worker().deadline().expect("a time limit");
    assert_eq!(due.us - late.us, 100_000);
    // Until then nothing times out, and what has arrived is read.
    let mut conversation = Conversation::new(ONE);
    conversation.play("> get k\n1> get k\n2> get k\na> get k\na> get k\na> get k");
    let now = conversation.worker().now;
    conversation.worker().servers.read_until(Now { us: now.us + 3_000_000 });
    conversation.play(
        "wait 2900\nnothing\na< END\na< END\n< END\n1< END\nnothing\nwait 200\n2< SERVER_ERROR Reply timeout",
    );
    // A turn that was not due is not late.
    let mut conversation = Conversation::new(ONE);
    let now = conversation.worker().now;
    conversation.worker().begin_turn(Now { us: now.us + 100_000_000 });
    assert_eq!(conversation.worker().servers.reads_until(), Now::default());
}
