//! Simulation: handlers without sockets, and a clock that the test sets.
//!
//! A [`SimHost`] keeps the contract of a worker, and uses the freedom that the contract leaves: it can deliver input
//! and take output in pieces as small as a byte. The output of a handler must not depend on where its input was cut;
//! [`at_every_cut`] checks that. In a [`World`], there are several hosts, and a network between them.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::INPUT_MAX;
use crate::event_loop::connection::Dialogue;
use crate::event_loop::turn::{Link, Order, Turn};
use crate::handler::{Arrival, CloseReason, ConnectionId, Handler, Next, Origin, Security};
use crate::network::connection_table::{ConnectionTable, TableWriter};
use crate::network::limit::ConnectionLimit;
use crate::network::view::View;
use crate::slab::{Slab, Token};
use crate::sockets::address::{Address, Transport};
use crate::sockets::datagram::Outgoing;

mod disk;
mod network;
mod world;

pub use disk::DiskConditions;
pub use network::PathConditions;
pub use world::{HostId, SimConnection, World};

/// Turns in a row without a byte in or out, after which the handler is taken to loop for ever.
const IDLE_TURNS_MAX: usize = 100_000;

/// Sizes of receives and sends.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The most bytes that one receive brings.
    pub receive_max: usize,
    /// The most bytes that one send takes.
    pub send_max: usize,
    /// Unread bytes of a peer beyond which nothing more is taken from its connection.
    pub window: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { receive_max: usize::MAX, send_max: usize::MAX, window: usize::MAX }
    }
}

/// One of a host's peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerId(usize);

/// A handler and its peers. It cannot dial: that needs a [`World`].
pub struct SimHost<H: Handler> {
    handler: H,
    peers: Vec<DatagramPeer<H>>,
    pace: Pace,
    now: Now,
    turn: Turn<H::Held>,
    buffer: Box<[u8]>,
}

struct DatagramPeer<H: Handler> {
    /// `None` once closed.
    dialogue: Option<Dialogue<H::Connection>>,
    output: Gather<H::Held>,
    /// Sent by the peer, not received yet.
    incoming: Vec<u8>,
    finished: bool,
    /// Received by the peer, not taken yet.
    outgoing: Vec<u8>,
    due: bool,
    /// Its window was full.
    blocked: bool,
    closed: Option<CloseReason>,
}

impl<H: Handler> SimHost<H> {
    /// A host at time 0, without peers.
    pub fn new(handler: H) -> SimHost<H> {
        let buffer = vec![0; INPUT_MAX].into_boxed_slice();
        let (pace, now) = (Pace::default(), Now::default());
        SimHost { handler, peers: Vec::new(), pace, now, turn: Turn::default(), buffer }
    }

    /// Changes the sizes of receives and sends.
    pub fn set_pace(&mut self, pace: Pace) {
        assert!(pace.receive_max > 0 && pace.send_max > 0, "nothing would ever move");
        self.pace = pace;
    }

    /// The handler, for assertions.
    pub fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// A new connection.
    pub fn connect(&mut self) -> PeerId {
        self.connect_with(None)
    }

    /// A new connection that has a TLS session as far as the handler can see.
    pub fn connect_with(&mut self, security: Option<Arc<Security>>) -> PeerId {
        let number = self.peers.len();
        let arrival = Arrival {
            id: ConnectionId(number as u64 + 1),
            origin: Origin::Accepted { listener: 0 },
            transport: Transport::Unix,
            peer: Address::Unix(None),
            local: Address::Unix(Some(Arc::from(Path::new("/sim")))),
            security,
        };
        let link = link(PeerId(number));
        self.turn.opened(link);
        let opened = arrival.opened(number as i32, link);
        let dialogue = Dialogue::open(&mut self.handler, &opened, &mut self.turn);
        self.peers.push(DatagramPeer {
            dialogue: Some(dialogue),
            output: Gather::default(),
            incoming: Vec::new(),
            finished: false,
            outgoing: Vec::new(),
            due: false,
            blocked: false,
            closed: None,
        });
        self.carry_out();
        PeerId(number)
    }

    /// The peer sends `bytes`, and the handler is called until nothing is left to do.
    pub fn send(&mut self, peer: PeerId, bytes: &[u8]) {
        self.peers[peer.0].incoming.extend_from_slice(bytes);
        self.settle(peer);
    }

    /// The peer shuts its sending side: it still reads.
    pub fn finish(&mut self, peer: PeerId) {
        self.peers[peer.0].finished = true;
        self.settle(peer);
    }

