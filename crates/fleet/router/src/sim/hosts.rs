//! Hosts around a simulated router: clients, and servers that answer what they are asked or what they are told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use net::sim::{HostId, World};
use net::{CloseReason, Dial, Handler, Link, Next, Opened, Options, Place, Progress, Turn};
use protocol::{Parsed, parse};
use stdx::gather::Gather;

use super::client::{answer, body_len, described};
use crate::config::routes::{CompileOptions, compile};
use crate::config::{ConfigError, Json};
use crate::plan::RoutePlan;
use crate::reports::facts::{ProcessFacts, ReportFacts};
use crate::shared::{RouterShared, Settings};
use crate::worker::RouteWorker;

/// The port of the router and its servers.
const PORT: u16 = 11211;

/// Time between two pieces, in microseconds: several ways to a server and back.
const PAUSE_US: u64 = 1000;

/// A client, or a server that says what it is told.
#[derive(Default)]
pub(super) struct Speaker {
    dial: Option<Place>,
    link: Option<Link>,
    /// What it sends: one piece in each turn that it is nudged for.
    pieces: VecDeque<Vec<u8>>,
    /// It has sent something, or may.
    speaks: bool,
    /// It closes its connection behind the last piece.
    closes: bool,
    pub(super) received: Vec<u8>,
    pub(super) is_closed: bool,
}

impl Speaker {
    /// A server that sends these pieces once it has been asked, and closes the connection.
    pub(super) fn server(pieces: &[&[u8]]) -> Speaker {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        Speaker { pieces, closes: true, ..Speaker::default() }
    }
}

impl Handler for Speaker {
    type Connection = ();
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) {
        self.link = Some(opened.link);
    }

    fn on_bytes(
        &mut self,
        (): &mut (),
        input: &[u8],
        _: &mut Gather<Vec<u8>>,
        _: &mut Turn<Vec<u8>>,
    ) -> Progress {
        self.received.extend_from_slice(input);
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_close(&mut self, (): (), _reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.link = None;
        self.is_closed = true;
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        if let Some(place) = self.dial.take() {
            turn.dial(Dial { place, timeout_ms: 1000, tls: None }, 1).expect("room for a dial");
        }
        let Some(link) = self.link.filter(|_| self.speaks) else { return };
        self.speaks = false;
        if let (Some(piece), Some(output)) = (self.pieces.pop_front(), turn.output(link)) {
            output.copy(&piece);
        } else if self.closes {
            turn.close(link);
        }
    }
}

/// A server that answers all requests, always the same, and notes them.
#[derive(Default)]
pub(super) struct Answerer {
    /// Requests, as [`described`] writes them.
    pub(super) heard: Vec<String>,
    /// Bytes that are no whole request.
    pub(super) unread: usize,
}

impl Handler for Answerer {
    type Connection = Vec<u8>;
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> Vec<u8> {
        Vec::new()
    }

    fn on_bytes(
        &mut self,
        buffered: &mut Vec<u8>,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        buffered.extend_from_slice(input);
        let mut at = 0;
        while let Parsed::Head { request, consumed } = parse(&buffered[at..]) {
            let whole = consumed + body_len(&request).map_or(0, |len| len + 2);
            let Some(body) = buffered.get(at + consumed..at + whole) else { break };
            described(&request, body, |key| key, &mut self.heard);
            output.copy(&answer(&request));
            at += whole;
        }
        buffered.drain(..at);
        self.unread = buffered.len();
        Progress { consumed: input.len(), next: Next::Read }
    }
}

/// A router, a client and a server, which has all names.
pub(super) struct Scene {
    world: World,
    shared: Arc<RouterShared>,
    router: HostId,
    client: HostId,
    server: HostId,
}

impl Scene {
    /// With a router that follows this configuration.
    pub(super) fn new<S: Handler + 'static>(config: &Json, server: S) -> Result<Scene, ConfigError> {
        let mut world = World::new(1);
        let options = Options { workers: 1, ..Options::default() };
        let server = world.add(server, &[PORT], &options);
        let Place::Tcp(address) = world.place(server, PORT) else { unreachable!("hosts have addresses") };
        let shared = Arc::new(RouterShared::new(Settings::default(), plan(config, address)?));
        let router = world.add(RouteWorker::new(Arc::clone(&shared), 1), &[PORT], &options);
        let client = world.add(Speaker::default(), &[], &options);
        let place = world.place(router, PORT);
        world.handler::<Speaker>(client).dial = Some(place);
        world.nudge(client);
        world.run_for(PAUSE_US);
        Ok(Scene { world, shared, router, client, server })
    }

    /// The client sends these pieces, one after the other.
    pub(super) fn send(&mut self, pieces: &[&[u8]]) {
        let client = self.world.handler::<Speaker>(self.client);
        client.pieces.extend(pieces.iter().map(|piece| piece.to_vec()));
        for _ in pieces {
            self.let_speak(self.client);
        }
    }

    /// The server, which is a [`Speaker`], says all it has to say.
    pub(super) fn let_server_speak(&mut self) {
        // One turn more to close the connection.
        for _ in 0..=self.world.handler::<Speaker>(self.server).pieces.len() {
            self.let_speak(self.server);
        }
    }

    fn let_speak(&mut self, host: HostId) {
        self.world.handler::<Speaker>(host).speaks = true;
        self.world.nudge(host);
        self.world.run_for(PAUSE_US);
    }

    /// Time passes, and reports are made.
    pub(super) fn wait(&mut self, us: u64) {
        self.world.run_for(us);
        let now = self.world.now();
        let facts = || ReportFacts { now, unix_s: now.us / 1_000_000, process: ProcessFacts::default() };
        if !self.shared.serve_reports(facts).is_empty() {
            self.world.nudge(self.router);
            self.world.run_for(PAUSE_US);
        }
    }

    /// What the client has received, and whether its connection was closed.
    pub(super) fn heard_by_client(&mut self) -> (Vec<u8>, bool) {
        let client = self.world.handler::<Speaker>(self.client);
        (std::mem::take(&mut client.received), client.is_closed)
    }

    /// The server.
    pub(super) fn server<S: Handler + 'static>(&mut self) -> &mut S {
        self.world.handler(self.server)
    }
}

/// The plan of a configuration whose servers are all one host.
fn plan(config: &Json, address: SocketAddr) -> Result<RoutePlan, ConfigError> {
    compile(config, 1, &CompileOptions::default(), &mut |_, _| Some(address))
}
