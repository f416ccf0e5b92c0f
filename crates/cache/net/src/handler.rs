//! Handlers: the code of a worker that gives bytes their meaning.

use std::sync::Arc;

use rustix::io::Errno;
use stdx::clock::Now;
use stdx::gather::Gather;

use crate::event_loop::dial::Unreachable;
use crate::event_loop::turn::{Link, Turn};
use crate::files::block::Block;
use crate::sockets::address::{Address, Transport};
use crate::sockets::datagram::{Datagram, SocketId};

/// One per worker, never shared. All calls come from the worker's thread. Each is about one connection; through its
/// [`Turn`] it may write to any other connection of this worker, and order new ones.
///
/// For one connection the calls are: `on_open`, then any mix of `on_bytes` and `on_body`, then `on_close`,
/// which comes exactly once. `prefetch` and `body` may come at any time between.
pub trait Handler {
    /// What the handler keeps for each connection.
    type Connection;
    /// Keeps the memory of held output alive until the kernel has taken it.
    type Held: AsRef<[u8]>;

    /// Bytes of memory for which a held piece accounts in [`Turn::unsent_memory`]: less than its length if several outputs
    /// hold it.
    fn share(held: &Self::Held) -> usize {
        held.as_ref().len()
    }

    /// A connection was accepted, or a dialled one has been established.
    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Self::Held>) -> Self::Connection;

    /// A hint: `on_bytes` follows in this round, after the hints of all other connections. It is left out where it
    /// would come too late to help.
    fn prefetch(&mut self, _connection: &Self::Connection, _input: &[u8]) {}

    /// Input that was not consumed before, and what has arrived since; at most [`crate::INPUT_MAX`] bytes. Empty
    /// at times after [`Next::Again`] and [`Next::Later`].
    ///
    /// For an accepted connection this is called only when its `output` has been sent. For a dialled one it is called
    /// also while the peer does not take the output, because the peer may be waiting for its own output to be read;
    /// `output` then holds what is still to be sent. To receive no more from a peer, return [`Next::Wait`]: at most
    /// [`crate::INPUT_MAX`] bytes are kept then.
    fn on_bytes(
        &mut self,
        connection: &mut Self::Connection,
        input: &[u8],
        output: &mut Gather<Self::Held>,
        turn: &mut Turn<Self::Held>,
    ) -> Progress;

    /// Memory to receive into next, instead of a buffer of the worker: for bodies that would otherwise be copied. Never
    /// empty. A handler that returns memory here has consumed all its input; while it returns none, the input comes
    /// with `on_bytes`.
    fn body<'c>(&mut self, _connection: &'c mut Self::Connection) -> Option<&'c mut [u8]> {
        None
    }

    /// The first `received` bytes of the memory from [`Handler::body`] have been filled. What the peer sent beyond a
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

    /// The peer sends no more, but may still read. Whether the connection stays, as if the handler had returned
    /// [`Next::Wait`]: for a handler that has answers to give yet, and closes it after them ([`Turn::close`]). May be asked
    /// again after [`Turn::wake`].
    fn on_finished(&mut self, _connection: &mut Self::Connection) -> bool {
        false
    }

    /// All blocked output has been sent: [`Turn::blocked`] is 0 again, and a connection that waits for that can be
    /// woken.
    fn on_drained(&mut self, _connection: &mut Self::Connection, _turn: &mut Turn<Self::Held>) {}

    /// The connection ends. Free what it held: the peer and the count of connections see the end afterwards.
    fn on_close(
        &mut self,
        _connection: Self::Connection,
        _reason: CloseReason,
        _turn: &mut Turn<Self::Held>,
    ) {
    }

    /// The state of an accepted connection that is to be served by another network, in whatever form; `None` if it is not at rest, as
    /// in the middle of a request. The connection ends here with [`CloseReason::HandedOver`].
    fn pack(&self, _connection: &Self::Connection) -> Option<Vec<u8>> {
        None
    }

    /// Gives a connection that has just been opened the state that another handler has packed. False if it cannot be: then the
    /// connection is closed.
    fn unpack(&mut self, _connection: &mut Self::Connection, _state: &[u8]) -> bool {
        false
    }

    /// From now on, the network gives away each connection that [`Handler::pack`] says is at rest, or it does not any more. A handler that
    /// begins no request meanwhile (it returns [`Next::Wait`], and wakes those that wait when this is over) has all at rest soon.
    fn leave(&mut self, _leaving: bool, _turn: &mut Turn<Self::Held>) {}

    /// The UDP place dialled with this tag has a socket: datagrams to [`crate::DatagramPeer::Dialled`] go to the place,
    /// and datagrams from the place come from this peer, until [`Turn::close_socket`].
    fn on_socket(&mut self, _tag: u64, _socket: SocketId, _turn: &mut Turn<Self::Held>) {}

    /// The dial with this tag has failed.
    fn on_unreachable(&mut self, _tag: u64, _why: Unreachable, _turn: &mut Turn<Self::Held>) {}

    /// A hint: [`Handler::on_datagram`] follows, after the hints of those that arrived with it.
    fn prefetch_datagram(&mut self, _datagram: &Datagram<'_>) {}

    /// A datagram has arrived. [`Turn::send_datagram`] replies to it, now or later. It may repeat an earlier one, and
    /// its sender's address may be forged.
    fn on_datagram(&mut self, _datagram: &Datagram<'_>, _turn: &mut Turn<Self::Held>) {}

    /// A read of a file has ended ([`Turn::read`]). Its block has been filled, or as far as the file goes. After an error, and
    /// when the network stops ([`Errno::CANCELED`]), the block does not come back. The connection that the read was for may be
    /// gone.
    fn on_read(&mut self, _tag: u64, _result: Result<Block, Errno>, _turn: &mut Turn<Self::Held>) {}

    /// The connection's current activity, for reports. Asked after each call, so it must be quick.
    fn activity(&self, _connection: &Self::Connection) -> Activity {
        Activity::Reading
    }

    /// Input waited so long: from its arrival at this host, by the kernel's receive stamp, to the beginning of this turn.
    /// Known for the connections of a sample, at each receive that found the newest input of a connection that had read all
    /// before.
    fn on_waited(&mut self, _waited_us: u64) {}

    /// Called at least once a second.
    fn on_tick(&mut self, _now: Now) {}

    /// Called before the other calls of each round, and so soon after [`crate::Nudge::nudge`].
    fn begin_turn(&mut self, _now: Now) {}

    /// Called after the other calls of each round and before its sends: the place for output that was gathered over the
    /// round.
    fn end_turn(&mut self, _turn: &mut Turn<Self::Held>) {}

    /// Called after the sends of each round. `clock` reads the time: 25 ns, so only for who needs it.
    fn on_sent(&mut self, _clock: impl FnOnce() -> Now) {}

    /// The time of the next [`Handler::on_deadline`]: the worker waits no longer than until then. Asked in every round,
    /// so it must be quick. A deadline in the past is due at once, once in a round.
    fn deadline(&self) -> Option<Now> {
        None
    }

    /// The deadline has passed; by at most a millisecond if nothing else happens.
    fn on_deadline(&mut self, _turn: &mut Turn<Self::Held>) {}
}

/// Result of reading input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes at the front of the input that are not needed again.
    pub consumed: usize,
    /// The next step.
    pub next: Next,
}

