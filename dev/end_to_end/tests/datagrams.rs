//! Requests over UDP: answered like memcached answers them, by one worker each, and harmless to other clients.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::iter;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use end_to_end::bystander::{Bystander, Client};
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

use crate::packets::{
    ADD, APPEND, DECREMENT, DELETE, DELETEQ, FLUSH, GAT, GETK, GETKQ, GETQ, INCREMENT, NOOP, PREPEND,
    REPLACE, SETQ, TOUCH, counted, get, header, packet, set, show, stored, with_cas,
};

/// A reply takes much less; nothing comes after it.
const SILENCE: Duration = Duration::from_millis(100);

/// A server that also serves datagrams, and a client.
struct Pair {
    server: Server,
    at: SocketAddr,
    socket: UdpSocket,
}

impl Pair {
    fn start(subject: &ServerUnderTest, flags: &[&str]) -> Pair {
        let flags = [&["-U", "-1"], flags].concat();
        let server = Server::start(subject, &flags).expect("a server");
        let mut stream = server.connect().expect("a connection");
        stream.write_all(b"stats conns\r\nquit\r\n").expect("send");
        let mut list = String::new();
        stream.read_to_string(&mut list).expect("receive");
        let address = list.lines().find_map(|line| line.split_once("addr udp:")).expect(&list).1;
        let at: SocketAddr = address.parse().expect("an address");
        let socket = client(at);
        Pair { server, at, socket }
    }

    /// Sends a datagram as it is.
    fn send(&self, datagram: &[u8]) {
        self.socket.send(datagram).expect("send");
    }

    /// All datagrams that come until the whole reply is there, or nothing comes any more.
    fn reply(&self) -> Vec<Vec<u8>> {
        let mut datagrams: Vec<Vec<u8>> = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        let total = |first: &[u8]| usize::from(u16::from_be_bytes([first[4], first[5]]));
        while datagrams.first().is_none_or(|first| datagrams.len() < total(first)) {
            match self.socket.recv(&mut buffer) {
                Ok(len) => datagrams.push(buffer[..len].to_vec()),
                Err(_) => break,
            }
        }
        datagrams
    }

    fn ask(&self, request: &str) -> Vec<Vec<u8>> {
        self.ask_bytes(request.as_bytes())
    }

    fn ask_bytes(&self, request: &[u8]) -> Vec<Vec<u8>> {
        self.send(&framed(request));
        self.reply()
    }
}

fn client(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(at).expect("an address");
    socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
    socket
}

fn framed(request: impl AsRef<[u8]>) -> Vec<u8> {
    [b"\x12\x34\0\0\0\x01\0\0", request.as_ref()].concat()
}

/// Requests with one key and one command, to which memcached's replies can be compared.
fn requests() -> Vec<String> {
    let long = "v".repeat(10_000);
    let mut requests: Vec<String> = [
        "set a 7 0 3\r\nabc\r\n",
        "get a\r\n",
        "get nothing\r\n",
        "add a 0 0 1\r\nx\r\n",
        "append a 0 0 1\r\nd\r\n",
        "get a\r\n",
        "set n 0 0 1 noreply\r\n7\r\n",
        "incr n 5\r\n",
        "decr n 100\r\n",
        "incr a 1\r\n",
        "incr nothing 1\r\n",
        "touch a 100\r\n",
        "gat 100 a\r\n",
        "delete n\r\n",
        "delete n\r\n",
        "mg a v f s k O123\r\n",
        "mg nothing v\r\n",
        "ms m 2 F5\r\nxy\r\n",
        "md m q\r\n",
        "ma count N0 J5 v\r\n",
        "mn\r\n",
        "verbosity 0\r\n",
        "flush_all noreply\r\n",
    ]
    .map(str::to_owned)
    .to_vec();
    requests.push(format!("set long 0 0 {}\r\n{long}\r\n", long.len()));
    requests.push("get long\r\n".to_owned());
    requests
}

