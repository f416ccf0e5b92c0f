//! The limit of a worker's memory for requests and replies.

use super::{Conversation, End, ONE};
use crate::client::WINDOW_MAX;
use crate::shared::Settings;

const LIMIT: usize = 4 << 20;

/// The values of these tests: three of them are more than the limit.
const VALUE: usize = 1_500_000;

fn limited() -> Conversation {
    Conversation::with_settings(ONE, Settings { held_max: LIMIT, ..Settings::default() })
}

fn value(key: &str) -> String {
    format!("VALUE {key} 0 {VALUE}\\r\\n{{x*{VALUE}}}\\r\\nEND")
}

/// Lets time pass until all that is on its way has arrived.
fn arrive(conversation: &mut Conversation) {
    conversation.world.run_for(200_000);
}

#[test]
fn the_client_that_leaves_most_untaken_is_closed_and_others_notice_nothing() {
    let mut conversation = limited();
    let (hoarder, modest) = (conversation.host("0"), conversation.host("1"));
    conversation.line("> get k1\\r\\nget k2\\r\\nget k3");
    conversation.line("1> get small");
    for line in ["a> get k1", "a> get k2", "a> get k3", "a> get small"] {
        conversation.line(line);
    }
    conversation.world.partition(hoarder, conversation.router);
    for key in ["k1", "k2", "k3"] {
        conversation.line(&format!("a< {}", value(key)));
        arrive(&mut conversation);
    }
    assert!(conversation.world.handler::<End>(modest).received.is_empty());
    assert_eq!(conversation.worker().clients.windows().len(), 2, "one of three is closed");
    conversation.line("said a client is closed that holds * MB of values that it does not take, or did not finish: its thread holds more than 4 MB (--buffer-memory-mb)");
    conversation.line("a< VALUE small 0 1\\r\\ny\\r\\nEND");
    for line in ["1< VALUE small 0 1", "1< y", "1< END", "said nothing"] {
        conversation.line(line);
    }
}

#[test]
fn a_client_that_does_not_finish_its_values_is_closed_at_the_limit() {
    let mut conversation = limited();
    conversation.line(">| set k 0 0 9000000\\r\\n{x*3500000}");
    arrive(&mut conversation);
    conversation.line("1>| set other 0 0 100000\\r\\n{y*50000}");
    conversation.line(">| {x*1500000}");
    arrive(&mut conversation);
    conversation.line("closed");
    conversation.line("1> {y*50000}");
    arrive(&mut conversation);
    for line in ["a> set other 0 0 100000", "a> {y*100000}", "a< STORED", "1< STORED"] {
        conversation.line(line);
    }
}

#[test]
fn a_value_that_is_too_much_on_its_way_to_a_client_becomes_an_error() {
    let mut conversation = limited();
    for line in ["> get large\\r\\nget next", "a> get large", "a> get next"] {
        conversation.line(line);
    }
    conversation.line("a<| VALUE large 0 9000000\\r\\n{x*5000000}");
    arrive(&mut conversation);
    conversation.line("a<| {x*4000000}\\r\\nEND\\r\\nVALUE next 0 1\\r\\nn\\r\\nEND\\r\\n");
    arrive(&mut conversation);
    for line in ["< SERVER_ERROR out of memory writing get response", "< VALUE next 0 1", "< n", "< END"] {
        conversation.line(line);
    }
}

#[test]
fn what_a_client_asked_for_is_dropped_when_it_is_gone_and_memory_is_short() {
    let mut conversation = limited();
    for line in ["> get large", "1> get next", "a> get large", "a> get next", "gone"] {
        conversation.line(line);
    }
    conversation.line("a<| VALUE large 0 9000000\\r\\n{x*5000000}");
    arrive(&mut conversation);
    let queue = &conversation.worker().servers.destinations()[0].queue;
    assert_eq!((queue.is_receiving(), queue.held()), (true, 0));
    conversation.line("a<| {x*4000000}\\r\\nEND\\r\\nVALUE next 0 1\\r\\nn\\r\\nEND\\r\\n");
    arrive(&mut conversation);
    for line in ["1< VALUE next 0 1", "1< n", "1< END", "said nothing"] {
        conversation.line(line);
    }
}

#[test]
fn values_are_refused_while_servers_do_not_take_those_before_and_accepted_again() {
    let mut conversation = limited();
    for line in ["> get k", "a> get k", "a< END", "< END"] {
        conversation.line(line);
    }
    let server = conversation.host("a");
    conversation.world.partition(server, conversation.router);
    let set = "> set k 0 0 400000\\r\\n{x*400000}";
    // Half of the limit is for what servers do not take. The sixth value exceeds it, which the seventh makes known.
    for client in ["", "", "", "1", "1", "1", "2", "2"] {
        conversation.line(&format!("{client}{set}"));
        conversation.world.run_for(20_000);
    }
    assert_eq!(conversation.worker().cells.refused_for_memory.value(), 1);
    conversation.world.heal(server, conversation.router);
    conversation.world.run_for(400_000);
    let received = std::mem::take(&mut conversation.world.handler::<End>(server).received);
    assert!(received.ends_with(b"xx\r\n") && received.len() < 7 * 400_100, "{}", received.len());
    conversation.line(&format!("a<| {}", "STORED\\r\\n".repeat(7)));
    for line in ["< STORED", "1< STORED", "2< STORED", "2< SERVER_ERROR out of memory storing object"] {
        conversation.line(line);
    }
    conversation.line(set);
    arrive(&mut conversation);
    conversation.line("a> set k 0 0 400000");
}

#[test]
fn requests_without_a_reply_have_their_places_in_the_window() {
    let mut conversation = Conversation::new(ONE);
    let (client, server) = (conversation.host("0"), conversation.host("a"));
    let sets: String = (0..2000).map(|number| format!("set k{number} 0 0 1 noreply\r\nx\r\n")).collect();
    let text = sets + "get last\r\n";
    conversation.world.handler::<End>(client).to_send.extend_from_slice(text.as_bytes());
    conversation.settle(client);
    let mut seen = 0;
    for expected in [WINDOW_MAX, 2000 - WINDOW_MAX + 1] {
        let received = std::mem::take(&mut conversation.world.handler::<End>(server).received);
        let requests = received.windows(5).filter(|word| word == b"set k" || word == b"get l").count();
        assert_eq!(requests, expected);
        let stored = expected.min(2000 - seen);
        seen += stored;
        conversation
            .world
            .handler::<End>(server)
            .to_send
            .extend_from_slice("STORED\r\n".repeat(stored).as_bytes());
        conversation.settle(server);
    }
    conversation.line("nothing");
    conversation.line("a< END");
    conversation.line("< END");
    conversation.end();
}