/// The next step of a connection. In every case its output is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call again when more input has arrived.
    Read,
    /// Call again without waiting for input, after other connections have had their turn.
    Again,
    /// Call again at the next tick (about 50 ms), or earlier if more input arrives.
    Later,
    /// Receive nothing, and do not call again until [`Turn::wake`].
    Wait,
    /// Close the connection, for this reason.
    Close(CloseReason),
}

/// The current activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Waiting for a request, or in one.
    Reading = 0,
    /// Receiving the body of a request.
    Body = 1,
    /// Receiving bytes that are dropped.
    Swallowing = 2,
    /// Sending output that the peer does not take.
    Sending = 3,
    /// Sending events to a watcher.
    Watching = 4,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer has finished, or the handler closed it.
    Normal,
    /// The socket failed (most often, the peer reset the connection), or the peer sent no valid request.
    Error,
    /// Nothing happened on it for longer than the idle timeout.
    IdleTimeout,
    /// The network is stopping.
    Shutdown,
    /// Another network serves it from now on.
    HandedOver,
    /// A whole buffer of input of which the handler consumed nothing.
    InputTooLong,
}

/// A number that is unique in this network. Starts at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The number of no connection.
    pub const NONE: ConnectionId = ConnectionId(u64::MAX);
}

/// A connection that no worker has yet.
pub(crate) struct Arrival {
    pub(crate) id: ConnectionId,
    pub(crate) origin: Origin,
    pub(crate) transport: Transport,
    pub(crate) peer: Address,
    pub(crate) local: Address,
    pub(crate) security: Option<Arc<Security>>,
}

impl Arrival {
    pub(crate) fn opened(self, fd: i32, link: Link) -> Opened {
        let Arrival { id, origin, transport, peer, local, security } = self;
        Opened { id, link, fd, origin, transport, peer, local, security }
    }
}

/// A TLS session, for reports and for decisions by who the peer is.
#[derive(Debug)]
pub struct Security {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The name of the cipher suite.
    pub suite: &'static str,
    /// Whether a ticket of an earlier session took the place of a full handshake.
    pub resumed: bool,
    /// Whether the kernel has its keys.
    pub in_kernel: bool,
    /// Who the peer is, if it has shown a certificate.
    pub identity: Option<Arc<tls::Identity>>,
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client has connected.
    Accepted {
        /// Index of the listener among the network's addresses.
        listener: u16,
    },
    /// The handler has dialled.
    Dialled {
        /// The tag of the order.
        tag: u64,
    },
}

/// An accepted or dialled connection.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its number.
    pub id: ConnectionId,
    /// Its name for [`Turn`].
    pub link: Link,
    /// The number of its file descriptor: for reports only.
    pub fd: i32,
    /// Accepted or dialled.
    pub origin: Origin,
    /// TCP or unix.
    pub transport: Transport,
    /// The other end.
    pub peer: Address,
    /// Our end.
    pub local: Address,
    /// Its TLS session, if it has one.
    pub security: Option<Arc<Security>>,
}
