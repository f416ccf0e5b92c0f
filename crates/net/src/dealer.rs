//! A dealer: deals connections out to the workers in turn.

use std::sync::Arc;

use crate::message_queue::{MessageQueue, WorkerMessage};

/// Each thread that accepts connections, or establishes their sessions, has one.
pub(crate) struct Dealer {
    message_queues: Vec<Arc<MessageQueue>>,
    /// Messages that are not posted yet, by worker.
    pending: Vec<Vec<WorkerMessage>>,
    next_worker: usize,
}

impl Dealer {
    /// A dealer that begins with the worker `first`, modulo their number.
    pub(crate) fn new(message_queues: Vec<Arc<MessageQueue>>, first: usize) -> Dealer {
        let pending = message_queues.iter().map(|_| Vec::new()).collect();
        Dealer { next_worker: first % message_queues.len(), message_queues, pending }
    }

    /// Gives a connection to the next worker; it goes with the next [`Dealer::post`].
    pub(crate) fn deal(&mut self, connection: WorkerMessage) {
        self.pending[self.next_worker].push(connection);
        self.next_worker = (self.next_worker + 1) % self.pending.len();
    }

    /// Posts what has been dealt.
    pub(crate) fn post(&mut self) {
        for (pending, messages) in self.pending.iter_mut().zip(&self.message_queues) {
            if !pending.is_empty() {
                messages.post(pending);
            }
        }
    }
}
