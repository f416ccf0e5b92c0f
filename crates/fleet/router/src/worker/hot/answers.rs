//! Answers of hot values to gets, in place of a server.

use std::mem::take;
use std::sync::Arc;

use protocol::number::write_u64;
use stdx::clock::Now;

use super::HotValues;
use crate::client::HeldOutput;
use crate::client::state::HELD_MIN;
use crate::flight::{flags, has_flag};
use crate::hot::cache::HotValue;
use crate::message::operation::Operation;
use crate::message::request::RoutedRequest;
use crate::servers::destination::Destination;

/// An answer from hot values.
pub(crate) enum HotAnswer {
    /// In memory that is used again.
    Text(Vec<u8>),
    Held(HeldOutput),
}

impl HotValues {
    /// The answer to a get that goes to a destination with hot values, if a value is there that may be it.
    #[inline(never)]
    pub(crate) fn answer(
        &mut self,
        destination: &Destination,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        now: Now,
    ) -> Option<HotAnswer> {
        let is_meta = match message.operation {
            Operation::Get => false,
            Operation::MetaGet if is_known_without_server(message) => true,
            _ => return None,
        };
        let side = destination.queue.hot()?;
        let (server, pool) = (side.server(), side.pool()?);
        // A server that is unavailable is not spoken for: routes shall ask another one.
        if destination.health.unavailable().is_some() {
            return None;
        }
        let (key, shown) = message.sent_keys(keep_prefix);
        let cache = self.cache.as_mut()?;
        let name = cache.name(server, key);
        cache.count(name, now);
        let value = cache.get(name, pool, is_meta, now)?;
        let mut text = take(&mut self.text);
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
        self.text = text;
        Some(HotAnswer::Held(output))
    }

    /// Takes back the memory of an answer that has been handed over.
    pub(crate) fn keep_text(&mut self, text: Vec<u8>) {
        self.text = text;
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
