//! What a request does: decided by the store, said in memcached's words.

use net::CloseReason;
use protocol::Request;
use protocol::reply::{line, number_line};
use protocol::request::{ArithmeticMode, Refused, Store, Verb};
use store::{
    Arithmetic, Change, Condition, Counted, Delete, Deleted, Direction, Error, Key, LARGE_VALUE_MIN,
    LargeValue, NewValue, Stored,
};

use crate::connection::{Connection, State};
use crate::meta::KEY_BUFFER;
use crate::prefixes::Use;
use crate::retrieve::RestOfKeys;
use crate::upload::{LINE_END_LEN, Upload};
use crate::watch::{KeyName, Streams};
use crate::worker::{Output, Worker};

/// How a connection goes on.
pub(crate) enum Flow {
    /// With the next request.
    Go,
    /// When more input has arrived.
    Wait,
    /// After others had their turn.
    Yield,
    /// At the next tick, or when more input has arrived.
    Later,
    /// Not at all: it is closed once its output is sent.
    Close(CloseReason),
    /// In another state.
    Become(State),
    /// With the keys that are left of this line: its last `unread` bytes, and its line end.
    Suspend { rest: RestOfKeys, unread: usize },
}

/// The body of a storage command.
pub(crate) enum Body<'b> {
    /// With its line end.
    Bytes(&'b [u8]),
    Large {
        value: LargeValue,
        /// Whether a line end follows it.
        well_ended: bool,
    },
}

impl<'b> Body<'b> {
    /// Length of the value; `None` if something else than a line end stands behind it.
    pub(crate) fn value_len(&self) -> Option<usize> {
        match self {
            Body::Bytes(bytes) => bytes.strip_suffix(b"\r\n").map(<[u8]>::len),
            Body::Large { value, well_ended } => well_ended.then_some(value.len()),
        }
    }

    /// The value; `None` if something else than a line end stands behind it.
    pub(crate) fn into_value(self) -> Option<NewValue<'b>> {
        match self {
            Body::Bytes(bytes) => bytes.strip_suffix(b"\r\n").map(NewValue::Bytes),
            Body::Large { value, well_ended } => well_ended.then_some(NewValue::Large(value)),
        }
    }
}

