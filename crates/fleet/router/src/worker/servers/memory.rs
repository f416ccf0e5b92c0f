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
            let sent = match server.connection.state() {
                DestinationState::Open(link) => turn.unsent_memory(link, share_of),
                _ => 0,
            };
            sent + server.connection.waiting() + server.queue.held()
        };
        self.destinations.iter().map(of).sum()
    }

    /// Drops what has arrived of large replies whose clients are gone. Returns how much that was.
    pub(crate) fn drop_unwanted(&mut self, mut is_there: impl FnMut(Id) -> bool) -> usize {
        let mut freed = 0;
        for server in &mut self.destinations {
            let is_wanted = server.queue.next_target().is_some_and(|target| match target.client() {
                Some(client) => is_there(client),
                None => target != ReplyTarget::Nobody,
            });
            if !is_wanted {
                freed += server.queue.refuse_large();
            }
        }
        freed
    }

    /// Drops what has arrived of large replies, the longest first: they become errors. Returns how much that was.
    pub(crate) fn refuse_replies(&mut self, excess: usize) -> usize {
        let receiving = self.destinations.iter_mut().map(|server| &mut server.queue);
        let mut replies: Vec<_> = receiving.filter(|queue| queue.is_receiving()).collect();
        replies.sort_unstable_by_key(|queue| queue.held());
        let mut freed = 0;
        while freed < excess
            && let Some(queue) = replies.pop()
        {
            freed += queue.refuse_large();
            self.counts.cells().refused_for_memory.add(1);
        }
        freed
    }
}