#[test]
fn replies_in_datagrams_are_those_of_memcached() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let theirs = Pair::start(&memcached, &["-t", "1"]);
    for driver in [SocketDriver::Epoll, SocketDriver::Uring] {
        let ours = Pair::start(&ServerUnderTest::evenkeel(driver), &["-t", "1"]);
        theirs.ask("flush_all\r\n");
        for request in requests() {
            let show = |reply: Vec<Vec<u8>>| -> Vec<String> {
                reply.iter().map(|datagram| datagram.escape_ascii().to_string()).collect()
            };
            assert_eq!(show(ours.ask(&request)), show(theirs.ask(&request)), "{request:?}");
        }
    }
}

/// One packet each. Numbers of CAS are servers' own, so that only one that no item has can be compared.
fn packet_requests() -> Vec<Vec<u8>> {
    let bare = |opcode: u8, key: &[u8]| packet(opcode, b"", key, b"");
    vec![
        bare(FLUSH, b""),
        bare(NOOP, b""),
        get("a"),
        bare(GETK, b"a"),
        bare(GETQ, b"a"),
        set("a", b"abc"),
        get("a"),
        bare(GETK, b"a"),
        bare(GETKQ, b"a"),
        packet(SETQ, &stored(7, 0), b"q", b"quiet"),
        get("q"),
        packet(ADD, &stored(0, 0), b"a", b"x"),
        packet(REPLACE, &stored(0, 0), b"none", b"x"),
        packet(APPEND, b"", b"a", b"d"),
        packet(PREPEND, b"", b"none", b"d"),
        with_cas(DELETE, b"", b"a", b"", 18_000_000_000_000_000_000),
        packet(INCREMENT, &counted(5, 3, 0), b"n", b""),
        packet(DECREMENT, &counted(1, 3, 0), b"n", b""),
        packet(INCREMENT, &counted(5, 3, 0), b"a", b""),
        packet(TOUCH, &100_u32.to_be_bytes(), b"a", b""),
        packet(GAT, &100_u32.to_be_bytes(), b"a", b""),
        bare(DELETE, b"a"),
        bare(DELETE, b"a"),
        bare(DELETEQ, b"q"),
        bare(DELETEQ, b"q"),
        bare(0x40, b""),
        // Lengths that do not suit, or contradict each other.
        packet(0x00, b"odd", b"k", b""),
        bare(0x00, &[b'k'; 251]),
        [header(0x00, 3, 0, 2, 0), b"key".to_vec()].concat(),
        set("long", &[b'v'; 10_000]),
        get("long"),
    ]
}

#[test]
fn packets_in_datagrams_are_answered_as_by_memcached() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let theirs = Pair::start(&memcached, &["-t", "1"]);
    let ours = Pair::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-t", "1"]);
    for request in packet_requests() {
        let shown = |pair: &Pair| {
            let mut reply = pair.ask_bytes(&request);
            // memcached answers nothing with a frame that has nothing behind it.
            reply.retain(|datagram| datagram.len() > 8);
            reply.sort();
            // The frames, of which the content may come in any order; then the packets.
            let frames: Vec<Vec<u8>> = reply.iter().map(|datagram| datagram[..8].to_vec()).collect();
            (frames, show(&reply.iter().flat_map(|datagram| datagram[8..].to_vec()).collect::<Vec<_>>()))
        };
        assert_eq!(shown(&ours), shown(&theirs), "{}", request.escape_ascii());
    }
}

/// Switches of the process's worker threads from waiting to working, by their ids.
fn wake_ups(pid: u32) -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let count = |path: &std::path::Path| -> Option<u64> {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        name.starts_with("worker").then(|| line.trim().parse().ok())?
    };
    let threads = threads.map(|thread| thread.expect("a thread").path());
    threads.filter_map(|path| Some((path.display().to_string(), count(&path)?))).collect()
}

#[test]
fn a_datagram_wakes_one_worker() {
    let pair = Pair::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-t", "4"]);
    let (count, before) = (300, wake_ups(pair.server.pid()));
    assert_eq!(before.len(), 4, "{before:?}");
    for _ in 0..count {
        assert_eq!(pair.ask("get a\r\n").len(), 1);
    }
    let after = wake_ups(pair.server.pid());
    let mut woken: Vec<u64> = after.iter().map(|(thread, wakes)| wakes - before[thread]).collect();
    woken.sort_unstable();
    // On a busy machine the one that serves may not come to wait between two.
    assert!(woken[3] > 0, "{woken:?}");
    assert!(woken[2] <= count / 10, "{woken:?}");
}

