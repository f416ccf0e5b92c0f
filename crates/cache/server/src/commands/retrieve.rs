//! `get`, `gets`, `gat`, `gats`: any number of keys, over several turns if necessary.

use protocol::key::{KeyError, KeyRun, Step};
use protocol::reply::{line, value_head};
use protocol::request::Get;
use store::{FlashUse, Key, Look};

use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output, put};
use crate::worker::{BATCH, Worker};

/// A partly served `get`: its line was longer than the input, or its values longer than the output limit.
pub(crate) struct RestOfKeys {
    run: KeyRun,
    /// The expiry that `gat` sets.
    touch: Option<u32>,
}

impl RestOfKeys {
    pub(crate) fn new(run: KeyRun) -> RestOfKeys {
        RestOfKeys { run, touch: None }
    }

    /// Serves the keys at the start of `input`. Returns how much was consumed, and how to continue.
    pub(crate) fn serve(
        &mut self,
        worker: &mut Worker,
        input: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> (usize, Flow) {
        let mut at = 0;
        while output.len() < OUTPUT_MAX {
            let before = worker.has_flash().then(|| self.run.clone());
            match self.run.step(&input[at..]) {
                Step::Key { key, consumed } => {
                    let key = worker.store.key(key.as_bytes());
                    if let Some(before) = before
                        && worker.must_wait(worker.serving, &key, usage(self.touch))
                    {
                        worker.read_keys_ahead(self.run.clone(), &input[at + consumed..]);
                        self.run = before;
                        return (at, Flow::Sleep);
                    }
                    worker.value(&key, self.run.with_cas(), self.touch, fd, output);
                    at += consumed;
                }
                Step::More { consumed } => return (at + consumed, Flow::Wait),
                Step::End { outcome, consumed } => {
                    output.copy(outcome.err().unwrap_or(line::END));
                    return (at + consumed, Flow::Go);
                }
            }
        }
        (at, Flow::Yield)
    }
}

/// What a line does with its items: a touch changes them.
fn usage(touch: Option<u32>) -> FlashUse {
    if touch.is_some() { FlashUse::Item } else { FlashUse::Value }
}

impl Worker {
    /// Serves a complete line. `key` is its key, if there is exactly one. Returns the unserved keys, if the
    /// output is full: the last bytes before the line end, and how many these are.
    pub(crate) fn get(
        &mut self,
        get: &Get<'_>,
        key: Option<Key<'_>>,
        fd: i32,
        output: &mut Output,
    ) -> Option<(Box<RestOfKeys>, usize)> {
        let touch = get.exptime.map(|exptime| self.expiry(exptime));
        // Of a single key, the connection has already waited for the item.
        if let Some(key) = key {
            self.value(&key, get.with_cas, touch, fd, output);
            output.copy(line::END);
            return None;
        }
        // An overlong key anywhere fails the whole line, and must be found before values are sent.
        if get.keys.any_too_long() {
            output.copy(KeyError::TooLong.reply());
            return None;
        }
        let mut keys = get.keys.map_while(Result::ok);
        let mut served = 0;
        let has_flash = self.has_flash();
        loop {
            let mut batch = [const { None }; BATCH];
            let mut count = 0;
            for (place, key) in batch.iter_mut().zip(keys.by_ref()) {
                *place = Some(self.store.key(key.as_bytes()));
                count += 1;
            }
            self.fetching.extend(batch.iter().flatten().map(|key| self.store.prefetch(key)));
            self.fetch_items();
            if has_flash {
                batch.iter().flatten().for_each(|key| self.read_ahead(self.serving, key));
            }
            for key in batch.iter().flatten() {
                let waits = has_flash && self.must_wait(self.serving, key, usage(touch));
                if waits || output.len() >= OUTPUT_MAX {
                    let rest = RestOfKeys { run: KeyRun::resume(get.with_cas), touch };
                    // Computed here, once in many keys, instead of counted with every key.
                    let mut unserved = get.keys;
                    unserved.by_ref().take(served).for_each(drop);
                    return Some((Box::new(rest), unserved.unread()));
                }
                self.value(key, get.with_cas, touch, fd, output);
                served += 1;
            }
            if count < BATCH {
                output.copy(line::END);
                return None;
            }
        }
    }

    /// Begins the reads of the next keys of a line.
    fn read_keys_ahead(&mut self, mut run: KeyRun, input: &[u8]) {
        let mut at = 0;
        for _ in 0..BATCH {
            let Step::Key { key, consumed } = run.step(&input[at..]) else { return };
            let key = self.store.key(key.as_bytes());
            self.read_ahead(self.serving, &key);
            at += consumed;
        }
    }

    /// Sends the value of one key, if there is one.
    #[inline]
    fn value(&mut self, key: &Key<'_>, with_cas: bool, touch: Option<u32>, fd: i32, output: &mut Output) {
        if self.discovers && !with_cas && touch.is_none() && self.tell_members(key.as_bytes(), output) {
            return;
        }
        let item = match touch {
            None => self.store.get(key, Look::Use, self.second),
            Some(expiry) => self.store.get_and_touch(key, expiry, self.second),
        };
        let found = item.map(|item| {
            let len = item.len();
            value_head(output.copied(), key.as_bytes(), item.flags(), len, with_cas.then(|| item.cas()));
            put(item.value(), output);
            len
        });
        self.count_get(touch.is_some(), found.is_some());
        self.note_get(key, found, fd);
    }
}
