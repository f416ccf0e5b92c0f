//! Requests that are sent to servers: what is written, and what is noted for its reply.

use std::sync::Arc;

use net::Turn;
use protocol::limits::LINE_LEN_MAX;
use protocol::number::write_u64;

use super::{Asker, Servers};
use crate::message::key::RoutedKey;
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::servers::destination::{
    DestinationState, Exchange, LateFailover, ReplyKind, ReplyTarget, ReplyToken,
};
use crate::worker::hot::HotValues;

/// mcrouter's mark behind the keys of failovers, for who reads the keys at a server.
const FAILOVER_TAG: &[u8] = b":failover=1";

/// The most words of a meta request's line that memcached 1.6.18 reads. It answers an error to more, and takes the body for
/// requests; 1.6.45 reads 20.
const META_WORDS_MAX: usize = 19;

/// The rest of a `delete` that must not end with its key: the time that memcached 1.2 held a key for, of which all later
/// versions know that it may be 0.
const HOLD_OF_DELETE: &[u8] = b" 0\r\n";

/// A request that was not sent.
pub(crate) struct NotSent {
    pub(crate) outcome: Outcome,
    pub(crate) message: String,
}

impl NotSent {
    pub(crate) fn plain(outcome: Outcome) -> NotSent {
        NotSent { outcome, message: String::new() }
    }

    /// Whether it is among the requests of its server. One whose line no server takes is not; nor is one to an unavailable
    /// server, to which nothing is sent: perhaps another one is asked.
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(self.outcome, Outcome::ClientError | Outcome::Unavailable)
    }
}

/// The last keys of a [`KeyLine`], which were not sent.
pub(crate) struct KeysNotSent {
    pub(crate) why: NotSent,
    /// How many keys before them are on their way as datagrams.
    pub(crate) sent: usize,
}

/// A `get` of several keys, which are parts of a client's line.
#[derive(Clone, Copy)]
pub(crate) struct KeyLine<'a> {
    pub(crate) operation: Operation,
    /// The command.
    pub(crate) before: &'a [u8],
    pub(crate) line: &'a [u8],
    pub(crate) keys: &'a [KeySpan],
}

/// Whether a request may arrive twice: with the first packet of a connection (TCP Fast Open). Only gets may. Anything else waits
/// for the first reply, with which the server has shown that it knows the connection.
fn may_repeat(operation: Operation) -> bool {
    matches!(operation, Operation::Get | Operation::Gets)
}

impl Servers {
    /// Sends a request to a destination.
    #[inline]
    pub(crate) fn send(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        self.send_as(message.sent_keys(keep_prefix), place, message, asker, hot, turn)
    }

    /// The same for a failover whose key says so, if it has a hash stop and room.
    #[cold]
    pub(crate) fn send_tagged(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let RoutedKey { full, prefix_len, routing_len } = message.key;
        let key = if keep_prefix { full } else { message.key.bare() };
        let tagged = [key, FAILOVER_TAG].concat();
        if prefix_len + routing_len == full.len() || tagged.len() > protocol::limits::KEY_LEN_MAX {
            return self.send(place, message, keep_prefix, asker, hot, turn);
        }
        self.send_as((&tagged, message.client_key()), place, message, asker, hot, turn)
    }

    /// Whether a destination has too many requests of shadows to get another one.
    pub(crate) fn is_full_of_shadows(&self, place: u32) -> bool {
        let max = self.shared.settings.shadows_max;
        max > 0 && self.destinations[place as usize].queue.shadows() >= max
    }

    /// Requests that a destination has not answered.
    pub(crate) fn unanswered(&self, place: u32) -> usize {
        self.destinations[place as usize].queue.len()
    }

    /// The last request that was sent to a destination is for a shadow, if it has more than `before` without an answer: one that
    /// went as a datagram is bounded by its window.
    pub(crate) fn note_shadow(&mut self, place: u32, before: usize) {
        self.destinations[place as usize].queue.note_shadow(before);
    }

    /// The last request that was sent to a destination goes to others if it fails.
    #[inline]
    pub(crate) fn note_late_failover(&mut self, place: u32, late: LateFailover) {
        self.destinations[place as usize].queue.note_late_failover(late);
    }

    /// Sends a request with this key. `shown` is the key that the client wrote, if it is another one.
    #[inline]
    fn send_as(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if self.destinations[place as usize].queue.hot().is_some() {
            return self.send_noted((key, shown), place, message, asker, hot, turn);
        }
        self.write_request((key, shown), place, message, asker, hot, turn)
    }

