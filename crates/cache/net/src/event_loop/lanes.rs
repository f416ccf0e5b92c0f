//! Lanes: the connections of one round, with an input buffer and an output each.

use std::ops::Range;

use rustix::io::Errno;
use stdx::gather::Gather;

use crate::INPUT_MAX;

/// Connections in one round. More give larger batches but let the first reply wait for the last request:
/// at about 1 µs each for receive, work and send, this is a fifth of a millisecond at worst.
pub(crate) const LANES_MAX: usize = 64;

/// The most that is received into a handler's memory at a time, so that one client with a huge body does not delay the
/// others: about 50 µs of copying.
pub(crate) const BODY_RECEIVE_MAX: usize = 256 * 1024;

/// Distance between two input buffers: five cache lines more than the buffer, so that the fronts of the buffers, which
/// are all that small requests touch, do not fall into the same set of the cache.
const STRIDE: usize = INPUT_MAX + 5 * 64;

/// An output buffer that has grown beyond this is freed once it is empty.
const OUTPUT_KEPT_MAX: usize = 256 * 1024;

/// Ciphertext of a connection that is received before it is decrypted. More than the longest record of TLS
/// (RFC 5246, 6.2.3: 18 KiB and a head of 5 bytes), so that a whole one always has room;
/// a message of the protocol in several records may have none.
pub(crate) const SEALED_MAX: usize = 32 * 1024;

/// As [`STRIDE`].
const SEALED_STRIDE: usize = SEALED_MAX + 5 * 64;

/// One connection's place in a round.
pub(crate) struct Lane {
    /// The connection, by its place in the slab.
    pub(crate) index: u32,
    /// A receive is to be done.
    pub(crate) receive: bool,
    /// The handler is to be called.
    pub(crate) handle: bool,
    /// Something was received.
    pub(crate) arrived: bool,
    /// Bytes at the front of the input buffer.
    pub(crate) filled: usize,
    /// Bytes received into the handler's own memory.
    pub(crate) body: usize,
    /// Bytes at the front of the buffer for ciphertext, if this lane receives ciphertext.
    pub(crate) sealed: Option<usize>,
    /// The outcome of the receive.
    pub(crate) received: Result<usize, Errno>,
    /// The outcome of the send.
    pub(crate) sent: Result<usize, Errno>,
}

/// All lanes of a worker. Lane `i` has input buffer `i` and output `i`.
pub(crate) struct Lanes<Held> {
    pub(crate) list: Vec<Lane>,
    input: Box<[u8]>,
    pub(crate) outputs: Vec<Gather<Held>>,
    /// Buffers for ciphertext; none until a connection with TLS comes.
    sealed: Box<[u8]>,
    /// Encrypted output.
    wires: Vec<Gather<Held>>,
    /// Content of a record that lies in several pieces.
    scratch: Vec<u8>,
}

