//! Frames that go on without a reply: their turn or their time has come, or nobody waits for them any more.

use std::collections::VecDeque;

use crate::shared::route_state::OutstandingState;
use crate::slab::Id;

/// A frame that goes on without a reply of a child.
pub(crate) enum Resumed {
    /// It is the frame's turn: its child is asked.
    Ask(Id),
    /// Its delay has ended: that of the reply that it has kept, or else that of its request.
    Due(Id),
    /// Nobody waits for it any more.
    Drop(Id),
}

/// Requests that wait for a limit of outstanding requests, and what goes on.
#[derive(Default)]
pub(crate) struct Turns {
    /// In this order.
    resumed: VecDeque<Resumed>,
    /// Requests that wait for their turn.
    waiting: usize,
}

impl Turns {
    /// A request begins to wait for its turn.
    pub(super) fn count(&mut self) {
        self.waiting += 1;
    }

    /// A request of a limited route has its reply: the next one is sent.
    pub(crate) fn release(&mut self, limit: &mut OutstandingState) {
        if let Some(next) = limit.release() {
            self.waiting -= 1;
            self.resumed.push_back(Resumed::Ask(next));
        }
    }

    /// Whether requests wait for their turn.
    pub(super) fn are_awaited(&self) -> bool {
        self.waiting > 0
    }

    /// These need not wait any more.
    pub(super) fn drop_all(&mut self, frames: Vec<Id>) {
        self.waiting -= frames.len();
        self.resumed.extend(frames.into_iter().map(Resumed::Drop));
    }

    /// The delay of a frame has ended.
    pub(super) fn end_delay(&mut self, frame: Id) {
        self.resumed.push_back(Resumed::Due(frame));
    }

    /// Whether frames are to go on.
    #[inline]
    pub(super) fn has_resumed(&self) -> bool {
        !self.resumed.is_empty()
    }

    /// The next one that goes on.
    pub(super) fn next(&mut self) -> Option<Resumed> {
        self.resumed.pop_front()
    }
}
