//! `get`, `gets`, `gat`, `gats`: any number of keys, in turns.

use protocol::key::{KeyError, KeyRun, Step};
use protocol::reply::{line, value_head};
use protocol::request::Get;
use store::{Key, Look, Miss, Value};

use crate::connection::{BATCH, OUTPUT_MAX, State};
use crate::execute::Flow;
use crate::prefixes::Use;
use crate::watch::{KeyName, Streams};
use crate::worker::{Held, Output, Worker};

/// A `get` that has been served in part: its line was longer than the input, or its values than the output.
pub(crate) struct RestOfKeys {
    run: KeyRun,
    /// The expiry that `gat` sets.
    touch: Option<u32>,
}

impl RestOfKeys {
    pub(crate) fn new(run: KeyRun) -> RestOfKeys {
        RestOfKeys { run, touch: None }
    }

    /// Serves the keys at the start of `input`. Returns how much was used, and how to go on.
    pub(crate) fn serve(
        &mut self,
        worker: &mut Worker,
        input: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> (usize, Flow) {
        let mut at = 0;
        while output.len() < OUTPUT_MAX {
            match self.run.step(&input[at..]) {
                Step::Key { key, consumed } => {
                    let key = worker.store.key(key.as_bytes());
                    worker.value(&key, self.run.with_cas(), self.touch, fd, output);
                    at += consumed;
                }
                Step::More { consumed } => return (at + consumed, Flow::Wait),
                Step::End { outcome, consumed } => {
                    output.copy(outcome.err().unwrap_or(line::END));
                    return (at + consumed, Flow::Become(State::Commands));
                }
            }
        }
        (at, Flow::Yield)
    }
}

impl Worker {
    /// Serves a whole line. `key` is its key, if there is just one.
    pub(crate) fn get(&mut self, get: &Get<'_>, key: Option<Key<'_>>, fd: i32, output: &mut Output) -> Flow {
        let touch = get.exptime.map(|exptime| self.expiry(exptime));
        if let Some(key) = key {
            self.value(&key, get.with_cas, touch, fd, output);
            output.copy(line::END);
            return Flow::Go;
        }
        // An overlong key anywhere is the answer to the whole line, and must be known before values are sent.
        if get.keys.any_too_long() {
            output.copy(KeyError::TooLong.reply());
            return Flow::Go;
        }
        let mut keys = get.keys.map_while(Result::ok);
        let mut served = 0;
        loop {
            let mut batch = [const { None }; BATCH];
            let mut count = 0;
            for (place, key) in batch.iter_mut().zip(keys.by_ref()) {
                *place = Some(self.store.key(key.as_bytes()));
                count += 1;
            }
            self.fetching.extend(batch.iter().flatten().map(|key| self.store.prefetch(key)));
            self.fetch_items();
            for key in batch.iter().flatten() {
                if output.len() >= OUTPUT_MAX {
                    let rest = RestOfKeys { run: KeyRun::resume(get.with_cas), touch };
                    // Looked for here, once in many keys, instead of counted along with every key.
                    let mut unserved = get.keys;
                    unserved.by_ref().take(served).for_each(drop);
                    return Flow::Suspend { rest, unread: unserved.unread() };
                }
                self.value(key, get.with_cas, touch, fd, output);
                served += 1;
            }
            if count < BATCH {
                output.copy(line::END);
                return Flow::Go;
            }
        }
    }

    /// Sends one value, if it is there.
    #[inline]
    fn value(&mut self, key: &Key<'_>, with_cas: bool, touch: Option<u32>, fd: i32, output: &mut Output) {
        let item = match touch {
            None => self.store.get(key, Look::Use, self.second),
            Some(expiry) => self.store.get_and_touch(key, expiry, self.second),
        };
        let counters = &self.counters;
        let found = item.map(|item| {
            let len = item.len();
            value_head(output.copied(), key.as_bytes(), item.flags(), len, with_cas.then(|| item.cas()));
            put(item.value(), output);
            len
        });
        match (touch, found) {
            (None, Some(_)) => counters.get_hits.add(1),
            (None, None) => counters.get_misses.add(1),
            (Some(_), Some(_)) => counters.touch_hits.add(1),
            (Some(_), None) => counters.touch_misses.add(1),
        }
        match touch {
            None => counters.cmd_get.add(1),
            Some(_) => counters.cmd_touch.add(1),
        }
        self.note_get(key, found, fd);
    }

    /// Tells those who count or watch about a get that found a value of this length, or none.
    #[inline]
    pub(crate) fn note_get(&mut self, key: &Key<'_>, found: Option<usize>, fd: i32) {
        if self.detail {
            let what = if found.is_some() { Use::Hit } else { Use::Miss };
            self.shared.prefixes.record(key.as_bytes(), what);
        }
        if self.watched.intersects(Streams::FETCHERS) {
            self.log_fetch(key, found, fd);
        }
    }

    /// Tells those who watch lookups about one that another command is about to make.
    #[inline]
    pub(crate) fn note_lookup(&mut self, key: &Key<'_>, fd: i32) {
        if self.watched.intersects(Streams::FETCHERS) {
            self.log_lookup(key, fd);
        }
    }

    #[cold]
    fn log_lookup(&mut self, key: &Key<'_>, fd: i32) {
        let found = self.store.get(key, Look::Peek, self.second).map(|item| item.len());
        self.log_fetch(key, found, fd);
    }

    #[cold]
    fn log_fetch(&self, key: &Key<'_>, found: Option<usize>, fd: i32) {
        let (status, class) = match (found, self.store.last_miss()) {
            (Some(_), _) => ("found", 1),
            (None, Miss::Absent) => ("not_found", 0),
            (None, Miss::Expired) => ("expired", 0),
            (None, Miss::Flushed) => ("flushed", 0),
        };
        let (name, size) = (KeyName(key.as_bytes()), found.unwrap_or(0));
        self.log(
            Streams::FETCHERS,
            format_args!("type=item_get key={name} status={status} clsid={class} cfd={fd} size={size}"),
        );
    }
}

/// Sends a value and its line end: copies a small one, holds a large one where it lies.
#[inline]
pub(crate) fn put(value: Value<'_>, output: &mut Output) {
    match value {
        Value::Inline(bytes) => output.copy(bytes),
        Value::Large(large) => output.hold(Held::new(large.clone())),
    }
    output.copy(b"\r\n");
}
