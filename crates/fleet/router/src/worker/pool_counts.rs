//! Statistics of pools (`--pool-stats-config-file`): requests of clients by the pool that they went to first.
//!
//! A request belongs to the first pool that it is sent to, whatever its routes ask afterwards, and with or without an answer of
//! that pool: so does mcrouter. Where the pool has no statistics, a request costs the branches that lead here.

use stdx::clock::Now;

use super::RouteWorker;
use crate::client::SlotNumber;
use crate::message::outcome::Outcome;
use crate::servers::destination::ReplyTarget;
use crate::slab::Id;
use crate::stats::counted_pools::CountedPool;

impl RouteWorker {
    /// A request is sent to this destination, whose pool has statistics.
    #[cold]
    pub(super) fn note_pool(&mut self, place: u32, pool: CountedPool, target: ReplyTarget) {
        if self.destinations[place as usize].health.unavailable().is_some() {
            // It is not sent. Perhaps another server is asked.
            return;
        }
        if let Some((client, request, begun)) = self.asker_of(target)
            && let Some(client) = self.clients.get_mut(client)
        {
            client.pool_notes.note(request, pool, begun);
        }
    }

    /// The client's request that a request to a server is for, and when it began; `None` if it is for nobody, or for several.
    fn asker_of(&mut self, mut target: ReplyTarget) -> Option<(Id, (SlotNumber, u32), Now)> {
        let mut begun = self.now;
        loop {
            target = match target {
                ReplyTarget::Slot(client, slot) => return Some((client, (slot, 0), begun)),
                ReplyTarget::Part(client, slot, part) => return Some((client, (slot, part), begun)),
                ReplyTarget::Nobody | ReplyTarget::Values(..) => return None,
                ReplyTarget::Log(id) => self.spooling.as_mut()?.deletes.get_mut(id)?.owner,
                ReplyTarget::Frame(frame, _) => {
                    let owner;
                    (owner, begun) = self.flights.owner_of(frame)?;
                    owner
                }
            };
        }
    }

    /// A client's request has its answer.
    #[cold]
    pub(super) fn count_answered(&mut self, client: Id, request: (SlotNumber, u32), outcome: Outcome) {
        if let Some(client) = self.clients.get_mut(client)
            && let Some((pool, begun)) = client.pool_notes.take(request)
            && let Some(cells) = self.cells.pools.get(usize::from(pool.0))
        {
            cells.answered(self.now.us.saturating_sub(begun.us), outcome.is_error());
        }
    }
}
