//! A turn: a handler's access to the time, to the outputs of other connections, and to orders.
//!
//! Plain data. The event loop carries out the orders, over sockets and in the simulation alike, so that tests exercise
//! the code that runs.

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::event_loop::dial::{Dial, Unreachable};
use crate::event_loop::lanes::LANES_MAX;
use crate::files::block::Block;
use crate::files::file_read::{DiskFile, FileRead, READS_LIMIT};
use crate::slab::Token;
use crate::sockets::datagram::{DatagramPeer, Outgoing, SocketId};

/// Empty outputs that are kept: as many as connections are sent to in a round.
const SPARE_MAX: usize = LANES_MAX;

/// The memory of an output that is kept: with all of them together, at most 2 MiB for a worker.
const SPARE_BYTES_MAX: usize = 32 << 10;

/// Names a connection of one worker as long as it exists; unique in this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub(crate) Token);

impl Link {
    /// A number below that of the worker's connections, which another connection may have after this one.
    pub fn place(self) -> usize {
        self.0.index as usize
    }
}

impl Default for Link {
    /// Names no connection.
    fn default() -> Link {
        Link(Token::from_u64(u64::MAX))
    }
}

/// The time, outputs and orders of a call.
pub struct Turn<Held> {
    now: Now,
    /// By place in the slab.
    links: Vec<State>,
    outputs: Vec<(Link, Gather<Held>)>,
    /// Empty outputs, whose memory the next ones use.
    spare: Vec<Gather<Held>>,
    orders: Vec<Order>,
    pub(crate) outgoing: Outgoing,
    /// Dials without an outcome, and dialled connections.
    dialled: usize,
    /// The limit of these two together, or the reason why no dial is accepted.
    dialled_max: Result<usize, Unreachable>,
    /// Reads to begin after this round.
    reads: Vec<FileRead>,
    /// Reads without a result, and their limit.
    reading: usize,
    reads_max: usize,
}

/// State of the connection at a place.
#[derive(Clone, Copy, Default)]
struct State {
    link: Option<Link>,
    /// Bytes that its socket has not taken.
    blocked: usize,
    /// Bytes of memory that they take.
    blocked_memory: usize,
    /// Its index among the outputs, plus 1; 0 for none.
    output: usize,
}

/// An order for the event loop, carried out after the calls of a round.
#[derive(Debug)]
pub(crate) enum Order {
    Wake(Link),
    Close(Link),
    Abort(Link),
    CloseSocket(SocketId),
    Dial(Dial, u64),
}

impl<Held> Default for Turn<Held> {
    /// Without connections; nothing can be dialled.
    fn default() -> Turn<Held> {
        Turn {
            now: Now::default(),
            links: Vec::new(),
            outputs: Vec::new(),
            spare: Vec::new(),
            orders: Vec::new(),
            outgoing: Outgoing::default(),
            dialled: 0,
            dialled_max: Ok(0),
            reads: Vec::new(),
            reading: 0,
            reads_max: 0,
        }
    }
}

/// For handlers.
impl<Held: AsRef<[u8]>> Turn<Held> {
    /// The time, read once in a round.
    #[inline]
    pub fn now(&self) -> Now {
        self.now
    }

    /// The output of any connection of this worker, sent with the round's batch. `None`: the connection is gone.
    ///
    /// For the connection that a call is about, these bytes follow those that the call writes to its own output.
    pub fn output(&mut self, to: Link) -> Option<&mut Gather<Held>> {
        let state = self.links.get_mut(to.0.index as usize).filter(|state| state.link == Some(to))?;
        if state.output == 0 {
            self.outputs.push((to, self.spare.pop().unwrap_or_default()));
            state.output = self.outputs.len();
        }
        Some(&mut self.outputs[state.output - 1].1)
    }

    /// Whether the connection still exists.
    pub fn is_open(&self, link: Link) -> bool {
        self.links.get(link.0.index as usize).is_some_and(|state| state.link == Some(link))
    }

