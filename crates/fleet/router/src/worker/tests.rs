//! Scripted conversations: a router between a client and servers that say what the script tells them.
//!
//! ```text
//! config {…}       the configuration; servers are a, b, c…
//! > line           the client sends a line; `{x*9}` in it is nine times `x`, `\r\n` a line end
//! < line           the client receives this line next
//! 1> line          the same for the second client, and so on
//! 1<  line
//! >| bytes         the client sends bytes, without a line end
//! gone             the client resets its connection; `1 gone` for the second
//! back             it connects again
//! a> line          server a receives this line next
//! a< line          server a sends a line
//! a<| bytes        server a sends bytes, without a line end
//! a!               server a resets its connections
//! a other          what server a sends next goes over the connection that it has not heard for longest
//! a down           server a refuses connections from now on
//! a up             and accepts them again
//! au> get k        server a has received this datagram, before others or after them
//! au< TEXT         server a answers the first of these datagrams that it has not answered, in one
//! au% TEXT         the same in datagrams of ten bytes, the last one first, and each of them twice
//! au- lost         server a does not answer that datagram
//! au? TEXT         server a sends a datagram that answers nothing
//! wait MS          time passes
//! clock SECONDS    the time of day, since 1970
//! a awaits MS      time passes until server a receives something, at most this long
//! nothing          neither a client nor a server has received anything else
//! plan {…}         another configuration is put in force
//! closed           the router has closed the client's connection
//! said TEXT        the router's next line for the operator, in which `*` is any text; `said nothing` for none
//! dns NAME a ::1   the name that the router has looked up next has these addresses: of hosts, or written out
//! dns NAME fails   it has none
//! dns idle         the router looks no name up
//! seconds N        names are N seconds older; they are looked up again every 30 s
//! a closed         the router has closed server a's connection since the last such line
//! ```

mod clients;
mod hot_values;
mod plans;
mod random;
mod reports;
mod routes;
mod servers;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::protocol::udp::Frame;
use net::sim::{HostId, World};
use net::{
    CloseReason, Datagram, DatagramPeer, Dial, Handler, Link, Next, Opened, Options, Origin, Place, Progress,
    Turn,
};
use stdx::gather::Gather;

use super::RouteWorker;
use crate::config::json::parse;
use crate::config::{CompileOptions, compile};
use crate::plan::RoutePlan;
use crate::reports::facts::{ProcessFacts, ReportFacts};
use crate::shared::{RouterShared, Settings};

const PORT: u16 = 11211;

/// Clients of a conversation.
const CLIENTS: usize = 3;

/// An end of the conversation: it sends what it is told to, and keeps what it receives.
#[derive(Default)]
struct End {
    dial: Option<Place>,
    links: Vec<Link>,
    to_send: Vec<u8>,
    received: Vec<u8>,
    reset: bool,
    closed: bool,
    /// Datagrams that were received: from whom, with which number, and their text.
    datagrams: Vec<(DatagramPeer, u16, Vec<u8>)>,
    /// Those of them that the script has named, without an answer.
    unanswered: VecDeque<(DatagramPeer, u16)>,
    to_answer: Vec<(DatagramPeer, Vec<u8>)>,
}

impl Handler for End {
    type Connection = Link;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> Link {
        assert!(matches!(opened.origin, Origin::Accepted { .. } | Origin::Dialled { .. }));
        self.links.push(opened.link);
        opened.link
    }

    fn on_bytes(
        &mut self,
        link: &mut Link,
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        self.received.extend_from_slice(input);
        // What is sent next goes to whom was heard last.
        self.links.retain(|other| other != link);
        self.links.push(*link);
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, _turn: &mut Turn<Vec<u8>>) {
        let (frame, text) = Frame::read(datagram.bytes).expect("a frame");
        self.datagrams.push((datagram.from, frame.id, text.to_vec()));
    }

    fn on_close(&mut self, link: Link, _reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.closed = true;
        self.links.retain(|other| *other != link);
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(place) = self.dial.take() {
            turn.dial(Dial { place, timeout_ms: 1000, tls: None }, 1).expect("room for a dial");
        }
        for (peer, datagram) in self.to_answer.drain(..) {
            assert!(turn.send_datagram(peer, &datagram), "room for a datagram");
        }
        let Some(link) = self.links.last() else { return };
        if self.reset {
            self.reset = false;
            self.links.iter().for_each(|link| turn.abort(*link));
        } else if !self.to_send.is_empty()
            && let Some(output) = turn.output(*link)
        {
            output.copy(&std::mem::take(&mut self.to_send));
        }
    }
}

