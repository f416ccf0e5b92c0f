//! Limits of outstanding requests: how many a server has without a reply, and whose turn is next.
//!
//! Clients take turns, one request each, so that one with a deep pipeline does not keep the others waiting.

use std::collections::{HashMap, VecDeque};

use crate::slab::Id;

/// Requests that wait for one server, of one worker: as many as a destination may have without a reply.
const WAITING_MAX: usize = 10_000;

/// Bytes of these requests: a thousand of 16 KiB, or a few large values.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// A request that waits: its frame.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    frame: Id,
    bytes: usize,
    /// Nobody wants its reply once the client has gone.
    is_get: bool,
}

/// Whether a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// At once.
    Now,
    /// When it is its turn.
    Later,
    /// Never: too many wait.
    Never,
}

/// The requests of one limit.
pub(crate) struct OutstandingState {
    max: usize,
    /// Requests that were sent and have no reply.
    outstanding: usize,
    waiting: usize,
    waiting_bytes: usize,
    /// Clients with requests that wait, in the order of their turns.
    turns: VecDeque<Option<Id>>,
    by_client: HashMap<Option<Id>, VecDeque<Waiter>>,
}

impl OutstandingState {
    pub(crate) fn new(max: usize) -> OutstandingState {
        OutstandingState {
            max,
            outstanding: 0,
            waiting: 0,
            waiting_bytes: 0,
            turns: VecDeque::new(),
            by_client: HashMap::new(),
        }
    }

    /// Counts a request of this many bytes, if it can be sent at once.
    pub(crate) fn admit(&mut self, bytes: usize) -> Admission {
        if self.outstanding < self.max {
            self.outstanding += 1;
            return Admission::Now;
        }
        match self.waiting < WAITING_MAX && self.waiting_bytes + bytes <= WAITING_BYTES_MAX {
            true => Admission::Later,
            false => Admission::Never,
        }
    }

    /// Lets a request wait.
    pub(crate) fn wait(&mut self, client: Option<Id>, frame: Id, bytes: usize, is_get: bool) {
        let queue = self.by_client.entry(client).or_default();
        if queue.is_empty() {
            self.turns.push_back(client);
        }
        queue.push_back(Waiter { frame, bytes, is_get });
        self.waiting += 1;
        self.waiting_bytes += bytes;
    }

    /// A request has its reply. Returns the one that is sent in its place.
    pub(crate) fn release(&mut self) -> Option<Id> {
        let Some(client) = self.turns.pop_front() else {
            self.outstanding -= 1;
            return None;
        };
        let queue = self.by_client.get_mut(&client).expect("a client with a turn waits");
        let waiter = queue.pop_front().expect("a client with a turn has a request");
        if queue.is_empty() {
            self.by_client.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.forget(waiter);
        Some(waiter.frame)
    }

    /// A client has gone: takes those of its requests that nobody needs any more. What changes items is sent, as clients
    /// may close their connection right after it.
    pub(crate) fn leave(&mut self, client: Id, frames: &mut Vec<Id>) {
        let client = Some(client);
        let Some(queue) = self.by_client.remove(&client) else { return };
        let (gets, rest): (VecDeque<Waiter>, VecDeque<Waiter>) =
            queue.into_iter().partition(|waiter| waiter.is_get);
        for waiter in gets {
            self.forget(waiter);
            frames.push(waiter.frame);
        }
        if rest.is_empty() {
            self.turns.retain(|other| *other != client);
        } else {
            self.by_client.insert(client, rest);
        }
    }

    fn forget(&mut self, waiter: Waiter) {
        self.waiting -= 1;
        self.waiting_bytes -= waiter.bytes;
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::IdSlab;

    fn ids<const N: usize>() -> [Id; N] {
        let mut slab = IdSlab::default();
        std::array::from_fn(|_| slab.insert(()))
    }

    #[test]
    fn clients_take_turns() {
        let [greedy, modest, a, b, c, d] = ids();
        let mut state = OutstandingState::new(2);
        assert_eq!(
            [state.admit(1), state.admit(1), state.admit(1)],
            [Admission::Now, Admission::Now, Admission::Later]
        );
        for frame in [a, b, c] {
            state.wait(Some(greedy), frame, 1, true);
        }
        state.wait(Some(modest), d, 1, true);
        assert_eq!([(); 4].map(|()| state.release()), [Some(a), Some(d), Some(b), Some(c)]);
        assert_eq!([state.release(), state.release()], [None, None]);
        assert_eq!((state.outstanding, state.waiting, state.waiting_bytes), (0, 0, 0));
        assert!(state.turns.is_empty() && state.by_client.is_empty());
    }

    #[test]
    fn requests_and_bytes_that_wait_are_limited() {
        let [client, frame] = ids();
        let mut state = OutstandingState::new(0);
        for _ in 0..WAITING_MAX {
            assert_eq!(state.admit(1), Admission::Later);
            state.wait(Some(client), frame, 1, false);
        }
        assert_eq!(state.admit(1), Admission::Never);
        let mut state = OutstandingState::new(0);
        state.wait(Some(client), frame, WAITING_BYTES_MAX - 10, false);
        assert_eq!([state.admit(10), state.admit(11)], [Admission::Later, Admission::Never]);
    }

    #[test]
    fn gets_of_a_client_that_leaves_do_not_wait_any_more() {
        let [client, other, a, b, c] = ids();
        let mut state = OutstandingState::new(0);
        state.wait(Some(client), a, 1, true);
        state.wait(Some(client), b, 1, false);
        state.wait(Some(other), c, 1, true);
        let mut frames = Vec::new();
        state.leave(client, &mut frames);
        assert_eq!((frames, state.waiting), (vec![a], 2));
        assert_eq!([state.release(), state.release()], [Some(b), Some(c)]);
    }
}