    /// Bytes for a connection that its socket has not taken, or that have not been offered to it yet. The handler must
    /// bound them: an accepted connection is not read from while there are some, but a dialled one is, and any call may
    /// write to either.
    pub fn unsent(&self, of: Link) -> usize {
        let state = self.links.get(of.0.index as usize).filter(|state| state.link == Some(of));
        state.map_or(0, |state| {
            let waiting = state.output.checked_sub(1).map_or(0, |place| self.outputs[place].1.len());
            state.blocked + waiting
        })
    }

    /// Bytes of memory that [`Turn::unsent`] takes, with each held piece as [`crate::Handler::share`] counted it when the socket
    /// was full. `share` is the same function.
    pub fn unsent_memory(&self, of: Link, share: impl Fn(&Held) -> usize) -> usize {
        let state = self.links.get(of.0.index as usize).filter(|state| state.link == Some(of));
        state.map_or(0, |state| {
            let waiting = state.output.checked_sub(1).map_or(0, |place| self.outputs[place].1.memory(share));
            state.blocked_memory + waiting
        })
    }

    /// Of [`Turn::unsent`], the bytes that its socket refused in earlier rounds. While there are some,
    /// [`crate::Handler::on_drained`] will be called: a handler that waits for room asks this. Output of one round is
    /// bounded by what is received in one.
    pub fn blocked(&self, of: Link) -> usize {
        let state = self.links.get(of.0.index as usize).filter(|state| state.link == Some(of));
        state.map_or(0, |state| state.blocked)
    }

    /// Ends [`crate::Next::Wait`] of a connection: [`crate::Handler::on_bytes`] is called in the next round, with the
    /// rest of its input. If it is [`crate::Handler::on_read`] that orders this and nothing else, and writes no output for the connection, it
    /// is called in this round. No effect on one that does not wait, or is gone.
    pub fn wake(&mut self, link: Link) {
        self.orders.push(Order::Wake(link));
    }

    /// Closes a connection once its output has been sent; a peer that does not read can delay that for ever. No effect
    /// if it is gone.
    pub fn close(&mut self, link: Link) {
        self.orders.push(Order::Close(link));
    }

    /// Closes a connection after this round, whatever its peer has not taken. No effect if it is gone.
    pub fn abort(&mut self, link: Link) {
        self.orders.push(Order::Abort(link));
    }

    /// Sends a datagram with the round's batch, from the worker's own socket at an address of the network's or from a
    /// dialled one. It may be lost like any other: the result says only whether there was room for it here. Datagrams
    /// to one peer keep their order.
    pub fn send_datagram(&mut self, to: DatagramPeer, bytes: &[u8]) -> bool {
        self.outgoing.add(to, bytes)
    }

    /// Sends `bytes` as a sequence of datagrams, as [`Turn::send_datagram`]: parts of `part_max` bytes, each behind the
    /// head that `head` makes for its number. All of them, or none where there is no room.
    pub fn send_datagrams<const HEAD: usize>(
        &mut self,
        to: DatagramPeer,
        bytes: &[u8],
        part_max: usize,
        head: impl Fn(usize) -> [u8; HEAD],
    ) -> bool {
        self.outgoing.add_parts(to, bytes, part_max, head)
    }

    /// Bytes of datagrams for which there is room in this round, their heads included.
    pub fn datagram_room(&self) -> usize {
        self.outgoing.room()
    }

    /// Closes a dialled socket for datagrams after this round. No effect if it is gone.
    pub fn close_socket(&mut self, socket: SocketId) {
        self.orders.push(Order::CloseSocket(socket));
    }

    /// Connects to a place. The outcome is reported once, in a later round, with `tag`: by [`crate::Handler::on_open`]
    /// with [`crate::Origin::Dialled`] (for datagrams [`crate::Handler::on_socket`]), or by
    /// [`crate::Handler::on_unreachable`].
    ///
    /// # Errors
    /// No outcome is reported where there are too many dials and dialled connections already, or the network is
    /// stopping.
    #[must_use = "an order that is not taken has no outcome"]
    pub fn dial(&mut self, dial: Dial, tag: u64) -> Result<(), Unreachable> {
        if self.dialled >= self.dialled_max? {
            return Err(Unreachable::LimitReached);
        }
        self.dialled += 1;
        self.orders.push(Order::Dial(dial, tag));
        Ok(())
    }

