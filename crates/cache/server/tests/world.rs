//! The server in a simulated network: behind a proxy, on lossy links, with faulty clients.

#[path = "../../../measure/null/src/proxy.rs"]
mod null_proxy;

use net::sim::{HostId, PathConditions, World};
use net::{Dial, Handler, Next, Opened, Options, Place, Progress, Turn, Unreachable};
use null_proxy::NullProxy;
use stdx::gather::Gather;
use stdx::prng::Prng;

const PORT: u16 = 11211;

const SERVER_OPTIONS: fn() -> server::options::Options =
    || server::options::Options { threads: 1, ..server::options::Options::default() };

/// A client that sends its script at once, and starts to read at a given time.
struct Client {
    place: Option<Place>,
    script: Vec<u8>,
    heard: Vec<u8>,
    /// Nothing is read before this time.
    reads_from_us: u64,
    link: Option<net::Link>,
    failed: Option<Unreachable>,
    closed: bool,
}

impl Client {
    fn new(place: Place, script: Vec<u8>, reads_from_us: u64) -> Client {
        Client {
            place: Some(place),
            script,
            heard: Vec::new(),
            reads_from_us,
            link: None,
            failed: None,
            closed: false,
        }
    }
}

impl Handler for Client {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) {
        self.link = Some(opened.link);
        turn.output(opened.link).expect("it is open").copy(&self.script);
    }

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        if turn.now().us < self.reads_from_us {
            return Progress { consumed: 0, next: Next::Wait };
        }
        self.heard.extend_from_slice(input);
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_unreachable(&mut self, _tag: u64, why: Unreachable, _turn: &mut Turn<Vec<u8>>) {
        self.failed = Some(why);
    }

    fn on_close(&mut self, _: (), _reason: net::CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.closed = true;
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(place) = self.place.take() {
            turn.dial(Dial { place, timeout_ms: 1000, tls: None }, 0).expect("the first one");
        }
        if let Some(link) = self.link.filter(|_| turn.now().us >= self.reads_from_us) {
            turn.wake(link);
            self.link = None;
        }
    }
}

fn options() -> Options {
    Options { workers: 1, ..Options::default() }
}

fn add_server(world: &mut World) -> HostId {
    let worker = server::sim::worker(&SERVER_OPTIONS(), 1_800_000_000_000, 1);
    world.add(worker, &[PORT], &options())
}

fn add_client(world: &mut World, to: HostId, script: Vec<u8>, reads_from_us: u64) -> HostId {
    let client = Client::new(world.place(to, PORT), script, reads_from_us);
    world.add(client, &[], &options())
}

/// Sets and gets of `count` values of `len` bytes, and the replies to them.
fn conversation(name: u64, count: usize, len: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut script, mut replies) = (Vec::new(), Vec::new());
    for number in 0..count {
        let value = format!("{name}.{number}.").repeat(len).into_bytes();
        let value = &value[..len];
        script.extend_from_slice(format!("set k{name}.{number} 0 0 {len}\r\n").as_bytes());
        script.extend_from_slice(value);
        script.extend_from_slice(format!("\r\nget k{name}.{number} nothing\r\n").as_bytes());
        replies.extend_from_slice(format!("STORED\r\nVALUE k{name}.{number} 0 {len}\r\n").as_bytes());
        replies.extend_from_slice(value);
        replies.extend_from_slice(b"\r\nEND\r\n");
    }
    (script, replies)
}

#[track_caller]
fn check(world: &mut World, client: HostId, replies: &[u8], within_us: u64) {
    let len = |world: &mut World| world.handler::<Client>(client).heard.len();
    let done = world.run_until(within_us, |world| len(world) >= replies.len());
    let heard = &world.handler::<Client>(client).heard;
    let same = heard.iter().zip(replies).take_while(|(heard, reply)| heard == reply).count();
    assert!(done, "{} bytes of {}, of which {same} are right", heard.len(), replies.len());
    assert!(heard == replies, "{same} bytes of {} are right", heard.len());
}

#[test]
fn replies_are_complete_over_lossy_links() {
    for seed in 0..5 {
        let mut world = World::new(seed);
        world.set_default_path(PathConditions {
            delay_us: 100,
            jitter_us: 900,
            loss_ppm: 1000,
            piece_max: 1400,
        });
        let server = add_server(&mut world);
        let (script, replies) = conversation(seed, 50, 3_000);
        let clients = [0, 1].map(|_| add_client(&mut world, server, script.clone(), 0));
        clients.iter().for_each(|client| check(&mut world, *client, &replies, 60_000_000));
    }
}