thread_local! {
    /// Lines for the operator.
    static SAID: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// Whether a line is as a script says it: `*` is any text.
fn is_like(line: &str, script: &str) -> bool {
    let mut parts = script.split('*');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) if !part.is_empty() => rest = &rest[at + part.len()..],
            Some(_) => rest = "",
            None => return false,
        }
    }
    rest.is_empty()
}

/// A world with a router, a client and servers.
struct Conversation {
    world: World,
    router: HostId,
    clients: Vec<HostId>,
    servers: BTreeMap<String, HostId>,
    shared: Arc<RouterShared>,
    places: Places,
    options: CompileOptions,
}

/// Addresses by the names of hosts.
type Places = BTreeMap<String, SocketAddr>;

fn compiled(config: &str, generation: u64, places: &Places, options: &CompileOptions) -> RoutePlan {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |host: &str, _port: u16| places.get(host).copied();
    let plan = compile(&json, generation, options, &mut resolve).expect("a configuration");
    // Every field that a test gives to a route is one that the table of types has.
    assert!(!plan.notes.iter().any(|note| note.contains("is not known in")), "{:?}", plan.notes);
    plan
}

fn address(place: &Place) -> SocketAddr {
    match place {
        Place::Tcp(address) => *address,
        other => panic!("{other}"),
    }
}

impl Conversation {
    fn new(config: &str) -> Conversation {
        Conversation::with_settings(config, Settings::default())
    }

    fn with_settings(config: &str, settings: Settings) -> Conversation {
        Conversation::with_all(config, 1, settings, |world, options| {
            world.add_with_datagrams(End::default(), &[PORT], &[PORT], options)
        })
    }

    /// With servers that `add` makes.
    fn with_all(
        config: &str,
        seed: u64,
        settings: Settings,
        add: impl Fn(&mut World, &Options) -> HostId,
    ) -> Conversation {
        let mut world = World::new(seed);
        let options = Options { workers: 1, ..Options::default() };
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let servers: BTreeMap<String, HostId> =
            names.into_iter().map(|name| (name, add(&mut world, &options))).collect();
        let places: Places =
            servers.iter().map(|(name, host)| (name.clone(), address(&world.place(*host, PORT)))).collect();
        let compile = CompileOptions {
            counted_pools: Arc::clone(&settings.counted_pools),
            ..CompileOptions::default()
        };
        let plan = compiled(config, 1, &places, &compile);
        SAID.take();
        let notice = |_, line: &str| SAID.with_borrow_mut(|lines| lines.push_back(line.to_owned()));
        let settings = Settings { notice, ..settings };
        let shared = Arc::new(RouterShared::new(settings, plan));
        let router = world.add(RouteWorker::new(Arc::clone(&shared), 7), &[PORT], &options);
        let clients = (0..CLIENTS).map(|_| world.add(End::default(), &[], &options)).collect();
        let mut conversation =
            Conversation { world, router, clients, servers, shared, places, options: compile };
        (0..CLIENTS).for_each(|client| conversation.connect(conversation.clients[client]));
        conversation
    }

    /// Puts another configuration in force.
    fn replace(&mut self, config: &str) {
        let generation = self.shared.generation() + 1;
        let plan = compiled(config, generation, &self.places, &self.options);
        self.shared.replace(plan);
        self.settle(self.router);
    }

    fn connect(&mut self, client: HostId) {
        let place = self.world.place(self.router, PORT);
        let end = self.world.handler::<End>(client);
        (end.dial, end.closed) = (Some(place), false);
        self.settle(client);
    }

    /// Lets a host do what it was told to, and the others what follows.
    fn settle(&mut self, host: HostId) {
        self.world.nudge(host);
        self.world.run_for(5000);
        self.report();
    }

    /// Makes the reports that clients wait for.
    fn report(&mut self) {
        let now = self.world.now();
        let facts = || ReportFacts { now, unix_s: now.us / 1_000_000, process: ProcessFacts::default() };
        if !self.shared.serve_reports(facts).is_empty() {
            self.world.nudge(self.router);
            self.world.run_for(5000);
        }
    }

    /// The router.
    fn worker(&mut self) -> &mut RouteWorker {
        self.world.handler::<RouteWorker>(self.router)
    }