    /// Reads from `file` into `block`, from the position `at` on. The result is reported once, in a later round, with `tag`:
    /// [`crate::Handler::on_read`] gives the block back, filled as far as the file goes.
    ///
    /// # Errors
    /// The block comes back at once, and no result is reported, where [`crate::Options::reads_max`] reads are in flight already,
    /// or the network is stopping. A handler that keeps orders for later repeats them in `on_read`.
    #[must_use = "an order that is not taken has no result"]
    pub fn read(&mut self, file: &DiskFile, at: u64, mut block: Block, tag: u64) -> Result<(), Block> {
        if self.reading >= self.reads_max {
            return Err(block);
        }
        block.clear();
        self.reading += 1;
        self.reads.push(FileRead { file: file.clone(), at, block, tag });
        Ok(())
    }
}

/// For the event loop.
impl<Held: AsRef<[u8]>> Turn<Held> {
    pub(crate) fn new(dialled_max: usize, reads_max: usize) -> Turn<Held> {
        Turn { dialled_max: Ok(dialled_max), reads_max: reads_max.min(READS_LIMIT), ..Turn::default() }
    }

    pub(crate) fn begin(&mut self, now: Now) {
        self.now = now;
    }

    /// Whether there is nothing to be done.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.outputs.is_empty() && self.orders.is_empty() && self.outgoing.is_empty() && self.reads.is_empty()
    }

    pub(crate) fn opened(&mut self, link: Link) {
        let place = link.0.index as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, State::default());
        }
        self.links[place] = State { link: Some(link), ..State::default() };
    }

    pub(crate) fn closed(&mut self, link: Link) {
        let state = &mut self.links[link.0.index as usize];
        if let Some(place) = state.output.checked_sub(1) {
            // The entry stays, so that the indices of others stay right.
            self.outputs[place].1 = Gather::default();
        }
        *state = State::default();
    }

    /// Sets the number of bytes that its socket has not taken, and how much memory they take.
    #[inline]
    pub(crate) fn set_blocked(&mut self, link: Link, bytes: usize, memory: usize) {
        let state = &mut self.links[link.0.index as usize];
        (state.blocked, state.blocked_memory) = (bytes, memory);
    }

    /// Takes all outputs that were written through [`Turn::output`]. The vector is given back, empty, to
    /// [`Turn::keep_outputs`].
    pub(crate) fn take_outputs(&mut self) -> Vec<(Link, Gather<Held>)> {
        for (link, _) in &self.outputs {
            self.links[link.0.index as usize].output = 0;
        }
        std::mem::take(&mut self.outputs)
    }

    /// Keeps the memory of a vector that was taken.
    pub(crate) fn keep_outputs(&mut self, outputs: Vec<(Link, Gather<Held>)>) {
        debug_assert!(outputs.is_empty());
        if self.outputs.is_empty() {
            self.outputs = outputs;
        }
    }

    /// Keeps the memory of an output whose content has been moved or is not needed.
    #[inline]
    pub(crate) fn keep(&mut self, mut output: Gather<Held>) {
        output.clear();
        if self.spare.len() < SPARE_MAX && output.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(output);
        }
    }

    /// Puts back an output that found no lane.
    pub(crate) fn put_back(&mut self, link: Link, output: Gather<Held>) {
        if let Some(place) = self.output(link) {
            *place = output;
        }
    }

    /// A dial failed, or a dialled connection ended.
    pub(crate) fn dial_ended(&mut self) {
        self.dialled -= 1;
    }

    /// Refuses dials and reads from now on.
    pub(crate) fn stop(&mut self) {
        self.dialled_max = Err(Unreachable::Stopping);
        self.reads_max = 0;
    }

    #[inline]
    pub(crate) fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }

    pub(crate) fn take_reads(&mut self) -> Vec<FileRead> {
        std::mem::take(&mut self.reads)
    }

    /// A read has its result.
    pub(crate) fn read_ended(&mut self) {
        self.reading -= 1;
    }

    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Puts back those of the orders that are to be carried out later, before any other one is given.
    pub(crate) fn put_back_orders(&mut self, orders: Vec<Order>) {
        debug_assert!(self.orders.is_empty());
        self.orders = orders;
    }
}
