//! Allocations of a router: none for a request, once what requests like it need has been allocated.
//!
//! A router's worker runs over a simulated network. Only what it allocates in calls of its own is counted, together with
//! the outputs that it writes to.

mod support {
    pub(crate) mod counting;
}

use std::net::SocketAddr;
use std::sync::Arc;

use net::sim::{HostId, World};
use net::{
    CloseReason, Datagram, Dial, Handler, Link, Next, Opened, Options, Place, Progress, SocketId, Turn,
    Unreachable,
};
use protocol::{Parsed, Request, parse};
use router::config::json;
use router::config::routes::{CompileOptions, compile};
use router::{RouteWorker, RouterShared, Settings};
use stdx::clock::Now;
use stdx::gather::Gather;
use support::counting::{CountingAllocator, counted, take_count};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const PORT: u16 = 11211;

/// Requests of each kind before those that are counted: buffers, queues and slabs have then the size that they need.
const WARM_UP: usize = 300;

const COUNTED: usize = 100;

/// A router whose allocations are counted.
struct Counted(RouteWorker);

impl Handler for Counted {
    type Connection = <RouteWorker as Handler>::Connection;
    type Held = <RouteWorker as Handler>::Held;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Self::Held>) -> Self::Connection {
        self.0.on_open(opened, turn)
    }

    fn on_bytes(
        &mut self,
        peer: &mut Self::Connection,
        input: &[u8],
        output: &mut Gather<Self::Held>,
        turn: &mut Turn<Self::Held>,
    ) -> Progress {
        counted(|| self.0.on_bytes(peer, input, output, turn))
    }

    fn body<'c>(&mut self, peer: &'c mut Self::Connection) -> Option<&'c mut [u8]> {
        counted(|| self.0.body(peer))
    }

    fn on_body(
        &mut self,
        peer: &mut Self::Connection,
        received: usize,
        output: &mut Gather<Self::Held>,
        turn: &mut Turn<Self::Held>,
    ) -> Next {
        counted(|| self.0.on_body(peer, received, output, turn))
    }

    fn on_drained(&mut self, peer: &mut Self::Connection, turn: &mut Turn<Self::Held>) {
        counted(|| self.0.on_drained(peer, turn));
    }

    fn on_close(&mut self, peer: Self::Connection, reason: CloseReason, turn: &mut Turn<Self::Held>) {
        self.0.on_close(peer, reason, turn);
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, turn: &mut Turn<Self::Held>) {
        self.0.on_unreachable(tag, why, turn);
    }

    fn on_socket(&mut self, tag: u64, socket: SocketId, turn: &mut Turn<Self::Held>) {
        self.0.on_socket(tag, socket, turn);
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Self::Held>) {
        counted(|| self.0.on_datagram(datagram, turn));
    }

    fn begin_turn(&mut self, now: Now) {
        counted(|| self.0.begin_turn(now));
    }

    fn end_turn(&mut self, turn: &mut Turn<Self::Held>) {
        counted(|| self.0.end_turn(turn));
    }

    fn deadline(&self) -> Option<Now> {
        counted(|| self.0.deadline())
    }

    fn on_deadline(&mut self, turn: &mut Turn<Self::Held>) {
        counted(|| self.0.on_deadline(turn));
    }
}

/// A server that has every item, or fails every request.
struct ModelServer {
    fails: bool,
    /// Requests.
    asked: usize,
}

impl ModelServer {
    fn reply(&self, request: &Request<'_>, output: &mut Gather<Vec<u8>>) {
        let opaque = |flags: &protocol::MetaFlags<'_>| {
            let word = flags.opaque().map(|word| String::from_utf8_lossy(word).into_owned());
            word.map_or_else(String::new, |word| format!(" {word}"))
        };
        let text = match request {
            _ if self.fails => "SERVER_ERROR out of order\r\n".to_owned(),
            Request::Get(get) => {
                let key = |key: Result<protocol::key::Key<'_>, _>| {
                    let key = key.unwrap_or_else(|_| panic!("a key that is too long")).as_bytes().to_vec();
                    format!("VALUE {} 0 3\r\nabc\r\n", String::from_utf8_lossy(&key))
                };
                get.keys.into_iter().map(key).collect::<String>() + "END\r\n"
            }
            Request::Store(_) => "STORED\r\n".to_owned(),
            Request::Delete { .. } => "DELETED\r\n".to_owned(),
            Request::Arithmetic { .. } => "1\r\n".to_owned(),
            Request::MetaGet { flags, .. } => format!("VA 3{}\r\nabc\r\n", opaque(flags)),
            Request::MetaSet { flags, .. } | Request::MetaDelete { flags, .. } => {
                format!("HD{}\r\n", opaque(flags))
            }
            _ => panic!("a request that no test sends"),
        };
        output.copy(text.as_bytes());
    }
}

