//! Deletes of a worker that a log takes if their servers do not.

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::clock::Now;

use super::queue::SpoolQueue;
use crate::flight::FlightReply;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::servers::destination::ReplyTarget;
use crate::slab::{Id, IdSlab};

/// The deletes of a worker that may go to a log.
pub(crate) struct Spooling {
    pub(crate) queue: Arc<SpoolQueue>,
    /// The number of this worker.
    pub(crate) worker: usize,
    pub(crate) deletes: IdSlab<LoggedDelete>,
    /// Deletes that are being written, the oldest first, and when they are given up.
    pub(crate) writing: VecDeque<(Now, Id)>,
}

/// A delete at a server, or on its way to the log.
pub(crate) struct LoggedDelete {
    pub(crate) key: Vec<u8>,
    pub(crate) log: Arc<str>,
    pub(crate) place: u32,
    /// For whom the reply is.
    pub(crate) owner: ReplyTarget,
    pub(crate) operation: Operation,
    /// Its reply once the log has it: as if there were no item.
    pub(crate) written: FlightReply<'static>,
    /// How it failed, with the error line.
    pub(crate) failed: Option<(Outcome, Vec<u8>)>,
}

impl Spooling {
    pub(crate) fn new(queue: Arc<SpoolQueue>, worker: usize) -> Spooling {
        queue.join(worker);
        Spooling { queue, worker, deletes: IdSlab::default(), writing: VecDeque::new() }
    }

    /// When the oldest delete that is being written is given up.
    pub(crate) fn deadline(&self) -> Option<Now> {
        self.writing.front().map(|(at, _)| *at)
    }
}
