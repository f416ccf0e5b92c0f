//! Random operations on a store and on a model: a map that follows the documentation.
//!
//! Without eviction both must agree exactly. With eviction the store may have lost an item, but what it
//! returns must match the map.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use stdx::prng::Prng;
use store::{
    Arithmetic, Change, Condition, Config, Counted, Delete, Deleted, Direction, DumpCursor, Error, Handle,
    Look, MetaGet, NewValue, Store, Stored, Vivify,
};

use crate::model::flash_tier::FlashTier;

mod flash_tier;

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    value: Vec<u8>,
    flags: u32,
    expiry: u32,
    cas: u64,
    fetched: bool,
    last_access: u32,
    stale: bool,
    token_sent: bool,
    binary: bool,
}

struct Pair {
    handles: Vec<Handle>,
    map: BTreeMap<Vec<u8>, Kept>,
    prng: Prng,
    now: u32,
    flush_at: u32,
    exact: bool,
    context: String,
    /// A store in a file moves now and then, as to another process.
    file: Option<Arc<File>>,
    config: Config,
    /// What lies below memory.
    tier: Option<FlashTier>,
    /// Operations that wait for reads of flash, while another one is checked.
    waiting: usize,
}

const ITEM_SIZE_MAX: u64 = 300_000;

/// Plain sets are twice as likely as other conditions.
const CONDITIONS: [Condition; 6] = [
    Condition::Set,
    Condition::Set,
    Condition::Add,
    Condition::Replace,
    Condition::Append,
    Condition::Prepend,
];

impl Pair {
    fn new(seed: u64, config: Config, file: Option<Arc<File>>) -> Pair {
        let exact = config.memory_limit_bytes > 32 << 20;
        let config = Config { item_size_max_bytes: ITEM_SIZE_MAX, ..config };
        let store = match &file {
            Some(file) => Store::in_file(config.clone(), file).unwrap(),
            None => Store::new(config.clone()).unwrap(),
        };
        let handles = (0..3).map(|_| store.handle()).collect();
        let (map, prng) = (BTreeMap::new(), Prng::new(seed));
        let tier = config.flash.as_ref().map(|flash| FlashTier::new(flash, seed));
        let context = format!("seed {seed}");
        Pair { handles, map, prng, now: 2, flush_at: 0, exact, context, file, config, tier, waiting: 0 }
    }

    /// Another store takes the memory over.
    fn move_store(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.waiting == 0) else { return };
        let old = self.handles[0].shared().clone();
        self.handles.clear();
        if let Some(tier) = &self.tier {
            old.finish_flash(&tier.disk);
        }
        let before = old.statistics();
        let manifest = old.freeze().expect("a store in a file");
        drop(old);
        let store = Store::thaw(self.config.clone(), file, &manifest).expect("the same memory");
        let after = store.statistics();
        assert!(after.charged_bytes <= before.charged_bytes, "{}: {before:?} {after:?}", self.context);
        let present = |of: store::Statistics| {
            let counts = of.counts;
            (counts.curr_items, counts.bytes, counts.small_items, counts.main_items, counts.large_items)
        };
        assert_eq!(present(after), present(before), "{}", self.context);
        self.handles = (0..3).map(|_| store.handle()).collect();
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn handle(&mut self) -> &mut Handle {
        let number = self.below(3) as usize;
        &mut self.handles[number]
    }

    fn some_key(&mut self) -> Vec<u8> {
        let number = match (self.tier.is_some(), self.below(2)) {
            (true, 0) => self.below(2000),
            _ => self.below(400),
        };
        let len = 1 + (number * 7 % 60) as usize;
        format!("{number:0len$}").into_bytes()
    }

    fn some_value(&mut self) -> Vec<u8> {
        let len = match self.below(40) {
            0..10 => self.below(8),
            10..36 if self.tier.is_some() => self.below(30_000),
            10..30 => self.below(200),
            30..38 => self.below(5_000),
            38 => self.below(60_000),
            _ => self.below(280_000),
        };
        match self.below(4) {
            0 => self.prng.next_u64().to_string().into_bytes(),
            1 => self.below(120).to_string().into_bytes(),
            _ => {
                let first = self.prng.next_u64() as u8;
                (0..len).map(|i| first.wrapping_add(i as u8)).collect()
            }
        }
    }