    /// The connection is reset.
    pub fn reset(&mut self, peer: PeerId) {
        self.close(peer, CloseReason::Error);
        self.carry_out();
    }

    /// The bytes that the peer has received since the last call. Taking them makes room in its window.
    pub fn take_output(&mut self, peer: PeerId) -> Vec<u8> {
        let output = std::mem::take(&mut self.peers[peer.0].outgoing);
        self.settle(peer);
        output
    }

    /// Bytes of output that the peer's window did not take.
    pub fn pending_len(&self, peer: PeerId) -> usize {
        self.peers[peer.0].output.len()
    }

    /// The reason of the close, if the connection is closed.
    pub fn closed(&self, peer: PeerId) -> Option<CloseReason> {
        self.peers[peer.0].closed
    }

    /// Advances the clock: the handler gets its tick, connections that wait for one their turn, and a deadline that has
    /// passed is reported.
    pub fn advance(&mut self, ms: u64) {
        self.now.us += ms * 1000;
        self.begin_round();
        self.handler.on_tick(self.now);
        self.end_round();
        self.carry_out();
        for peer in (0..self.peers.len()).map(PeerId) {
            let waits = |dialogue: &Dialogue<_>| dialogue.next == Next::Later;
            if self.peers[peer.0].dialogue.as_ref().is_some_and(waits) {
                self.peers[peer.0].due = true;
                self.settle(peer);
            }
        }
    }

    /// Calls the handler until nothing is left to do for `peer` and the connections that it affects.
    fn settle(&mut self, peer: PeerId) {
        self.settle_alone(peer);
        self.carry_out();
    }

    fn begin_round(&mut self) {
        self.turn.begin(self.now);
        self.handler.begin_turn(self.now);
    }

