//! Notes of what requests and replies mean for hot values: updates after which they are dropped, gets whose replies are kept.

use std::mem::take;
use std::sync::Arc;

use protocol::base64;
use protocol::client::Line;
use protocol::limits::KEY_LEN_MAX;
use stdx::clock::Now;

use super::HotValues;
use crate::flight::{ReplyItem, has_flag, is_binary};
use crate::hot::cache::{HotCache, HotName, HotValue, Ticket};
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::servers::destination::{Delivery, Destination, HotNote, HotSide, ReplyTarget};

/// Flags of `mg` that change the item: its time of expiry, its presence, who recaches it, its CAS.
const CHANGING: &[u8] = b"TNRE";

/// What the next reply of a destination means for hot values.
#[derive(Clone, Copy)]
pub(crate) enum NotedReply {
    /// The key is in [`HotValues`].
    Get(Ticket, Now),
    /// By the hash of its key.
    MetaGet(Ticket, u64, Now),
    Other,
}

impl HotValues {
    /// Notes what a request means that is about to be sent, and drops the value that it changes.
    pub(crate) fn note_request(
        &mut self,
        destination: &Destination,
        key: &[u8],
        message: &RoutedRequest<'_>,
    ) -> Option<HotNote> {
        match message.operation {
            Operation::Get | Operation::Gets => return self.ticket(destination, key).map(HotNote::Get),
            Operation::MetaDebug => return None,
            Operation::MetaGet if !CHANGING.iter().any(|letter| has_flag(message, *letter)) => {
                if is_binary(message) || !has_flag(message, b'v') || !has_flag(message, b'f') {
                    return None;
                }
                let (ticket, hash) = self.item(destination, key)?;
                return Some(HotNote::MetaGet(ticket, hash));
            }
            Operation::FlushAll => {
                self.drop_server(destination);
                return self.begin_sweep(destination);
            }
            _ => {}
        }
        let mut buffer = [0; KEY_LEN_MAX];
        let decoded = if is_binary(message) { base64::decode(key, &mut buffer) } else { None };
        let side = destination.queue.hot()?;
        let cache = self.cache.as_mut()?;
        let name = cache.name(side.server(), decoded.unwrap_or(key));
        Some(HotNote::Update(cache.begin_update(name)))
    }

    /// The same for a `get` of several keys, or a command like it.
    pub(crate) fn note_keys(
        &mut self,
        destination: &Destination,
        operation: Operation,
        line: &[u8],
        keys: &[KeySpan],
    ) -> Option<HotNote> {
        match operation {
            Operation::Get | Operation::Gets => {
                { keys.iter().fold(None, |note, key| self.ticket(destination, key.sent(line)).or(note)) }
                    .map(HotNote::Get)
            }
            _ => {
                keys.iter().for_each(|key| self.drop_value(destination, key.sent(line)));
                self.begin_sweep(destination)
            }
        }
    }

    /// The ticket of a get that is sent, if its reply may be kept.
    pub(crate) fn ticket(&mut self, destination: &Destination, key: &[u8]) -> Option<Ticket> {
        self.item(destination, key).map(|(ticket, _)| ticket)
    }

    /// The same, with the hash of the key.
    fn item(&mut self, destination: &Destination, key: &[u8]) -> Option<(Ticket, u64)> {
        let side = destination.queue.hot()?;
        side.pool()?;
        let cache = self.cache.as_mut()?;
        let name = cache.name(side.server(), key);
        cache.ticket(name)
    }

    fn drop_value(&mut self, destination: &Destination, key: &[u8]) {
        if let (Some(side), Some(cache)) = (destination.queue.hot(), self.cache.as_mut()) {
            cache.drop_value(cache.name(side.server(), key));
        }
    }

    fn begin_sweep(&mut self, destination: &Destination) -> Option<HotNote> {
        let side = destination.queue.hot()?;
        self.cache.as_mut()?.begin_sweep(side.server());
        Some(HotNote::Sweep)
    }

    /// Keeps the note with the request, if it was sent: if there are more exchanges than `before`.
    pub(crate) fn attach_note(
        &mut self,
        destination: &mut Destination,
        note: Option<HotNote>,
        before: usize,
    ) {
        let Some(note) = note else { return };
        if destination.queue.add_note(note, before) {
            return;
        }
        let server = destination.queue.hot().map(HotSide::server);
        self.end_note(server, note);
    }