    fn host(&self, name: &str) -> HostId {
        if let Ok(client) = name.parse::<usize>() {
            return self.clients[client];
        }
        *self.servers.get(name).unwrap_or_else(|| panic!("no server {name}"))
    }

    fn send(&mut self, host: HostId, text: &str) {
        self.world.handler::<End>(host).to_send.extend_from_slice(spelled_out(text).as_bytes());
        self.settle(host);
    }

    #[track_caller]
    fn expect(&mut self, host: HostId, line: &str, whole: &str) {
        let received = &mut self.world.handler::<End>(host).received;
        let end = received.iter().position(|byte| *byte == b'\n').map_or(received.len(), |end| end + 1);
        let first: Vec<u8> = received.drain(..end).collect();
        let expected = format!("{}\r\n", spelled_out(line));
        assert!(first == expected.as_bytes(), "at {whole:?}: found {}", shortened(&first));
    }

    #[track_caller]
    fn expect_nothing(&mut self) {
        let hosts: Vec<HostId> = self.servers.values().chain(&self.clients).copied().collect();
        for host in hosts {
            let end = self.world.handler::<End>(host);
            assert_eq!(shortened(&end.received), "");
            assert_eq!(end.datagrams.len(), 0, "datagrams");
        }
    }

    #[track_caller]
    fn line(&mut self, line: &str) {
        let (who, what) =
            match line.split_at(usize::from(line.starts_with(|first: char| first.is_ascii_digit()))) {
                ("", what) => ("0", what),
                (who, what) => (who, what.trim_start()),
            };
        match what.split_once(' ').unwrap_or((what, "")) {
            ("wait", ms) => self.world.run_for(ms.parse::<u64>().expect("milliseconds") * 1000),
            ("clock", seconds) => self.shared.tell_time(seconds.parse().expect("seconds")),
            ("nothing", _) => self.expect_nothing(),
            ("plan", config) => self.replace(config),
            ("gone", _) => {
                let client = self.host(who);
                self.world.cut(client, self.router);
                self.settle(client);
            }
            ("back", _) => self.connect(self.host(who)),
            ("said", expected) => {
                let said = SAID.with_borrow_mut(VecDeque::pop_front).unwrap_or("nothing".to_owned());
                assert!(is_like(&said, expected), "at {line:?}: found {said:?}");
            }
            ("dns", answer) => self.answer_lookup(answer),
            ("seconds", count) => (0..count.parse().expect("seconds")).for_each(|_| {
                let line = self.shared.names().tick(30);
                SAID.with_borrow_mut(|said| said.extend(line));
            }),
            ("closed", _) => assert!(self.world.handler::<End>(self.host(who)).closed, "at {line:?}"),
            (server, "other") => {
                let host = self.host(server);
                self.world.handler::<End>(host).links.rotate_left(1);
            }
            (server, "down") => self.world.partition(self.host(server), self.router),
            (server, "up") => {
                let host = self.host(server);
                self.world.heal(host, self.router);
                // Of what was sent meanwhile, nothing is wanted.
                self.world.cut(host, self.router);
            }
            (server, text) if text.starts_with("awaits ") => {
                let (host, us) = (self.host(server), text[7..].parse::<u64>().expect("milliseconds") * 1000);
                let arrived =
                    self.world.run_until(us, |world| !world.handler::<End>(host).received.is_empty());
                assert!(arrived, "at {line:?}");
            }
            (server, "closed") => {
                let host = self.host(server);
                let closed = std::mem::take(&mut self.world.handler::<End>(host).closed);
                assert!(closed, "at {line:?}");
            }
            (sign, text) => self.exchange(who, sign, text, line),
        }
    }

    /// Answers the lookup that the router has ordered.
    #[track_caller]
    fn answer_lookup(&mut self, text: &str) {
        let mut words = text.split(' ');
        let (name, next) = (words.next().expect("a name"), self.shared.names().try_next());
        assert_eq!(next.as_deref().unwrap_or("idle"), name);
        let addresses: Option<Vec<IpAddr>> = words
            .map(|word| match word {
                "fails" => None,
                word => Some(word.parse().unwrap_or_else(|_| self.places[word].ip())),
            })
            .collect();
        let result = addresses.as_deref().ok_or("no such name");
        let line = self.shared.names().found(name, result);
        SAID.with_borrow_mut(|said| said.extend(line));
        self.settle(self.router);
    }

