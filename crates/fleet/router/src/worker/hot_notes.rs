//! Notes of what requests and replies mean for hot values: updates after which they are dropped, gets whose replies are kept.
//!
//! Where no pool has such values, a reply costs a branch.

use std::mem::take;
use std::sync::Arc;

use net::Turn;
use protocol::base64;
use protocol::client::Line;
use protocol::limits::KEY_LEN_MAX;
use stdx::clock::Now;

use super::RouteWorker;
use super::servers::NotSent;
use crate::flight::{ReplyItem, has_flag, is_binary};
use crate::hot::cache::{HotCache, HotName, HotValue, Ticket};
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::servers::destination::{Delivery, HotNote, ReplyTarget};

/// Flags of `mg` that change the item: its time of expiry, its presence, who recaches it, its CAS.
const CHANGING: &[u8] = b"TNRE";

/// What the next reply of a destination means for hot values.
#[derive(Clone, Copy)]
pub(super) enum Noted {
    /// The key is in `hot_key`.
    Get(Ticket, Now),
    /// By the hash of its key.
    MetaGet(Ticket, u64, Now),
    Other,
}

impl RouteWorker {
    /// Sends a request to a server with hot values.
    #[inline(never)]
    pub(super) fn send_noted(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let note = self.note_of(place, key, message);
        let before = self.destinations[place as usize].exchanges.len();
        let result = self.write_request((key, shown), place, message, target, turn);
        self.attach_note(place, note, before);
        result
    }

    /// The same for a `get` of several keys, or a command like it.
    #[inline(never)]
    pub(super) fn send_keys_noted(
        &mut self,
        place: u32,
        (before, line): (&[u8], &[u8]),
        keys: &[KeySpan],
        operation: Operation,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let note = match operation {
            Operation::Get | Operation::Gets => {
                { keys.iter().fold(None, |note, key| self.hot_ticket(place, key.sent(line)).or(note)) }
                    .map(HotNote::Get)
            }
            _ => {
                keys.iter().for_each(|key| self.drop_hot(place, key.sent(line)));
                self.begin_sweep(place)
            }
        };
        let exchanges = self.destinations[place as usize].exchanges.len();
        let result = self.write_keys(place, (before, line), keys, operation, target, turn);
        self.attach_note(place, note, exchanges);
        result
    }

    /// Notes what a request means that is about to be sent, and drops the value that it changes.
    fn note_of(&mut self, place: u32, key: &[u8], message: &RoutedRequest<'_>) -> Option<HotNote> {
        match message.operation {
            Operation::Get | Operation::Gets => return self.hot_ticket(place, key).map(HotNote::Get),
            Operation::MetaDebug => return None,
            Operation::MetaGet if !CHANGING.iter().any(|letter| has_flag(message, *letter)) => {
                if is_binary(message) || !has_flag(message, b'v') || !has_flag(message, b'f') {
                    return None;
                }
                let (ticket, hash) = self.hot_item(place, key)?;
                return Some(HotNote::MetaGet(ticket, hash));
            }
            Operation::FlushAll => {
                self.drop_hot_of(place);
                return self.begin_sweep(place);
            }
            _ => {}
        }
        let mut buffer = [0; KEY_LEN_MAX];
        let decoded = if is_binary(message) { base64::decode(key, &mut buffer) } else { None };
        let side = self.destinations[place as usize].hot.as_ref()?;
        let cache = self.hot_cache.as_mut()?;
        let name = cache.name(side.server, decoded.unwrap_or(key));
        Some(HotNote::Update(cache.begin_update(name)))
    }

    /// The ticket of a get that is sent, if its reply may be kept.
    pub(super) fn hot_ticket(&mut self, place: u32, key: &[u8]) -> Option<Ticket> {
        self.hot_item(place, key).map(|(ticket, _)| ticket)
    }

    /// The same, with the hash of the key.
    fn hot_item(&mut self, place: u32, key: &[u8]) -> Option<(Ticket, u64)> {
        let side = self.destinations[place as usize].hot.as_ref()?;
        side.pool?;
        let cache = self.hot_cache.as_mut()?;
        let name = cache.name(side.server, key);
        cache.ticket(name)
    }

    fn drop_hot(&mut self, place: u32, key: &[u8]) {
        if let (Some(side), Some(cache)) = (&self.destinations[place as usize].hot, self.hot_cache.as_mut()) {
            cache.drop_value(cache.name(side.server, key));
        }
    }

    fn begin_sweep(&mut self, place: u32) -> Option<HotNote> {
        let side = self.destinations[place as usize].hot.as_ref()?;
        self.hot_cache.as_mut()?.begin_sweep(side.server);
        Some(HotNote::Sweep)
    }

