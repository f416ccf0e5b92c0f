//! Notes of a destination's exchanges, for hot values.

use std::collections::VecDeque;

use crate::hot::cache::Ticket;

/// The part of a destination whose server has hot values.
pub(crate) struct HotSide {
    /// The server, as the worker's hot values name it.
    server: u64,
    /// The pool whose settings count for gets; `None` where only updates matter.
    pool: Option<usize>,
    /// Notes of exchanges, in their order.
    notes: VecDeque<HotNote>,
    /// The note of the exchange that has ended last, until it is taken.
    ended: Option<HotNote>,
}

/// A note of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HotNote {
    /// A get, of which a key at least is hot. Its tokens have the keys.
    Get(Ticket),
    /// A meta get of an item, by the hash of its key.
    MetaGet(Ticket, u64),
    /// An update of one item, by the hash of its key.
    Update(u64),
    /// An update of any items of the server.
    Sweep,
}

impl HotSide {
    pub(crate) fn new(server: u64, pool: Option<usize>) -> HotSide {
        HotSide { server, pool, notes: VecDeque::new(), ended: None }
    }

    /// The server, as the worker's hot values name it.
    #[inline]
    pub(crate) fn server(&self) -> u64 {
        self.server
    }

    /// The pool whose settings count for gets; `None` where only updates matter.
    #[inline]
    pub(crate) fn pool(&self) -> Option<usize> {
        self.pool
    }

    pub(super) fn set_pool(&mut self, pool: Option<usize>) {
        self.pool = pool;
    }

    /// Adds the note of a request that was sent.
    pub(crate) fn push(&mut self, note: HotNote) {
        self.notes.push_back(note);
    }

    /// The note of the oldest exchange that has one.
    #[inline]
    pub(super) fn first(&self) -> Option<HotNote> {
        self.notes.front().copied()
    }

    /// That exchange has ended.
    pub(super) fn end_first(&mut self) {
        self.ended = self.notes.pop_front();
    }

    pub(super) fn take_ended(&mut self) -> Option<HotNote> {
        self.ended.take()
    }

    pub(super) fn take_notes(&mut self) -> VecDeque<HotNote> {
        std::mem::take(&mut self.notes)
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> (usize, bool) {
        (self.notes.len(), self.ended.is_some())
    }
}
