//! Values of all sizes, long lines, deep pipelines.

use super::{Conversation, End, ONE, play};

const SIZES: [usize; 8] = [0, 1, 11 << 10, 12_287, 12_288, 13 << 10, 16 << 10, 1 << 20];

#[test]
fn values_of_any_size_pass_in_both_directions() {
    for size in SIZES {
        let script = "> set k 0 0 SIZE\\r\\n{x*SIZE}
             a> set k 0 0 SIZE
             a> {x*SIZE}
             a< STORED
             < STORED
             > set k 0 0 SIZE noreply\\r\\n{x*SIZE}
             a> set k 0 0 SIZE
             a> {x*SIZE}
             a< STORED
             > get k
             a> get k
             a< VALUE k 0 SIZE\\r\\n{x*SIZE}\\r\\nEND
             < VALUE k 0 SIZE
             < {x*SIZE}
             < END
             > get i j k
             a> get i j k
             a< VALUE i 0 SIZE\\r\\n{y*SIZE}\\r\\nVALUE k 0 SIZE\\r\\n{x*SIZE}\\r\\nEND
             < VALUE i 0 SIZE
             < {y*SIZE}
             < VALUE k 0 SIZE
             < {x*SIZE}
             < END
             > mg k v q
             a> mg k v O1
             a< VA SIZE O1\\r\\n{x*SIZE}
             < VA SIZE
             < {x*SIZE}";
        play(ONE, &script.replace("SIZE", &size.to_string()));
    }
}

#[test]
fn a_client_is_not_read_from_while_a_server_has_not_stored_its_large_values() {
    let script = "> set k 0 0 600000\\r\\n{x*600000}\\r\\nset k 0 0 600000\\r\\n{y*600000}\\r\\nget k
         1> get other
         a> set k 0 0 600000
         a> {x*600000}
         a> set k 0 0 600000
         a> {y*600000}
         a> get other
         nothing
         a< STORED
         < STORED
         nothing
         a<| STORED\\r\\nEND\\r\\n
         < STORED
         1< END
         a> get k
         a< END
         < END";
    play(ONE, script);
}

#[test]
fn a_body_without_its_line_end_closes_the_client() {
    for size in ["1", "20000"] {
        let script = ">| set k 0 0 SIZE\\r\\n{x*SIZE}yz
             < CLIENT_ERROR bad data chunk
             closed
             1> get k
             a> get k
             a< END
             1< END";
        play(ONE, &script.replace("SIZE", size));
    }
}

#[test]
fn more_requests_than_a_window_are_answered_in_their_order() {
    let mut conversation = Conversation::new(ONE);
    let requests: String = (0..2000).map(|number| format!("get k{number}\r\n")).collect();
    let client = conversation.host("0");
    conversation.world.handler::<End>(client).to_send.extend_from_slice(requests.as_bytes());
    conversation.settle(client);
    let server = conversation.host("a");
    // The first replies show that they are short.
    for expected in [0..16, 16..152, 152..1176, 1176..2000] {
        let text: String = expected.clone().map(|number| format!("get k{number}\r\n")).collect();
        let received = std::mem::take(&mut conversation.world.handler::<End>(server).received);
        assert!(received == text.as_bytes(), "{} bytes", received.len());
        let reply: String = expected.map(|number| format!("VALUE k{number} 0 1\r\nx\r\nEND\r\n")).collect();
        conversation.world.handler::<End>(server).to_send.extend_from_slice(reply.as_bytes());
        conversation.settle(server);
    }
    let expected: String = (0..2000).map(|number| format!("VALUE k{number} 0 1\r\nx\r\nEND\r\n")).collect();
    let received = std::mem::take(&mut conversation.world.handler::<End>(client).received);
    assert!(received == expected.as_bytes(), "{} bytes", received.len());
    conversation.end();
}

#[test]
fn keys_beyond_256_of_a_line_follow_when_the_first_have_replies() {
    let mut conversation = Conversation::new(ONE);
    let client = conversation.host("0");
    let keys: Vec<String> = (0..600).map(|number| format!("k{number}")).collect();
    let line = format!("get {}\r\nget after\r\n", keys.join(" "));
    conversation.world.handler::<End>(client).to_send.extend_from_slice(line.as_bytes());
    conversation.settle(client);
    conversation.line("1> get other");
    for range in [0..256, 256..512, 512..600] {
        conversation.line(&format!("a> get {}", keys[range.clone()].join(" ")));
        if range.start == 0 {
            // Another's request is not behind all keys.
            conversation.line("a> get other");
            conversation.line("nothing");
        }
        let value = |number: usize| format!("VALUE k{number} 0 1\\r\\nx\\r\\n");
        let values: String = range.clone().map(value).collect();
        conversation.line(&format!("a<| {values}END\\r\\n"));
        if range.start == 0 {
            conversation.line("a< END");
            conversation.line("1< END");
        }
    }
    conversation.line("a> get after");
    conversation.line("a< END");
    for number in 0..600 {
        conversation.line(&format!("< VALUE k{number} 0 1"));
        conversation.line("< x");
    }
    conversation.line("< END");
    conversation.line("< END");
    conversation.end();
}

#[test]
fn a_long_line_of_keys_is_answered_whole_also_with_more_than_may_be_parked() {
    let mut conversation = Conversation::new(ONE);
    let (client, server) = (conversation.host("0"), conversation.host("a"));
    let keys: Vec<String> = (0..5000).map(|number| format!("key:{number:05}")).collect();
    let value = "v".repeat(1000);
    let line = format!("get {}\r\n", keys.join(" "));
    let mut expected = String::new();
    for part in line.as_bytes().chunks(9000) {
        conversation.world.handler::<End>(client).to_send.extend_from_slice(part);
        conversation.settle(client);
        let received = std::mem::take(&mut conversation.world.handler::<End>(server).received);
        let mut reply = String::new();
        for request in String::from_utf8(received).expect("ASCII").lines() {
            for key in request.split(' ').skip(1) {
                reply.push_str(&format!("VALUE {key} 0 1000\r\n{value}\r\n"));
            }
            expected.push_str(&reply.replace("END\r\n", ""));
            reply.push_str("END\r\n");
            conversation.world.handler::<End>(server).to_send.extend_from_slice(reply.as_bytes());
            reply.clear();
        }
        conversation.settle(server);
    }
    conversation.world.run_for(100_000);
    expected.push_str("END\r\n");
    let received = std::mem::take(&mut conversation.world.handler::<End>(client).received);
    assert_eq!(received.len(), 5000 * (value.len() + "VALUE key:00000 0 1000\r\n\r\n".len()) + 5);
    assert!(received == expected.as_bytes());
    conversation.end();
}
