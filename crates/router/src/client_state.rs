//! State of a client's input: what has arrived of a request that is not complete.

use protocol::key::KeyRun;

use crate::buffer::BodyBuffer;
use crate::client::SlotNumber;
use crate::operation::Operation;
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
pub(crate) struct ArrivingBody {
    pub(crate) head: Box<[u8]>,
    pub(crate) body: BodyBuffer,
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
    pub(crate) fn new(id: Id) -> ClientState {
        ClientState { id, upload: None, run: None, swallow: 0 }
    }

    /// Memory for the rest of a body.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.upload.as_mut().map(|upload| upload.body.room()).filter(|room| !room.is_empty())
    }
}