impl Handler for ModelServer {
    /// Bytes of a request that is not complete.
    type Connection = Vec<u8>;
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> Vec<u8> {
        Vec::new()
    }

    fn on_bytes(
        &mut self,
        pending: &mut Vec<u8>,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        pending.extend_from_slice(input);
        let mut at = 0;
        while let Parsed::Head { request, consumed } = parse(&pending[at..]) {
            let body = match &request {
                Request::Store(store) => store.len + 2,
                Request::MetaSet { len, .. } => len + 2,
                _ => 0,
            };
            if at + consumed + body > pending.len() {
                break;
            }
            self.asked += 1;
            self.reply(&request, output);
            at += consumed + body;
        }
        pending.drain(..at);
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_close(&mut self, _pending: Vec<u8>, _reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {}
}

/// A client that sends what it is told to, and counts what it receives.
#[derive(Default)]
struct ModelClient {
    dial: Option<Place>,
    link: Option<Link>,
    to_send: Vec<u8>,
    received: usize,
}

impl Handler for ModelClient {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) {
        self.link = Some(opened.link);
    }

    fn on_bytes(
        &mut self,
        _connection: &mut (),
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        self.received += input.len();
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_close(&mut self, _connection: (), _reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {}

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(place) = self.dial.take() {
            turn.dial(Dial { place, timeout_ms: 1000, tls: None }, 1).expect("room for a dial");
        }
        if let Some(output) = self.link.and_then(|link| turn.output(link)) {
            output.copy(&std::mem::take(&mut self.to_send));
        }
    }
}

/// Servers `a` to `d` have every item, `x` fails.
struct Scene {
    world: World,
    client: HostId,
    /// Server `a`.
    first: HostId,
}

impl Scene {
    fn new(config: &str) -> Scene {
        let mut world = World::new(1);
        let options = Options { workers: 1, ..Options::default() };
        let names = ["a", "b", "c", "d", "x"];
        let hosts =
            names.map(|name| world.add(ModelServer { fails: name == "x", asked: 0 }, &[PORT], &options));
        let address = |world: &World, host| match world.place(host, PORT) {
            Place::Tcp(address) => address,
            other => panic!("{other}"),
        };
        let places: Vec<SocketAddr> = hosts.iter().map(|host| address(&world, *host)).collect();
        let json = json::parse(0, config.as_bytes()).expect("JSON");
        let mut resolve =
            |host: &str, _port: u16| names.iter().position(|name| *name == host).map(|place| places[place]);
        let plan = compile(&json, 1, &CompileOptions::default(), &mut resolve).expect("a configuration");
        let shared = Arc::new(RouterShared::new(Settings::default(), plan));
        let router = world.add(Counted(RouteWorker::new(shared, 7)), &[PORT], &options);
        let client = world.add(ModelClient::default(), &[], &options);
        let place = world.place(router, PORT);
        world.handler::<ModelClient>(client).dial = Some(place);
        world.nudge(client);
        world.run_for(5000);
        Scene { world, client, first: hosts[0] }
    }

    /// Sends `requests` and waits for a reply of `reply_len` bytes.
    fn send(&mut self, requests: &[u8], reply_len: usize) {
        let client = self.world.handler::<ModelClient>(self.client);
        client.received = 0;
        client.to_send.extend_from_slice(requests);
        self.world.nudge(self.client);
        let client = self.client;
        let is_there = |world: &mut World| world.handler::<ModelClient>(client).received >= reply_len;
        assert!(self.world.run_until(1_000_000, is_there), "no reply to {}", requests.escape_ascii());
        assert_eq!(self.world.handler::<ModelClient>(client).received, reply_len);
    }
}

const POOL: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1", "d:1"]}}, "route": "PoolRoute|A"}"#;

const FAILOVER: &str = r#"{"pools": {"A": {"servers": ["x:1"]}, "B": {"servers": ["a:1", "b:1"]}},
    "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"],
              "failover_errors": ["remote_error"]}}"#;

const ALL_SYNC: &str = r#"{"pools": {"A": {"servers": ["c:1"]}, "B": {"servers": ["a:1", "b:1"]}},
    "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;

/// Sends the requests again and again; once warm, they allocate `expected` times in all.
#[track_caller]
fn check(config: &str, requests: &[u8], reply: &str, expected: usize) {
    let mut scene = Scene::new(config);
    (0..WARM_UP).for_each(|_| scene.send(requests, reply.len()));
    take_count();
    (0..COUNTED).for_each(|_| scene.send(requests, reply.len()));
    assert_eq!(take_count(), expected, "{}", requests[..requests.len().min(60)].escape_ascii());
}

const FOUND: &str = "VALUE k 0 3\r\nabc\r\nEND\r\n";

fn set(len: usize, end: &str) -> Vec<u8> {
    [format!("set k 0 0 {len}{end}\r\n").as_bytes(), &vec![b'v'; len], b"\r\n"].concat()
}

