//! Going through all items, a page of the index at a time.

use std::sync::atomic::Ordering::Relaxed;

use crate::handle::Handle;
use crate::record::{BINARY_KEY, FETCHED};
use crate::request::Miss;

/// Where a dump stands. What is there from beginning to end is seen exactly once, however the index
/// grows meanwhile; what comes or goes may be seen or not.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpCursor {
    shard: usize,
    page: u64,
}

/// An item in a dump.
#[derive(Clone, Copy, Debug)]
pub struct Dumped<'d> {
    /// The key.
    pub key: &'d [u8],
    /// Whether it came in base64.
    pub key_is_binary: bool,
    /// The second at which it is gone; 0: never.
    pub expiry: u32,
    /// When it was last used.
    pub last_access: u32,
    /// CAS unique.
    pub cas: u64,
    /// Whether it has been read since it was stored.
    pub fetched: bool,
    /// Length of the value.
    pub value_len: usize,
    /// Client flags.
    pub flags: u32,
}

impl Handle {
    /// Shows `each` the live items of one page, some 400, under a lock: it must be quick. False once
    /// there are no more.
    pub fn dump(&mut self, cursor: &mut DumpCursor, now: u32, mut each: impl FnMut(&Dumped<'_>)) -> bool {
        self.enter(now);
        let store = &*self.store;
        if cursor.shard >= store.index.shards() {
            return false;
        }
        let lock = store.index.lock_shard(cursor.shard);
        cursor.page = store.index.scan(
            &lock,
            cursor.page,
            |at| store.hash_at(at),
            |at| {
                if store.death_of(at, now).is_some() {
                    return;
                }
                let record = store.segments.record(at);
                each(&Dumped {
                    key: record.key(),
                    key_is_binary: record.bits() & BINARY_KEY != 0,
                    expiry: record.expiry(),
                    last_access: record.last_access(),
                    cas: store.cas_of(record, &lock),
                    fetched: record.bits() & FETCHED != 0,
                    value_len: record.len(&lock),
                    flags: record.flags(&lock),
                });
            },
        );
        if cursor.page == 0 {
            cursor.shard += 1;
        }
        cursor.shard < store.index.shards()
    }

    /// Takes the dead items of one page out, those that have expired and those that were flushed, under a lock. False once
    /// there are no more pages. Segments in which everything is dead become free in coming turns.
    pub fn crawl(&mut self, cursor: &mut DumpCursor, now: u32) -> bool {
        self.enter(now);
        let store = &*self.store;
        if cursor.shard >= store.index.shards() {
            return false;
        }
        let mut lock = store.index.lock_shard(cursor.shard);
        let (mut dead, mut checked) = (Vec::new(), 0);
        cursor.page = store.index.scan(
            &lock,
            cursor.page,
            |at| store.hash_at(at),
            |at| {
                checked += 1;
                if store.death_of(at, now).is_some() {
                    dead.push(at);
                }
            },
        );
        self.counters.crawler_items_checked.add(checked);
        for at in dead {
            let found = store.index.find(&lock, store.hash_at(at), |location| location == at);
            let Some(slot) = found else { continue };
            self.counters.crawler_reclaimed.add(1);
            match store.death_of(at, now) {
                Some(Miss::Expired) => store.bury(&mut lock, slot, &self.counters),
                _ => store.unlink(&mut lock, slot, &self.counters),
            }
        }
        drop(lock);
        if cursor.page == 0 {
            cursor.shard += 1;
        }
        store.chores.store(true, Relaxed);
        cursor.shard < store.index.shards()
    }
}
