//! Datagrams: their peers, and those that wait for the end of a round.

use std::net::SocketAddr;

use crate::slab::Token;

/// Bytes of all datagrams sent in a round: more than a socket's buffer takes by default. The rest is dropped.
pub(crate) const OUTGOING_MAX: usize = 1 << 20;

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

    /// Passes all of them to `send`, those for one peer together and in their order, so that the kernel's route to a
    /// peer is in the cache for all but the first. Empty afterwards; returns the number of those that found no room.
    pub(crate) fn drain(&mut self, mut send: impl FnMut(DatagramPeer, &[u8])) -> u64 {
        let starts = std::iter::once(0).chain(self.list.iter().map(|(_, end)| *end));
        let mut list: Vec<_> =
            self.list.iter().zip(starts).map(|((to, end), start)| (*to, start..*end)).collect();
        list.sort_by_key(|(to, _)| *to);
        list.into_iter().for_each(|(to, range)| send(to, &self.bytes[range]));
        self.list.clear();
        self.bytes.clear();
        std::mem::take(&mut self.dropped)
    }
}
