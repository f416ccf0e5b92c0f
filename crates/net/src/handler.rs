//! The handler of a worker: code that knows what the bytes mean.

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::address::{Address, Transport};
use crate::datagram::{Datagram, SocketId};
use crate::dial::Unreachable;
use crate::turn::{Link, Turn};

/// One per worker, never shared. All calls come from the worker's thread. Each is about one connection; by its [`Turn`] it
/// may speak to any other of this worker, and order new ones.
///
/// For one connection the calls are: `on_open`, then any mix of `on_bytes` and `on_body`, then `on_close`,
/// which comes exactly once. `prefetch` and `body` may come at any time between.
pub trait Handler {
    /// What the handler keeps for each connection.
    type Connection;
    /// Keeps the memory of held output alive until the kernel has taken it.
    type Held: AsRef<[u8]>;

    /// A connection was accepted, or one that was dialled is there.
    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Self::Held>) -> Self::Connection;

    /// A hint: `on_bytes` follows in this round, after the hints of all other connections. It is left out where
    /// it would come too late to help.
    fn prefetch(&mut self, _connection: &Self::Connection, _input: &[u8]) {}

    /// Input that was not consumed before, and what has arrived since; at most [`crate::INPUT_MAX`] bytes. Empty
    /// at times after [`Next::Again`] and [`Next::Later`].
    ///
    /// An accepted connection comes here only when its `output` is out. A dialled one also comes while its peer does not
    /// take it, because that may be waiting for its own output to be read; what lies in `output` already is still to be
    /// sent. Who wants no more of a peer says [`Next::Wait`]: then at most [`crate::INPUT_MAX`] bytes of it are kept.
    fn on_bytes(
        &mut self,
        connection: &mut Self::Connection,
        input: &[u8],
        output: &mut Gather<Self::Held>,
        turn: &mut Turn<Self::Held>,
    ) -> Progress;

    /// Memory to receive into next, instead of a buffer of the worker's: for bodies that would otherwise be
    /// copied. Never empty. A handler that gives memory here has consumed all its input; one that gives none for now
    /// gets the input with `on_bytes`.
    fn body<'c>(&mut self, _connection: &'c mut Self::Connection) -> Option<&'c mut [u8]> {
        None
    }

    /// The first `received` bytes of what [`Handler::body`] gave have been filled. What the peer sent beyond a
    /// memory that is now full comes with `on_bytes`, at once after [`Next::Read`] and [`Next::Later`].
    fn on_body(
        &mut self,
        _connection: &mut Self::Connection,
        _received: usize,
        _output: &mut Gather<Self::Held>,
        _turn: &mut Turn<Self::Held>,
    ) -> Next {
        Next::Read
    }

    /// All output is out that the connection's socket had not taken: [`Turn::blocked`] is 0 again, and who waits for that can
    /// be woken.
    fn on_drained(&mut self, _connection: &mut Self::Connection, _turn: &mut Turn<Self::Held>) {}

    /// The connection ends. What it held is to be let go of: the peer, and the count of connections, learn of the end
    /// afterwards.
    fn on_close(
        &mut self,
        _connection: Self::Connection,
        _reason: CloseReason,
        _turn: &mut Turn<Self::Held>,
    ) {
    }

    /// What was dialled with this tag is a place for datagrams, and has a socket: what is sent to
    /// [`crate::DatagramPeer::Dialled`] goes there, and what comes from there is from this peer. Until [`Turn::close_socket`].
    fn on_socket(&mut self, _tag: u64, _socket: SocketId, _turn: &mut Turn<Self::Held>) {}

    /// There is no connection for what was dialled with this tag.
    fn on_unreachable(&mut self, _tag: u64, _why: Unreachable, _turn: &mut Turn<Self::Held>) {}

    /// A datagram has arrived. [`Turn::send_datagram`] replies to it, now or later. It may repeat an earlier one, or
    /// come from anyone who forges the sender's address.
    fn on_datagram(&mut self, _datagram: &Datagram<'_>, _turn: &mut Turn<Self::Held>) {}

    /// What the connection is in the middle of, for those who look on. Asked after each call, so be quick.
    fn activity(&self, _connection: &Self::Connection) -> Activity {
        Activity::Reading
    }

    /// Comes at least once a second.
    fn on_tick(&mut self, _now: Now) {}

    /// Comes before the calls of each round, and so soon after [`crate::Nudge::nudge`].
    fn begin_turn(&mut self, _now: Now) {}

    /// Comes after the calls of each round and before its sends: what was gathered over the round can be said now.
    fn end_turn(&mut self, _turn: &mut Turn<Self::Held>) {}

    /// When [`Handler::on_deadline`] is to come next: the worker waits no longer than until then. Asked in every round,
    /// so be quick. What is past comes at once, once in a round.
    fn deadline(&self) -> Option<Now> {
        None
    }

    /// The deadline has come; at most a millisecond later if nothing else happens.
    fn on_deadline(&mut self, _turn: &mut Turn<Self::Held>) {}
}

/// What a handler made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes from the front of the input that are not needed again.
    pub consumed: usize,
    /// What should happen next.
    pub next: Next,
}

/// What should happen to a connection next. In every case its output is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call again when more input has arrived.
    Read,
    /// Call again without waiting for input, after other connections have had their turn.
    Again,
    /// Call again at the next tick (about 50 ms), or earlier if more input arrives.
    Later,
    /// Receive nothing, and do not call again, until [`Turn::wake`].
    Wait,
    /// Close the connection, for this reason.
    Close(CloseReason),
}

/// What a connection is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Waiting for a request, or in one.
    Reading = 0,
    /// Receiving the body of a request.
    Body = 1,
    /// Receiving what is dropped.
    Swallowing = 2,
    /// Sending what the peer does not take.
    Sending = 3,
    /// Sending whatever happens.
    Watching = 4,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer was done.
    Normal,
    /// The socket failed: most often, the peer reset the connection. Or what the peer said was no request.
    Error,
    /// Nothing happened on it for longer than the idle timeout.
    IdleTimeout,
    /// The network is stopping.
    Shutdown,
    /// A whole buffer of input, and the handler could use none of it.
    InputTooLong,
}

/// A number that no other connection of this network has or had. Starts at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A connection before a worker has it.
pub(crate) struct Arrival {
    pub(crate) id: ConnectionId,
    pub(crate) origin: Origin,
    pub(crate) transport: Transport,
    pub(crate) peer: Address,
    pub(crate) local: Address,
}

impl Arrival {
    pub(crate) fn opened(self, fd: i32, link: Link) -> Opened {
        let Arrival { id, origin, transport, peer, local } = self;
        Opened { id, link, fd, origin, transport, peer, local }
    }
}

/// How a connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client has connected.
    Accepted {
        /// Which of the network's addresses it came through, by index.
        listener: u16,
    },
    /// The handler has dialled.
    Dialled {
        /// What it said with the order.
        tag: u64,
    },
}

/// A connection as it was accepted, or dialled.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its number.
    pub id: ConnectionId,
    /// Its name for [`Turn`].
    pub link: Link,
    /// Its file descriptor's number: a name that people know from other tools, nothing to be used.
    pub fd: i32,
    /// Accepted or dialled.
    pub origin: Origin,
    /// TCP or unix.
    pub transport: Transport,
    /// The other end.
    pub peer: Address,
    /// Our end.
    pub local: Address,
}
