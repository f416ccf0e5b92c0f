//! Requests in datagrams: transcripts, replies of many datagrams, hostile senders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::sim::{HostId, World};
use net::{Datagram, DatagramPeer, Dial, Handler, Next, Opened, Progress, SocketId, Turn};
use protocol::discovery::{DiscoveryList, DiscoveryState};
use server::Worker;
use server::flags;
use server::options::Options;
use stdx::gather::Gather;
use stdx::prng::Prng;
use transcript::{Peer, ReceivedOutput, Transcript};

use crate::packets::{
    APPEND, DELETEQ, FLUSH, GAT, GET, GETK, GETKQ, GETQ, INCREMENT, NOOP, PacketWriter, QUIT, SASL_AUTH,
    SASL_LIST, SETQ, STAT, TOUCH, VERSION, counted, get, header, packet, set, show, stored,
};

const STARTED_UNIX_MS: u64 = 1_800_000_000_000;
const PORT: u16 = 11211;
/// The frame before a request or a reply: its number, the datagram's number, the datagrams, and two zeros.
const HEAD_LEN: usize = 8;
/// Bytes of a request.
const REQUEST_MAX: usize = 65_000;
/// Longer than a request takes in the simulation.
const WAIT_US: u64 = 5_000;

/// A client that sends what it is given, and keeps what arrives.
#[derive(Default)]
struct Client {
    dial: Option<Dial>,
    socket: Option<SocketId>,
    to_send: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Handler for Client {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _: &Opened, _: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        (): &mut (),
        _: &[u8],
        _: &mut Gather<Vec<u8>>,
        _: &mut Turn<Vec<u8>>,
    ) -> Progress {
        Progress { consumed: 0, next: Next::Read }
    }

    fn on_socket(&mut self, _tag: u64, socket: SocketId, _: &mut Turn<Vec<u8>>) {
        self.socket = Some(socket);
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, _: &mut Turn<Vec<u8>>) {
        self.received.push(datagram.bytes.to_vec());
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(dial) = self.dial.take() {
            turn.dial(dial, 0).expect("the first one");
        }
        if let Some(socket) = self.socket {
            for datagram in self.to_send.drain(..) {
                assert!(turn.send_datagram(DatagramPeer::Dialled(socket), &datagram));
            }
        }
    }
}

/// A server and a client without sockets.
struct Pair {
    world: World,
    client: HostId,
    requests: u16,
    /// What connections have not read yet.
    unread: BTreeMap<usize, Vec<u8>>,
    /// Connections that the client has closed.
    closed: BTreeSet<usize>,
}

impl Pair {
    fn new(options: &Options) -> Pair {
        Pair::of(server::sim::worker(options, STARTED_UNIX_MS, 1))
    }

    fn of(worker: Worker) -> Pair {
        let mut world = World::new(1);
        let at = net::Options { workers: 1, ..net::Options::default() };
        let server = world.add_with_datagrams(worker, &[], &[PORT], &at);
        let dial = Dial { place: world.datagram_place(server, PORT), timeout_ms: 1000, tls: None };
        let client = world.add(Client { dial: Some(dial), ..Client::default() }, &[], &at);
        world.run_for(WAIT_US);
        Pair { world, client, requests: 0, unread: BTreeMap::new(), closed: BTreeSet::new() }
    }

    /// Sends datagrams as they are, and returns all that come back.
    fn exchange(&mut self, datagrams: &[&[u8]]) -> Vec<Vec<u8>> {
        let client = self.world.handler::<Client>(self.client);
        client.to_send.extend(datagrams.iter().map(|datagram| datagram.to_vec()));
        self.world.nudge(self.client);
        self.world.run_for(WAIT_US);
        std::mem::take(&mut self.world.handler::<Client>(self.client).received)
    }

