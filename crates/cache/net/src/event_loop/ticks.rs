//! Ticks, and the search for idle connections that they begin.

use stdx::clock::Now;

use crate::event_loop::connection::Connection;
use crate::handler::{Handler, Next};
use crate::kernel::Kernel;
use crate::network::connection_table::TableWriter;
use crate::slab::Slab;

/// Time between two calls of [`Handler::on_tick`].
const TICK_MS: u64 = 1000;

/// Idle connections closed, and places searched for them, before others have their turn: when a crowd of clients falls
/// silent, all of them are due in the same second.
pub(super) const IDLE_CLOSES_MAX: usize = 64;
const IDLE_PLACES_MAX: u32 = 4096;

/// The ticks of a worker.
pub(super) struct Ticks {
    next_ms: u64,
    idle_timeout_s: u32,
    /// The place from which the search for idle connections continues.
    idle_from: Option<u32>,
}

impl Ticks {
    /// The first one is due at once. 0 for no timeout.
    pub(super) fn new(idle_timeout_s: u32) -> Ticks {
        Ticks { next_ms: 0, idle_timeout_s, idle_from: None }
    }

    /// When the next one is due.
    #[inline]
    pub(super) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Whether a tick is due, which begins a search for idle connections.
    #[inline]
    pub(super) fn begin(&mut self, now: Now) -> bool {
        let is_due = now.ms() >= self.next_ms;
        if is_due {
            self.next_ms = now.ms() + TICK_MS;
            if self.idle_timeout_s > 0 {
                self.idle_from.get_or_insert(0);
            }
        }
        is_due
    }

    /// Whether a search for idle connections is under way.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.idle_from.is_some()
    }

    /// Idle connections, by their places; the next round continues where this search ends.
    #[cold]
    pub(super) fn search<H: Handler, K: Kernel>(
        &mut self,
        slab: &Slab<Connection<H, K>>,
        table: &TableWriter,
        now: Now,
    ) -> Vec<u32> {
        let Some(first) = self.idle_from else { return Vec::new() };
        let is_idle = |index: &u32| {
            let idle_s = now.second().saturating_sub(table.last_second(*index));
            let connection = slab.at(*index);
            idle_s > self.idle_timeout_s
                && !connection.dialled
                && !matches!(connection.dialogue.next, Next::Later | Next::Wait)
        };
        let places = slab.indices_from(first, IDLE_PLACES_MAX);
        let idle: Vec<u32> = places.filter(is_idle).take(IDLE_CLOSES_MAX).collect();
        let next = match idle.last() {
            Some(last) if idle.len() == IDLE_CLOSES_MAX => last + 1,
            _ => first.saturating_add(IDLE_PLACES_MAX),
        };
        self.idle_from = ((next as usize) < slab.places()).then_some(next);
        idle
    }
}
