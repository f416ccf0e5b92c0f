//! Upkeep of connections to servers: those that nobody uses are closed, and lines that were left out are summed up.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use crate::servers::destination::DestinationState;
use crate::shared::notices::NoticeKind;
use crate::stats::DestinationPhase;

/// Times of a worker's upkeep; `None` for nothing to do.
#[derive(Default)]
pub(super) struct Upkeep {
    /// When to look for connections that were not used.
    idle_at: Option<Now>,
    /// When to say what was left out.
    sum_up_at: Option<Now>,
}

impl Upkeep {
    /// The next of these times.
    #[inline]
    pub(super) fn next(&self) -> Option<Now> {
        match (self.idle_at, self.sum_up_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

impl RouteWorker {
    /// A line for the operator about a server.
    #[cold]
    pub(super) fn say(&mut self, kind: NoticeKind, line: impl FnOnce() -> String) {
        if let Some(at) = self.shared.notices.say(kind, self.now, line) {
            self.upkeep.sum_up_at = Some(at);
        }
    }

    /// A connection has been made: from now on there may be some that nobody uses.
    pub(super) fn watch_use(&mut self) {
        let interval_ms = self.shared.settings.reset_inactive_ms;
        if interval_ms > 0 && self.upkeep.idle_at.is_none() {
            self.upkeep.idle_at = Some(Now { us: self.now.us + u64::from(interval_ms) * 1000 });
        }
    }

    /// At the end of a turn, when no call follows that could use a connection which is closed here.
    pub(super) fn keep_up(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        if self.upkeep.sum_up_at.is_some_and(|at| at <= self.now) {
            self.upkeep.sum_up_at = None;
            self.shared.notices.sum_up();
        }
        if self.upkeep.idle_at.is_some_and(|at| at <= self.now) {
            self.upkeep.idle_at = None;
            self.close_unused(turn);
        }
    }

    /// Closes the connections that were not used since the last time: after one to two intervals, as mcrouter does.
    fn close_unused(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let mut any_open = false;
        for destination in &mut self.destinations {
            let DestinationState::Open(link) = destination.state else { continue };
            let was_used = std::mem::take(&mut destination.was_used);
            if was_used || !destination.exchanges.is_empty() {
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
