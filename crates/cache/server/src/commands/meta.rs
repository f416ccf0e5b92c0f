//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.

use protocol::meta::{MetaFlags, MetaKey};
use protocol::number::write_u64;
use protocol::reply::dump::{DumpFacts, debug_line};
use protocol::reply::{Code, ItemFacts, MetaCommand, ReplyKey, line, meta_reply};
use protocol::request::{ArithmeticMode, SetMode};
use store::{Arithmetic, Change, Condition, Counted, Delete, Deleted, Key, Look, MetaGet, Stored, Vivify};

use crate::commands::request::{Body, KEY_BUFFER, direction};
use crate::connection::output::{Output, put};
use crate::figures::prefixes::Use;
use crate::worker::Worker;

impl Worker {
    pub(crate) fn meta_get(
        &mut self,
        key: Option<Key<'_>>,
        written: &MetaKey<'_>,
        flags: &MetaFlags<'_>,
        fd: i32,
        output: &mut Output,
    ) {
        let mut buffer = KEY_BUFFER;
        let key = key.unwrap_or_else(|| self.store.key(written.bytes(&mut buffer)));
        let request = MetaGet {
            look: if flags.no_bump() { Look::Peek } else { Look::Use },
            touch: flags.exptime().map(|exptime| self.expiry(exptime)),
            vivify: self.vivified_expiry(flags),
            recache_below: flags.recache().map(|exptime| self.expiry(exptime)),
            recache_after_touch: precedes(flags, b'T', b'R'),
            new_cas: flags.new_cas(),
            key_is_binary: written.is_binary(),
            never_wins: !self.may_write,
        };
        let made = flags.vivify().map(|exptime| self.expiry(exptime));
        let second = self.second;
        let found = self.store.meta_get(&key, &request, second).map(|found| {
            let item = found.item;
            let expiry_before = if found.created { 0 } else { found.expiry_before };
            let ttl = ttl(
                expiry_shown(flags, expiry_before, request.touch, made.filter(|_| found.created)),
                second,
            );
            let facts = ItemFacts {
                flags: item.flags(),
                len: item.len(),
                cas: item.cas(),
                ttl_before: ttl,
                ttl,
                idle: second.saturating_sub(item.last_access()),
                hit_before: item.hit_before(),
                won: found.won,
                stale: item.is_stale(),
                token_sent: found.token_sent,
            };
            let wants_value = flags.value() && flags.compare_cas() != Some(item.cas());
            let code = if wants_value { Code::Value(item.len()) } else { Code::Done };
            let name = ReplyKey { bytes: key.as_bytes(), binary: item.key_is_binary() };
            meta_reply(output.copied(), MetaCommand::Get, code, flags, name, &facts);
            if wants_value {
                put(item.value(), output);
            }
            (!found.created).then_some(item.len())
        });
        if found.is_none() {
            let name = ReplyKey { bytes: key.as_bytes(), binary: written.is_binary() };
            let facts = ItemFacts::default();
            meta_reply(output.copied(), MetaCommand::Get, Code::Miss, flags, name, &facts);
        }
        self.counters.cmd_meta.add(1);
        // An item that was created by this request counts as found, as in memcached.
        self.count_get(request.touch.is_some(), found.is_some());
        self.note_get(&key, found.flatten(), fd);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each used once")]
    pub(crate) fn meta_set(
        &mut self,
        key: Option<Key<'_>>,
        written: &MetaKey<'_>,
        flags: &MetaFlags<'_>,
        mode: SetMode,
        len: usize,
        body: Body<'_>,
        fd: i32,
        output: &mut Output,
    ) {
        self.counters.cmd_meta.add(1);
        let mut buffer = KEY_BUFFER;
        let key = key.unwrap_or_else(|| self.store.key(written.bytes(&mut buffer)));
        self.count_store(&key);
        if let Err(error) = self.shared.store.check_size(key.as_bytes().len(), flags.client_flags(), len) {
            output.copy(self.store_failed(&key, true, &error, "set", fd));
            return;
        }
        let Some(value) = body.into_value() else {
            self.counters.cmd_set.add(1);
            return output.copy(line::BAD_DATA_CHUNK);
        };
        self.note_lookup(&key, value.len(), fd);
        let change = self.meta_change(flags, mode, written.is_binary());
        let stored = match self.store.store(&key, &change, value, self.second) {
            Ok(stored) => stored,
            Err(error) => {
                output.copy(self.store_failed(&key, true, &error, "set", fd));
                return;
            }
        };
        self.counters.cmd_set.add(1);
        let mut command = command_name(change.condition);
        if change.compare_cas.is_some() && matches!(change.condition, Condition::Set | Condition::Replace) {
            self.count_cas(&stored);
            command = "cas";
        }
        let (code, status, cas, len, expiry) = match stored {
            Stored::Stored { cas, len, expiry } => (Code::Done, "stored", cas, len, expiry),
            Stored::NotStored => (Code::NotStored, "not_stored", 0, len, change.expiry),
            Stored::Exists => (Code::Exists, "exists", 0, len, change.expiry),
            Stored::NotFound => (Code::NotFound, "not_found", 0, len, change.expiry),
        };
        let name = ReplyKey { bytes: key.as_bytes(), binary: written.is_binary() };
        let facts = ItemFacts { cas, len, ..ItemFacts::default() };
        meta_reply(output.copied(), MetaCommand::Set, code, flags, name, &facts);
        self.note_store(&key, status, command, expiry, fd, len);
    }

    /// The storage operation for a meta set.
    #[inline]
    fn meta_change(&self, flags: &MetaFlags<'_>, mode: SetMode, key_is_binary: bool) -> Change {
        let condition = match mode {
            SetMode::Set => Condition::Set,
            SetMode::Add => Condition::Add,
            SetMode::Replace => Condition::Replace,
            SetMode::Append => Condition::Append,
            SetMode::Prepend => Condition::Prepend,
        };
        Change {
            condition,
            compare_cas: flags.compare_cas(),
            // As in memcached: for a set, 0 is not a CAS unique, and the server issues one.
            new_cas: flags.new_cas().filter(|cas| *cas != 0),
            flags: flags.client_flags(),
            expiry: flags.exptime().map_or(0, |exptime| self.expiry(exptime)),
            invalidate: flags.invalidate(),
            vivify: flags.vivify().map(|exptime| self.expiry(exptime)),
            key_is_binary,
        }
    }

    pub(crate) fn meta_delete(
        &mut self,
        key: Option<Key<'_>>,
        written: &MetaKey<'_>,
        flags: &MetaFlags<'_>,
        fd: i32,
        output: &mut Output,
    ) {
        self.counters.cmd_meta.add(1);
        let mut buffer = KEY_BUFFER;
        let key = key.unwrap_or_else(|| self.store.key(written.bytes(&mut buffer)));
        self.note_lookup(&key, 0, fd);
        let delete = Delete {
            compare_cas: flags.compare_cas(),
            new_cas: flags.new_cas(),
            mark_stale: flags.invalidate(),
            expiry: flags.exptime().map(|exptime| self.expiry(exptime)),
            drop_value: flags.drop_value(),
            flags: flags.client_flags(),
        };
        if self.detail {
            self.shared.prefixes.record(key.as_bytes(), Use::Delete);
        }
        let deleted = self.store.delete(&key, &delete, self.second);
        if delete.drop_value && matches!(deleted, Ok(Deleted::Kept)) {
            self.note_store(&key, "stored", "set", delete.expiry.unwrap_or(0), fd, 0);
        }
        let code = match deleted {
            Ok(Deleted::Kept) if delete.mark_stale => Code::Done,
            Ok(deleted @ (Deleted::Deleted { .. } | Deleted::Kept)) => {
                self.counters.delete_hits.add(1);
                // A kept item has lost its value.
                let len = if let Deleted::Deleted { len } = deleted { len } else { 0 };
                self.note_delete(&key, "md", len);
                Code::Done
            }
            Ok(Deleted::NotFound) => {
                self.counters.delete_misses.add(1);
                Code::NotFound
            }
            Ok(Deleted::Exists) => {
                self.counters.delete_misses.add(1);
                Code::Exists
            }
            Err(_) => return output.copy(line::OUT_OF_MEMORY),
        };
        let name = ReplyKey { bytes: key.as_bytes(), binary: written.is_binary() };
        meta_reply(output.copied(), MetaCommand::Delete, code, flags, name, &ItemFacts::default());
    }

    pub(crate) fn meta_arithmetic(
        &mut self,
        key: Option<Key<'_>>,
        written: &MetaKey<'_>,
        flags: &MetaFlags<'_>,
        mode: ArithmeticMode,
        fd: i32,
        output: &mut Output,
    ) {
        self.counters.cmd_meta.add(1);
        let mut buffer = KEY_BUFFER;
        let key = key.unwrap_or_else(|| self.store.key(written.bytes(&mut buffer)));
        self.note_lookup(&key, 0, fd);
        let arithmetic = Arithmetic {
            direction: direction(mode),
            delta: flags.delta(),
            compare_cas: flags.compare_cas(),
            new_cas: flags.new_cas(),
            vivify: self.vivified_expiry(flags).map(|expiry| Vivify { initial: flags.initial(), expiry }),
            touch: flags.exptime().map(|exptime| self.expiry(exptime)),
            key_is_binary: written.is_binary(),
        };
        let counted = self.store.arithmetic(&key, &arithmetic, self.second);
        self.count_arithmetic(arithmetic.direction, &counted);
        let name = ReplyKey { bytes: key.as_bytes(), binary: written.is_binary() };
        let (code, facts, value) = match counted {
            Ok(Counted::Counted { value, cas, expiry, expiry_before, created }) => {
                let mut digits = Vec::with_capacity(20);
                write_u64(&mut digits, value);
                if created {
                    self.note_store(&key, "stored", "add", expiry, fd, digits.len());
                }
                let code = if flags.value() { Code::Value(digits.len()) } else { Code::Done };
                let made = flags.vivify().filter(|_| created).map(|exptime| self.expiry(exptime));
                let shown = expiry_shown(flags, expiry_before, arithmetic.touch, made);
                let ttl = ttl(shown, self.second);
                let facts = ItemFacts { cas, ttl, ttl_before: ttl, ..ItemFacts::default() };
                (code, facts, digits)
            }
            Ok(Counted::NotFound) => (Code::NotFound, ItemFacts::default(), Vec::new()),
            Ok(Counted::Exists) => (Code::Exists, ItemFacts::default(), Vec::new()),
            Ok(Counted::NotNumeric) => return output.copy(line::NON_NUMERIC),
            Err(_) if arithmetic.vivify.is_some() => return output.copy(line::OUT_OF_MEMORY_VIVIFYING),
            Err(_) => return output.copy(line::OUT_OF_MEMORY),
        };
        let quiet = flags.quiet() && matches!(code, Code::Value(_) | Code::Done);
        meta_reply(output.copied(), MetaCommand::Arithmetic, code, flags, name, &facts);
        if matches!(code, Code::Value(_)) && !quiet {
            output.copy(&value);
            output.copy(b"\r\n");
        }
    }

    /// The expiry of an item that this request creates: `T` overrules an `N` before it.
    fn vivified_expiry(&self, flags: &MetaFlags<'_>) -> Option<u32> {
        let exptime = flags.vivify()?;
        let overruled = if precedes(flags, b'N', b'T') { flags.exptime() } else { None };
        Some(self.expiry(overruled.unwrap_or(exptime)))
    }

    pub(crate) fn meta_debug(&mut self, written: &MetaKey<'_>, fd: i32, output: &mut Output) {
        self.counters.cmd_meta.add(1);
        let mut buffer = KEY_BUFFER;
        let key = self.store.key(written.bytes(&mut buffer));
        self.note_lookup(&key, 0, fd);
        let second = self.second;
        let Some(item) = self.store.get(&key, Look::Peek, second) else {
            return output.copy(line::META_MISS);
        };
        let facts = DumpFacts {
            expiry: ttl(item.expiry(), second).map(i64::from),
            last_access: u64::from(second.saturating_sub(item.last_access())),
            cas: item.cas(),
            fetched: item.hit_before(),
            class: 1,
            size: self.shared.store.item_size(key.as_bytes().len(), item.flags(), item.len()),
            flags: item.flags(),
            on_flash: None,
        };
        let name = ReplyKey { bytes: key.as_bytes(), binary: item.key_is_binary() };
        debug_line(output.copied(), name, &facts);
    }
}

/// Seconds until `expiry`; `None` for never.
fn ttl(expiry: u32, second: u32) -> Option<u32> {
    (expiry != 0).then(|| expiry.saturating_sub(second))
}

/// The expiry for the return flag `t`: as in memcached, `T` and `N` affect only flags after them.
fn expiry_shown(flags: &MetaFlags<'_>, before: u32, touched: Option<u32>, made: Option<u32>) -> u32 {
    if !flags.has(b't') {
        return 0;
    }
    let mut shown = before;
    for word in flags.words() {
        match word[0] {
            b't' => break,
            b'T' => shown = touched.unwrap_or(shown),
            b'N' => shown = made.unwrap_or(shown),
            _ => {}
        }
    }
    shown
}

/// Whether flag `first` stands before flag `second`: changes are visible to later flags only.
fn precedes(flags: &MetaFlags<'_>, first: u8, second: u8) -> bool {
    flags.has(first)
        && flags.has(second)
        && flags
            .words()
            .find(|word| word[0] == first || word[0] == second)
            .is_some_and(|word| word[0] == first)
}

fn command_name(condition: Condition) -> &'static str {
    match condition {
        Condition::Set => "set",
        Condition::Add => "add",
        Condition::Replace => "replace",
        Condition::Append => "append",
        Condition::Prepend => "prepend",
    }
}
