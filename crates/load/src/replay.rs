//! A worker's part of a trace: what is due next, and what it asks.

use crate::trace::Record;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};

/// Requests in the order of their time. The loop first learns when one is due, and takes it when a connection has room.
#[derive(Debug)]
pub(crate) struct Replay {
    rounds: Receiver<Vec<Record>>,
    queue: VecDeque<Record>,
    /// The first of the queue, whose time has been passed over.
    due: usize,
}

/// The time of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Since the start, in nanoseconds.
    At(u64),
    /// The reader has not come so far.
    Unread,
    /// There is none.
    End,
}

impl Replay {
    pub(crate) fn new(rounds: Receiver<Vec<Record>>) -> Replay {
        Replay { rounds, queue: VecDeque::new(), due: 0 }
    }

    /// Waits until there is something to begin with.
    pub(crate) fn prepare(&mut self) {
        // An error is the end of the trace, which `next` will meet too.
        if let Ok(round) = self.rounds.recv() {
            self.queue.extend(round);
        }
    }

    /// When the next request is due.
    pub(crate) fn next(&mut self) -> Next {
        while self.due == self.queue.len() {
            match self.rounds.try_recv() {
                Ok(round) => self.queue.extend(round),
                Err(TryRecvError::Empty) => return Next::Unread,
                Err(TryRecvError::Disconnected) => return Next::End,
            }
        }
        Next::At(self.queue[self.due].at_ns)
    }

    /// Passes over the time of the next request.
    pub(crate) fn advance(&mut self) {
        self.due += 1;
    }

    /// The first request that is due.
    pub(crate) fn take(&mut self) -> Option<Record> {
        self.due = self.due.checked_sub(1)?;
        self.queue.pop_front()
    }

    /// Requests before a time that were never due, as far as they were read.
    pub(crate) fn left(&self, before_ns: u64) -> u64 {
        self.queue.iter().skip(self.due).take_while(|record| record.at_ns < before_ns).count() as u64
    }
}
