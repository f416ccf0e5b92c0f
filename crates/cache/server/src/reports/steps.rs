//! Scheduling of reports: one step per turn, connections in order.

use std::collections::VecDeque;

use net::{Link, Turn};

use crate::connection::output::Held;

/// The queue of connections with a report.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The step of this turn has been made.
    made: bool,
    /// The connection that was woken to make the next step.
    next: Option<Link>,
    /// Waiting connections, in order: each once, and some that are closed by now.
    waiting: VecDeque<Link>,
}

impl Steps {
    /// Whether `link` may make a step now; if so, this counts as the step of the turn.
    pub(crate) fn take(&mut self, link: Link) -> bool {
        if self.made || self.next.is_some_and(|next| next != link) {
            return false;
        }
        (self.made, self.next) = (true, None);
        true
    }

    /// Makes a step without a connection, if it delays none; then this counts as the step of the turn.
    pub(crate) fn take_if_free(&mut self) -> bool {
        let is_free = !self.made && self.next.is_none();
        self.made |= is_free;
        is_free
    }

    /// Queues `link`, once, whatever else has woken it. It must have no pending output: a client that does not read would
    /// block the queue.
    pub(crate) fn wait(&mut self, link: Link) {
        if !self.waiting.contains(&link) {
            self.waiting.push_back(link);
        }
    }

    /// Wakes the next connection.
    #[inline]
    pub(crate) fn end_turn(&mut self, turn: &mut Turn<Held>) {
        self.made = false;
        while self.next.is_none()
            && let Some(link) = self.waiting.pop_front()
        {
            if turn.is_open(link) {
                turn.wake(link);
                self.next = Some(link);
            }
        }
    }

    /// Whether a connection waits: then the next turn must come at once.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.next.is_some() || !self.waiting.is_empty()
    }

    /// Notes that `link` is closed.
    pub(crate) fn closed(&mut self, link: Link) {
        self.next = self.next.filter(|next| *next != link);
    }
}
