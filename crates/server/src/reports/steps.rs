//! Turns of reports: which connection makes its step.

use std::collections::VecDeque;

use net::{Link, Turn};

use crate::output::Held;

/// Whose step is next.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The step of this turn has been made.
    made: bool,
    /// Who has been woken to make the next one.
    next: Option<Link>,
    /// Who waits, in the order of coming: each connection once, and some that are closed by now.
    waiting: VecDeque<Link>,
}

impl Steps {
    /// Whether `link` may make a step now, which it does then.
    pub(crate) fn take(&mut self, link: Link) -> bool {
        if self.made || self.next.is_some_and(|next| next != link) {
            return false;
        }
        (self.made, self.next) = (true, None);
        true
    }

    /// `link` is to be woken when it is its turn. It has no output: a client that does not read would keep its turn.
    pub(crate) fn wait(&mut self, link: Link) {
        self.waiting.push_back(link);
    }

    /// Wakes who makes the next step.
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

    /// Whether somebody waits: the next turn has to come at once.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.next.is_some() || !self.waiting.is_empty()
    }

    /// `link` is closed.
    pub(crate) fn closed(&mut self, link: Link) {
        self.next = self.next.filter(|next| *next != link);
    }
}
