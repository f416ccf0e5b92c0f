//! Connections to servers that nobody uses: they are closed. Lines that were left out are summed up at such times, too.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::Servers;
use crate::servers::destination::DestinationState;
use crate::stats::DestinationPhase;

impl Servers {
    /// A connection has been made: from now on there may be some that nobody uses.
    pub(super) fn watch_use(&mut self) {
        let interval_ms = self.shared.settings.reset_inactive_ms;
        if interval_ms > 0 {
            self.upkeep.look_at(Now { us: self.now.us + u64::from(interval_ms) * 1000 });
        }
    }

    /// At the end of a turn, when no call follows that could use a connection which is closed here.
    #[inline]
    pub(crate) fn keep_up(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        if self.upkeep.next().is_some_and(|at| at <= self.now) {
            self.keep_up_now(turn);
        }
    }

    fn keep_up_now(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        if self.upkeep.sums_up(self.now) {
            self.shared.notices.sum_up();
        }
        if self.upkeep.looks(self.now) {
            self.close_unused(turn);
        }
    }

    /// Closes the connections that were not used since the last time: after one to two intervals, as mcrouter does.
    fn close_unused(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let mut any_open = false;
        for destination in &mut self.destinations {
            let DestinationState::Open(link) = destination.connection.state() else { continue };
            let was_used = destination.connection.take_use();
            if was_used || !destination.queue.is_empty() {
                any_open = true;
            } else {
                destination.cells.set_phase(DestinationPhase::Closed);
                turn.close(link);
            }
        }
        if any_open {
            self.watch_use();
        }
    }
}