    fn some_expiry(&mut self) -> u32 {
        match self.below(6) {
            0..3 => 0,
            3 => self.now.saturating_sub(1),
            4 => self.now + 1 + self.below(5) as u32,
            _ => self.now + 1 + self.below(100_000) as u32,
        }
    }

    fn some_cas(&mut self, key: &[u8]) -> u64 {
        let kept = self.map.get(key).map_or(0, |kept| kept.cas);
        match self.below(6) {
            0 => kept.saturating_sub(1),
            1 => self.below(5),
            2 => 0,
            _ => kept,
        }
    }

    fn maybe<T>(&mut self, one_in: u64, make: impl FnOnce(&mut Pair) -> T) -> Option<T> {
        if self.one_in(one_in) { Some(make(self)) } else { None }
    }

    fn new_cas(&mut self) -> Option<u64> {
        self.maybe(10, |pair| if pair.one_in(2) { pair.prng.next_u64() } else { 1000 + pair.below(1000) })
    }

    /// The map's item of this key; with eviction, only if the store still has it.
    fn kept(&mut self, key: &[u8]) -> Option<Kept> {
        self.bring_into_memory(key);
        let now = self.now;
        if self.map.get(key).is_some_and(|kept| kept.expiry != 0 && kept.expiry <= now) {
            self.map.remove(key);
        }
        if !self.exact && self.map.contains_key(key) {
            let handle = self.handle();
            if handle.get(&handle.key(key), Look::Peek, now).is_none() {
                self.map.remove(key);
            }
        }
        self.map.get(key).cloned()
    }

    #[track_caller]
    fn forget_if_evicting(&mut self, key: &[u8], error: &Error) {
        assert!(!self.exact || matches!(error, Error::TooLarge), "{}: {error}", self.context);
        self.map.remove(key);
        let now = self.now;
        let handle = self.handle();
        handle.delete(&handle.key(key), &Delete::default(), now).unwrap();
    }

    fn check_get(&mut self) {
        let key = self.some_key();
        let kept = self.kept(&key);
        let look = if self.one_in(3) { Look::Peek } else { Look::Use };
        let touch = self.maybe(5, Pair::some_expiry);
        let (now, context, has_tier) = (self.now, self.context.clone(), self.tier.is_some());
        let handle = self.handle();
        let hashed = handle.key(&key);
        let item = match touch {
            Some(expiry) => handle.get_and_touch(&hashed, expiry, now),
            None => handle.get(&hashed, look, now),
        };
        assert_eq!(item.is_some(), kept.is_some(), "{context} get {key:?}");
        let (Some(item), Some(mut kept)) = (item, kept) else { return };
        kept.expiry = touch.unwrap_or(kept.expiry);
        let found = Kept {
            value: item.value().as_bytes().to_vec(),
            flags: item.flags(),
            expiry: item.expiry(),
            cas: item.cas(),
            fetched: item.hit_before(),
            last_access: item.last_access(),
            stale: item.is_stale(),
            token_sent: item.token_sent(),
            binary: item.key_is_binary(),
        };
        if has_tier {
            // Marks of uses stay in memory.
            (kept.fetched, kept.last_access) = (found.fetched, found.last_access);
        }
        assert_eq!(found, kept, "{context}");
        assert_eq!((item.len(), item.key()), (kept.value.len(), &key[..]));
        drop(item);
        if look == Look::Use || touch.is_some() {
            kept.fetched = true;
            kept.last_access = now;
        }
        self.map.insert(key, kept);
    }

