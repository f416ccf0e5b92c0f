//! A handler for tests that dials what the test tells it to, and writes down what comes of it.

use std::collections::BTreeMap;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::datagram::{Datagram, DatagramPeer, SocketId};
use crate::dial::{Dial, Place, Unreachable};
use crate::handler::{CloseReason, Handler, Next, Opened, Origin, Progress};
use crate::turn::{Link, Turn};

/// What a caller has seen, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Opened(u64),
    Unreachable(u64, Unreachable),
    /// An order was not taken.
    NotTaken(u64, Unreachable),
    Drained(u64),
    Closed(u64, CloseReason),
    /// A place for datagrams has a socket.
    Socket(u64),
}

/// Knows connections by the tags of their dials. What was accepted has tags from [`ACCEPTED`] on.
#[derive(Default)]
pub(crate) struct Caller {
    /// To be done at the end of the next round.
    pub(crate) orders: Vec<Errand>,
    pub(crate) seen: Vec<(Now, Seen)>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) sockets: BTreeMap<u64, SocketId>,
    pub(crate) heard: BTreeMap<u64, Vec<u8>>,
    /// Says what it hears back.
    pub(crate) repeats: bool,
    /// Dials again whenever it is refused.
    pub(crate) again: Option<Dial>,
    /// Wants to hear no more than so much of each.
    pub(crate) hears_max: Option<usize>,
    /// Datagrams, with what they say.
    pub(crate) datagrams: Vec<(DatagramPeer, Vec<u8>)>,
    pub(crate) accepted: u64,
}

/// The tag of the first connection that was accepted.
pub(crate) const ACCEPTED: u64 = 1 << 32;

pub(crate) enum Errand {
    Dial(Dial, u64),
    Say(u64, Vec<u8>),
    Close(u64),
    Abort(u64),
    Wake(u64),
    Send(DatagramPeer, Vec<u8>),
    /// To the place for datagrams that was dialled with this tag.
    SendDialled(u64, Vec<u8>),
    CloseSocket(u64),
}

impl Caller {
    pub(crate) fn dial(&mut self, place: &Place, timeout_ms: u32, tag: u64) {
        self.orders.push(Errand::Dial(Dial { place: place.clone(), timeout_ms }, tag));
    }

    pub(crate) fn say(&mut self, tag: u64, bytes: impl Into<Vec<u8>>) {
        self.orders.push(Errand::Say(tag, bytes.into()));
    }

    /// What it has seen since the last call.
    pub(crate) fn news(&mut self) -> Vec<Seen> {
        self.seen.drain(..).map(|(_, seen)| seen).collect()
    }

    pub(crate) fn heard(&mut self, tag: u64) -> String {
        String::from_utf8(self.heard.remove(&tag).unwrap_or_default()).expect("text")
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

impl Handler for Caller {
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
        let heard = self.heard.entry(*tag).or_default();
        let room = self.hears_max.map_or(input.len(), |most| most.saturating_sub(heard.len()));
        let taken = &input[..room.min(input.len())];
        heard.extend_from_slice(taken);
        if self.repeats {
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
        // Each is answered by as many as it says.
        let replies: usize =
            std::str::from_utf8(datagram.bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        for number in 0..replies {
            turn.send_datagram(datagram.from, format!("reply {number}").as_bytes());
        }
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        for errand in std::mem::take(&mut self.orders) {
            match errand {
                Errand::Dial(dial, tag) => self.order_dial(dial, tag, turn),
                Errand::Say(tag, bytes) => {
                    if let Some(output) = turn.output(self.links[&tag]) {
                        output.copy(&bytes);
                    }
                }
                Errand::Send(to, bytes) => {
                    turn.send_datagram(to, &bytes);
                }
                Errand::SendDialled(tag, bytes) => {
                    turn.send_datagram(DatagramPeer::Dialled(self.sockets[&tag]), &bytes);
                }
                Errand::CloseSocket(tag) => turn.close_socket(self.sockets[&tag]),
                Errand::Close(tag) => turn.close(self.links[&tag]),
                Errand::Abort(tag) => turn.abort(self.links[&tag]),
                Errand::Wake(tag) => turn.wake(self.links[&tag]),
            }
        }
    }
}
