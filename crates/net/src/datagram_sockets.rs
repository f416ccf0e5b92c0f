//! Datagram sockets of a worker: those of the network's addresses, and dialled ones.
//!
//! Nothing is kept over a round: a datagram that a socket does not take at once is dropped and counted, as the network
//! itself might do.

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::datagram::{DatagramPeer, Outgoing, SocketId, Together};
use crate::kernel::Kernel;
use crate::segments::Received;
use crate::slab::{Slab, Token};

/// The longest datagram of UDP.
const DATAGRAM_MAX: usize = 64 * 1024;

/// Datagrams received in a round, and their bytes, so that the connections have their turn, too: no further call
/// receives beyond either.
pub(crate) const RECEIVED_MAX: usize = 64;
const RECEIVED_LEN_MAX: usize = 64 * 1024;

/// Marks the tokens of datagram sockets, so that they differ from those of connections and dials.
const DATAGRAMS: u32 = 1 << 30;

const READABLE: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// Datagram sockets of a worker.
pub(crate) struct DatagramSockets<S> {
    sockets: Slab<Entry<S>>,
    /// Sockets of the network's addresses, with their indices.
    listeners: Vec<(u16, Token)>,
    /// Sockets that may have datagrams.
    readable: VecDeque<Token>,
    /// Empty as long as there is no socket.
    buffer: Box<[u8]>,
}

struct Entry<S> {
    /// Index among the network's addresses; `None` for a dialled socket.
    listener: Option<u16>,
    socket: S,
    /// It is in the list of readable sockets.
    is_readable: bool,
}

/// Result of sending.
#[derive(Default)]
pub(crate) struct SendOutcome {
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

impl<S> DatagramSockets<S> {
    /// Takes the sockets of the network's addresses, with their indices, and watches them.
    pub(crate) fn new<K: Kernel<Socket = S>>(
        kernel: &K,
        listeners: Vec<(u16, S)>,
    ) -> Result<DatagramSockets<S>, Errno> {
        let mut sockets = DatagramSockets {
            sockets: Slab::new(),
            listeners: Vec::new(),
            readable: VecDeque::new(),
            buffer: Box::default(),
        };
        for (listener, socket) in listeners {
            let token = sockets.add(kernel, Some(listener), socket)?;
            sockets.listeners.push((listener, token));
        }
        Ok(sockets)
    }

    /// Adds a dialled socket and watches it.
    pub(crate) fn add_dialled<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &K,
        socket: S,
    ) -> Result<SocketId, Errno> {
        self.add(kernel, None, socket).map(SocketId)
    }

    fn add<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &K,
        listener: Option<u16>,
        socket: S,
    ) -> Result<Token, Errno> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; DATAGRAM_MAX].into_boxed_slice();
        }
        let Token { index, generation } = self.sockets.next_token();
        kernel.watch(&socket, Token { index: index | DATAGRAMS, generation }.to_u64(), READABLE)?;
        let token = self.sockets.insert(Entry { listener, socket, is_readable: true });
        // Something may have arrived before it was watched.
        self.readable.push_back(token);
        Ok(token)
    }

    /// Closes a dialled socket; returns whether it existed.
    pub(crate) fn close(&mut self, SocketId(token): SocketId) -> bool {
        let is_there = self.sockets.get_mut(token).is_some();
        if is_there {
            self.sockets.remove(token.index);
        }
        is_there
    }

    /// Whether some socket may have datagrams.
    #[inline]
    pub(crate) fn any_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Handles an event of the socket that `token` names, if it names one.
    pub(crate) fn event(&mut self, token: Token) {
        let token = Token { index: token.index ^ DATAGRAMS, ..token };
        if let Some(entry) = self.sockets.get_mut(token).filter(|entry| !entry.is_readable) {
            entry.is_readable = true;
            self.readable.push_back(token);
        }
    }

    /// Passes arrived datagrams to `each`, those that arrived together at once: about [`RECEIVED_MAX`] of all sockets in
    /// turn.
    pub(crate) fn receive<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        mut each: impl FnMut(&Together<'_>),
    ) {
        let (mut calls, mut datagrams, mut bytes) = (0, 0, 0);
        while calls < RECEIVED_MAX && datagrams < RECEIVED_MAX && bytes < RECEIVED_LEN_MAX {
            calls += 1;
            let Some(token) = self.readable.pop_front() else { break };
            // It may have been closed.
            let Some(entry) = self.sockets.get_mut(token) else { continue };
            match kernel.receive_datagrams(&entry.socket, &mut self.buffer) {
                Ok(Received { len, from, segment_len }) => {
                    let from = match entry.listener {
                        Some(listener) => DatagramPeer::Client { listener, address: from },
                        None => DatagramPeer::Dialled(SocketId(token)),
                    };
                    let together = Together { from, bytes: &self.buffer[..len], segment_len };
                    datagrams += together.count();
                    bytes += len;
                    each(&together);
                }
                // An error of an earlier datagram (ICMP), which the kernel reports once, and before what has arrived.
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                // Empty, or an error without a remedy.
                Err(_) => {
                    entry.is_readable = false;
                    continue;
                }
            }
            self.readable.push_back(token);
        }
    }

    /// Sends the datagrams of a round, those for one peer together.
    pub(crate) fn send<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        outgoing: &mut Outgoing,
    ) -> SendOutcome {
        let mut sent = SendOutcome::default();
        let unplaced = outgoing.drain(|to, datagrams| {
            let (token, address) = match to {
                DatagramPeer::Client { listener, address } => {
                    let token = self.listeners.iter().find(|(index, _)| *index == listener);
                    (token.map(|(_, token)| *token), Some(address))
                }
                DatagramPeer::Dialled(SocketId(token)) => (Some(token), None),
            };
            let entry = token.and_then(|token| self.sockets.get_mut(token));
            let taken = entry.map_or(0, |entry| kernel.send_datagrams(&entry.socket, address, datagrams));
            sent.bytes += datagrams[..taken].iter().map(|datagram| datagram.len() as u64).sum::<u64>();
            sent.dropped += (datagrams.len() - taken) as u64;
        });
        sent.dropped += unplaced;
        sent
    }
}