#[test]
fn a_flood_of_datagrams_leaves_other_clients_their_turns() {
    for driver in [SocketDriver::Epoll, SocketDriver::Uring] {
        let mut pair = Pair::start(&ServerUnderTest::evenkeel(driver), &["-t", "1", "-m", "64"]);
        let bystander = Bystander::start(&pair.server).expect("a bystander");
        let keys = format!("get{}\r\n", " k".repeat(30_000));
        let value = format!("set k 0 0 50000\r\n{}\r\n", "v".repeat(50_000));
        let datagrams = [
            framed(&value),
            framed(&keys),
            framed("stats\r\n".repeat(9_000)),
            framed("x".repeat(60_000)),
            framed("set half 0 0 1000000\r\n"),
            framed("mn\r\n".repeat(10_000)),
            framed("watch fetchers\r\n"),
            // In packets: many, one whose length lies, one that could be the reply of another server.
            framed(get("k").repeat(1_000)),
            framed(packet(0x10, b"", b"", b"").repeat(1_000)),
            framed(header(0x01, 1, 8, 1 << 30, 0)),
            framed(header(0x00, 1, 255, 3, 0)),
            framed(b"\x81\x0a\0\0\0\0\0\0\0\0\0\0mn\r\nmn\r\n"),
            b"".to_vec(),
            b"\0\x01\0\0\xff\xff\0\0get k\r\n".to_vec(),
            vec![0xff; 65_000],
        ];
        let end = clock::now() + Duration::from_secs(3);
        let mut number = 0;
        while clock::now() < end {
            // From ever new ports, as forged senders have. A full buffer loses some.
            let _ = client(pair.at).send(&datagrams[number % datagrams.len()]);
            number += 1;
        }
        let experience = bystander.stop().expect("the bystander");
        assert!(experience.answered > 20, "{experience:?}");
        assert!(experience.longest < Duration::from_millis(500), "{experience:?}");
        assert!(pair.server.is_alive());
        let resident = pair.server.resident().expect("it is there") >> 20;
        assert!(resident < 64 + 48, "{resident} MiB");
        let mut client = Client::new(pair.server.connect().expect("a connection"));
        assert!(client.statistic("evenkeel_udp_requests").expect("a number") > 0);
        assert!(client.statistic("evenkeel_udp_malformed").expect("a number") > 0);
        // The rest of the flood is before it, and may leave it no room.
        assert!((0..20).any(|_| pair.ask("get nothing\r\n").len() == 1), "it still answers");
    }
}

/// Requests that arrive while the only worker is stopped, as while it has something else to do: all are answered where the server was
/// granted its buffer, and else those that are lost are counted.
#[test]
fn requests_that_wait_are_not_lost_or_are_counted() {
    const REQUESTS: usize = 3000;
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let pair = Pair::start(&subject, &["-t", "1"]);
    let pid = rustix::process::Pid::from_raw(pair.server.pid() as i32).expect("a process has an id");
    let signal = |signal| rustix::process::kill_process(pid, signal).expect("a signal");
    signal(rustix::process::Signal::STOP);
    let clients: Vec<UdpSocket> = (0..100).map(|_| client(pair.at)).collect();
    for number in 0..REQUESTS {
        clients[number % clients.len()].send(&framed("version\r\n")).expect("send");
    }
    signal(rustix::process::Signal::CONT);
    let mut buffer = [0; 100];
    let mut admin = Client::new(pair.server.connect().expect("a connection"));
    clients.iter().for_each(|client| client.set_nonblocking(true).expect("a flag"));
    let (mut answered, mut lost) = (0, 0);
    let all = clock::wait_for(|| {
        let mut arrived = |client: &UdpSocket| iter::from_fn(|| client.recv(&mut buffer).ok()).count();
        answered += clients.iter().map(&mut arrived).sum::<usize>();
        lost = admin.statistic("evenkeel_udp_lost").expect("a number") as usize;
        (answered + lost >= REQUESTS).then_some(answered + lost)
    });
    let is_granted = !pair.server.said().contains("UDP sockets have");
    assert_eq!((all, lost == 0 || !is_granted), (Some(REQUESTS), true), "{answered} answered, {lost} lost");
}