    /// The same to a server with hot values.
    #[inline(never)]
    fn send_noted(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let destination = &self.destinations[place as usize];
        let note = hot.note_request(destination, key, message);
        let before = destination.queue.len();
        let result = self.write_request((key, shown), place, message, asker, hot, turn);
        hot.attach_note(&mut self.destinations[place as usize], note, before);
        result
    }

    /// The same, without a look at what the request means for hot values.
    #[inline]
    fn write_request(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if let Err(words) = check_line(message, key) {
            // A server would close the connection, on which others wait for their replies, or answer an error and take the
            // body for requests.
            return Err(NotSent { outcome: Outcome::ClientError, message: words.to_owned() });
        }
        if message.operation == Operation::Get
            && self.destinations[place as usize].udp.is_some()
            && self.send_datagram(place, (key, shown, 0), asker, hot, turn)
        {
            return Ok(());
        }
        let may_repeat = may_repeat(message.operation);
        self.counts.sent(&self.destinations[place as usize], message.operation, 1, asker.is_failover);
        if let Err(not_sent) = self.make_room(place, may_repeat, turn) {
            return Err(self.count_not_sent(place, not_sent, 1, asker));
        }
        let destination = &mut self.destinations[place as usize];
        let output = destination.connection.output(may_repeat, turn).expect("make_room has seen it");
        output.copy(message.before);
        output.copy(key);
        output.copy(if is_mistakable(message.operation, key) { HOLD_OF_DELETE } else { message.after });
        let (mut target, mut keys) = (asker.target, 1);
        match message.expected {
            ReplyKind::Values => {
                let mut part = 0;
                if let ReplyTarget::Part(client, slot, number) = target {
                    // Read as one of several keys: without the `END`.
                    (target, part) = (ReplyTarget::Values(client, slot), number);
                }
                destination.queue.push_token(ReplyToken { sent: key, shown, part });
            }
            ReplyKind::Meta { strip: true, .. } => {
                let opaque = &mut self.opaque_text;
                opaque.clear();
                write_u64(opaque, u64::from(destination.queue.next_opaque()));
                output.copy(b" O");
                output.copy(opaque);
                output.copy(b"\r\n");
                destination.queue.push_token(ReplyToken { sent: opaque, shown, part: 0 });
            }
            ReplyKind::Meta { strip: false, .. } => {
                output.copy(b"\r\n");
                destination.queue.push_token(ReplyToken { sent: message.opaque, shown, part: 0 });
            }
            ReplyKind::Line | ReplyKind::Version => keys = 0,
        }
        match message.body {
            RequestBody::None => {}
            RequestBody::Bytes(bytes) => output.copy(bytes),
            RequestBody::Held(held) => output.hold(Arc::clone(held)),
            RequestBody::HeldValue(held) => {
                output.hold(Arc::clone(held));
                output.copy(b"\r\n");
            }
        }
        let exchange = Exchange::new(target, self.now.us, Some(message.operation), message.expected, keys);
        self.await_reply(place, exchange);
        Ok(())
    }

    /// Sends one `get` of several keys.
    pub(crate) fn send_keys(
        &mut self,
        place: u32,
        request: KeyLine<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), KeysNotSent> {
        if self.destinations[place as usize].queue.hot().is_some() {
            return self.send_keys_noted(place, request, asker, hot, turn);
        }
        self.write_keys(place, request, asker, hot, turn)
    }

    /// The same to a server with hot values.
    #[inline(never)]
    fn send_keys_noted(
        &mut self,
        place: u32,
        request: KeyLine<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), KeysNotSent> {
        let destination = &self.destinations[place as usize];
        let note = hot.note_keys(destination, request.operation, request.line, request.keys);
        let before = destination.queue.len();
        let result = self.write_keys(place, request, asker, hot, turn);
        hot.attach_note(&mut self.destinations[place as usize], note, before);
        result
    }