    /// Sends one datagram with `request`, and returns the reply, whose datagrams must be whole and in order.
    #[track_caller]
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.requests = self.requests.wrapping_add(1);
        let id = self.requests.to_be_bytes();
        let mut reply = Vec::new();
        let mut datagrams = self.exchange(&[&[&id[..], &[0, 0, 0, 1, 0, 0], request].concat()]);
        // They overtake each other; all of them begin with the same number.
        datagrams.sort();
        for (number, datagram) in datagrams.iter().enumerate() {
            let (head, part) = datagram.split_at(HEAD_LEN);
            let [sequence, total] = [number, datagrams.len()].map(|n| (n as u16).to_be_bytes());
            assert_eq!(head, [&id[..], &sequence, &total, &[0, 0]].concat());
            assert!(datagram.len() == 1400 || number + 1 == datagrams.len(), "{}", datagram.len());
            reply.extend_from_slice(part);
        }
        reply
    }

    #[track_caller]
    fn check(&mut self, request: &str, reply: &str) {
        assert_eq!(
            self.ask(request.as_bytes()).escape_ascii().to_string(),
            reply.escape_default().to_string(),
            "{request:?}"
        );
    }

    fn statistic(&mut self, name: &str) -> u64 {
        let text = String::from_utf8(self.ask(b"stats\r\n")).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("{name} is in {text}")).parse().expect("a number")
    }
}

/// Each piece of input is a datagram.
impl Peer for Pair {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() > REQUEST_MAX {
            return Err(format!("{} bytes do not fit into a datagram", bytes.len()));
        }
        let reply = self.ask(bytes);
        self.unread.entry(connection).or_default().extend(reply);
        Ok(())
    }

    fn receive(&mut self, connection: usize, received: &mut Vec<u8>) -> Result<ReceivedOutput, String> {
        let unread = self.unread.remove(&connection).unwrap_or_default();
        received.extend_from_slice(&unread);
        Ok(match unread.is_empty() {
            false => ReceivedOutput::Some,
            true if self.closed.remove(&connection) => ReceivedOutput::Closed,
            true => ReceivedOutput::Nothing,
        })
    }

    fn close(&mut self, connection: usize) -> Result<(), String> {
        self.closed.insert(connection);
        Ok(())
    }

    fn advance(&mut self, seconds: u32) -> Result<(), String> {
        self.world.run_for(u64::from(seconds) * 1_000_000);
        Ok(())
    }

    fn unix_time(&self) -> u64 {
        (STARTED_UNIX_MS + self.world.now().ms()) / 1000
    }
}

fn options(flags: &[&str]) -> Options {
    let low = flags::parse(flags).expect("flags that parse");
    Options::new(low, &|path| std::fs::read_to_string(path)).expect("flags that make sense")
}

fn pair() -> Pair {
    Pair::new(&options(&["-U", "11211", "-t", "1"]))
}

/// Transcripts that are not about requests in datagrams, with the reason.
const NOT_IN_DATAGRAMS: &[(&str, &str)] = &[
    ("admin_odd", "a line that is no command is not answered"),
    ("bad_data_chunk", "a line that is no command is not answered"),
    ("cache_memlimit", "a line that is no command is not answered"),
    ("connections", "a line that is no command is not answered"),
    ("discovery", "`config get cluster` is not answered"),
    ("discovery_off", "a line that is no command is not answered"),
    ("lines", "a line that is no command is not answered"),
    ("meta_errors", "a line that is no command is not answered"),
    ("pipelining", "a line that is no command is not answered"),
    ("stats_counts", "a line that is no command is not answered"),
    ("auth", "a server with users refuses UDP"),
    ("binary", "it is the binary protocol"),
    ("dump", "it needs a connection"),
    ("stats_cachedump", "it needs a connection"),
    ("stats_connections", "it needs a connection"),
    ("stats_detail", "it needs a connection"),
    ("stats_sizes", "it needs a connection"),
    ("watch", "it needs a connection"),
    ("watch_connections", "it needs a connection"),
    ("watch_disabled", "it needs a connection"),
    ("http", "nothing is closed"),
    ("line_too_long", "nothing is closed"),
    ("shutdown_enabled", "nothing is closed"),
    ("version_verbosity_quit", "nothing is closed"),
    ("item_size_large", "a request does not fit into a datagram"),
    ("item_size_small", "a request does not fit into a datagram"),
    ("multiget", "a request does not fit into a datagram"),
    ("no_evictions", "a request does not fit into a datagram"),
    ("too_large", "a request does not fit into a datagram"),
];