    fn end_round(&mut self) {
        if self.handler.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.handler.on_deadline(&mut self.turn);
        }
        self.handler.end_turn(&mut self.turn);
    }

    /// Carries out the outputs and orders for other connections, as a worker does at the end of a round.
    fn carry_out(&mut self) {
        let mut rounds = 0;
        while !self.turn.is_idle() {
            rounds += 1;
            assert!(rounds < IDLE_TURNS_MAX, "connections go on among themselves for ever");
            // No datagram peer could receive them.
            self.turn.outgoing = Outgoing::default();
            let outputs = self.turn.take_outputs();
            let orders = self.turn.take_orders();
            let mut moved: Vec<PeerId> = Vec::new();
            for (link, output) in outputs {
                let peer = PeerId(link.0.index as usize);
                self.peers[peer.0].output.append(output);
                moved.push(peer);
            }
            for order in orders {
                let (Order::Wake(link) | Order::Close(link) | Order::Abort(link)) = order else {
                    unreachable!("no dial is taken where none may be");
                };
                let peer = PeerId(link.0.index as usize);
                let Some(dialogue) = &mut self.peers[peer.0].dialogue else { continue };
                match order {
                    Order::Abort(_) => self.close(peer, CloseReason::Normal),
                    Order::Close(_) => dialogue.next = Next::Close(CloseReason::Normal),
                    _ if dialogue.next != Next::Wait => {}
                    _ => {
                        dialogue.next = Next::Again;
                        self.peers[peer.0].due = true;
                    }
                }
                moved.push(peer);
            }
            moved.into_iter().for_each(|peer| self.settle_alone(peer));
        }
    }

    fn settle_alone(&mut self, peer: PeerId) {
        let mut idle_turns = 0;
        while self.peers[peer.0].dialogue.is_some() {
            let moved = self.drain(peer);
            let entry = &mut self.peers[peer.0];
            self.turn.set_blocked(link(peer), entry.output.len(), entry.output.memory(H::share));
            if !entry.output.is_empty() {
                if moved == 0 {
                    entry.blocked = true;
                    return;
                }
                continue;
            }
            let Some(dialogue) = &mut entry.dialogue else { return };
            let is_closing = matches!(dialogue.next, Next::Close(_));
            if std::mem::take(&mut entry.blocked) && !is_closing {
                self.handler.on_drained(&mut dialogue.state, &mut self.turn);
            }
            let has_input = !entry.incoming.is_empty();
            let reads = match dialogue.next {
                Next::Close(reason) => return self.close(peer, reason),
                Next::Again | Next::Wait => false,
                Next::Read | Next::Later if entry.finished && !has_input && !entry.due => {
                    if self.handler.on_finished(&mut dialogue.state) {
                        dialogue.next = Next::Wait;
                        return;
                    }
                    return self.close(peer, CloseReason::Normal);
                }
                Next::Read => has_input,
                Next::Later => has_input && dialogue.has_room(),
            };
            if !reads && !entry.due {
                return;
            }
            let received = self.turn(peer, reads);
            idle_turns = if received + self.peers[peer.0].output.len() > 0 { 0 } else { idle_turns + 1 };
            assert!(idle_turns < IDLE_TURNS_MAX, "the handler goes on for ever");
        }
    }

    /// One receive, if the connection `reads`, and one call of the handler. Returns the bytes received.
    fn turn(&mut self, peer: PeerId, reads: bool) -> usize {
        self.begin_round();
        let SimHost { handler, peers, pace, turn, buffer, .. } = self;
        let DatagramPeer { dialogue: Some(dialogue), output, incoming, due, .. } = &mut peers[peer.0] else {
            return 0;
        };
        let mut filled = dialogue.unpack(buffer);
        let mut body_len = 0;
        let mut received = 0;
        if reads {
            let mut deliver = |memory: &mut [u8]| {
                let len = memory.len().min(incoming.len()).min(pace.receive_max - received);
                memory[..len].copy_from_slice(&incoming[..len]);
                incoming.drain(..len);
                received += len;
                len
            };
            let mut beyond = true;
            if let Some(body) = handler.body(&mut dialogue.state) {
                assert!(!body.is_empty(), "memory for a body is never empty");
                assert_eq!(filled, 0, "a handler that gives memory has consumed its input");
                body_len = deliver(body);
                beyond = body_len == body.len();
            }
            if beyond {
                filled += deliver(&mut buffer[filled..]);
            }
        }
        if filled > 0 {
            handler.prefetch(&dialogue.state, &buffer[..filled]);
        }
        dialogue.handle(handler, body_len, &buffer[..filled], output, turn);
        *due = dialogue.next == Next::Again;
        self.end_round();
        received
    }

    /// Moves output to the peer as far as its window allows, and returns how much.
    fn drain(&mut self, peer: PeerId) -> usize {
        let entry = &mut self.peers[peer.0];
        let mut moved = 0;
        while !entry.output.is_empty() {
            let mut slices = [IoSlice::new(&[])];
            entry.output.slices(&mut slices);
            let room = self.pace.window.saturating_sub(entry.outgoing.len());
            let len = slices[0].len().min(self.pace.send_max).min(room);
            if len == 0 {
                break;
            }
            entry.outgoing.extend_from_slice(&slices[0][..len]);
            entry.output.advance(len);
            moved += len;
        }
        moved
    }

    fn close(&mut self, peer: PeerId, reason: CloseReason) {
        let entry = &mut self.peers[peer.0];
        if let Some(dialogue) = entry.dialogue.take() {
            entry.closed = Some(reason);
            entry.output.clear();
            self.turn.closed(link(peer));
            self.handler.on_close(dialogue.state, reason, &mut self.turn);
        }
    }
}

/// A peer's link: places are not used again here.
fn link(peer: PeerId) -> Link {
    Link(Token::from_u64(peer.0 as u64))
}

/// Connections of workers without event loops: for tests that read a [`View`].
pub struct FakeConnections {
    view: View,
    /// Each with the numbers of its connections, by place.
    workers: Vec<(TableWriter, Slab<u64>)>,
}

impl FakeConnections {
    /// Workers without connections.
    ///
    /// # Panics
    /// If the kernel refuses an event descriptor.
    pub fn new(workers: usize) -> FakeConnections {
        let limit = Arc::new(ConnectionLimit::new(usize::MAX).expect("an event descriptor"));
        let tables: Arc<[_]> = (0..workers).map(|_| Arc::new(ConnectionTable::new())).collect();
        let workers = tables.iter().map(|table| (TableWriter::new(Arc::clone(table)), Slab::new())).collect();
        FakeConnections {
            view: View { limit, tables, handshakes: Arc::default(), choice: Arc::default(), ports: None },
            workers,
        }
    }