    /// Keeps the note with the request, if it was sent.
    fn attach_note(&mut self, place: u32, note: Option<HotNote>, exchanges: usize) {
        let Some(note) = note else { return };
        let destination = &mut self.destinations[place as usize];
        if destination.exchanges.len() > exchanges
            && let (Some(exchange), Some(side)) = (destination.exchanges.back_mut(), &mut destination.hot)
        {
            exchange.is_noted = true;
            side.notes.push_back(note);
            return;
        }
        let server = destination.hot.as_ref().map(|side| side.server);
        self.end_note(server, note);
    }

    /// A noted request has its answer, or gets none.
    pub(super) fn end_note(&mut self, server: Option<u64>, note: HotNote) {
        let (Some(cache), Some(server)) = (&mut self.hot_cache, server) else { return };
        match note {
            HotNote::Get(_) | HotNote::MetaGet(..) => {}
            HotNote::Update(hash) => cache.end_update(hash),
            HotNote::Sweep => cache.end_sweep(server),
        }
    }

    /// What the reply means that a destination reads next.
    #[inline]
    pub(super) fn noted(&mut self, place: u32) -> Option<Noted> {
        let destination = &self.destinations[place as usize];
        let side = destination.hot.as_ref()?;
        let exchange = destination.exchanges.front().filter(|exchange| exchange.is_noted)?;
        let sent = Now { us: exchange.sent_us };
        // Without a key that is left, the first token is the next request's.
        match (side.notes.front(), destination.tokens.at(0).filter(|_| exchange.keys > 0)) {
            (Some(HotNote::Get(ticket)), Some(token)) => {
                self.hot_key.clear();
                self.hot_key.extend_from_slice(token.sent);
                Some(Noted::Get(*ticket, sent))
            }
            (Some(HotNote::MetaGet(ticket, hash)), _) => Some(Noted::MetaGet(*ticket, *hash, sent)),
            _ => Some(Noted::Other),
        }
    }

    /// It has been read.
    #[inline]
    pub(super) fn note_reply(&mut self, place: u32, noted: Option<Noted>, delivery: &Delivery<'_>) {
        if let Some(noted) = noted {
            self.follow_reply(place, noted, delivery);
        }
    }

    #[inline(never)]
    fn follow_reply(&mut self, place: u32, noted: Noted, delivery: &Delivery<'_>) {
        match noted {
            Noted::Get(ticket, sent) if !matches!(delivery.target, ReplyTarget::Values(..)) => {
                let key = take(&mut self.hot_key);
                let name = |cache: &HotCache, server| cache.name(server, &key);
                self.keep(place, name, (ticket, sent), delivery);
                self.hot_key = key;
            }
            Noted::MetaGet(ticket, hash, sent) => {
                self.keep(place, |_, server| HotCache::name_of(server, hash), (ticket, sent), delivery);
            }
            Noted::Get(..) | Noted::Other => {}
        }
        if let Some(side) = &mut self.destinations[place as usize].hot
            && let Some(note) = side.ended.take()
        {
            let server = side.server;
            self.end_note(Some(server), note);
        }
    }

    /// Keeps the value of a reply.
    fn keep<'k>(
        &mut self,
        place: u32,
        name: impl FnOnce(&HotCache, u64) -> HotName<'k>,
        (ticket, sent): (Ticket, Now),
        delivery: &Delivery<'_>,
    ) {
        let Some(side) = &self.destinations[place as usize].hot else { return };
        let (Some(pool), Some(cache)) = (side.pool, self.hot_cache.as_mut()) else { return };
        let name = name(cache, side.server);
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
        if !cache.keeps(name, pool, len, sent, self.now) {
            return;
        }
        let bytes = match body {
            RequestBody::HeldValue(held) => Arc::clone(held),
            RequestBody::Bytes(bytes) => Arc::from(&bytes[..len]),
            RequestBody::None | RequestBody::Held(_) => return,
        };
        cache.fill(name, pool, (ticket, sent), HotValue { flags, bytes, is_fresh }, self.now);
    }

    /// Connections have ended: no note has an answer any more, and the server may be another one.
    pub(super) fn lose_hot(&mut self, place: u32) {
        let Some(side) = &mut self.destinations[place as usize].hot else { return };
        let server = side.server;
        side.ended = None;
        for note in take(&mut side.notes) {
            self.end_note(Some(server), note);
        }
        self.drop_hot_of(place);
    }

    /// Drops all values of a destination's server.
    pub(super) fn drop_hot_of(&mut self, place: u32) {
        if let (Some(side), Some(cache)) = (&self.destinations[place as usize].hot, self.hot_cache.as_mut()) {
            cache.drop_server(side.server);
        }
    }
}