#[test]
fn what_is_counted_is_counted() {
    let kept = counted(|| vec![1_u8]);
    assert_eq!((take_count(), take_count(), kept.len()), (1, 0, 1));
}

#[test]
fn gets_allocate_nothing() {
    check(POOL, b"get k\r\n", FOUND, 0);
    check(POOL, b"gets k\r\n", FOUND, 0);
    check(POOL, b"get /././k\r\n", "VALUE /././k 0 3\r\nabc\r\nEND\r\n", 0);
    check(POOL, b"mg k v\r\n", "VA 3\r\nabc\r\n", 0);
    check(POOL, b"mg k v O123 q\r\n", "VA 3 O123\r\nabc\r\n", 0);
}

#[test]
fn a_get_of_several_keys_allocates_nothing() {
    let keys: Vec<String> = (0..20).map(|number| format!("key{number:02}")).collect();
    let values: String = keys.iter().map(|key| format!("VALUE {key} 0 3\r\nabc\r\n")).collect();
    check(POOL, format!("get {}\r\n", keys.join(" ")).as_bytes(), &(values + "END\r\n"), 0);
}

#[test]
fn a_pipeline_allocates_nothing() {
    let keys = (0..16).map(|number| format!("key{number:02}"));
    let requests: String = keys.clone().map(|key| format!("get {key}\r\n")).collect();
    let values: String = keys.map(|key| format!("VALUE {key} 0 3\r\nabc\r\nEND\r\n")).collect();
    check(POOL, requests.as_bytes(), &values, 0);
}

#[test]
fn sets_below_32_kib_allocate_nothing() {
    for len in [1, 100, 4096, 12 * 1024, 20_000, 31 * 1024] {
        check(POOL, &set(len, ""), "STORED\r\n", 0);
        let meta = [format!("ms k {len} T0\r\n").as_bytes(), &vec![b'v'; len], b"\r\n"].concat();
        check(POOL, &meta, "HD\r\n", 0);
    }
}

#[test]
fn a_longer_value_is_received_into_memory_that_all_hold() {
    let mut scene = Scene::new(POOL);
    scene.send(&set(40_000, ""), 8);
    take_count();
    scene.send(&set(40_000, ""), 8);
    assert!(take_count() > 0);
}

#[test]
fn other_commands_allocate_nothing() {
    check(POOL, b"delete k\r\n", "DELETED\r\n", 0);
    check(POOL, b"incr k 1\r\n", "1\r\n", 0);
    check(POOL, b"md k\r\n", "HD\r\n", 0);
    // The reply of the get says that the others are done.
    check(POOL, &[&set(100, " noreply")[..], b"get k\r\n"].concat(), FOUND, 0);
    check(POOL, b"delete k noreply\r\nget k\r\n", FOUND, 0);
    check(POOL, b"md k q\r\nget k\r\n", FOUND, 0);
}

#[test]
fn a_failover_allocates_nothing() {
    check(FAILOVER, b"get k\r\n", FOUND, 0);
    check(FAILOVER, b"mg k v\r\n", "VA 3\r\nabc\r\n", 0);
    check(FAILOVER, &set(100, ""), "STORED\r\n", 0);
    check(FAILOVER, &set(20_000, ""), "STORED\r\n", 0);
}

#[test]
fn a_copy_to_all_allocates_for_the_reply_that_is_kept() {
    // The first reply waits for the second one, in memory of its own.
    check(ALL_SYNC, b"get k\r\n", FOUND, COUNTED);
    check(ALL_SYNC, &set(100, ""), "STORED\r\n", COUNTED);
}

const HOT: &str =
    r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {"ttl_ms": 10000}}}, "route": "PoolRoute|A"}"#;

#[test]
fn an_answer_from_hot_values_allocates_nothing() {
    // After the first of these, which make the key hot.
    check(HOT, b"get k\r\n", FOUND, 0);
    check(HOT, b"get /././k\r\n", "VALUE /././k 0 3\r\nabc\r\nEND\r\n", 0);
    let twice = "VALUE k 0 3\r\nabc\r\nVALUE k 0 3\r\nabc\r\nEND\r\n";
    check(HOT, b"get k k\r\n", twice, 0);
}

#[test]
fn hot_values_answer_in_place_of_the_server() {
    let mut scene = Scene::new(HOT);
    (0..WARM_UP).for_each(|_| scene.send(b"get k\r\n", FOUND.len()));
    // Those that make the key hot.
    assert_eq!(scene.world.handler::<ModelServer>(scene.first).asked, 32);
}

#[test]
fn updates_of_a_pool_with_hot_values_allocate_nothing() {
    check(HOT, &set(100, ""), "STORED\r\n", 0);
    check(HOT, b"delete k\r\n", "DELETED\r\n", 0);
    check(HOT, b"gets k\r\n", FOUND, 0);
    check(HOT, b"incr k 1\r\n", "1\r\n", 0);
}