impl<Held: AsRef<[u8]>> Lanes<Held> {
    pub(crate) fn new() -> Lanes<Held> {
        Lanes {
            list: Vec::with_capacity(LANES_MAX),
            // Zeroed pages are only touched, and so only cost memory, when a lane is used.
            input: vec![0; LANES_MAX * STRIDE].into_boxed_slice(),
            outputs: std::iter::repeat_with(Gather::default).take(LANES_MAX).collect(),
            sealed: Box::default(),
            wires: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn room(&self) -> usize {
        LANES_MAX - self.list.len()
    }

    /// Adds a connection and returns its lane.
    #[inline]
    pub(crate) fn push(&mut self, index: u32, receive: bool, handle: bool) -> usize {
        debug_assert!(self.room() > 0);
        self.list.push(Lane {
            index,
            receive,
            handle,
            arrived: false,
            filled: 0,
            body: 0,
            sealed: None,
            received: Ok(0),
            sent: Ok(0),
        });
        self.list.len() - 1
    }

    /// Lane `lane`'s record, input buffer and output.
    #[inline]
    pub(crate) fn parts(&mut self, lane: usize) -> (&mut Lane, &mut [u8], &mut Gather<Held>) {
        let buffer = &mut self.input[lane * STRIDE..][..INPUT_MAX];
        (&mut self.list[lane], buffer, &mut self.outputs[lane])
    }

    /// Lane `lane`'s record, and the memory that a receive fills.
    #[inline]
    pub(crate) fn target(&mut self, lane: usize) -> (&mut Lane, &mut [u8]) {
        let record = &mut self.list[lane];
        let room = match record.sealed {
            None => &mut self.input[lane * STRIDE..][record.filled..INPUT_MAX],
            Some(sealed) => &mut self.sealed[lane * SEALED_STRIDE..][sealed..SEALED_MAX],
        };
        (record, room)
    }

    /// Makes room for connections with TLS.
    #[cold]
    pub(crate) fn prepare_sealed(&mut self) {
        if self.wires.is_empty() {
            self.sealed = vec![0; LANES_MAX * SEALED_STRIDE].into_boxed_slice();
            self.wires = std::iter::repeat_with(Gather::default).take(LANES_MAX).collect();
        }
    }

    /// Lane `lane`'s record, buffer for ciphertext and input buffer.
    pub(crate) fn sealed_parts(&mut self, lane: usize) -> (&mut Lane, &mut [u8], &mut [u8]) {
        let sealed = &mut self.sealed[lane * SEALED_STRIDE..][..SEALED_MAX];
        (&mut self.list[lane], sealed, &mut self.input[lane * STRIDE..][..INPUT_MAX])
    }

    /// Lane `lane`'s output, its encrypted output, and a vector for any use.
    pub(crate) fn wire_parts(&mut self, lane: usize) -> (&mut Gather<Held>, &mut Gather<Held>, &mut Vec<u8>) {
        (&mut self.outputs[lane], &mut self.wires[lane], &mut self.scratch)
    }

    /// Leaves the input buffers to the kernel, which may still write to them, and takes new ones. What has been
    /// received is copied.
    #[cold]
    pub(crate) fn leave_inputs(&mut self) {
        let used = |stride: usize, bytes: fn(&Lane) -> usize| {
            let lanes = self.list.iter().enumerate();
            lanes
                .map(|(position, lane)| position * stride..position * stride + bytes(lane))
                .collect::<Vec<_>>()
        };
        let plain = used(STRIDE, |lane| {
            lane.filled + if lane.sealed.is_none() { lane.received.unwrap_or(0) } else { 0 }
        });
        let sealed =
            used(SEALED_STRIDE, |lane| lane.sealed.map_or(0, |sealed| sealed + lane.received.unwrap_or(0)));
        leave(&mut self.input, plain);
        leave(&mut self.sealed, sealed);
    }

    /// Prepares lane `lane`'s output for another connection.
    #[inline]
    pub(crate) fn recycle_output(&mut self, lane: usize) {
        recycle(&mut self.outputs[lane]);
    }

    /// As [`Lanes::recycle_output`], for encrypted output.
    pub(crate) fn recycle_wire(&mut self, lane: usize) {
        recycle(&mut self.wires[lane]);
    }
}

#[inline]
fn recycle<Held: AsRef<[u8]>>(output: &mut Gather<Held>) {
    if output.capacity() > OUTPUT_KEPT_MAX || !output.is_empty() {
        *output = Gather::default();
    }
}

/// Leaves `buffers` for ever, and copies what is in use to new ones.
fn leave(buffers: &mut Box<[u8]>, in_use: Vec<Range<usize>>) {
    let fresh = vec![0; buffers.len()].into_boxed_slice();
    let left = Box::leak(std::mem::replace(buffers, fresh));
    for used in in_use.into_iter().filter(|used| !used.is_empty()) {
        buffers[used.clone()].copy_from_slice(&left[used]);
    }
}
