//! A handler for tests that carries out a script (dial, send, close …) and records what happens.

use std::collections::BTreeMap;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::event_loop::dial::{Dial, Place, Unreachable};
use crate::event_loop::turn::{Link, Turn};
use crate::handler::{CloseReason, Handler, Next, Opened, Origin, Progress};
use crate::sockets::datagram::{Datagram, DatagramPeer, SocketId};

/// What the handler has seen, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Opened(u64),
    Unreachable(u64, Unreachable),
    /// A dial was refused at once.
    NotTaken(u64, Unreachable),
    Drained(u64),
    Closed(u64, CloseReason),
    /// A dialled UDP place has a socket.
    Socket(u64),
}

/// Names connections by the tags of their dials. Accepted ones have tags from [`ACCEPTED`] on.
#[derive(Default)]
pub(crate) struct ScriptedHandler {
    /// Orders for the end of the next round.
    pub(crate) orders: Vec<TestOrder>,
    pub(crate) seen: Vec<(Now, Seen)>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) sockets: BTreeMap<u64, SocketId>,
    pub(crate) received: BTreeMap<u64, Vec<u8>>,
    /// Sends back what it receives.
    pub(crate) echoes: bool,
    /// Dials this again after each failed dial.
    pub(crate) again: Option<Dial>,
    /// Bytes that it accepts from each connection; it waits once it has them.
    pub(crate) accepts_max: Option<usize>,
    /// Datagrams received, with their senders.
    pub(crate) datagrams: Vec<(DatagramPeer, Vec<u8>)>,
    pub(crate) accepted: u64,
}

/// The tag of the first accepted connection.
pub(crate) const ACCEPTED: u64 = 1 << 32;

pub(crate) enum TestOrder {
    Dial(Dial, u64),
    Write(u64, Vec<u8>),
    Close(u64),
    Abort(u64),
    Wake(u64),
    Send(DatagramPeer, Vec<u8>),
    /// To the UDP place that was dialled with this tag.
    SendDialled(u64, Vec<u8>),
    CloseSocket(u64),
}

impl ScriptedHandler {
    pub(crate) fn dial(&mut self, place: &Place, timeout_ms: u32, tag: u64) {
        self.orders.push(TestOrder::Dial(Dial { place: place.clone(), timeout_ms, tls: None }, tag));
    }

    pub(crate) fn write(&mut self, tag: u64, bytes: impl Into<Vec<u8>>) {
        self.orders.push(TestOrder::Write(tag, bytes.into()));
    }

    /// What it has seen since the last call.
    pub(crate) fn take_seen(&mut self) -> Vec<Seen> {
        self.seen.drain(..).map(|(_, seen)| seen).collect()
    }

    pub(crate) fn received(&mut self, tag: u64) -> String {
        String::from_utf8(self.received.remove(&tag).unwrap_or_default()).expect("text")
    }

    fn see(&mut self, turn: &Turn<Vec<u8>>, seen: Seen) {
        self.seen.push((turn.now(), seen));
    }

    fn order_dial(&mut self, dial: Dial, tag: u64, turn: &mut Turn<Vec<u8>>) {
        if let Err(why) = turn.dial(dial, tag) {
            self.see(turn, Seen::NotTaken(tag, why));
        }
    }
}

impl Handler for ScriptedHandler {
    type Connection = u64;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) -> u64 {
        let tag = match opened.origin {
            Origin::Dialled { tag } => tag,
            Origin::Accepted { .. } => {
                self.accepted += 1;
                ACCEPTED + self.accepted - 1
            }
        };
        self.links.insert(tag, opened.link);
        self.see(turn, Seen::Opened(tag));
        tag
    }

    fn on_bytes(
        &mut self,
        tag: &mut u64,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let received = self.received.entry(*tag).or_default();
        let room = self.accepts_max.map_or(input.len(), |most| most.saturating_sub(received.len()));
        let taken = &input[..room.min(input.len())];
        received.extend_from_slice(taken);
        if self.echoes {
            output.copy(taken);
        }
        let next = if taken.len() < input.len() { Next::Wait } else { Next::Read };
        Progress { consumed: taken.len(), next }
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, turn: &mut Turn<Vec<u8>>) {
        self.see(turn, Seen::Unreachable(tag, why));
        if let Some(dial) = self.again.clone() {
            self.order_dial(dial, tag, turn);
        }
    }

    fn on_socket(&mut self, tag: u64, socket: SocketId, turn: &mut Turn<Vec<u8>>) {
        self.sockets.insert(tag, socket);
        self.see(turn, Seen::Socket(tag));
    }

    fn on_drained(&mut self, tag: &mut u64, turn: &mut Turn<Vec<u8>>) {
        assert_eq!(turn.unsent(self.links[tag]), 0);
        self.see(turn, Seen::Drained(*tag));
    }

    fn on_close(&mut self, tag: u64, reason: CloseReason, turn: &mut Turn<Vec<u8>>) {
        self.see(turn, Seen::Closed(tag, reason));
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Vec<u8>>) {
        self.datagrams.push((datagram.from, datagram.bytes.to_vec()));
        // A datagram with a number is answered by that many.
        let replies: usize =
            std::str::from_utf8(datagram.bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        for number in 0..replies {
            turn.send_datagram(datagram.from, format!("reply {number}").as_bytes());
        }
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        for order in std::mem::take(&mut self.orders) {
            match order {
                TestOrder::Dial(dial, tag) => self.order_dial(dial, tag, turn),
                TestOrder::Write(tag, bytes) => {
                    if let Some(output) = turn.output(self.links[&tag]) {
                        output.copy(&bytes);
                    }
                }
                TestOrder::Send(to, bytes) => {
                    turn.send_datagram(to, &bytes);
                }
                TestOrder::SendDialled(tag, bytes) => {
                    turn.send_datagram(DatagramPeer::Dialled(self.sockets[&tag]), &bytes);
                }
                TestOrder::CloseSocket(tag) => turn.close_socket(self.sockets[&tag]),
                TestOrder::Close(tag) => turn.close(self.links[&tag]),
                TestOrder::Abort(tag) => turn.abort(self.links[&tag]),
                TestOrder::Wake(tag) => turn.wake(self.links[&tag]),
            }
        }
    }
}
