//! Endless or meaningless input, and output that is not read.

use super::*;
use stdx::prng::Prng;

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let conversation = b"set a 0 0 5\r\nhello\r\nget a b\r\nms c 2 k\r\nhi\r\nmg c v k O1\r\nincr n 1\r\nnonsense\r\nversio\n";
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        let stream = attacked.connect();
        for byte in conversation {
            send(&stream, &[*byte]);
        }
        let expected = "STORED\r\nVALUE a 0 5\r\nhello\r\nEND\r\nHD kc\r\nVA 2 kc O1\r\nhi\r\nNOT_FOUND\r\nERROR\r\nERROR\r\n";
        assert_eq!(String::from_utf8_lossy(&drain(stream)), expected);
        attacked.close("a conversation byte by byte");
    }
}

#[test]
fn clients_that_stop_in_the_middle_do_not_delay_others() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-c", "3000"]);
        let beginnings: [&[u8]; 5] =
            [b"g", b"get ke", b"set a 0 0 1000000\r\nxxxx", b"ms a 500 T0\r\n", b"get a b c "];
        let streams: Vec<TcpStream> = (0..1000)
            .map(|number| {
                let stream = attacked.connect();
                send(&stream, beginnings[number % beginnings.len()]);
                stream
            })
            .collect();
        let mut client = attacked.client();
        assert_eq!(client.ask(b"set other 0 0 1\r\nx\r\n").expect("service"), "STORED");
        attacked.memory_is_bounded();
        drop(streams);
        attacked.all_have_left_but(1);
        attacked.close("a thousand unfinished requests");
    }
}

#[test]
fn replies_that_are_not_read_cost_no_memory() {
    const GETS: usize = 100;
    const VALUE: usize = 1_000_000;
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-I", "2m"]);
        let mut client = attacked.client();
        let set = [format!("set big 0 0 {VALUE}\r\n").as_bytes(), &vec![b'v'; VALUE], b"\r\n"].concat();
        assert_eq!(client.ask(&set).expect("service"), "STORED");
        let streams: Vec<TcpStream> = (0..50).map(|_| attacked.connect()).collect();
        streams.iter().for_each(|stream| send(stream, &b"get big\r\n".repeat(GETS)));
        // Once the beginning of a reply has arrived, its request was served before the following ones.
        assert_eq!(clock::wait_for(|| streams[0].peek(&mut [0]).ok()), Some(1), "the beginning of a reply");
        // While they wait, the value is overwritten and deleted: earlier requests get the old value.
        assert_eq!(client.ask(b"mn\r\n").expect("service"), "MN");
        assert_eq!(client.ask(b"delete big\r\n").expect("service"), "DELETED");
        attacked.memory_is_bounded();
        let mut streams = streams.into_iter();
        let first = drain(streams.next().expect("fifty"));
        let reply =
            [format!("VALUE big 0 {VALUE}\r\n").as_bytes(), &vec![b'v'; VALUE], b"\r\nEND\r\n"].concat();
        assert!(first.starts_with(&reply), "the reply began {}", first[..first.len().min(80)].escape_ascii());
        let rest = first.len() / reply.len();
        assert!(
            first.len() % reply.len() == (GETS - rest) * 5,
            "{} bytes are no sequence of replies",
            first.len()
        );
        streams.for_each(reset);
        attacked.all_have_left_but(1);
        attacked.close("five gigabytes of replies unread");
    }
}

#[test]
fn noise_is_answered_or_ends_the_connection() {
    const RANDOM_SEED: u64 = 7;
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        let mut prng = Prng::new(RANDOM_SEED);
        for _ in 0..300 {
            let stream = attacked.connect();
            let length = 1 + prng.below(20_000);
            let noise: Vec<u8> = (0..length).map(|_| prng.next_u64() as u8).collect();
            send(&stream, &noise);
            drain(stream);
        }
        attacked.all_have_left_but(0);
        attacked.close("noise");
    }
}

#[test]
fn words_of_the_protocol_in_any_order_are_answered_or_end_the_connection() {
    const RANDOM_SEED: u64 = 11;
    const WORDS: [&str; 40] = [
        "get ",
        "gets ",
        "gat ",
        "set ",
        "add ",
        "cas ",
        "append ",
        "incr ",
        "delete ",
        "touch ",
        "mg ",
        "ms ",
        "md ",
        "ma ",
        "me ",
        "mn",
        "stats ",
        "items",
        "lru ",
        "lru_crawler ",
        "metadump all",
        "flush_all ",
        "k ",
        "key ",
        "0 ",
        "1 ",
        "10 ",
        "-1 ",
        "18446744073709551615 ",
        "noreply",
        "v ",
        "q ",
        "N30 ",
        "T0 ",
        "b ",
        "Zm9v ",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
    ];
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        let mut prng = Prng::new(RANDOM_SEED);
        for _ in 0..200 {
            let stream = attacked.connect();
            let count = 1 + prng.below(400);
            let text: String = (0..count).map(|_| WORDS[prng.below(WORDS.len() as u64) as usize]).collect();
            send(&stream, text.as_bytes());
            drain(stream);
        }
        attacked.all_have_left_but(0);
        attacked.close("words in any order");
    }
}

#[test]
fn a_line_without_end_ends_the_connection() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        for _ in 0..50 {
            let stream = attacked.connect();
            send(&stream, &vec![b'a'; 1 << 20]);
            assert!(drain(stream).len() < 100, "more than a word of refusal");
        }
        attacked.all_have_left_but(0);
        attacked.close("lines without end");
    }
}

#[test]
fn a_get_without_end_is_answered_as_it_arrives_or_refused_but_never_buffered() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &[]);
        for word in [&b"k "[..], b"kkkkkkkkkkkkkkkk"] {
            let stream = attacked.connect();
            send(&stream, b"get ");
            for _ in 0..64 {
                send(&stream, &word.repeat((1 << 20) / word.len()));
            }
            attacked.memory_is_bounded();
            drain(stream);
        }
        attacked.all_have_left_but(0);
        attacked.close("gets without end");
    }
}