#[test]
fn a_proxy_and_a_back_end_that_both_stop_reading_make_progress() {
    let mut world = World::new(1);
    let server = add_server(&mut world);
    let proxy = NullProxy::new(vec![world.place(server, PORT)]);
    let proxy = world.add(proxy, &[PORT], &options());
    // Much more than all windows and buffers on the path, in both directions.
    let (script, replies) = conversation(1, 2_000, 20_000);
    let reads_from_us = 5_000_000;
    let client = add_client(&mut world, proxy, script, reads_from_us);
    let (other_script, other_replies) = conversation(2, 10, 100);
    let other = add_client(&mut world, proxy, other_script, 0);
    check(&mut world, other, &other_replies, 1_000_000);
    world.run_for(3_000_000);
    // All transfers are blocked, and no buffer grows, because the client does not read.
    assert_eq!(world.handler::<Client>(client).heard, b"");
    let read = |world: &World| world.view(proxy).counts().bytes_read;
    let before = read(&world);
    assert!(before < 8 << 20, "{before} bytes for a client that reads nothing");
    world.run_for(500_000);
    assert_eq!(read(&world), before);
    check(&mut world, client, &replies, 60_000_000);
}

#[test]
fn a_client_behind_a_proxy_gets_an_error_if_the_back_end_is_unreachable() {
    let mut world = World::new(1);
    let server = add_server(&mut world);
    let proxy = NullProxy::new(vec![world.place(server, PORT), world.place(server, 1)]);
    let proxy = world.add(proxy, &[PORT], &options());
    world.partition(proxy, server);
    let client = add_client(&mut world, proxy, b"get k\r\n".to_vec(), 0);
    check(&mut world, client, b"SERVER_ERROR back end: timed out\r\n", 1_100_000);
    world.heal(proxy, server);
    let client = add_client(&mut world, proxy, b"get k\r\n".to_vec(), 0);
    check(&mut world, client, b"SERVER_ERROR back end: connection refused\r\n", 100_000);
    // The back end stops during the connection.
    let client = add_client(&mut world, proxy, b"get k\r\n".to_vec(), 0);
    check(&mut world, client, b"END\r\n", 100_000);
    let _worker: server::Worker = world.stop(server);
    assert!(world.run_until(100_000, |world| world.handler::<Client>(client).closed));
    world.run_for(10_000);
    let counts = world.view(proxy).counts();
    assert_eq!((counts.connections, counts.dialled), (0, 0));
}

/// A server that sends an endless line to every connection.
struct EndlessLine;

impl Handler for EndlessLine {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) {}

    fn on_bytes(
        &mut self,
        _: &mut (),
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        output.copy(&[b'x'; 10_000]);
        Progress { consumed: input.len(), next: Next::Again }
    }
}

#[test]
fn a_back_end_that_sends_an_endless_line_is_disconnected() {
    let mut world = World::new(1);
    let endless = world.add(EndlessLine, &[PORT], &options());
    let proxy = NullProxy::new(vec![world.place(endless, PORT)]);
    let proxy = world.add(proxy, &[PORT], &options());
    let clients = [0, 1].map(|_| add_client(&mut world, proxy, b"get k\r\n".to_vec(), 0));
    world.run_for(100_000);
    for client in clients {
        let client = world.handler::<Client>(client);
        assert!(client.closed && client.heard.is_empty(), "{} bytes", client.heard.len());
    }
    let counts = world.view(proxy).counts();
    assert_eq!((counts.connections, counts.dialled), (0, 0));
    assert!(counts.bytes_read < 100_000, "{} bytes", counts.bytes_read);
    assert_eq!(world.view(endless).counts().connections, 0);
}

#[test]
fn replies_are_a_correct_prefix_whatever_the_network_does() {
    let mut whole = 0;
    for seed in 0..20 {
        let mut world = World::new(seed);
        let mut prng = Prng::new(seed);
        world.set_default_path(PathConditions {
            delay_us: 100,
            jitter_us: 300,
            loss_ppm: 5000,
            piece_max: 5000,
        });
        let server = add_server(&mut world);
        let proxy = NullProxy::new(vec![world.place(server, PORT)]);
        let proxy = world.add(proxy, &[PORT], &options());
        let mut clients = Vec::new();
        for name in 0..8 {
            let (script, replies) = conversation(name, 40, 1 + prng.below(30_000) as usize);
            let client = add_client(&mut world, proxy, script, prng.below(200_000));
            clients.push((client, replies));
            world.run_for(prng.below(100_000));
            match prng.below(6) {
                0 => world.cut(proxy, server),
                1 => world.cut(client, proxy),
                2 => world.partition(proxy, server),
                _ => world.heal(proxy, server),
            }
        }
        world.heal(proxy, server);
        world.run_for(20_000_000);
        for (client, replies) in clients {
            let client = world.handler::<Client>(client);
            let error = b"SERVER_ERROR back end: ";
            let said = client.heard.windows(error.len()).position(|window| window == error);
            let heard = &client.heard[..said.unwrap_or(client.heard.len())];
            assert!(replies.starts_with(heard), "seed {seed}");
            assert!(client.closed || client.failed.is_some() || heard.len() == replies.len(), "seed {seed}");
            whole += usize::from(heard.len() == replies.len());
        }
        let counts = world.view(proxy).counts();
        assert!(counts.dialled <= 8 && counts.connections <= 8, "seed {seed}");
    }
    assert!((20..160).contains(&whole), "{whole} of 160 conversations came to their end");
}
