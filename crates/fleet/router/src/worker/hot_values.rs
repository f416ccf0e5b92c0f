//! Answers of hot values to gets, in place of a server.
//!
//! Where no pool has such values, a request costs a branch.

use std::mem::take;
use std::sync::Arc;

use net::Turn;
use protocol::number::write_u64;

use super::RouteWorker;
use super::servers::keys_of;
use crate::client::state::HELD_MIN;
use crate::client::{HeldOutput, ReplyBytes};
use crate::flight::{FlightReply, flags, has_flag};
use crate::hot::cache::HotValue;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::servers::destination::ReplyTarget;

/// An answer from hot values.
pub(super) enum HotAnswer {
    /// In memory that is used again.
    Text(Vec<u8>),
    Held(HeldOutput),
}

impl RouteWorker {
    /// Answers a get with a hot value, if there is one. `is_sample`: its key is among those that are reported.
    #[inline]
    pub(super) fn answer_hot(
        &mut self,
        (place, keep_prefix): (u32, bool),
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        is_sample: bool,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> bool {
        let Some(hot) = self.find_hot(place, message, keep_prefix, target) else { return false };
        if is_sample {
            self.hot.mark(message.key.full, self.now);
        }
        self.deliver_hot(target, message.operation, hot, turn);
        true
    }

    /// The answer to a get, if a value is there that may be it.
    #[inline]
    pub(super) fn find_hot(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
    ) -> Option<HotAnswer> {
        self.destinations[place as usize].hot.as_ref()?;
        self.look_for_hot(place, message, keep_prefix, target)
    }

    #[inline(never)]
    fn look_for_hot(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
    ) -> Option<HotAnswer> {
        let is_meta = match message.operation {
            Operation::Get => false,
            Operation::MetaGet if is_known_without_server(message) => true,
            _ => return None,
        };
        let destination = &self.destinations[place as usize];
        let side = destination.hot.as_ref()?;
        let (server, pool) = (side.server, side.pool?);
        // A server that is unavailable is not spoken for: routes shall ask another one.
        if destination.health.unavailable().is_some() || !self.flights.only_reads(target) {
            return None;
        }
        let (key, shown) = keys_of(message, keep_prefix);
        let cache = self.hot_cache.as_mut()?;
        let name = cache.name(server, key);
        cache.count(name, self.now);
        let value = cache.get(name, pool, is_meta, self.now)?;
        let mut text = take(&mut self.hot_text);
        text.clear();
        let shown = if shown.is_empty() { key } else { shown };
        let end: &[u8] = match is_meta {
            true => {
                write_meta_head(&mut text, shown, message, value);
                b"\r\n"
            }
            false => {
                write_head(&mut text, shown, value);
                b"\r\nEND\r\n"
            }
        };
        if value.bytes.len() < HELD_MIN {
            text.extend_from_slice(&value.bytes);
            text.extend_from_slice(end);
            return Some(HotAnswer::Text(text));
        }
        let mut output = HeldOutput::default();
        output.copy(&text);
        output.hold(Arc::clone(&value.bytes));
        output.copy(end);
        self.hot_text = text;
        Some(HotAnswer::Held(output))
    }

    /// Hands it over.
    #[inline(never)]
    pub(super) fn deliver_hot(
        &mut self,
        target: ReplyTarget,
        operation: Operation,
        hot: HotAnswer,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let outcome = Outcome::Found;
        match hot {
            HotAnswer::Text(text) => {
                let answer = ReplyBytes::Copied(&text);
                self.deliver_whole(target, operation, FlightReply { outcome, answer }, turn);
                self.hot_text = text;
            }
            HotAnswer::Held(output) => {
                let answer = ReplyBytes::Gathered(output);
                self.deliver_whole(target, operation, FlightReply { outcome, answer }, turn);
            }
        }
    }
}

/// Whether a reply to an `mg` says nothing of the item but its value, its length and the client's flags.
fn is_known_without_server(message: &RoutedRequest<'_>) -> bool {
    has_flag(message, b'v') && flags(message).all(|word| b"vfskOq".contains(&word[0]))
}

/// The line before a value.
fn write_head(text: &mut Vec<u8>, key: &[u8], value: &HotValue) {
    text.extend_from_slice(b"VALUE ");
    text.extend_from_slice(key);
    text.push(b' ');
    write_u64(text, value.flags);
    text.push(b' ');
    write_u64(text, value.bytes.len() as u64);
    text.extend_from_slice(b"\r\n");
}

/// The same of a meta reply, with what the request has asked for, in its order.
fn write_meta_head(text: &mut Vec<u8>, key: &[u8], message: &RoutedRequest<'_>, value: &HotValue) {
    text.extend_from_slice(b"VA ");
    write_u64(text, value.bytes.len() as u64);
    for word in flags(message) {
        let letter = word[0];
        if matches!(letter, b'v' | b'q') {
            continue;
        }
        text.extend_from_slice(&[b' ', letter]);
        match letter {
            b'f' => write_u64(text, value.flags),
            b's' => write_u64(text, value.bytes.len() as u64),
            b'k' => text.extend_from_slice(key),
            // The opaque.
            _ => text.extend_from_slice(&word[1..]),
        }
    }
    text.extend_from_slice(b"\r\n");
}
