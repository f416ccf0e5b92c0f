//! Notes of a destination's exchanges, for hot values.

use std::collections::VecDeque;

use crate::hot::cache::Ticket;

/// The part of a destination whose server has hot values.
pub(crate) struct HotSide {
    /// The server, as the worker's hot values name it.
    pub(crate) server: u64,
    /// The pool whose settings count for gets; `None` where only updates matter.
    pub(crate) pool: Option<usize>,
    /// Notes of exchanges, in their order.
    pub(crate) notes: VecDeque<HotNote>,
    /// The note of the exchange that has ended last, until it is taken.
    pub(crate) ended: Option<HotNote>,
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
}
