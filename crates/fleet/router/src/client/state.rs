//! State of a client's input: what has arrived of a request that is not complete.

use protocol::key::KeyRun;

use crate::client::SlotNumber;
use crate::message::buffer::BodyBuffer;
use crate::message::operation::Operation;
use crate::slab::Id;

/// State of a client's input.
pub struct ClientState {
    pub(crate) id: Id,
    /// A body that is being received.
    pub(crate) upload: Option<ArrivingBody>,
    /// A `get` line that is longer than the network's buffers.
    pub(crate) run: Option<LongGet>,
    /// Bytes to drop.
    pub(crate) swallow: usize,
}

/// A storage command whose body did not arrive with its line.
#[derive(Default)]
pub(crate) struct ArrivingBody {
    pub(crate) head: Vec<u8>,
    pub(crate) body: BodyBuffer,
}

/// Bodies from this length on are held until all who need them have sent them; shorter ones are copied, from memory that is
/// used again.
pub(crate) const HELD_MIN: usize = 32 * 1024;

/// Memory for bodies that are copied, of a worker: as many as clients are served in a round of the network's. Together 2 MiB.
const SPARE_BODIES_MAX: usize = 64;

/// Memory of bodies that have been copied.
#[derive(Default)]
pub(crate) struct SpareBodies(Vec<ArrivingBody>);

impl SpareBodies {
    /// For a body of `len` bytes behind the line `head`.
    pub(crate) fn take(&mut self, head: &[u8], len: usize) -> ArrivingBody {
        let mut arriving = match len < HELD_MIN {
            true => self.0.pop().unwrap_or_default(),
            false => ArrivingBody::default(),
        };
        arriving.head.clear();
        arriving.head.extend_from_slice(head);
        arriving.body.begin(len);
        arriving
    }

    /// Keeps the memory of a body that was copied.
    pub(crate) fn keep(&mut self, arriving: ArrivingBody) {
        if self.0.len() < SPARE_BODIES_MAX {
            self.0.push(arriving);
        }
    }
}

/// A `get` line of which some keys have been routed.
pub(crate) struct LongGet {
    pub(crate) run: KeyRun,
    pub(crate) slot: SlotNumber,
    pub(crate) operation: Operation,
}

/// What to do after a request.
pub(crate) enum RequestProgress {
    /// Go on, this many bytes later.
    Go(usize),
    /// Wait for more of this request.
    More,
    /// Close the connection once all answers are sent.
    Close,
}

impl ClientState {
    /// Nothing of a request has been read that is not whole.
    pub(crate) fn is_between(&self) -> bool {
        self.upload.is_none() && self.run.is_none() && self.swallow == 0
    }

    pub(crate) fn new(id: Id) -> ClientState {
        ClientState { id, upload: None, run: None, swallow: 0 }
    }

    /// Memory for the rest of a body.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.upload.as_mut().map(|upload| upload.body.room()).filter(|room| !room.is_empty())
    }
}