    /// The same, without a look at what the keys mean for hot values.
    fn write_keys(
        &mut self,
        place: u32,
        request: KeyLine<'_>,
        asker: Asker,
        hot: &mut HotValues,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), KeysNotSent> {
        let KeyLine { operation, before, line, mut keys } = request;
        let mut sent = 0;
        if operation == Operation::Get && self.destinations[place as usize].udp.is_some() {
            let refused = keys.iter().position(|key| {
                let key = (key.sent(line), key.shown(line), key.part);
                !self.send_datagram(place, key, asker, hot, turn)
            });
            sent = refused.unwrap_or(keys.len());
            keys = &keys[sent..];
            if keys.is_empty() {
                return Ok(());
            }
        }
        let (count, may_repeat) = (keys.len() as u64, may_repeat(operation));
        self.counts.sent(&self.destinations[place as usize], operation, count, asker.is_failover);
        if let Err(not_sent) = self.make_room(place, may_repeat, turn) {
            return Err(KeysNotSent { why: self.count_not_sent(place, not_sent, count, asker), sent });
        }
        let destination = &mut self.destinations[place as usize];
        let output = destination.connection.output(may_repeat, turn).expect("make_room has seen it");
        output.copy(before);
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                output.copy(b" ");
            }
            let token = ReplyToken { sent: key.sent(line), shown: key.shown(line), part: key.part };
            output.copy(token.sent);
            destination.queue.push_token(token);
        }
        output.copy(b"\r\n");
        let (target, keys) = (asker.target, keys.len() as u32);
        self.await_reply(place, Exchange::new(target, self.now.us, Some(operation), ReplyKind::Values, keys));
        Ok(())
    }

    /// The request was not sent.
    #[cold]
    fn count_not_sent(&mut self, place: u32, not_sent: NotSent, count: u64, asker: Asker) -> NotSent {
        let destination = &self.destinations[place as usize];
        self.counts.ended(destination, not_sent.outcome, count, asker.is_failover);
        not_sent
    }

    /// Whether a request can be sent; dials if there is no connection.
    #[inline]
    fn make_room(&mut self, place: u32, may_repeat: bool, turn: &mut Turn<Arc<[u8]>>) -> Result<(), NotSent> {
        let destination = &mut self.destinations[place as usize];
        if let Some(reason) = destination.health.unavailable() {
            let message = format!("Server unavailable. Reason: {}", reason.name());
            return Err(NotSent { outcome: Outcome::Unavailable, message });
        }
        let Some(has_room) = destination.connection.has_room(turn) else {
            // Its end is about to be reported.
            return Err(NotSent::plain(Outcome::ConnectError));
        };
        if !has_room || !destination.queue.has_room() {
            return Err(NotSent {
                outcome: Outcome::Busy,
                message: "too many outstanding requests".to_owned(),
            });
        }
        if destination.connection.state() == DestinationState::Idle {
            self.dial(place, may_repeat, turn)?;
        }
        Ok(())
    }

    /// Notes a request that was written, with an entry among the timers if its destination has none.
    #[inline]
    pub(super) fn await_reply(&mut self, place: u32, exchange: Exchange) {
        let destination = &mut self.destinations[place as usize];
        destination.queue.push(exchange);
        destination.connection.note_use();
        if destination.has_timer {
            return;
        }
        destination.has_timer = true;
        if let Some(at) = destination.next_timeout() {
            self.timers.add(place, at);
        }
    }
}

/// Whether a server could take the key for the word `noreply`, and answer nothing: replies would then be taken for those to
/// earlier requests.
#[inline]
fn is_mistakable(operation: Operation, key: &[u8]) -> bool {
    operation == Operation::Delete && key == b"noreply"
}

/// Whether servers take the line of a request with this key. A line of `get` or `gets` may be long.
#[inline]
fn check_line(message: &RoutedRequest<'_>, key: &[u8]) -> Result<(), &'static str> {
    /// ` O4294967295`
    const OPAQUE_LEN_MAX: usize = 12;
    let len = message.before.len() + key.len() + message.after.len();
    let ReplyKind::Meta { strip, .. } = message.expected else {
        let may_be_long = matches!(message.operation, Operation::Get | Operation::Gets);
        return if len <= LINE_LEN_MAX || may_be_long { Ok(()) } else { Err("line is too long") };
    };
    let opaque = if strip { OPAQUE_LEN_MAX } else { 0 };
    let words = || {
        let flags = message.after.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        2 + flags.count() + usize::from(strip)
    };
    // The command and the key are two words. A flag takes two bytes at least: most lines are too short for too many.
    let has_few_words = message.after.len() < 2 * (META_WORDS_MAX - 2) || words() <= META_WORDS_MAX;
    let fits = len + opaque + b"\r\n".len() <= LINE_LEN_MAX && has_few_words;
    if fits { Ok(()) } else { Err("options flags are too long") }
}
