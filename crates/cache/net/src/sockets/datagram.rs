//! Datagrams: their peers, and those that wait for the end of a round.

use std::io::IoSlice;
use std::net::SocketAddr;

use crate::slab::Token;

/// Bytes of all datagrams sent in a round: more than a socket's buffer takes by default, and enough for one reply of a
/// mebibyte. The rest is dropped.
pub(crate) const OUTGOING_MAX: usize = 2 << 20;

/// The other end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DatagramPeer {
    /// A client, at one of the network's addresses.
    Client {
        /// Index among the network's addresses.
        listener: u16,
        /// The client's address.
        address: SocketAddr,
    },
    /// The place that a socket was dialled to.
    Dialled(SocketId),
}

/// The socket that sends a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// That of the network's address with this index.
    Listener(u16),
    Dialled(SocketId),
}

impl DatagramPeer {
    fn sender(self) -> Sender {
        match self {
            DatagramPeer::Client { listener, .. } => Sender::Listener(listener),
            DatagramPeer::Dialled(socket) => Sender::Dialled(socket),
        }
    }

    /// Its address; `None` for the peer of a dialled socket.
    fn address(self) -> Option<SocketAddr> {
        match self {
            DatagramPeer::Client { address, .. } => Some(address),
            DatagramPeer::Dialled(_) => None,
        }
    }
}

/// Names a dialled datagram socket of one worker as long as it exists; unique in this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub(crate) Token);

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    /// The sender, and the address for replies.
    pub from: DatagramPeer,
    /// The whole content.
    pub bytes: &'b [u8],
}

/// Datagrams of one peer that have arrived together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together<'b> {
    pub(crate) from: DatagramPeer,
    pub(crate) bytes: &'b [u8],
    /// Bytes of each but the last, which may be shorter.
    pub(crate) segment_len: usize,
}

impl<'b> Together<'b> {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_len.max(1)).max(1)
    }

    /// Each of them.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'b>> + use<'b> {
        let Together { from, bytes, segment_len } = *self;
        let part = move |number| {
            let (_, rest) = bytes.split_at(number * segment_len);
            Datagram { from, bytes: &rest[..segment_len.min(rest.len())] }
        };
        (0..self.count()).map(part)
    }
}

/// Datagrams to be sent at the end of a round.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// The receiver of each, and its end in `bytes`.
    list: Vec<(DatagramPeer, usize)>,
    bytes: Vec<u8>,
    /// Those that found no room.
    dropped: u64,
}

impl Outgoing {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.dropped == 0
    }

    /// Whether so much is to be sent already that a long reply may find no room.
    pub(crate) fn is_half_full(&self) -> bool {
        self.room() < OUTGOING_MAX / 2
    }

    pub(crate) fn room(&self) -> usize {
        OUTGOING_MAX.saturating_sub(self.bytes.len())
    }

    /// Adds a datagram if there is room; returns whether there was.
    pub(crate) fn add(&mut self, to: DatagramPeer, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= OUTGOING_MAX;
        if fits {
            self.bytes.extend_from_slice(bytes);
            self.list.push((to, self.bytes.len()));
        } else {
            self.dropped += 1;
        }
        fits
    }

    /// Adds a sequence of datagrams: `bytes` in parts of `part_max`, each behind the head that `head` makes for its
    /// number. All of them, or none if there is no room.
    pub(crate) fn add_parts<const HEAD: usize>(
        &mut self,
        to: DatagramPeer,
        bytes: &[u8],
        part_max: usize,
        head: impl Fn(usize) -> [u8; HEAD],
    ) -> bool {
        let count = bytes.len().div_ceil(part_max);
        let fits = self.bytes.len() + bytes.len() + count * HEAD <= OUTGOING_MAX;
        if !fits {
            self.dropped += count as u64;
            return false;
        }
        for (number, part) in bytes.chunks(part_max).enumerate() {
            self.bytes.extend_from_slice(&head(number));
            self.bytes.extend_from_slice(part);
            self.list.push((to, self.bytes.len()));
        }
        true
    }

    /// Passes all of them to `send`, socket by socket, those for one peer together and in their order. Empty afterwards; returns the
    /// number of those that found no room.
    pub(crate) fn drain(
        &mut self,
        mut send: impl FnMut(Sender, &[Option<SocketAddr>], &[IoSlice<'_>]),
    ) -> u64 {
        let starts = std::iter::once(0).chain(self.list.iter().map(|(_, end)| *end));
        let datagram = |((to, end), start): (&(DatagramPeer, usize), usize)| (*to, start..*end);
        let mut list: Vec<_> = self.list.iter().zip(starts).map(datagram).collect();
        if !list.is_sorted_by_key(|(to, _)| *to) {
            list.sort_by_key(|(to, _)| *to);
        }
        let slices: Vec<_> = list.iter().map(|(_, range)| IoSlice::new(&self.bytes[range.clone()])).collect();
        let peers: Vec<_> = list.iter().map(|(to, _)| to.address()).collect();
        let mut at = 0;
        for together in list.chunk_by(|(one, _), (next, _)| one.sender() == next.sender()) {
            let range = at..at + together.len();
            at = range.end;
            send(together[0].0.sender(), &peers[range.clone()], &slices[range]);
        }
        self.list.clear();
        self.bytes.clear();
        std::mem::take(&mut self.dropped)
    }
}