    fn check_meta_get(&mut self) {
        let key = self.some_key();
        let kept = self.kept(&key);
        let now = self.now;
        let request = MetaGet {
            look: if self.one_in(3) { Look::Peek } else { Look::Use },
            touch: self.maybe(4, Pair::some_expiry),
            vivify: self.maybe(3, |pair| pair.now + 1 + pair.below(50) as u32),
            recache_below: self.maybe(2, |pair| pair.now + pair.below(100) as u32),
            recache_after_touch: self.one_in(2),
            new_cas: self.new_cas(),
            key_is_binary: self.one_in(5),
            never_wins: self.one_in(5),
        };
        let context = format!("{} {request:?}", self.context);
        let (exact, has_tier) = (self.exact, self.tier.is_some());
        let handle = self.handle();
        let Some(found) = handle.meta_get(&handle.key(&key), &request, now) else {
            assert!(kept.is_none() && (request.vivify.is_none() || !exact), "{context}");
            return;
        };
        let created = kept.is_none();
        let mut kept = kept.unwrap_or_else(|| Kept {
            value: Vec::new(),
            flags: 0,
            expiry: request.vivify.expect("found, so created"),
            cas: request.new_cas.unwrap_or(found.item.cas()),
            fetched: false,
            last_access: now,
            stale: false,
            token_sent: false,
            binary: request.key_is_binary,
        });
        assert_eq!(found.created, created, "{context}");
        assert_eq!(found.token_sent, kept.token_sent, "{context}");
        assert_eq!(found.expiry_before, kept.expiry, "{context}");
        let mut seen = kept.expiry;
        if let (Some(expiry), false) = (request.touch, created) {
            kept.expiry = expiry;
            if request.recache_after_touch {
                seen = expiry;
            }
        }
        let recache = request.recache_below.is_some_and(|below| seen != 0 && seen < below);
        let won = created || !kept.token_sent && !request.never_wins && (recache || kept.stale);
        assert_eq!(found.won, won, "{context}");
        kept.token_sent |= won;
        assert_eq!(found.item.value().as_bytes(), kept.value, "{context}");
        assert!(has_tier || found.item.hit_before() == kept.fetched, "{context}");
        assert_eq!(found.item.expiry(), kept.expiry, "{context}");
        assert_eq!(found.item.cas(), kept.cas, "{context}");
        drop(found);
        if request.look == Look::Use {
            kept.fetched = true;
            kept.last_access = now;
        }
        self.map.insert(key, kept);
    }

    fn check_store(&mut self) {
        let key = self.some_key();
        let kept = self.kept(&key);
        let now = self.now;
        let change = Change {
            condition: CONDITIONS[self.below(6) as usize],
            compare_cas: self.maybe(4, |pair| pair.some_cas(&key)),
            new_cas: self.new_cas(),
            flags: self.maybe(3, |pair| pair.prng.next_u64() as u32).unwrap_or(0),
            expiry: self.some_expiry(),
            invalidate: self.one_in(3),
            vivify: self.maybe(3, Pair::some_expiry),
            key_is_binary: self.one_in(10),
        };
        let value = self.some_value();
        let context = format!(
            "{} {change:?} {} bytes on {:?}",
            self.context,
            value.len(),
            kept.as_ref().map(|k| k.cas)
        );
        let received = self.one_in(2) && value.len() > 20_000;
        let handle = self.handle();
        let hashed = handle.key(&key);
        let result = if received {
            handle.large_value(value.len(), now).and_then(|mut large| {
                large.as_mut().copy_from_slice(&value);
                handle.store(&hashed, &change, NewValue::Large(large), now)
            })
        } else {
            handle.store(&hashed, &change, NewValue::Bytes(&value), now)
        };
        let stored = match result {
            Ok(stored) => stored,
            Err(error) => return self.forget_if_evicting(&key, &error),
        };
        let is_missed = matches!(stored, Stored::NotStored | Stored::NotFound) && kept.is_some();
        if is_missed && self.tier.is_some() {
            // Room for the new value may have taken the old one out of memory first.
            self.map.remove(&key);
            let handle = self.handle();
            handle.delete(&handle.key(&key), &Delete::default(), now).unwrap();
            return;
        }
        // The same, and the value is stored as a new one.
        let extends = matches!(change.condition, Condition::Append | Condition::Prepend);
        let is_new = |kept: &Kept| match stored {
            Stored::Stored { len, expiry, .. } => {
                len == value.len() && (!kept.value.is_empty() || kept.expiry != expiry)
            }
            _ => false,
        };
        let kept = kept.filter(|kept| self.tier.is_none() || !extends || !is_new(kept));
        // Room for the new value may have taken the old one out of memory first, and a device that fails loses it then.
        let adds = change.condition == Condition::Add && matches!(stored, Stored::Stored { .. });
        let kept = kept.filter(|_| self.tier.is_none() || !adds);
        let expected = expected_store(kept, &change, &value, now, key.len());
        match (expected, stored) {
            (Ok(mut new), Stored::Stored { cas, len, expiry }) => {
                if let Some(given) = change.new_cas {
                    assert_eq!(cas, given, "{context}");
                }
                assert_eq!((len, expiry), (new.value.len(), new.expiry), "{context}");
                new.cas = cas;
                self.map.insert(key, new);
            }
            (Err((expected, kept)), stored) => {
                assert_eq!(stored, expected, "{context}");
                if let Some(kept) = kept {
                    self.map.insert(key, kept);
                }
            }
            (expected, stored) => panic!("{context}: {stored:?}, expected {expected:?}"),
        }
    }

