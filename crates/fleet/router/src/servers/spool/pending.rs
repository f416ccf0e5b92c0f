//! Deletes of a worker that a log takes if their servers do not: the client is answered once the log has them.
//!
//! mcrouter answers such a delete as one of a missing item, and so does this router; a delete that could not be written is
//! answered with its error.

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::clock::Now;

use super::queue::{SpoolQueue, WaitingDelete};
use crate::client::ReplyBytes;
use crate::flight::FlightReply;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::plan::DestinationSpec;
use crate::servers::destination::ReplyTarget;
use crate::slab::{Id, IdSlab};

/// Microseconds that a delete waits for the log. A disk that takes longer does not keep a client waiting.
pub(crate) const WRITE_WITHIN_US: u64 = 1_000_000;

/// The deletes of a worker that may go to a log.
pub(crate) struct Spooling {
    queue: Arc<SpoolQueue>,
    /// The number of this worker.
    worker: usize,
    deletes: IdSlab<LoggedDelete>,
    /// Deletes that are being written, the oldest first, and when they are given up.
    writing: VecDeque<(Now, Id)>,
}

/// A delete at a server, or on its way to the log.
pub(crate) struct LoggedDelete {
    key: Vec<u8>,
    log: Arc<str>,
    place: u32,
    /// For whom the reply is.
    owner: ReplyTarget,
    operation: Operation,
    /// Its reply once the log has it: as if there were no item.
    written: Option<FlightReply<'static>>,
    /// How it failed, with the error line.
    failed: Option<(Outcome, Vec<u8>)>,
}

/// Whether a log can take it: what it replays is `delete key`.
fn is_plain_delete(message: &RoutedRequest<'_>) -> bool {
    match message.operation {
        Operation::Delete => true,
        // Flags other than these ask for something else, or the key is in base64.
        Operation::MetaDelete => {
            let mut words = message.after.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            words.all(|word| matches!(word[0], b'q' | b'k' | b'O'))
        }
        _ => false,
    }
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

    /// For whom the reply to a request to `place` is: a delete that a log may take passes by here.
    pub(crate) fn through_log(
        &mut self,
        log: &Arc<str>,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        owner: ReplyTarget,
    ) -> ReplyTarget {
        if !is_plain_delete(message) {
            return owner;
        }
        let key = if keep_prefix { message.key.full } else { message.key.bare() };
        let (key, log) = (key.to_vec(), Arc::clone(log));
        let (operation, written) = (message.operation, Some(FlightReply::own(None, message)));
        let delete = LoggedDelete { key, log, place, owner, operation, written, failed: None };
        ReplyTarget::Log(self.deletes.insert(delete))
    }

    /// For whom the reply to a delete is.
    pub(crate) fn owner(&mut self, id: Id) -> Option<ReplyTarget> {
        self.deletes.get_mut(id).map(|delete| delete.owner)
    }

    /// The destination that a delete was sent to.
    pub(crate) fn place(&mut self, id: Id) -> Option<u32> {
        self.deletes.get_mut(id).map(|delete| delete.place)
    }

    /// A delete has failed at its server: the log is to take it. False: the log has no room, and the delete has ended.
    pub(crate) fn fail(
        &mut self,
        id: Id,
        (outcome, answer): (Outcome, &ReplyBytes<'_>),
        server: Arc<DestinationSpec>,
        now: Now,
    ) -> bool {
        let Some(delete) = self.deletes.get_mut(id) else { return true };
        let line = match answer {
            ReplyBytes::Copied(line) => line.to_vec(),
            ReplyBytes::Gathered(gathered) => gathered.to_vec(),
        };
        delete.failed = Some((outcome, line));
        let (worker, key) = (self.worker, std::mem::take(&mut delete.key));
        let waiting = WaitingDelete { worker, id, server, key, log: Arc::clone(&delete.log) };
        let is_taken = self.queue.leave(waiting);
        if is_taken {
            self.writing.push_back((Now { us: now.us + WRITE_WITHIN_US }, id));
        }
        is_taken
    }

    /// The deletes that have been written, and those that could not be.
    pub(crate) fn take_reports(&mut self) -> Vec<(Id, bool)> {
        if self.writing.is_empty() {
            return Vec::new();
        }
        self.queue.take_reports(self.worker)
    }

    /// Takes the oldest delete that has not been written for too long, or has ended.
    pub(crate) fn take_overdue(&mut self, now: Now) -> Option<Id> {
        let (at, id) = self.writing.front().copied()?;
        if at > now && self.deletes.get_mut(id).is_some() {
            return None;
        }
        self.writing.pop_front();
        Some(id)
    }

    /// Takes a delete that has ended, if that has not been done.
    pub(crate) fn end(&mut self, id: Id) -> Option<LoggedDelete> {
        self.deletes.remove(id)
    }
}

impl LoggedDelete {
    /// For whom its reply is.
    pub(crate) fn owner(&self) -> ReplyTarget {
        self.owner
    }

    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }

    /// The reply to a delete that has failed at its server.
    pub(crate) fn reply(&mut self, is_written: bool) -> FlightReply<'_> {
        if is_written && let Some(written) = self.written.take() {
            return written;
        }
        let (outcome, line) = self.failed.as_ref().expect("it has failed before");
        FlightReply { outcome: *outcome, answer: ReplyBytes::Copied(line) }
    }
}
