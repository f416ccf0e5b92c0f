//! Requests of clients: which servers they go to, and as what.

mod input;
mod multiget;
mod reports;

use std::sync::Arc;

use net::Turn;
use protocol::key::Key;
use protocol::limits::LINE_LEN_MAX;
use protocol::request::{Get, Store, Verb};
use protocol::{MetaFlags, MetaKey, Request};

use super::RouteWorker;
use super::sends::through_log;
use crate::client::VALUE_MAX;
use crate::client::state::{ClientState, RequestProgress};
use crate::flight::FlightReply;
use crate::message::key::RoutedKey;
use crate::message::operation::{Operation, OperationClass};
use crate::message::request::{LINE_END, RequestBody, RoutedRequest, around, without_line_end};
use crate::plan::RouteStep;
use crate::servers::destination::{ReplyKind, ReplyTarget};
use crate::slab::Id;

/// Bodies from this length on are received into memory of their own. A shorter one fits the network's buffers together
/// with its line.
const UPLOAD_MIN: usize = 12 * 1024;

/// mcrouter's words.
const MALFORMED: &[u8] = b"CLIENT_ERROR malformed request\r\n";

/// mcrouter's words.
const DISABLED: &[u8] = b"SERVER_ERROR Command disabled\r\n";

/// The rest of a storage command's line that is forwarded as it is written: three numbers of ten digits, and a CAS.
const STORE_REST_MAX: usize = 64;

impl RouteWorker {
    /// Routes the request at the start of `input`, whose line has `consumed` bytes.
    pub(super) fn route(
        &mut self,
        state: &mut ClientState,
        request: &Request<'_>,
        input: &[u8],
        consumed: usize,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> RequestProgress {
        let line = &input[..consumed];
        if memchr::memchr(0, line).is_some() || line.len() > LINE_LEN_MAX && !may_be_long(line) {
            return self.refuse_line(state.id, turn);
        }
        match request {
            Request::Get(get) => match get.keys.only() {
                Some(Ok(key)) => self.route_get(state, get, key, line, turn),
                _ => return self.route_keys(state, get, line, turn),
            },
            Request::Store(Store { len, .. }) | Request::MetaSet { len, .. } => {
                let whole = consumed + len + LINE_END.len();
                if let Some(body) = input.get(consumed..whole) {
                    return match self.route_stored(state, request, line, RequestBody::Bytes(body), turn) {
                        RequestProgress::Go(_) => RequestProgress::Go(whole),
                        other => other,
                    };
                }
                if *len < UPLOAD_MIN {
                    return RequestProgress::More;
                }
                if let Some(refused) = self.refused_value(*len) {
                    if !matches!(request, Request::Store(Store { noreply: true, .. })) {
                        self.answer_now(state.id, refused, turn);
                    }
                    state.swallow = len + LINE_END.len();
                    return RequestProgress::Go(consumed);
                }
                state.upload = Some(self.clients.take_body(line, len + LINE_END.len()));
            }
            Request::MetaGet { key, flags } | Request::MetaDelete { key, flags } => {
                self.route_meta(state, request, key, flags, line, RequestBody::None, turn);
            }
            Request::MetaArithmetic { key, flags, .. } => {
                self.route_meta(state, request, key, flags, line, RequestBody::None, turn);
            }
            Request::MetaDebug { key } => self.route_debug(state, key, line, turn),
            Request::Delete { key, noreply }
            | Request::Arithmetic { key, noreply, .. }
            | Request::Touch { key, noreply, .. } => {
                self.route_line(state, request, *key, *noreply, line, RequestBody::None, turn);
            }
            Request::MetaNoop => self.answer_now(state.id, protocol::reply::line::META_NOOP, turn),
            Request::Version => {
                let version = format!("VERSION {}\r\n", crate::VERSION);
                self.answer_now(state.id, version.as_bytes(), turn);
            }
            Request::Discover => self.tell_members(state.id, turn),
            Request::FlushAll { delay, noreply } => self.route_flush(state, *delay, *noreply, line, turn),
            Request::Shutdown { .. } if !self.shared.settings.shutdown_enabled => {
                self.answer_now(state.id, protocol::reply::line::SHUTDOWN_NOT_ENABLED, turn);
            }
            Request::Shutdown { .. } => {
                self.shared.ask_to_stop();
                return RequestProgress::Close;
            }
            Request::Verbosity { level, noreply } => {
                self.shared.set_verbosity(*level);
                if !noreply {
                    self.answer_now(state.id, protocol::reply::line::OK, turn);
                }
            }
            Request::Stats { args, .. } => self.route_stats(state.id, *args, turn),
            Request::Quit => return RequestProgress::Close,
            Request::Refused(refused) => {
                if !refused.reply.is_empty() {
                    self.answer_now(state.id, refused.reply, turn);
                }
                if refused.close {
                    return RequestProgress::Close;
                }
                state.swallow = refused.swallow;
            }
            // A line that the client does not wait for would be taken for the answer to its next request.
            Request::CacheMemlimit { noreply: true, .. }
            | Request::LruCrawler { noreply: true, .. }
            | Request::Slabs { noreply: true, .. }
            | Request::Lru { noreply: true, .. }
            | Request::Extstore { noreply: true, .. }
            | Request::RefreshCerts { noreply: true, .. } => {}
            _ => self.answer_now(state.id, DISABLED, turn),
        }
        RequestProgress::Go(consumed)
    }

    /// The answer to a value of this length that is not accepted.
    fn refused_value(&mut self, len: usize) -> Option<&'static [u8]> {
        if len > VALUE_MAX {
            return Some(protocol::reply::line::TOO_LARGE);
        }
        if !self.clients.refuses_value(len) {
            return None;
        }
        self.cells.refused_for_memory.add(1);
        Some(protocol::reply::line::OUT_OF_MEMORY_STORING)
    }