/// The first difference from a transcript, of which each piece of input is a datagram.
fn play(transcript: &Transcript) -> Result<(), String> {
    let flags: Vec<&str> = transcript.flags.iter().map(AsRef::as_ref).collect();
    let mut pair = Pair::new(&options(&flags));
    transcript::run(transcript, &mut pair).map_err(|failure| failure.to_string())
}

#[test]
fn transcripts_hold_in_datagrams() {
    let is_excluded = |t: &Transcript| NOT_IN_DATAGRAMS.iter().any(|(name, _)| *name == t.name);
    let (excluded, played): (Vec<_>, Vec<_>) = transcript::all().into_iter().partition(is_excluded);
    let failures: Vec<String> = played.iter().filter_map(|transcript| play(transcript).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(played.len() > 40, "{}", played.len());
    assert_eq!(excluded.len(), NOT_IN_DATAGRAMS.len());
    for transcript in excluded {
        assert!(play(&transcript).is_err(), "{} holds", transcript.name);
    }
}

#[test]
fn a_reply_takes_as_many_datagrams_as_it_needs() {
    let mut pair = pair();
    for len in [1, 1392 - 24, 1392 - 23, 5_000, 40_000, 60_000] {
        let value = "v".repeat(len);
        pair.check(&format!("set k 0 0 {len}\r\n{value}\r\n"), "STORED\r\n");
        pair.check("get k\r\n", &format!("VALUE k 0 {len}\r\n{value}\r\nEND\r\n"));
    }
    let (mut keys, mut reply) = (String::from("get"), String::new());
    for number in 0..2000 {
        pair.check(&format!("set key{number} 0 0 50\r\n{number:050}\r\n"), "STORED\r\n");
        keys += &format!(" key{number}");
        reply += &format!("VALUE key{number} 0 50\r\n{number:050}\r\n");
    }
    pair.check(&format!("{keys}\r\n"), &format!("{reply}END\r\n"));
}

#[test]
fn a_reply_that_is_too_long_is_an_error() {
    let mut pair = pair();
    let value = "v".repeat(60_000);
    pair.check(&format!("set k 0 0 60000\r\n{value}\r\n"), "STORED\r\n");
    pair.check(&format!("get{}\r\n", " k".repeat(30)), "SERVER_ERROR reply is too long for UDP\r\n");
    let small = "v".repeat(1000);
    pair.check(&format!("set s 0 0 1000\r\n{small}\r\n"), "STORED\r\n");
    pair.check(&format!("get{}\r\n", " s".repeat(20_000)), "SERVER_ERROR reply is too long for UDP\r\n");
}

#[test]
fn several_requests_in_a_datagram_have_one_reply() {
    let mut pair = pair();
    pair.check(
        "set a 0 0 1\r\nx\r\nget a\r\nmg a v\r\nmn\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVA 1\r\nx\r\nMN\r\n",
    );
    pair.check("set a 0 0 1 noreply\r\ny\r\nmg a v q\r\n", "VA 1\r\ny\r\n");
    pair.check("delete a noreply\r\n", "");
    pair.check("mg a v q\r\n", "");
}

/// The replies to these packets in one datagram, in words.
#[track_caller]
fn check_packets(pair: &mut Pair, requests: &[Vec<u8>], replies: &str) {
    assert_eq!(show(&pair.ask(&requests.concat())), replies);
}

#[test]
fn packets_in_a_datagram_are_served() {
    let mut pair = pair();
    check_packets(&mut pair, &[set("a", b"xy")], "01 00 cas");
    check_packets(&mut pair, &[get("a")], "00 00 00000000 xy cas");
    check_packets(&mut pair, &[packet(GETK, b"", b"none", b"")], "0c 01 key=none");
    check_packets(&mut pair, &[packet(TOUCH, &[0; 4], b"a", b"")], "1c 00 00000000 cas");
    check_packets(&mut pair, &[packet(GAT, &[0; 4], b"a", b"")], "1d 00 00000000 xy cas");
    check_packets(&mut pair, &[packet(APPEND, b"", b"a", b"z")], "0e 00 cas");
    check_packets(&mut pair, &[packet(INCREMENT, &counted(1, 7, 0), b"n", b"")], {
        "05 00 \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07 cas"
    });
    assert!(show(&pair.ask(&packet(VERSION, b"", b"", b""))).starts_with("0b 00 1.6.45"));
    check_packets(&mut pair, &[packet(FLUSH, b"", b"", b""), get("a")], "08 00\n00 01 Not found");
    // Both protocols are served, each datagram in its own.
    pair.check("get a\r\n", "END\r\n");
}

#[test]
fn quiet_packets_have_a_reply_only_where_something_is_unusual() {
    let mut pair = pair();
    let quiet = [
        packet(SETQ, &stored(0, 0), b"a", b"x"),
        packet(GETQ, b"", b"none", b""),
        packet(GETKQ, b"", b"a", b""),
        packet(DELETEQ, b"", b"none", b""),
        packet(NOOP, b"", b"", b""),
    ];
    check_packets(&mut pair, &quiet, "0d 00 00000000 key=a x cas\n14 01 Not found\n0a 00");
    check_packets(&mut pair, &[packet(SETQ, &stored(0, 0), b"a", b"y")], "");
    check_packets(&mut pair, &[get("a")], "00 00 00000000 y cas");
    // Nothing follows a quit.
    check_packets(&mut pair, &[packet(QUIT, b"", b"", b""), get("a")], "07 00");
}

#[test]
fn a_reply_in_packets_takes_as_many_datagrams_as_it_needs() {
    let mut pair = pair();
    for len in [1392 - 28, 1392 - 27, 40_000, 60_000] {
        let value = vec![b'v'; len];
        check_packets(&mut pair, &[set("k", &value)], "01 00 cas");
        let reply = pair.ask(&get("k"));
        assert_eq!((reply.len(), &reply[28..]), (28 + len, &value[..]));
    }
    assert_eq!(pair.ask(&get("k").repeat(4)).len(), 4 * 60_028);
    check_packets(&mut pair, &[get("k").repeat(18)], "00 03 Too large.");
    assert!(show(&pair.ask(&packet(STAT, b"", b"", b""))).lines().count() > 90);
    // What takes several turns needs a connection.
    check_packets(&mut pair, &[packet(STAT, b"", b"detail dump", b""), get("none")], {
        "10 81 Unknown command\n00 01 Not found"
    });
}

#[test]
fn a_join_with_a_large_value_needs_a_connection() {
    let mut pair = pair();
    check_packets(&mut pair, &[set("k", &[b'v'; 60_000])], "01 00 cas");
    let mut len = 60_000;
    for _ in 0..3 {
        check_packets(&mut pair, &[packet(APPEND, b"", b"k", &[b'w'; 60_000])], "0e 00 cas");
        len += 60_000;
    }
    // One attempt in a datagram.
    let longer = packet(APPEND, b"", b"k", &[b'x'; 30_000]).repeat(2);
    check_packets(&mut pair, &[longer], "0e 03 Too large.");
    assert_eq!(pair.ask(&get("k")).len(), 28 + len);
}

#[test]
fn packets_with_wrong_lengths_are_refused_and_end_the_datagram() {
    let mut pair = pair();
    let invalid = |opcode: u8| format!("{opcode:02x} 04 Invalid arguments");
    // More is announced than the datagram has, up to the most that there can be.
    for body in [4 + 8 + 1, 65_536, 1 << 30] {
        let lying = [header(1, 3, 8, body, 0), stored(0, 0), b"key".to_vec()].concat();
        check_packets(&mut pair, std::slice::from_ref(&lying), &invalid(1));
        check_packets(&mut pair, &[get("none"), lying], &format!("00 01 Not found\n{}", invalid(1)));
    }
    check_packets(&mut pair, &[header(1, 3, 8, u32::MAX, 0), get("none")], &invalid(1));
    // Extras that are larger than the body; a key that is too long; extras that suit nothing.
    check_packets(&mut pair, &[header(0, 1, 255, 4, 0), get("none")], "00 81 Unknown command");
    check_packets(&mut pair, &[packet(GET, b"", &[b'k'; 251], b"")], &invalid(0));
    check_packets(&mut pair, &[packet(GET, b"odd", b"k", b"")], &invalid(0));
    // A head without its end is no request, and no later datagram continues it.
    check_packets(&mut pair, &[get("none")[..24].to_vec()], "");
    check_packets(&mut pair, &[b"none".to_vec()], "");
    check_packets(&mut pair, &[vec![0x80]], "");
    check_packets(&mut pair, &[get("none"), b"get none\r\n".to_vec()], "00 01 Not found");
    // An unknown opcode is answered, and skipped with its value.
    check_packets(&mut pair, &[packet(0x40, b"", b"", b"value"), get("none")], {
        "40 81 Unknown command\n00 01 Not found"
    });
    for opcode in [SASL_LIST, SASL_AUTH] {
        let key: &[u8] = if opcode == SASL_AUTH { b"PLAIN" } else { b"" };
        check_packets(
            &mut pair,
            &[packet(opcode, b"", key, b"")],
            &format!("{opcode:02x} 81 Unknown command"),
        );
    }
}

/// Whatever lengths a header has, with whatever behind it, for every opcode.
#[test]
fn every_opcode_with_every_header_is_answered_with_packets_or_not_at_all() {
    let mut pair = pair();
    let lens = [0, 1, 4, 8, 20, 24, 250, 255];
    for opcode in 0..=u8::MAX {
        for key in [0, 1, 3, 250, 251, u16::MAX] {
            for extras in lens {
                let least = u32::from(key) + u32::from(extras);
                for body in [least, least + 5, least.saturating_sub(1), 0, u32::MAX] {
                    let datagram = [header(opcode, key, extras, body, 0), vec![b'x'; 40]].concat();
                    let reply = pair.ask(&datagram);
                    show(&reply);
                    assert_eq!(pair.ask(&reply), b"", "a reply is never answered");
                }
            }
        }
    }
    check_packets(&mut pair, &[get("none")], "00 01 Not found");
}

/// Random packets get the same replies in datagrams as over a connection, but for what needs one.
#[test]
fn random_packets_get_whole_packets() {
    let mut pair = pair();
    for seed in 0..200 {
        for request in PacketWriter::new(seed).requests(20) {
            if request.len() < REQUEST_MAX {
                let shown = show(&pair.ask(&request));
                assert!(!shown.contains("a part of a reply"), "{shown}");
            }
        }
    }
}

#[test]
fn an_incomplete_request_is_refused_and_no_later_datagram_continues_it() {
    let mut pair = pair();
    pair.check("set a 0 0 100\r\nx", "CLIENT_ERROR bad data chunk\r\n");
    pair.check("get a", "");
    pair.check("get a\r\n", "END\r\n");
    pair.check(&format!("set a 0 0 2000000\r\n{}", "x".repeat(50_000)), "CLIENT_ERROR bad data chunk\r\n");
    pair.check("get a\r\nget a", "END\r\n");
}

/// Two servers whose replies reach each other must not go on for ever, whatever was stored before.
#[test]
fn a_reply_is_never_answered() {
    let mut pair = pair();
    pair.check("set loop 0 0 8\r\nget loop\r\n", "STORED\r\n");
    for request in [
        "get loop",
        "mg loop v",
        "mg loop k",
        "delete nokey",
        "incr loop 1",
        "version",
        "stats",
        "touch loop 0",
        "mn",
        "get",
        "incr",
        "me loop",
    ] {
        let reply = pair.ask(format!("{request}\r\n").as_bytes());
        assert!(!reply.is_empty(), "{request}");
        assert_eq!(pair.ask(&reply), b"", "{request}");
    }
    pair.check("nonsense\r\nget loop\r\n", "");
}

#[test]
fn datagrams_that_are_no_requests_are_dropped_and_counted() {
    let mut pair = pair();
    pair.check("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let bad: [&[u8]; 8] = [
        b"",
        b"\0\x01",
        b"\0\x01\0\0\0\x01\0",
        b"\0\x01\0\0\0\x01\0\0",
        b"\0\x01\0\0\0\x02\0\0get a\r\n",
        b"\0\x01\0\0\0\0\0\0get a\r\n",
        b"\0\x01\0\x01\0\x01\0\0get a\r\n",
        b"\0\x01\xff\xff\xff\xff\0\0get a\r\n",
    ];
    assert_eq!(pair.exchange(&bad), Vec::<Vec<u8>>::new());
    assert_eq!(pair.statistic("evenkeel_udp_malformed"), 8);
    // The last two bytes are reserved.
    assert_eq!(pair.exchange(&[b"\x01\x02\0\0\0\x01\xff\xffget a\r\n"]).len(), 1);
}

#[test]
fn senders_that_are_not_allowed_get_nothing() {
    let mut pair = Pair::new(&options(&["-U", "11211", "-t", "1", "--udp-allow", "127.0.0.1,fc00::/7"]));
    pair.check("get a\r\n", "");
    let mut pair = Pair::new(&options(&["-U", "11211", "-t", "1", "--udp-allow", "10.0.0.0/8"]));
    pair.check("get a\r\n", "END\r\n");
}

#[test]
fn replies_to_a_network_are_bounded() {
    let mut pair = Pair::new(&options(&["-U", "11211", "-t", "1", "--udp-reply-rate", "100k"]));
    let value = "v".repeat(30_000);
    pair.check(&format!("set k 0 0 30000\r\n{value}\r\n"), "STORED\r\n");
    let replies = (0..10).filter(|_| !pair.ask(b"get k\r\n").is_empty()).count();
    assert_eq!(replies, 3);
    Peer::advance(&mut pair, 1).expect("time passes");
    assert_eq!(pair.statistic("evenkeel_udp_limited"), 7);
}

#[test]
fn what_needs_a_connection_is_refused() {
    let mut pair = pair();
    for request in ["watch fetchers", "stats conns", "stats detail dump", "lru_crawler metadump all"] {
        pair.check(&format!("{request}\r\n"), "SERVER_ERROR not available over UDP\r\n");
    }
    pair.check("quit\r\n", "");
    pair.check("verbosity 1\r\n", "OK\r\n");
    pair.check("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
}

/// A short question with a long answer is what forged senders look for.
#[test]
fn the_members_of_a_cluster_are_not_told() {
    let options = Options { cluster_file: Some("/members".into()), ..options(&["-U", "11211"]) };
    let list = DiscoveryList::parse(b"1\na||1\n").expect("a list");
    let state = DiscoveryState { list: Some(Arc::new(list)), is_current: true, refusals: 0 };
    let mut pair = Pair::of(server::sim::worker_telling(&options, STARTED_UNIX_MS, 1, state));
    pair.check("config get cluster\r\n", "");
    pair.check("mn\r\nconfig get cluster\r\n", "MN\r\n");
    let mut packet = vec![0x80, 0x60, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7];
    packet.extend([[0; 12].as_slice(), b"cluster"].concat());
    assert!(pair.ask(&packet).ends_with(b"Unknown command"));
}

/// Each of these takes as long as a thousand gets.
#[test]
fn one_report_is_served_in_a_turn() {
    let mut pair = pair();
    let reply = String::from_utf8(pair.ask(&b"stats\r\n".repeat(1000))).expect("text");
    assert_eq!(reply.matches("STAT pid ").count(), 1);
    pair.check("get a\r\n", "END\r\n");
}

#[test]
fn large_values_are_not_joined_at_once() {
    let mut pair = Pair::new(&options(&["-U", "11211", "-t", "1", "-I", "8m"]));
    let piece = "v".repeat(60_000);
    pair.check(&format!("set k 0 0 60000\r\n{piece}\r\n"), "STORED\r\n");
    let append = format!("append k 0 0 60000\r\n{piece}\r\n");
    let replies: Vec<Vec<u8>> = (0..10).map(|_| pair.ask(append.as_bytes())).collect();
    assert_eq!(replies[0], b"STORED\r\n");
    assert_eq!(replies[9], b"SERVER_ERROR value is too large to be joined over UDP\r\n");
}

/// Parts of requests, good and bad.
const FRAGMENTS: [&[u8]; 24] = [
    b"get a",
    b"gets a b c",
    b"gat 10 a b",
    b"set a 0 0 3",
    b"set b 0 0 60000",
    b"append a 0 0 3",
    b"cas a 0 0 3 1",
    b"abc",
    b"mg a v k t",
    b"ms a 3 T0",
    b"ma n N0 D1 v",
    b"md a q",
    b"me a",
    b"incr n 1",
    b"delete a noreply",
    b"touch a 1",
    b"stats",
    b"stats conns",
    b"lru_crawler mgdump all",
    b"flush_all 5",
    b"cache_memlimit 32",
    b"watch mutations",
    b"shutdown",
    b"quit",
];

#[test]
fn random_datagrams_have_whole_replies_or_none() {
    let mut random = Prng::new(7);
    let mut pair = pair();
    let mut replies = 0;
    for _ in 0..300 {
        let datagrams: Vec<Vec<u8>> = (0..40)
            .map(|id: u8| {
                let mut datagram = vec![0, id, 0, 0, 0, 1, 0, 0];
                for _ in 0..random.below(6) {
                    datagram.extend_from_slice(FRAGMENTS[random.below(24) as usize]);
                    datagram
                        .extend_from_slice([&b"\r\n"[..], b"\r\n", b"\n", b" "][random.below(4) as usize]);
                }
                match random.below(8) {
                    0 => datagram.truncate(random.below(datagram.len() as u64 + 1) as usize),
                    1 => {
                        let place = random.below(datagram.len() as u64) as usize;
                        datagram[place] = random.below(256) as u8;
                    }
                    _ => {}
                }
                datagram
            })
            .collect();
        let datagrams: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
        let mut seen: BTreeMap<[u8; 2], (u16, u16)> = BTreeMap::new();
        for reply in pair.exchange(&datagrams) {
            let number = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
            assert!(reply.len() > HEAD_LEN && reply.len() <= 1400 && number(2) < number(4), "{reply:?}");
            let (count, total) = seen.entry([reply[0], reply[1]]).or_default();
            (*count, *total) = (*count + 1, number(4));
        }
        replies += seen.len();
        // A changed number may be another's, so that two replies have it.
        let is_whole = |(count, total): &&(u16, u16)| count % total == 0 || count > total;
        assert_eq!(seen.values().filter(is_whole).count(), seen.len(), "{seen:?}");
    }
    assert!(replies > 5_000, "{replies}");
    pair.check("version\r\n", "VERSION 1.6.45\r\n");
}