    /// The view of these connections.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Opens a connection, on each worker in turn. Returns its number, from 1.
    pub fn open(&mut self) -> u64 {
        let number = self.view.limit.connection_opened();
        let turn = number as usize % self.workers.len();
        let (table, slab) = &mut self.workers[turn];
        let arrival = Arrival {
            id: ConnectionId(number),
            origin: Origin::Accepted { listener: 0 },
            transport: Transport::Tcp,
            peer: Address::Tcp(([127, 0, 0, 1], number as u16).into()),
            local: Address::Tcp(([127, 0, 0, 1], 11211).into()),
            security: None,
        };
        let token = slab.insert(number);
        table.insert(token.index, arrival.opened(number as i32, Link(token)), Now::default());
        number
    }

    /// Closes the connection with this number.
    pub fn close(&mut self, number: u64) {
        let turn = number as usize % self.workers.len();
        let (table, slab) = &mut self.workers[turn];
        let place = slab.indices().find(|index| *slab.at(*index) == number);
        let place = place.expect("a connection that is there");
        slab.remove(place);
        table.remove(place);
        self.view.limit.connection_closed();
    }
}

/// One peer's part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// All bytes that it received.
    pub output: Vec<u8>,
    /// The reason of the close, if the connection was closed before the peer had finished.
    pub closed: Option<CloseReason>,
}

/// The output for a peer that sends `chunks`, each in one piece.
pub fn converse<H: Handler>(handler: H, chunks: &[&[u8]]) -> Heard {
    converse_at(handler, chunks, Pace::default())
}

/// The same with these sizes of receives and sends.
pub fn converse_at<H: Handler>(handler: H, chunks: &[&[u8]], pace: Pace) -> Heard {
    let mut host = SimHost::new(handler);
    host.set_pace(pace);
    let peer = host.connect();
    for chunk in chunks {
        host.send(peer, chunk);
    }
    let heard = Heard { output: host.take_output(peer), closed: host.closed(peer) };
    host.finish(peer);
    heard
}

