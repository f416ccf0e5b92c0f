//! Memory that is held for servers: requests that they have not taken, and large replies that have not arrived whole.

use std::sync::Arc;

use net::Turn;

use super::Servers;
use crate::client::share_of;
use crate::servers::destination::{Destination, DestinationState, ReplyTarget};
use crate::slab::Id;

impl Servers {
    /// Bytes of large values that have arrived since the last call.
    #[inline]
    pub(crate) fn take_arrived(&mut self) -> usize {
        std::mem::take(&mut self.arrived)
    }

    /// Bytes of memory that are held for servers.
    pub(crate) fn held(&self, turn: &Turn<Arc<[u8]>>) -> usize {
        let of = |server: &Destination| {
            let sent = match server.state {
                DestinationState::Open(link) => turn.unsent_memory(link, share_of),
                _ => 0,
            };
            let large = server.large.as_ref().map_or(0, |large| large.held());
            sent + server.unsent.len() + server.later.len() + large
        };
        self.destinations.iter().map(of).sum()
    }

    /// Drops what has arrived of large replies whose clients are gone. Returns how much that was.
    pub(crate) fn drop_unwanted(&mut self, mut is_there: impl FnMut(Id) -> bool) -> usize {
        let mut freed = 0;
        for server in &mut self.destinations {
            let is_wanted = server.exchanges.front().is_some_and(|exchange| match exchange.target.client() {
                Some(client) => is_there(client),
                None => exchange.target != ReplyTarget::Nobody,
            });
            if !is_wanted && let Some(large) = &mut server.large {
                freed += large.refuse();
            }
        }
        freed
    }

    /// Drops what has arrived of large replies, the longest first: they become errors. Returns how much that was.
    pub(crate) fn refuse_replies(&mut self, excess: usize) -> usize {
        let mut replies: Vec<_> =
            self.destinations.iter_mut().filter_map(|server| server.large.as_mut()).collect();
        replies.sort_unstable_by_key(|large| large.held());
        let mut freed = 0;
        while freed < excess
            && let Some(large) = replies.pop()
        {
            freed += large.refuse();
            self.counts.cells().refused_for_memory.add(1);
        }
        freed
    }
}
