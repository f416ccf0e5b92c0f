//! Timed work: ticks, delayed calls, idle timeouts.

use stdx::clock::Now;

use super::EventLoop;
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;

/// Time between two calls of [`Handler::on_tick`].
const TICK_MS: u64 = 1000;

/// Idle connections closed, and places searched for them, before others have their turn: when a crowd of clients falls
/// silent, all of them are due in the same second.
pub(super) const IDLE_CLOSES_MAX: usize = 64;
const IDLE_PLACES_MAX: u32 = 4096;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Does the timed work that is due.
    pub(super) fn tick(&mut self, now: Now) {
        if !self.waiting.is_empty() && now.ms() >= self.next_later_ms {
            for token in std::mem::take(&mut self.waiting) {
                let Some(connection) = self.slab.get_mut(token) else { continue };
                connection.waiting = false;
                if connection.dialogue.next != Next::Later {
                    continue;
                }
                connection.due = true;
                if !connection.is_held_up() && !connection.queued {
                    connection.queued = true;
                    self.queue.push_back(token);
                }
            }
        }
        if now.ms() >= self.next_tick_ms {
            self.next_tick_ms = now.ms() + TICK_MS;
            self.handler.on_tick(now);
            self.choose_stamped_anew();
            if self.idle_timeout_s > 0 {
                self.idle_from.get_or_insert(0);
            }
        }
        if let Some(first) = self.idle_from {
            self.close_idle(first, now);
        }
    }

    /// Closes idle connections from the place `first` on; the next round continues where this one ends.
    #[cold]
    fn close_idle(&mut self, first: u32, now: Now) {
        let is_idle = |index: &u32| {
            let idle_s = now.second().saturating_sub(self.table.last_second(*index));
            let connection = self.slab.at(*index);
            idle_s > self.idle_timeout_s
                && !connection.dialled
                && !matches!(connection.dialogue.next, Next::Later | Next::Wait)
        };
        let places = self.slab.indices_from(first, IDLE_PLACES_MAX);
        let idle: Vec<u32> = places.filter(is_idle).take(IDLE_CLOSES_MAX).collect();
        let next = match idle.last() {
            Some(last) if idle.len() == IDLE_CLOSES_MAX => last + 1,
            _ => first.saturating_add(IDLE_PLACES_MAX),
        };
        self.idle_from = ((next as usize) < self.slab.places()).then_some(next);
        for index in idle {
            self.table.counters().idle_kicks.add(1);
            self.close(index, CloseReason::IdleTimeout);
        }
    }
}