    fn check_delete(&mut self) {
        let key = self.some_key();
        let kept = self.kept(&key);
        let now = self.now;
        let request = Delete {
            compare_cas: self.maybe(4, |pair| pair.some_cas(&key)),
            new_cas: self.new_cas(),
            mark_stale: self.one_in(3),
            expiry: self.maybe(3, Pair::some_expiry),
            drop_value: self.one_in(4),
            flags: 0,
        };
        let context = format!("{} {request:?}", self.context);
        let handle = self.handle();
        let result = handle.delete(&handle.key(&key), &request, now);
        let Ok(deleted) = result else { return self.forget_if_evicting(&key, &result.unwrap_err()) };
        let Some(mut kept) = kept else { return assert_eq!(deleted, Deleted::NotFound, "{context}") };
        if request.compare_cas.is_some_and(|cas| cas != kept.cas) {
            return assert_eq!(deleted, Deleted::Exists, "{context}");
        }
        if !request.mark_stale && !request.drop_value {
            assert_eq!(deleted, Deleted::Deleted { len: kept.value.len() }, "{context}");
            self.map.remove(&key);
            return;
        }
        assert_eq!(deleted, Deleted::Kept, "{context}");
        if request.drop_value {
            kept = Kept {
                value: Vec::new(),
                flags: 0,
                expiry: request.expiry.unwrap_or(0),
                cas: request.new_cas.unwrap_or(kept.cas),
                fetched: false,
                last_access: now,
                stale: false,
                token_sent: false,
                binary: kept.binary,
            };
        }
        if request.mark_stale {
            kept.stale = true;
            kept.token_sent = false;
            kept.expiry = request.expiry.unwrap_or(kept.expiry);
            let handle = self.handle();
            let old = kept.cas;
            let item = handle.get(&handle.key(&key), Look::Peek, now);
            let Some((cas, last_access)) = item.map(|item| (item.cas(), item.last_access())) else {
                self.map.remove(&key);
                return;
            };
            kept.cas = request.new_cas.unwrap_or(cas);
            kept.last_access = last_access;
            assert!(request.new_cas.is_some() || kept.cas != old, "{context}");
        }
        self.map.insert(key, kept);
    }

    /// Checks the result of an increment or decrement of an absent key.
    fn check_created(&mut self, key: Vec<u8>, vivify: Option<Vivify>, counted: Counted, context: &str) {
        let Some(vivify) = vivify else {
            return assert_eq!(counted, Counted::NotFound, "{context}");
        };
        let Counted::Counted { value, cas, expiry, expiry_before: 0, created: true } = counted else {
            panic!("{context}")
        };
        assert_eq!((value, expiry), (vivify.initial, vivify.expiry), "{context}");
        let kept = Kept {
            value: value.to_string().into_bytes(),
            flags: 0,
            expiry,
            cas,
            fetched: false,
            last_access: self.now,
            stale: false,
            token_sent: false,
            binary: false,
        };
        self.map.insert(key, kept);
    }

