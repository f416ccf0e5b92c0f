//! Datagram sockets of a worker: those of the network's addresses, and dialled ones.
//!
//! Nothing that is sent is kept over a round: a datagram that a socket does not take at once is dropped and counted, as the
//! network itself might do. What one call has received beyond a round's share waits for the next round.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::kernel::Kernel;
use crate::slab::{Slab, Token};
use crate::sockets::datagram::{DatagramPeer, Outgoing, Sender, SocketId, Together};
use crate::sockets::segments::{DatagramBatch, MESSAGES_MAX, ReceivedMessage};

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
    /// What was received last.
    arrivals: DatagramBatch,
    /// Of these, the next to be passed on, and the socket that received them.
    arrived: Option<(Token, Sender, usize)>,
}

struct Entry<S> {
    /// Index among the network's addresses; `None` for a dialled socket.
    listener: Option<u16>,
    socket: S,
    /// It is in the list of readable sockets.
    is_readable: bool,
    /// Datagrams that its receive buffer had no room for, when it was last asked.
    overflowed: u32,
}

/// Result of sending.
#[derive(Default)]
pub(crate) struct SendOutcome {
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

/// What a received datagram is passed on for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A hint.
    Prefetch,
    Handle,
}

fn together(arrivals: &DatagramBatch, from: Sender, number: usize) -> Together<'_> {
    let (ReceivedMessage { from: address, segment_len, .. }, bytes) = arrivals.message(number);
    let from = match from {
        Sender::Listener(listener) => DatagramPeer::Client { listener, address },
        Sender::Dialled(socket) => DatagramPeer::Dialled(socket),
    };
    Together { from, bytes, segment_len }
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
            arrivals: DatagramBatch::default(),
            arrived: None,
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
        let Token { index, generation } = self.sockets.next_token();
        kernel.watch(&socket, Token { index: index | DATAGRAMS, generation }.to_u64(), READABLE)?;
        // One of an earlier network has a count already.
        let overflowed = kernel.overflowed(&socket);
        let token = self.sockets.insert(Entry { listener, socket, is_readable: true, overflowed });
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
        !self.readable.is_empty() || self.arrived.is_some()
    }

    /// Handles an event of the socket that `token` names, if it names one.
    pub(crate) fn event(&mut self, token: Token) {
        let token = Token { index: token.index ^ DATAGRAMS, ..token };
        if let Some(entry) = self.sockets.get_mut(token).filter(|entry| !entry.is_readable) {
            entry.is_readable = true;
            self.readable.push_back(token);
        }
    }

    /// Passes arrived datagrams to `each`: about [`RECEIVED_MAX`] of all sockets in turn, or until `each` returns that it
    /// has had enough. Those that were received by one call are passed for prefetching before the first of them is passed
    /// to be handled. Returns how many more the sockets' buffers have had no room for.
    pub(crate) fn receive<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        mut each: impl FnMut(Purpose, &Together<'_>) -> ControlFlow<()>,
    ) -> u64 {
        let (mut calls, mut datagrams, mut bytes) = (0, 0, 0);
        let mut overflowed = 0;
        while calls < RECEIVED_MAX && datagrams < RECEIVED_MAX && bytes < RECEIVED_LEN_MAX {
            calls += 1;
            if let Some((token, from, number)) = self.arrived.take() {
                let together = together(&self.arrivals, from, number);
                datagrams += together.count();
                bytes += together.bytes.len();
                let flow = each(Purpose::Handle, &together);
                let has_more = number + 1 < self.arrivals.count() && self.sockets.get_mut(token).is_some();
                self.arrived = has_more.then_some((token, from, number + 1));
                if flow.is_break() {
                    break;
                }
                continue;
            }
            let Some(token) = self.readable.pop_front() else { break };
            // It may have been closed.
            let Some(entry) = self.sockets.get_mut(token) else { continue };
            let from = entry.listener.map_or(Sender::Dialled(SocketId(token)), Sender::Listener);
            match kernel.receive_datagrams(&entry.socket, &mut self.arrivals) {
                Ok(()) => {
                    let count = self.arrivals.count();
                    let mut received = 1;
                    if count > 1 || together(&self.arrivals, from, 0).count() > 1 {
                        received = 0;
                        for number in 0..count {
                            let together = together(&self.arrivals, from, number);
                            received += together.count();
                            let _hint = each(Purpose::Prefetch, &together);
                        }
                    }
                    // A buffer that has overflowed has many, so others need not be asked: one call more for as many datagrams.
                    if received >= MESSAGES_MAX {
                        let now = kernel.overflowed(&entry.socket);
                        overflowed += u64::from(now.wrapping_sub(entry.overflowed));
                        entry.overflowed = now;
                    }
                    self.arrived = Some((token, from, 0));
                    // Then it is empty, and more make an event. A dialled one may have stopped at an error.
                    if entry.listener.is_some() && count < MESSAGES_MAX {
                        entry.is_readable = false;
                        continue;
                    }
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
        overflowed
    }

    /// Sends the datagrams of a round, those for one peer together.
    pub(crate) fn send<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        outgoing: &mut Outgoing,
    ) -> SendOutcome {
        let mut sent = SendOutcome::default();
        let unplaced = outgoing.drain(|from, to, datagrams| {
            let token = match from {
                Sender::Listener(listener) => {
                    self.listeners.iter().find(|(index, _)| *index == listener).map(|(_, token)| *token)
                }
                Sender::Dialled(SocketId(token)) => Some(token),
            };
            let entry = token.and_then(|token| self.sockets.get_mut(token));
            let taken = entry.map_or(0, |entry| kernel.send_datagrams(&entry.socket, to, datagrams));
            sent.dropped += (datagrams.len() - taken) as u64;
            sent.bytes += datagrams[..taken].iter().map(|datagram| datagram.len() as u64).sum::<u64>();
        });
        sent.dropped += unplaced;
        sent
    }
}
