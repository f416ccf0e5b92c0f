//! Lanes: the connections of one round, with an input buffer and an output each.

use rustix::io::Errno;
use stdx::gather::Gather;

use crate::INPUT_MAX;

/// Connections in one round. More give larger batches but let the first reply wait for the last request:
/// at about 1 µs each for receive, work and send, this is a fifth of a millisecond at worst.
pub(crate) const LANES_MAX: usize = 64;

/// Distance between two input buffers: five cache lines more than the buffer, so that the fronts of the buffers, which
/// are all that small requests touch, do not fall into the same set of the cache.
const STRIDE: usize = INPUT_MAX + 5 * 64;

/// An output buffer that has grown beyond this is freed once it is empty.
const OUTPUT_KEPT_MAX: usize = 256 * 1024;

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
}

impl<Held: AsRef<[u8]>> Lanes<Held> {
    pub(crate) fn new() -> Lanes<Held> {
        Lanes {
            list: Vec::with_capacity(LANES_MAX),
            // Zeroed pages are only touched, and so only cost memory, when a lane is used.
            input: vec![0; LANES_MAX * STRIDE].into_boxed_slice(),
            outputs: std::iter::repeat_with(Gather::default).take(LANES_MAX).collect(),
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

    /// Leaves the input buffers to the kernel, which may still write to them, and takes new ones. What has been
    /// received is copied.
    #[cold]
    pub(crate) fn leave_inputs(&mut self) {
        let fresh = vec![0; LANES_MAX * STRIDE].into_boxed_slice();
        let left = Box::leak(std::mem::replace(&mut self.input, fresh));
        for (position, lane) in self.list.iter().enumerate() {
            let used = position * STRIDE..position * STRIDE + lane.filled + lane.received.unwrap_or(0);
            self.input[used.clone()].copy_from_slice(&left[used]);
        }
    }

    /// Prepares lane `lane`'s output for another connection.
    #[inline]
    pub(crate) fn recycle_output(&mut self, lane: usize) {
        let output = &mut self.outputs[lane];
        if output.capacity() > OUTPUT_KEPT_MAX || !output.is_empty() {
            *output = Gather::default();
        }
    }
}