    /// A noted request has its answer, or gets none.
    pub(super) fn end_note(&mut self, server: Option<u64>, note: HotNote) {
        let (Some(cache), Some(server)) = (&mut self.cache, server) else { return };
        match note {
            HotNote::Get(_) | HotNote::MetaGet(..) => {}
            HotNote::Update(hash) => cache.end_update(hash),
            HotNote::Sweep => cache.end_sweep(server),
        }
    }

    /// What the reply means that a destination reads next.
    #[inline]
    pub(crate) fn noted(&mut self, destination: &Destination) -> Option<NotedReply> {
        let next = destination.queue.next_note()?;
        match (next.note, next.key) {
            (Some(HotNote::Get(ticket)), Some(key)) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                Some(NotedReply::Get(ticket, next.sent))
            }
            (Some(HotNote::MetaGet(ticket, hash)), _) => Some(NotedReply::MetaGet(ticket, hash, next.sent)),
            _ => Some(NotedReply::Other),
        }
    }

    /// It has been read.
    #[inline(never)]
    pub(crate) fn follow_reply(
        &mut self,
        destination: &mut Destination,
        noted: NotedReply,
        delivery: &Delivery<'_>,
        now: Now,
    ) {
        match noted {
            NotedReply::Get(ticket, sent) if !matches!(delivery.target, ReplyTarget::Values(..)) => {
                let key = take(&mut self.key);
                let name = |cache: &HotCache, server| cache.name(server, &key);
                self.keep(destination, name, (ticket, sent), delivery, now);
                self.key = key;
            }
            NotedReply::MetaGet(ticket, hash, sent) => {
                let name = |_: &HotCache, server| HotCache::name_of(server, hash);
                self.keep(destination, name, (ticket, sent), delivery, now);
            }
            NotedReply::Get(..) | NotedReply::Other => {}
        }
        if let Some((server, note)) = destination.queue.take_ended_note() {
            self.end_note(Some(server), note);
        }
    }

    /// Keeps the value of a reply.
    fn keep<'k>(
        &mut self,
        destination: &Destination,
        name: impl FnOnce(&HotCache, u64) -> HotName<'k>,
        (ticket, sent): (Ticket, Now),
        delivery: &Delivery<'_>,
        now: Now,
    ) {
        let Some(side) = destination.queue.hot() else { return };
        let (Some(pool), Some(cache)) = (side.pool(), self.cache.as_mut()) else { return };
        let name = name(cache, side.server());
        // A miss is not kept, but an older value is no answer any more.
        if !matches!(delivery.outcome, Outcome::Found | Outcome::NotFound) || !cache.is_latest(name, ticket) {
            return;
        }
        let Some(ReplyItem { flags, len, body, line, .. }) = ReplyItem::of(&delivery.answer) else { return };
        let is_fresh = match line {
            Line::MetaValue { flags, .. } => {
                // What is to be stored anew is for the client that gets this reply.
                let facts = flags.read().ok();
                if facts.is_none_or(|facts| facts.won || facts.stale || facts.token_sent) {
                    return;
                }
                true
            }
            _ => false,
        };
        if !cache.keeps(name, pool, len, sent, now) {
            return;
        }
        let bytes = match body {
            RequestBody::HeldValue(held) => Arc::clone(held),
            RequestBody::Bytes(bytes) => Arc::from(&bytes[..len]),
            RequestBody::None | RequestBody::Held(_) => return,
        };
        cache.fill(name, pool, (ticket, sent), HotValue { flags, bytes, is_fresh }, now);
    }

    /// The connections of a destination have ended: no note has an answer any more, and the server may be another one.
    pub(crate) fn lose(&mut self, destination: &mut Destination) {
        let Some((server, notes)) = destination.queue.take_notes() else { return };
        for note in notes {
            self.end_note(Some(server), note);
        }
        self.drop_server(destination);
    }

    /// Drops all values of a destination's server.
    pub(crate) fn drop_server(&mut self, destination: &Destination) {
        if let (Some(side), Some(cache)) = (destination.queue.hot(), self.cache.as_mut()) {
            cache.drop_server(side.server());
        }
    }
}