    /// Refuses a line with a zero byte, which memcached 1.6.18 takes for the end of the line, and a body that follows for
    /// requests; or a line for which a server would close the connection, on which others wait for their replies.
    #[cold]
    pub(super) fn refuse_line(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) -> RequestProgress {
        self.answer_now(client, MALFORMED, turn);
        RequestProgress::Close
    }

    fn route_get(
        &mut self,
        state: &ClientState,
        get: &Get<'_>,
        key: Key<'_>,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let operation = Operation::of(&Request::Get(*get)).expect("a get has an operation");
        let target = self.clients.slot_for(state.id, false);
        if self.is_about_router(operation, key.as_bytes(), target, turn) {
            return;
        }
        let (before, after) = around(line, key.as_bytes());
        let message = RoutedRequest {
            operation,
            expected: ReplyKind::Values,
            before,
            key: RoutedKey::new(key.as_bytes()),
            shown: &[],
            after,
            opaque: &[],
            body: RequestBody::None,
        };
        self.route_message(&message, target, turn);
    }

    /// A storage command with its body.
    pub(super) fn route_stored(
        &mut self,
        state: &mut ClientState,
        request: &Request<'_>,
        line: &[u8],
        body: RequestBody<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> RequestProgress {
        let bytes: &[u8] = match &body {
            RequestBody::Bytes(bytes) => bytes,
            RequestBody::Held(held) => held,
            RequestBody::HeldValue(_) | RequestBody::None => &[],
        };
        if !bytes.ends_with(LINE_END) {
            // Where the next request begins cannot be known.
            self.answer_now(state.id, protocol::reply::line::BAD_DATA_CHUNK, turn);
            return RequestProgress::Close;
        }
        match request {
            Request::Store(store) => {
                self.route_line(state, request, store.key, store.noreply, line, body, turn);
            }
            Request::MetaSet { key, flags, .. } => {
                self.route_meta(state, request, key, flags, line, body, turn);
            }
            _ => unreachable!("only storage commands have a body"),
        }
        RequestProgress::Go(0)
    }

    /// A classic command whose reply is one line.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn route_line(
        &mut self,
        state: &ClientState,
        request: &Request<'_>,
        key: Key<'_>,
        noreply: bool,
        line: &[u8],
        body: RequestBody<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let operation = Operation::of(request).expect("a command about a key");
        let target = self.clients.slot_for(state.id, noreply);
        let (before, mut after) = around(line, key.as_bytes());
        let mut without_noreply = std::mem::take(&mut self.line_rest);
        if noreply {
            // The router needs the reply: an error counts, and ends nothing.
            let text = without_line_end(after);
            without_noreply.clear();
            // Of `delete noreply`, the key is the word.
            let rest = text.strip_suffix(b"noreply").unwrap_or(text);
            without_noreply.extend_from_slice(without_line_end(rest));
            without_noreply.extend_from_slice(LINE_END);
            after = &without_noreply;
        }
        let rewritten;
        if let Request::Store(store) = request
            && !is_usual_rest(store, after)
        {
            rewritten = rest_of(store);
            after = &rewritten;
        }
        let key = RoutedKey::new(key.as_bytes());
        let message = RoutedRequest {
            operation,
            expected: ReplyKind::Line,
            before,
            key,
            shown: &[],
            after,
            opaque: &[],
            body,
        };
        self.route_message(&message, target, turn);
        self.line_rest = without_noreply;
    }

