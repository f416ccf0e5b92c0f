//! Deletes that a log takes if their server does not: the client is answered once the log has them.
//!
//! mcrouter answers such a delete as one of a missing item, and so does this router; a delete that could not be written is
//! answered with its error.

use std::sync::Arc;

use net::Turn;
use stdx::clock::Now;

use super::RouteWorker;
use crate::client::ReplyBytes;
use crate::flight::FlightReply;
use crate::message::operation::Operation;
use crate::message::request::RoutedRequest;
use crate::servers::destination::{Delivery, ReplyTarget};
use crate::servers::spool::{LoggedDelete, WaitingDelete};
use crate::slab::Id;

/// Microseconds that a delete waits for the log. A disk that takes longer does not keep a client waiting.
pub(super) const WRITE_WITHIN_US: u64 = 1_000_000;

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

impl RouteWorker {
    /// For whom the reply to a request to `place` is: a delete that a log may take passes by here.
    pub(super) fn through_log(
        &mut self,
        log: Arc<str>,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        owner: ReplyTarget,
    ) -> ReplyTarget {
        let Some(spooling) = &mut self.spooling else { return owner };
        if !is_plain_delete(message) {
            return owner;
        }
        let key = if keep_prefix { message.key.full } else { message.key.bare() };
        let key = key.to_vec();
        let (operation, written) = (message.operation, FlightReply::own(None, message));
        let delete = LoggedDelete { key, log, place, owner, operation, written, failed: None };
        ReplyTarget::Log(spooling.deletes.insert(delete))
    }

    /// A delete has its reply, or has failed.
    pub(super) fn on_logged_reply(&mut self, id: Id, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let Some(spooling) = &mut self.spooling else { return };
        if !delivery.outcome.is_failover_error() {
            if let Some(LoggedDelete { owner, .. }) = spooling.deletes.remove(id) {
                self.deliver(Delivery { target: owner, ..delivery }, turn);
            }
            return;
        }
        let Some(delete) = spooling.deletes.get_mut(id) else { return };
        let line = match &delivery.answer {
            ReplyBytes::Copied(line) => line.to_vec(),
            ReplyBytes::Gathered(gathered) => gathered.to_vec(),
        };
        delete.failed = Some((delivery.outcome, line));
        let waiting = WaitingDelete {
            worker: spooling.worker,
            id,
            server: Arc::clone(&self.destinations[delete.place as usize].spec),
            key: std::mem::take(&mut delete.key),
            log: Arc::clone(&delete.log),
        };
        if spooling.queue.leave(waiting) {
            spooling.writing.push_back((Now { us: self.now.us + WRITE_WITHIN_US }, id));
        } else {
            self.end_logged(id, false, turn);
        }
    }

    /// Answers deletes that have been written, and those that have not been for too long.
    pub(super) fn end_spooled(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        let Some(spooling) = &mut self.spooling else { return };
        if spooling.writing.is_empty() {
            return;
        }
        for (id, is_written) in spooling.queue.take_reports(spooling.worker) {
            self.end_logged(id, is_written, turn);
        }
        while let Some(spooling) = &mut self.spooling
            && let Some((at, id)) = spooling.writing.front().copied()
        {
            if at > self.now && spooling.deletes.get_mut(id).is_some() {
                return;
            }
            spooling.writing.pop_front();
            self.end_logged(id, false, turn);
        }
    }

    /// Answers a delete, if that has not been done.
    fn end_logged(&mut self, id: Id, is_written: bool, turn: &mut Turn<Arc<[u8]>>) {
        let Some(spooling) = &mut self.spooling else { return };
        let Some(delete) = spooling.deletes.remove(id) else { return };
        let LoggedDelete { owner, operation, written, failed, .. } = delete;
        let (outcome, line) = failed.expect("it has failed before");
        let reply = match is_written {
            true => written,
            false => FlightReply { outcome, answer: ReplyBytes::Copied(&line) },
        };
        self.deliver_whole(owner, operation, reply, turn);
    }
}
