//! A dealer: deals connections out to the workers in turn, or as their CPUs and receive queues suggest.

use std::sync::Arc;

use crate::network::handed::HandedConnection;
use crate::network::message_queue::{MessageQueue, WorkerMessage};
use crate::network::worker_choice::WorkerChoice;

/// Each thread that accepts connections, or establishes their sessions, has one.
pub(crate) struct Dealer {
    message_queues: Vec<Arc<MessageQueue>>,
    /// Messages that are not posted yet, by worker.
    pending: Vec<Vec<WorkerMessage>>,
    next_worker: usize,
    choice: Arc<WorkerChoice>,
}

impl Dealer {
    /// A dealer that begins with the worker `first`, modulo their number.
    pub(crate) fn new(
        message_queues: Vec<Arc<MessageQueue>>,
        first: usize,
        choice: Arc<WorkerChoice>,
    ) -> Dealer {
        let pending = message_queues.iter().map(|_| Vec::new()).collect();
        Dealer { next_worker: first % message_queues.len(), message_queues, pending, choice }
    }

    /// Gives a connection to a worker; it goes with the next [`Dealer::post`].
    pub(crate) fn deal(&mut self, connection: WorkerMessage) {
        let chosen = match &connection {
            WorkerMessage::Accepted(socket, _)
            | WorkerMessage::Secured(socket, ..)
            | WorkerMessage::Handed(HandedConnection { socket, .. }, _) => self.choice.worker(socket),
            WorkerMessage::Dialled(..)
            | WorkerMessage::Give(_)
            | WorkerMessage::Drain
            | WorkerMessage::Stop => None,
        };
        self.pending[chosen.unwrap_or(self.next_worker)].push(connection);
        if chosen.is_none() {
            self.next_worker = (self.next_worker + 1) % self.pending.len();
        }
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