    /// `>`, `<`, `>|`, `a>`, `a<`, `a<|`, `a!`.
    #[track_caller]
    fn exchange(&mut self, who: &str, sign: &str, text: &str, line: &str) {
        let is_client = sign.starts_with(['<', '>']);
        let (name, sign) = if is_client { (who, sign) } else { sign.split_at(1) };
        let host = self.host(name);
        match (is_client, sign) {
            (true, ">") | (false, "<") => self.send(host, &format!("{text}\\r\\n")),
            (true, ">|") | (false, "<|") => self.send(host, text),
            (true, "<") | (false, ">") => self.expect(host, text, line),
            (false, "!") => self.reset(host),
            (false, "u>") => {
                let end = self.world.handler::<End>(host);
                let expected = format!("{text}\r\n").into_bytes();
                let found = end.datagrams.iter().position(|(_, _, received)| *received == expected);
                let (peer, id, _) = end.datagrams.remove(found.unwrap_or_else(|| panic!("at {line:?}")));
                end.unanswered.push_back((peer, id));
            }
            (false, sign) if sign.starts_with('u') => self.answer_datagram(host, sign, text),
            _ => panic!("not a line of a script: {line}"),
        }
    }

    /// `au<`, `au%`, `au-`, `au?`.
    #[track_caller]
    fn answer_datagram(&mut self, host: HostId, sign: &str, text: &str) {
        let end = self.world.handler::<End>(host);
        let (peer, id) = match sign {
            "u?" => {
                let (peer, id) = end.unanswered[0];
                (peer, id.wrapping_add(300))
            }
            _ => end.unanswered.pop_front().expect("a datagram without an answer"),
        };
        let reply = format!("{}\r\n", spelled_out(text)).into_bytes();
        let part_len = if sign == "u%" { 10 } else { reply.len() };
        let total = reply.len().div_ceil(part_len) as u16;
        let part = |(sequence, part): (usize, &[u8])| {
            let frame = Frame { id, sequence: sequence as u16, total };
            (peer, [&frame.to_bytes()[..], part].concat())
        };
        let mut parts: Vec<_> = reply.chunks(part_len).enumerate().map(part).collect();
        match sign {
            "u-" => parts.clear(),
            "u%" => {
                parts.reverse();
                parts = parts.iter().flat_map(|part| [part.clone(), part.clone()]).collect();
            }
            _ => {}
        }
        end.to_answer.append(&mut parts);
        self.settle(host);
    }

    /// A server ends: connections are refused.
    fn stop(&mut self, name: &str) {
        let host = self.servers.remove(name).expect("a server");
        self.world.stop::<End>(host);
        self.world.run_for(5000);
    }

    fn reset(&mut self, host: HostId) {
        self.world.handler::<End>(host).reset = true;
        self.settle(host);
    }

    #[track_caller]
    fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
        }
    }

    /// Nothing was received that the script does not name, and no flight is left.
    #[track_caller]
    fn end(&mut self) {
        self.expect_nothing();
        assert_eq!(self.worker().flights.len(), 0);
    }
}

/// Bytes of a script: `\r\n` is a line end, `{x*9}` nine times `x`.
fn spelled_out(text: &str) -> String {
    let text = text.replace("\\r\\n", "\r\n");
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (repeated, rest) = part.split_once('}').expect("a brace at the end");
        let (what, times) = repeated.split_once('*').expect("a star");
        out.push_str(&what.repeat(times.parse().expect("a number")));
        out.push_str(rest);
    }
    out
}

fn shortened(bytes: &[u8]) -> String {
    match bytes {
        [first @ .., _] if first.len() > 300 => {
            format!("{} … ({} bytes)", bytes[..300].escape_ascii(), bytes.len())
        }
        _ => bytes.escape_ascii().to_string(),
    }
}

/// Plays a script after a configuration in JSON, in which servers have the names of hosts.
#[track_caller]
fn play(config: &str, script: &str) -> Conversation {
    let mut conversation = Conversation::new(config);
    conversation.play(script);
    conversation.end();
    conversation
}

const ONE: &str = r#"{"pools": {"A": {"servers": ["a:1"]}}, "route": "PoolRoute|A"}"#;
/// Key `abc` belongs to the first, `key:1` and `key:3` to the second of three.
const THREE: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": "PoolRoute|A"}"#;