impl Worker {
    /// Executes one request whose body, if it has one, is whole. `key` is its key, if that was looked at before.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        connection: &Connection,
        request: &Request<'_>,
        key: Option<Key<'_>>,
        body: Body<'_>,
        output: &mut Output,
    ) -> Flow {
        let fd = connection.fd();
        match request {
            Request::Get(get) => return self.get(get, key, fd, output),
            Request::Store(store) => {
                let key = key.unwrap_or_else(|| self.store.key(store.key.as_bytes()));
                let reply = self.classic_store(store, &key, body, fd);
                say(output, store.noreply, reply);
            }
            Request::MetaGet { key: written, flags } => self.meta_get(key, written, flags, fd, output),
            Request::MetaSet { key: written, flags, mode, len } => {
                self.meta_set(key, written, flags, *mode, *len, body, fd, output);
            }
            Request::MetaDelete { key: written, flags } => self.meta_delete(key, written, flags, fd, output),
            Request::MetaArithmetic { key: written, flags, mode } => {
                self.meta_arithmetic(key, written, flags, *mode, fd, output);
            }
            Request::MetaDebug { key: written } => self.meta_debug(written, fd, output),
            Request::MetaNoop => {
                self.counters.cmd_meta.add(1);
                output.copy(line::META_NOOP);
            }
            Request::Delete { key: name, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.delete(&key, fd);
                say(output, *noreply, reply);
            }
            Request::Arithmetic { mode, key: name, delta, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.arithmetic(&key, *mode, *delta, fd);
                match reply {
                    Ok(value) if !noreply => number_line(output.copied(), value),
                    Ok(_) => {}
                    Err(reply) => say(output, *noreply, reply),
                }
            }
            Request::Touch { key: name, exptime, noreply } => {
                let key = key.unwrap_or_else(|| self.store.key(name.as_bytes()));
                let reply = self.touch(&key, *exptime, fd);
                say(output, *noreply, reply);
            }
            Request::Refused(refused) => return refuse(refused, output),
            _ => return self.administer(connection, request, output),
        }
        Flow::Go
    }

    /// A storage command whose body is still to come: makes room for it, or refuses it.
    pub(crate) fn start_upload(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> Flow {
        let mut buffer = KEY_BUFFER;
        let (key_len, len, flags) = match request {
            Request::Store(store) => (store.key.as_bytes().len(), store.len, store.flags),
            Request::MetaSet { key, flags, len, .. } => {
                (key.bytes(&mut buffer).len(), *len, flags.client_flags())
            }
            _ => unreachable!("only storage commands have a body"),
        };
        let room = match self.shared.store.check_size(key_len, flags, len) {
            Err(error) => Err(error),
            Ok(()) if len < LARGE_VALUE_MIN => Ok(Upload::small(head, len)),
            Ok(()) => Ok(Upload::large(head, len)),
        };
        match room {
            Ok(upload) => Flow::Become(State::Body(Box::new(upload))),
            Err(error) => {
                self.refuse_store(request, &error, fd, output);
                Flow::Become(State::Swallow(len + LINE_END_LEN))
            }
        }
    }

    /// Answers a storage command that cannot be, and sees to it that the old value does not survive a `set`.
    pub(crate) fn refuse_store(
        &mut self,
        request: &Request<'_>,
        error: &Error,
        fd: i32,
        output: &mut Output,
    ) {
        match request {
            Request::Store(store) => {
                let key = self.store.key(store.key.as_bytes());
                self.count_store(&key);
                let reply =
                    self.store_failed(&key, store.verb == Verb::Set, error, verb_name(store.verb), fd);
                say(output, store.noreply, reply);
            }
            Request::MetaSet { key, .. } => {
                let mut buffer = KEY_BUFFER;
                let key = self.store.key(key.bytes(&mut buffer));
                self.count_store(&key);
                let reply = self.store_failed(&key, true, error, "set", fd);
                output.copy(reply);
            }
            _ => unreachable!("only storage commands are refused here"),
        }
    }

    /// Counts a failed storage command, deletes the old value if it must not be served again, and gives the
    /// reply.
    pub(crate) fn store_failed(
        &mut self,
        key: &Key<'_>,
        delete: bool,
        error: &Error,
        command: &str,
        fd: i32,
    ) -> &'static [u8] {
        let (counter, status, reply) = match error {
            Error::TooLarge => (&self.counters.store_too_large, "too_large", line::TOO_LARGE),
            _ => (&self.counters.store_no_memory, "no_memory", line::OUT_OF_MEMORY_STORING),
        };
        counter.add(1);
        self.note_store(key, status, command, 0, fd, 0);
        if delete {
            self.note_lookup(key, fd);
            // Without a condition there is nothing that could go wrong.
            let _ = self.store.delete(key, &Delete::default(), self.second);
        }
        reply
    }

    #[inline]
    fn classic_store(&mut self, store: &Store<'_>, key: &Key<'_>, body: Body<'_>, fd: i32) -> &'static [u8] {
        self.count_store(key);
        if let Err(error) = self.shared.store.check_size(store.key.as_bytes().len(), store.flags, store.len) {
            return self.store_failed(key, store.verb == Verb::Set, &error, verb_name(store.verb), fd);
        }
        let Some(value) = body.into_value() else {
            self.counters.cmd_set.add(1);
            return line::BAD_DATA_CHUNK;
        };
        self.note_lookup(key, fd);
        let (condition, compare_cas) = match store.verb {
            Verb::Set => (Condition::Set, None),
            Verb::Add => (Condition::Add, None),
            Verb::Replace => (Condition::Replace, None),
            Verb::Append => (Condition::Append, None),
            Verb::Prepend => (Condition::Prepend, None),
            Verb::Cas(cas) => (Condition::Set, Some(cas)),
        };
        let expiry = self.expiry(store.exptime);
        let change = Change { condition, compare_cas, flags: store.flags, expiry, ..Change::default() };
        let stored = match self.store.store(key, &change, value, self.second) {
            Ok(stored) => stored,
            Err(error) => {
                return self.store_failed(key, store.verb == Verb::Set, &error, verb_name(store.verb), fd);
            }
        };
        // As in memcached, what failed for want of memory is no set.
        self.counters.cmd_set.add(1);
        if compare_cas.is_some() {
            self.count_cas(&stored);
        }
        let (reply, status, expiry, len) = match stored {
            Stored::Stored { expiry, len, .. } => (line::STORED, "stored", expiry, len),
            Stored::NotStored => (line::NOT_STORED, "not_stored", expiry, store.len),
            Stored::Exists => (line::EXISTS, "exists", expiry, store.len),
            Stored::NotFound => (line::NOT_FOUND, "not_found", expiry, store.len),
        };
        self.note_store(key, status, verb_name(store.verb), expiry, fd, len);
        reply
    }

    /// Counts what became of a compare-and-swap.
    pub(crate) fn count_cas(&self, stored: &Stored) {
        match stored {
            Stored::Stored { .. } => self.counters.cas_hits.add(1),
            Stored::Exists => self.counters.cas_badval.add(1),
            Stored::NotFound => self.counters.cas_misses.add(1),
            Stored::NotStored => {}
        }
    }

    /// Counts a storage command by the prefix of its key, whatever becomes of it.
    #[inline]
    pub(crate) fn count_store(&self, key: &Key<'_>) {
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Set);
        }
    }

    /// Tells those who watch about an item that was stored, or was not.
    #[inline]
    pub(crate) fn note_store(
        &self,
        key: &Key<'_>,
        status: &str,
        command: &str,
        expiry: u32,
        fd: i32,
        size: usize,
    ) {
        if self.watched.intersects(Streams::MUTATIONS) {
            let name = KeyName(key.as_bytes());
            let ttl = expiry.saturating_sub(if expiry == 0 { 0 } else { self.second });
            self.log(
                Streams::MUTATIONS,
                format_args!(
                    "type=item_store key={name} status={status} cmd={command} ttl={ttl} clsid=1 cfd={fd} size={size}"
                ),
            );
        }
    }

    fn delete(&mut self, key: &Key<'_>, fd: i32) -> &'static [u8] {
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Delete);
        }
        self.note_lookup(key, fd);
        match self.store.delete(key, &Delete::default(), self.second) {
            Ok(Deleted::Deleted { len }) => {
                self.counters.delete_hits.add(1);
                self.note_delete(key, "delete", len);
                line::DELETED
            }
            Ok(_) => {
                self.counters.delete_misses.add(1);
                line::NOT_FOUND
            }
            Err(_) => line::OUT_OF_MEMORY,
        }
    }

    pub(crate) fn note_delete(&self, key: &Key<'_>, command: &str, size: usize) {
        let name = KeyName(key.as_bytes());
        self.log(
            Streams::DELETIONS,
            format_args!("type=deleted key={name} cmd={command} clsid=1 size={size}"),
        );
    }

    fn touch(&mut self, key: &Key<'_>, exptime: i32, fd: i32) -> &'static [u8] {
        self.counters.cmd_touch.add(1);
        self.note_lookup(key, fd);
        let expiry = self.expiry(exptime);
        if self.store.touch(key, expiry, self.second) {
            self.counters.touch_hits.add(1);
            line::TOUCHED
        } else {
            self.counters.touch_misses.add(1);
            line::NOT_FOUND
        }
    }

    /// The value now, or what to say instead.
    fn arithmetic(
        &mut self,
        key: &Key<'_>,
        mode: ArithmeticMode,
        delta: u64,
        fd: i32,
    ) -> Result<u64, &'static [u8]> {
        self.note_lookup(key, fd);
        let direction = direction(mode);
        let arithmetic = Arithmetic { direction, delta, ..Arithmetic::default() };
        let counted = self.store.arithmetic(key, &arithmetic, self.second);
        self.count_arithmetic(direction, &counted);
        match counted {
            Ok(Counted::Counted { value, .. }) => Ok(value),
            Ok(Counted::NotFound | Counted::Exists) => Err(line::NOT_FOUND),
            Ok(Counted::NotNumeric) => Err(line::NON_NUMERIC),
            Err(_) => Err(line::OUT_OF_MEMORY),
        }
    }

    pub(crate) fn count_arithmetic(&self, direction: Direction, counted: &Result<Counted, Error>) {
        let (hits, misses) = match direction {
            Direction::Increment => (&self.counters.incr_hits, &self.counters.incr_misses),
            Direction::Decrement => (&self.counters.decr_hits, &self.counters.decr_misses),
        };
        match counted {
            Ok(Counted::Counted { created: false, .. }) => hits.add(1),
            Ok(Counted::NotFound) => misses.add(1),
            _ => {}
        }
    }

    /// The second at which an item expires whose client said `exptime`.
    pub(crate) fn expiry(&self, exptime: i32) -> u32 {
        self.shared.expiry(exptime, self.now)
    }
}

pub(crate) fn direction(mode: ArithmeticMode) -> Direction {
    match mode {
        ArithmeticMode::Increment => Direction::Increment,
        ArithmeticMode::Decrement => Direction::Decrement,
    }
}

fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Set => "set",
        Verb::Add => "add",
        Verb::Replace => "replace",
        Verb::Append => "append",
        Verb::Prepend => "prepend",
        Verb::Cas(_) => "cas",
    }
}

fn refuse(refused: &Refused, output: &mut Output) -> Flow {
    output.copy(refused.reply);
    match refused {
        Refused { close: true, .. } => Flow::Close(CloseReason::Error),
        Refused { swallow: 0, .. } => Flow::Go,
        Refused { swallow, .. } => Flow::Become(State::Swallow(*swallow)),
    }
}

/// Sends a fixed line, unless the client asked for silence.
fn say(output: &mut Output, noreply: bool, reply: &[u8]) {
    if !noreply {
        output.copy(reply);
    }
}
