//! Memory for requests and replies on their way: what ends at its limit.
//!
//! What a client may leave untaken is limited for each client ([`UNTAKEN_MAX`](crate::client::UNTAKEN_MAX)), but many
//! clients together could still use up the host's memory. As Redis does (`maxmemory-clients`), the router closes those
//! that hold most: a client with ordinary requests is never among them.

use std::sync::Arc;

use net::{Handler, Turn};

use super::RouteWorker;
use crate::client::ClientWindow;
use crate::servers::destination::{Destination, DestinationState, ReplyTarget};
use crate::shared::notices::NoticeKind;
use crate::slab::Id;

impl RouteWorker {
    /// Ends what holds most if more is held than the limit.
    #[cold]
    pub(super) fn free_memory(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let held =
            |client: &ClientWindow| turn.unsent_memory(client.link, Self::share) + client.memory(Self::share);
        let clients: Vec<(usize, Id)> = self.clients.iter().map(|(id, client)| (held(client), id)).collect();
        let mut for_servers = self.held_for_servers(turn);
        let mut held = clients.iter().map(|(size, _)| size).sum::<usize>() + for_servers;
        if held <= self.held.limit {
            return self.held.looked(for_servers, false);
        }
        let dropped = self.drop_unwanted();
        (held, for_servers) = (held - dropped, for_servers - dropped);
        let heavy = self.held.to_close(held, clients);
        for &(size, client) in &heavy {
            held -= size;
            self.close_heavy(client, size, turn);
        }
        if held > self.held.limit {
            for_servers -= self.refuse_replies(held - self.held.limit);
        }
        // Replies on their way to clients that are closed now are dropped with the next look.
        self.held.looked(for_servers, !heavy.is_empty());
    }

    fn held_for_servers(&self, turn: &Turn<Arc<[u8]>>) -> usize {
        let of = |server: &Destination| {
            let sent = match server.state {
                DestinationState::Open(link) => turn.unsent_memory(link, Self::share),
                _ => 0,
            };
            let large = server.large.as_ref().map_or(0, |large| large.held());
            sent + server.unsent.len() + server.later.len() + large
        };
        self.destinations.iter().map(of).sum()
    }

    fn close_heavy(&mut self, client: Id, size: usize, turn: &mut Turn<Arc<[u8]>>) {
        let Some(state) = self.clients.get_mut(client) else { return };
        turn.abort(state.link);
        self.cells.closed_for_memory.add(1);
        let (limit_mb, mb) = (self.held.limit >> 20, size >> 20);
        self.say(NoticeKind::Other, || {
            format!(
                "a client is closed that holds {mb} MB of values that it does not take, or did not finish: its thread \
                 holds more than {limit_mb} MB (--buffer-memory-mb)"
            )
        });
    }

    /// Drops what has arrived of large replies whose clients are gone. Returns how much that was.
    fn drop_unwanted(&mut self) -> usize {
        let mut freed = 0;
        for server in &mut self.destinations {
            let is_wanted = server.exchanges.front().is_some_and(|exchange| match exchange.target.client() {
                Some(client) => self.clients.get_mut(client).is_some(),
                None => exchange.target != ReplyTarget::Nobody,
            });
            if !is_wanted && let Some(large) = &mut server.large {
                freed += large.refuse();
            }
        }
        freed
    }

    /// Drops what has arrived of large replies, the longest first: they become errors. Returns how much that was.
    fn refuse_replies(&mut self, excess: usize) -> usize {
        let mut replies: Vec<_> =
            self.destinations.iter_mut().filter_map(|server| server.large.as_mut()).collect();
        replies.sort_unstable_by_key(|large| large.held());
        let mut freed = 0;
        while freed < excess
            && let Some(large) = replies.pop()
        {
            freed += large.refuse();
            self.cells.refused_for_memory.add(1);
        }
        freed
    }
}