    /// `mg`, `ms`, `md`, `ma`.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn route_meta(
        &mut self,
        state: &ClientState,
        request: &Request<'_>,
        key: &MetaKey<'_>,
        flags: &MetaFlags<'_>,
        line: &[u8],
        body: RequestBody<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let operation = Operation::of(request).expect("a command about a key");
        let target = self.clients.slot_for(state.id, false);
        let written = key.as_written();
        let (before, after) = around(line, written);
        let mut after = without_line_end(after);
        let mut without_q = std::mem::take(&mut self.line_rest);
        if flags.quiet() {
            // Without a reply the router would not know that the request is done.
            write_without_quiet(after, &mut without_q);
            after = &without_q;
        }
        let opaque = flags.opaque().map(|word| &word[1..]);
        let message = RoutedRequest {
            operation,
            expected: ReplyKind::Meta { strip: opaque.is_none(), quiet: flags.quiet() },
            before,
            key: meta_key(key),
            shown: &[],
            after,
            opaque: opaque.unwrap_or_default(),
            body,
        };
        self.route_message(&message, target, turn);
        self.line_rest = without_q;
    }

    fn route_debug(
        &mut self,
        state: &ClientState,
        key: &MetaKey<'_>,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let target = self.clients.slot_for(state.id, false);
        let (before, after) = around(line, key.as_written());
        let message = RoutedRequest {
            operation: Operation::MetaDebug,
            expected: ReplyKind::Meta { strip: false, quiet: false },
            before,
            key: meta_key(key),
            shown: &[],
            after: without_line_end(after),
            opaque: &[],
            body: RequestBody::None,
        };
        self.route_message(&message, target, turn);
    }

    /// Sends a request where its key belongs.
    #[inline]
    fn route_message(
        &mut self,
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        self.cells.request(message.operation);
        let is_sample = self.samples.count(message.key.full, self.now);
        match self.plans.first_step(&mut self.choices, message.operation, &message.key) {
            RouteStep::Server { server, keep_prefix, log } => {
                let place = self.plans.place(server);
                let target = match log {
                    Some(log) if message.operation.class() == OperationClass::Delete => {
                        let log = &self.plans.current().logs[usize::from(log.0)];
                        through_log(&mut self.spooling, log, (place, keep_prefix), message, target)
                    }
                    _ => target,
                };
                let is_answered = self.answer_hot((place, keep_prefix), message, target, is_sample, turn);
                if !is_answered && let Err(not_sent) = self.send(place, message, keep_prefix, target, turn) {
                    let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                    self.deliver_whole(target, message.operation, reply, turn);
                }
            }
            RouteStep::Answer(answer) => {
                let reply = FlightReply::own(answer, message);
                self.deliver_whole(target, message.operation, reply, turn);
            }
            RouteStep::Compound(node, log) => {
                match self.normal_place(node, message.operation, &message.key) {
                    Some(place) => {
                        if !self.answer_hot(place, message, target, is_sample, turn) {
                            self.send_normal(node, place, message, target, turn);
                        }
                    }
                    None => self.fly(node, log, message, target, turn),
                }
            }
        }
        if !self.choices.shadows.is_empty() {
            self.fly_shadows(message, turn);
        }
    }

    /// `flush_all`, with its error if its argument is none. The worst reply of all servers is the answer.
    fn route_flush(
        &mut self,
        state: &ClientState,
        delay: Result<i32, &'static [u8]>,
        noreply: bool,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let everywhere = self.plans.current().everywhere.filter(|_| self.shared.settings.flush_enabled);
        let (line, refused) = match (everywhere, delay) {
            (None, _) => (line, Some(DISABLED)),
            (_, Err(error)) => (line, Some(error)),
            _ => (without_noreply(line, noreply), None),
        };
        if let Some(refused) = refused {
            if !noreply {
                self.answer_now(state.id, refused, turn);
            }
            return;
        }
        let Some(everywhere) = everywhere else { return };
        let target = self.clients.slot_for(state.id, noreply);
        let message = RoutedRequest {
            operation: Operation::FlushAll,
            expected: ReplyKind::Line,
            before: line,
            key: RoutedKey::new(b""),
            shown: &[],
            after: b"\r\n",
            opaque: &[],
            body: RequestBody::None,
        };
        self.cells.request(message.operation);
        self.fly(everywhere, None, &message, target, turn);
    }
}