/// The output for a peer that sends `input`, which must be the same wherever the input is cut: whole, in two parts
/// (every cut), and byte by byte. Each time with a new handler.
#[track_caller]
pub fn at_every_cut<H: Handler>(mut handler: impl FnMut() -> H, input: &[u8]) -> Heard {
    let whole = converse(handler(), &[input]);
    let check = |heard: Heard, how: &str| {
        let (heard_text, whole_text) = (heard.output.escape_ascii(), whole.output.escape_ascii());
        assert!(heard == whole, "{how}:\n  {heard_text}\n  {:?}\nwhole:\n  {whole_text}", heard.closed);
    };
    for cut in 1..input.len() {
        let (first, second) = input.split_at(cut);
        check(converse(handler(), &[first, second]), &format!("cut after {cut} bytes"));
    }
    let bytewise = Pace { receive_max: 1, send_max: 1, ..Pace::default() };
    check(converse_at(handler(), &[input], bytewise), "byte by byte");
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::echo::{EchoHandler, LINES_PER_TURN_MAX, body_reply};
    use crate::testing::scripted::{ACCEPTED, ScriptedHandler, Seen};

    #[track_caller]
    fn check(input: &str, output: &str, closed: Option<CloseReason>) {
        let heard = at_every_cut(EchoHandler::alone, input.as_bytes());
        assert_eq!(String::from_utf8_lossy(&heard.output), output);
        assert_eq!(heard.closed, closed);
    }

    #[test]
    fn pipelined_lines_are_answered_in_order() {
        check("one\ntwo\nthree\nhal", "one\ntwo\nthree\n", None);
    }

    #[test]
    fn more_lines_than_a_turn_takes_are_all_answered() {
        let lines: String = (0..LINES_PER_TURN_MAX * 3 + 1).map(|line| format!("{line}\n")).collect();
        check(&lines, &lines, None);
    }

    #[test]
    fn input_after_a_close_is_not_answered() {
        check("one\nquit\ntwo\n", "one\n", Some(CloseReason::Normal));
    }

    #[test]
    fn held_and_copied_output_keep_their_order() {
        check("a\nhold 3\nb\ncopy 2\n", "a\nhhh\nb\ncc\n", None);
    }

    #[test]
    fn a_body_is_received_into_the_handlers_memory_wherever_it_is_cut() {
        let reply = body_reply(b"0123456789");
        check("a\nbody 10\n0123456789b\n", &format!("a\n{reply}b\n"), None);
    }

    #[test]
    fn next_again_needs_no_input() {
        check("spin 3\nx\n", "3\n2\n1\nx\n", None);
    }

    #[test]
    fn a_full_buffer_without_progress_closes_the_connection() {
        let heard = converse(EchoHandler::alone(), &[&[b'x'; INPUT_MAX]]);
        assert_eq!(heard.closed, Some(CloseReason::InputTooLong));
        let heard = converse(EchoHandler::alone(), &[&[b'x'; INPUT_MAX - 1]]);
        assert_eq!(heard.closed, None);
    }

    #[test]
    fn a_peer_that_does_not_read_is_not_read_from() {
        let mut host = SimHost::new(EchoHandler::alone());
        host.set_pace(Pace { window: 100, ..Pace::default() });
        let peer = host.connect();
        host.send(peer, b"copy 150\n");
        (0..1000).for_each(|_| host.send(peer, b"copy 1000\n"));
        assert_eq!(host.pending_len(peer), 51);
        let mut heard = 0;
        loop {
            let output = host.take_output(peer);
            heard += output.len();
            assert!(host.pending_len(peer) <= LINES_PER_TURN_MAX * 1001);
            if output.is_empty() {
                break;
            }
        }
        assert_eq!(heard, 151 + 1000 * 1001);
    }

    #[test]
    fn next_later_is_called_when_time_passes() {
        let mut host = SimHost::new(EchoHandler::alone());
        let peer = host.connect();
        host.send(peer, b"watch\n");
        assert_eq!(host.take_output(peer), b"tick\n");
        assert_eq!(host.take_output(peer), b"");
        host.advance(50);
        assert_eq!(host.take_output(peer), b"tick\n");
        host.finish(peer);
        assert_eq!(host.closed(peer), Some(CloseReason::Normal));
    }

    #[test]
    fn connections_write_to_wake_and_close_each_other_as_with_sockets() {
        let mut host = SimHost::new(EchoHandler::alone());
        let peers: Vec<PeerId> = (0..3).map(|_| host.connect()).collect();
        let heard = |host: &mut SimHost<EchoHandler>, peer: usize| {
            String::from_utf8(host.take_output(peers[peer])).unwrap()
        };
        host.send(peers[0], b"tell 2 first\ntell 1 myself\nown\ntell 9 x\n");
        assert_eq!(heard(&mut host, 0), "6 unsent\n7 unsent\nown\ngone\nmyself\n");
        assert_eq!(heard(&mut host, 1), "first\n");
        host.send(peers[1], b"pause 0\nafter\n");
        host.advance(10_000);
        assert_eq!(heard(&mut host, 1), "");
        host.send(peers[0], b"wake 2\ntell 3 last\nend 3\n");
        assert_eq!(heard(&mut host, 1), "after\n");
        assert_eq!(heard(&mut host, 2), "last\n");
        assert_eq!(host.closed(peers[2]), Some(CloseReason::Normal));
    }

    #[test]
    fn output_for_a_peer_that_does_not_read_waits_and_counts_as_unsent() {
        let mut host = SimHost::new(EchoHandler::alone());
        host.set_pace(Pace { window: 10, ..Pace::default() });
        let (slow, other) = (host.connect(), host.connect());
        host.send(slow, b"copy 15\n");
        host.send(other, b"tell 1 x\nend 1\n");
        assert_eq!(host.take_output(other), b"8 unsent\n");
        assert_eq!(host.take_output(slow), b"cccccccccc");
        assert_eq!(host.closed(slow), Some(CloseReason::Normal));
        assert_eq!(host.take_output(slow), b"ccccc\nx\n");
    }

    #[test]
    fn a_deadline_that_has_passed_is_reported() {
        let mut host = SimHost::new(EchoHandler::alone());
        let peer = host.connect();
        host.send(peer, b"alarm 30\n");
        host.advance(29);
        assert_eq!(host.take_output(peer), b"");
        host.advance(1);
        assert_eq!(host.take_output(peer), b"alarm\n");
    }

    #[test]
    fn on_drained_follows_blocked_output() {
        let mut host = SimHost::new(ScriptedHandler { echoes: true, ..ScriptedHandler::default() });
        host.set_pace(Pace { window: 10, ..Pace::default() });
        let peer = host.connect();
        let drained = |host: &mut SimHost<ScriptedHandler>| {
            host.handler().take_seen().iter().filter(|seen| **seen == Seen::Drained(ACCEPTED)).count()
        };
        host.send(peer, b"0123456789");
        assert_eq!(drained(&mut host), 0);
        host.send(peer, b"abcde");
        assert_eq!((host.pending_len(peer), drained(&mut host)), (5, 0));
        assert_eq!(host.take_output(peer), b"0123456789");
        assert_eq!((host.pending_len(peer), drained(&mut host)), (0, 1));
    }
}