    fn check_arithmetic(&mut self) {
        let key = self.some_key();
        let kept = self.kept(&key);
        let now = self.now;
        let request = Arithmetic {
            direction: if self.one_in(2) { Direction::Increment } else { Direction::Decrement },
            delta: if self.one_in(5) { self.prng.next_u64() } else { self.below(100) },
            compare_cas: self.maybe(5, |pair| pair.some_cas(&key)),
            new_cas: self.new_cas(),
            vivify: self.maybe(3, |pair| Vivify { initial: pair.below(50), expiry: pair.some_expiry() }),
            touch: self.maybe(5, Pair::some_expiry),
            key_is_binary: false,
        };
        let context = format!("{} {request:?} on {kept:?}", self.context);
        let handle = self.handle();
        let result = handle.arithmetic(&handle.key(&key), &request, now);
        let Ok(counted) = result else { return self.forget_if_evicting(&key, &result.unwrap_err()) };
        let Some(mut kept) = kept else { return self.check_created(key, request.vivify, counted, &context) };
        let text = String::from_utf8_lossy(&kept.value);
        let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
        let text = text.trim_start_matches(is_space).split(|c| is_space(c) || c == '\0').next().unwrap_or("");
        if kept.value.is_empty() {
            return assert_eq!(counted, Counted::NotNumeric, "{context}");
        }
        if request.compare_cas.is_some_and(|cas| cas != 0 && cas != kept.cas) {
            return assert_eq!(counted, Counted::Exists, "{context}");
        }
        if kept.value.len() >= 32 * 1024 {
            return assert_eq!(counted, Counted::NotNumeric, "{context}");
        }
        // As in memcached, a negative number is its complement to 2^64, unless that has its highest bit set.
        let number = match text.strip_prefix('-').filter(|digits| !digits.starts_with('+')) {
            Some(digits) => digits.parse().ok().map(u64::wrapping_neg).filter(|value| value >> 63 == 0),
            None => text.parse().ok(),
        };
        let Some(before) = number else {
            return assert_eq!(counted, Counted::NotNumeric, "{context}");
        };
        let after = match request.direction {
            Direction::Increment => before.wrapping_add(request.delta),
            Direction::Decrement => before.saturating_sub(request.delta),
        };
        let Counted::Counted { value, cas, expiry, expiry_before, created: false } = counted else {
            panic!("{context}: {counted:?}")
        };
        assert_eq!(value, after, "{context}");
        let len = kept.value.len();
        kept.value = format!("{after:<len$}").into_bytes();
        if kept.value.len() > len {
            (kept.fetched, kept.stale, kept.token_sent) = (false, false, false);
        }
        assert_eq!(expiry_before, kept.expiry, "{context}");
        kept.expiry = request.touch.unwrap_or(kept.expiry);
        assert_eq!(expiry, kept.expiry, "{context}");
        assert!(request.new_cas.is_none_or(|given| given == cas), "{context}");
        kept.cas = cas;
        kept.last_access = now;
        self.map.insert(key, kept);
    }

    fn pass_time(&mut self) {
        self.now += self.prng.below(3) as u32;
        let now = self.now;
        self.handle().begin_turn(now);
        if self.flush_at != 0 && self.flush_at <= now {
            self.map.clear();
            self.flush_at = 0;
        }
    }

    fn flush(&mut self) {
        let at = if self.one_in(2) { 0 } else { self.now + 1 + self.below(10) as u32 };
        self.handles[0].shared().clone().flush(at);
        self.flush_at = at;
        if at == 0 {
            self.map.clear();
        }
    }

    /// A dump shows every item once.
    fn check_dump(&mut self) {
        let keys: Vec<_> = self.map.keys().cloned().collect();
        let there: Vec<_> = keys.into_iter().filter(|key| self.kept(key).is_some()).collect();
        let mut seen = Vec::new();
        let mut cursor = DumpCursor::default();
        let now = self.now;
        if self.tier.is_some() {
            return;
        }
        while self.handles[0]
            .dump(&mut cursor, now, |item| seen.push((item.key.to_vec(), item.cas, item.value_len)))
        {}
        seen.sort();
        let expected: Vec<_> = there
            .into_iter()
            .map(|key| (key.clone(), self.map[&key].cas, self.map[&key].value.len()))
            .collect();
        assert_eq!(seen, expected, "{}", self.context);
    }

    fn check_statistics(&mut self) {
        let statistics = self.handles[0].shared().statistics();
        assert!(statistics.charged_bytes <= statistics.limit_bytes, "{}: {statistics:?}", self.context);
        let counts = statistics.counts;
        let on_flash = self.handles[0].shared().flash_statistics().map_or(0, |flash| flash.objects);
        assert_eq!(counts.curr_items, counts.small_items + counts.main_items + on_flash, "{}", self.context);
        let lives = |kept: &&Kept| kept.expiry == 0 || kept.expiry > self.now;
        let living = self.map.values().filter(lives).count() as u64;
        assert!(counts.curr_items >= living || !self.exact, "{}", self.context);
    }

    fn check_operation(&mut self, operation: usize) {
        match self.below(100) {
            0..30 if self.tier.is_some() => self.check_get_from_flash(),
            0..35 => self.check_get(),
            35..45 => self.check_meta_get(),
            45..80 => self.check_store(),
            80..83 if self.tier.is_some() => self.check_delete_from_flash(),
            80..86 => self.check_delete(),
            86..95 => self.check_arithmetic(),
            95..98 => self.pass_time(),
            98 if operation.is_multiple_of(7) => self.move_store(),
            98 => self.check_statistics(),
            _ if operation.is_multiple_of(11) => self.flush(),
            _ => self.check_dump(),
        }
    }