/// Whether servers read a line that is longer than [`LINE_LEN_MAX`].
#[cold]
fn may_be_long(line: &[u8]) -> bool {
    line.starts_with(b"get ") || line.starts_with(b"gets ")
}

/// Whether the rest of a storage command's line has the words that it needs, and no others.
#[inline]
fn is_usual_rest(store: &Store<'_>, after: &[u8]) -> bool {
    let words = 3 + usize::from(matches!(store.verb, Verb::Cas(_)));
    after.len() <= STORE_REST_MAX && after.iter().filter(|byte| **byte == b' ').count() == words
}

/// The same without further words: memcached 1.6.18 answers an error to two of them, and takes the body for requests.
#[cold]
fn rest_of(store: &Store<'_>) -> Vec<u8> {
    let Store { flags, exptime, len, .. } = *store;
    let cas = match store.verb {
        Verb::Cas(cas) => format!(" {cas}"),
        _ => String::new(),
    };
    format!(" {flags} {exptime} {len}{cas}\r\n").into_bytes()
}

/// The key of a meta request, as routes see it: one in base64 is routed by its letters, and has no prefix.
fn meta_key<'a>(key: &MetaKey<'a>) -> RoutedKey<'a> {
    let full = key.as_written();
    match key.is_binary() {
        true => RoutedKey { full, prefix_len: 0, routing_len: full.len() },
        false => RoutedKey::new(full),
    }
}

/// Writes the flags of a meta request without `q`.
fn write_without_quiet(after: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for word in after.split(|&byte| byte == b' ').filter(|word| !word.is_empty() && word[0] != b'q') {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

/// The command and its argument. The router needs the reply.
fn without_noreply(line: &[u8], noreply: bool) -> &[u8] {
    let text = line.trim_ascii_end();
    match noreply {
        true => text[..text.len() - b"noreply".len()].trim_ascii_end(),
        false => text,
    }
}
