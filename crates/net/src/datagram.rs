//! Datagrams: what arrives at a worker's own sockets, and what is said in a round.
//!
//! Nothing is kept over a round: what a socket does not take at once is dropped and counted, as the network itself might have
//! done.

use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::kernel::Kernel;
use crate::slab::Token;

/// The longest datagram that UDP has.
const DATAGRAM_MAX: usize = 64 * 1024;

/// Datagrams that are received in a round: beside those, the connections have their turn.
pub(crate) const RECEIVED_MAX: usize = 64;

/// Bytes of all datagrams that are said in a round: more than a socket's buffer takes by default. The rest is dropped.
pub(crate) const SAID_MAX: usize = 1 << 20;

/// In the places of tokens: neither a connection nor a dial.
const EAR: u32 = 1 << 30;

const HEARING: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// Whom a datagram came from and where it arrived; or whom one goes to, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Correspondent {
    /// Which of the network's addresses, by index.
    pub listener: u16,
    /// The other end.
    pub address: SocketAddr,
}

/// A datagram that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    /// Whom it came from, and whom replies go to.
    pub from: Correspondent,
    /// All of it.
    pub bytes: &'b [u8],
}

/// Datagrams that are to be sent.
#[derive(Default)]
pub(crate) struct Said {
    /// To whom, and where in `bytes` it ends.
    list: Vec<(Correspondent, usize)>,
    bytes: Vec<u8>,
    /// Those for which there was no room.
    dropped: u64,
}

impl Said {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.dropped == 0
    }

    pub(crate) fn add(&mut self, to: Correspondent, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= SAID_MAX;
        if fits {
            self.bytes.extend_from_slice(bytes);
            self.list.push((to, self.bytes.len()));
        } else {
            self.dropped += 1;
        }
        fits
    }
}

/// A worker's sockets for datagrams.
pub(crate) struct Ears<S> {
    list: Vec<Ear<S>>,
    /// Empty where there are none.
    buffer: Box<[u8]>,
    /// Some may have something.
    pub(crate) any_readable: bool,
}

struct Ear<S> {
    listener: u16,
    socket: S,
    readable: bool,
}

/// What came of sending.
#[derive(Default)]
pub(crate) struct Spoken {
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

impl<S> Ears<S> {
    /// Those with these indices among the network's addresses; watched from now on.
    pub(crate) fn new<K: Kernel<Socket = S>>(kernel: &K, sockets: Vec<(u16, S)>) -> Result<Ears<S>, Errno> {
        for ((_, socket), number) in sockets.iter().zip(0..) {
            let name = Token { index: EAR | number, generation: 0 };
            kernel.watch(socket, name.to_u64(), HEARING)?;
        }
        let buffer = vec![0; if sockets.is_empty() { 0 } else { DATAGRAM_MAX }].into_boxed_slice();
        let ear = |(listener, socket)| Ear { listener, socket, readable: true };
        let list: Vec<_> = sockets.into_iter().map(ear).collect();
        Ok(Ears { any_readable: !list.is_empty(), list, buffer })
    }

    /// An event of the socket that `token` names, if it names one.
    pub(crate) fn event(&mut self, token: Token) {
        let ear = self.list.get_mut((token.index ^ EAR) as usize);
        if let Some(ear) = ear.filter(|_| token.generation == 0) {
            (ear.readable, self.any_readable) = (true, true);
        }
    }

    /// Hands out what has arrived, at most [`RECEIVED_MAX`] datagrams of all sockets in turn.
    pub(crate) fn hear<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        mut each: impl FnMut(&Datagram<'_>),
    ) {
        let mut left = RECEIVED_MAX;
        while left > 0 && self.list.iter().any(|ear| ear.readable) {
            for ear in self.list.iter_mut().filter(|ear| ear.readable) {
                match kernel.receive_datagram(&ear.socket, &mut self.buffer) {
                    Ok((len, address)) => {
                        let from = Correspondent { listener: ear.listener, address };
                        each(&Datagram { from, bytes: &self.buffer[..len] });
                        left = left.saturating_sub(1);
                    }
                    Err(Errno::INTR) => {}
                    // Nothing more, or nothing that can be helped.
                    Err(_) => ear.readable = false,
                }
            }
        }
        self.any_readable = self.list.iter().any(|ear| ear.readable);
    }

    /// Sends what was said, to one after the other.
    pub(crate) fn speak<K: Kernel<Socket = S>>(&mut self, kernel: &mut K, said: &mut Said) -> Spoken {
        let mut spoken = Spoken { bytes: 0, dropped: std::mem::take(&mut said.dropped) };
        let starts = std::iter::once(0).chain(said.list.iter().map(|(_, end)| *end));
        let mut letters: Vec<_> =
            said.list.iter().zip(starts).map(|((to, end), start)| (*to, start..*end)).collect();
        // Those for one are together, in their order: the kernel's way to a peer is in the cache for all but the first.
        letters.sort_by_key(|(to, _)| *to);
        for (to, range) in letters {
            let ear = self.list.iter().find(|ear| ear.listener == to.listener);
            let bytes = &said.bytes[range];
            match ear.map(|ear| kernel.send_datagram(&ear.socket, to.address, bytes)) {
                Some(Ok(())) => spoken.bytes += bytes.len() as u64,
                _ => spoken.dropped += 1,
            }
        }
        said.list.clear();
        said.bytes.clear();
        spoken
    }
}