    fn run(&mut self, operations: usize) {
        for operation in 0..operations {
            self.check_operation(operation);
            self.run_tier();
        }
        self.check_dump();
        self.check_statistics();
    }
}

/// The expected item; or the refusal, with the item if it changes nevertheless.
fn expected_store(
    kept: Option<Kept>,
    change: &Change,
    value: &[u8],
    now: u32,
    key_len: usize,
) -> Result<Kept, (Stored, Option<Kept>)> {
    let new = Kept {
        value: value.to_vec(),
        flags: change.flags,
        expiry: change.expiry,
        cas: 0,
        fetched: false,
        last_access: now,
        stale: false,
        token_sent: false,
        binary: change.key_is_binary,
    };
    let joins = matches!(change.condition, Condition::Append | Condition::Prepend);
    let Some(kept) = kept else {
        return match change.condition {
            Condition::Set | Condition::Replace if change.compare_cas.is_some() => {
                Err((Stored::NotFound, None))
            }
            Condition::Set | Condition::Add => Ok(new),
            _ if joins && change.vivify.is_some() => Ok(Kept { expiry: change.vivify.unwrap(), ..new }),
            _ => Err((Stored::NotStored, None)),
        };
    };
    match change.condition {
        Condition::Add => Err((Stored::NotStored, Some(Kept { last_access: now, ..kept }))),
        _ if joins => {
            if change.compare_cas.is_some_and(|cas| cas != 0 && cas != kept.cas) {
                return Err((Stored::Exists, None));
            }
            let pieces = if change.condition == Condition::Append {
                [&kept.value[..], value]
            } else {
                [value, &kept.value[..]]
            };
            let joined = pieces.concat();
            let flags_size = if kept.flags != 0 { 4 } else { 0 };
            if (59 + flags_size + key_len + joined.len()) as u64 > ITEM_SIZE_MAX {
                return Err((Stored::NotStored, None));
            }
            Ok(Kept { value: joined, flags: kept.flags, expiry: kept.expiry, binary: kept.binary, ..new })
        }
        _ => match change.compare_cas {
            None => Ok(new),
            Some(cas) if cas != 0 && cas == kept.cas => Ok(new),
            Some(cas) if cas != 0 && change.invalidate && cas < kept.cas => {
                Ok(Kept { expiry: kept.expiry, stale: true, token_sent: kept.token_sent, ..new })
            }
            Some(_) => Err((Stored::Exists, None)),
        },
    }
}

#[track_caller]
fn check(seeds: std::ops::Range<u64>, config: Config, operations: usize) {
    for seed in seeds {
        Pair::new(seed, config.clone(), None).run(operations);
    }
}

/// The same with a store in a file, which moves.
#[track_caller]
fn check_moving(seeds: std::ops::Range<u64>, config: Config, operations: usize) {
    for seed in seeds {
        let file = memfd_create("model", MemfdFlags::CLOEXEC).expect("a file in memory");
        Pair::new(seed, config.clone(), Some(Arc::new(file.into()))).run(operations);
    }
}

#[test]
fn without_eviction_the_store_is_a_map() {
    check(0..12, Config { memory_limit_bytes: 256 << 20, ..Config::default() }, 20_000);
}

#[test]
fn a_store_that_moves_to_another_process_is_the_same_map() {
    check_moving(400..404, Config { memory_limit_bytes: 256 << 20, ..Config::default() }, 20_000);
    check_moving(500..508, Config { memory_limit_bytes: 8 << 20, ..Config::default() }, 20_000);
    let config = Config { memory_limit_bytes: 8 << 20, evict: false, ..Config::default() };
    check_moving(600..603, config, 20_000);
}

#[test]
fn with_eviction_returned_items_match_the_model() {
    check(100..112, Config { memory_limit_bytes: 8 << 20, ..Config::default() }, 20_000);
    check(200..206, Config { memory_limit_bytes: 4 << 20, workers: 1, ..Config::default() }, 20_000);
    check(210..213, Config { memory_limit_bytes: store::MEMORY_LIMIT_MIN, ..Config::default() }, 20_000);
}

#[test]
fn in_a_full_store_without_eviction_returned_items_match_the_model() {
    check(300..306, Config { memory_limit_bytes: 8 << 20, evict: false, ..Config::default() }, 20_000);
    let least = Config { memory_limit_bytes: store::MEMORY_LIMIT_MIN, evict: false, ..Config::default() };
    check(310..313, least, 20_000);
}
