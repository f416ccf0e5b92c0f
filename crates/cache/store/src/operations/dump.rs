//! Iteration over the items in memory, one index page at a time.

use std::sync::atomic::Ordering::Relaxed;

use crate::handle::Handle;
use crate::operations::request::Miss;
use crate::segment::record::{BINARY_KEY, FETCHED};

/// Position of a dump. An item that is in memory from beginning to end is shown exactly once, however the index
/// grows meanwhile; one that is added or removed meanwhile may be shown or not.
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
    /// Whether the client sent the key in base64.
    pub key_is_binary: bool,
    /// The second at which it expires; 0: never.
    pub expiry: u32,
    /// When it was last accessed.
    pub last_access: u32,
    /// CAS unique.
    pub cas: u64,
    /// Whether it has been read since it was stored.
    pub fetched: bool,
    /// Length of the value.
    pub value_len: usize,
    /// Client flags.
    pub flags: u32,
    /// Where it lies, if it is on flash.
    pub on_flash: Option<DumpedPlace>,
}

/// Where an item lies on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpedPlace {
    /// The page, as extstore calls it, counted over all devices.
    pub page: u32,
    /// Where in the page it begins, in bytes.
    pub offset: u64,
}

impl Handle {
    /// Calls `each` with the live items in memory of one page, some 400, under a lock: it must be quick. Returns false
    /// once there are no more pages.
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
            |slot| {
                if slot.is_on_flash() || store.why_dead(slot.at(), now).is_some() {
                    return;
                }
                let record = store.segments.record(slot.at());
                each(&Dumped {
                    key: record.key(),
                    key_is_binary: record.bits() & BINARY_KEY != 0,
                    expiry: record.expiry(),
                    last_access: record.last_access(),
                    cas: store.cas_of(record, &lock),
                    fetched: record.bits() & FETCHED != 0,
                    value_len: record.len(&lock),
                    flags: record.flags(&lock),
                    on_flash: None,
                });
            },
        );
        if cursor.page == 0 {
            cursor.shard += 1;
        }
        cursor.shard < store.index.shards()
    }

    /// Removes the dead items of one page (expired or flushed), under a lock. Returns false once there are no
    /// more pages. Segments in which everything is dead are freed in later turns.
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
            |slot| {
                checked += 1;
                if !slot.is_on_flash() && store.why_dead(slot.at(), now).is_some() {
                    dead.push(slot.at());
                }
            },
        );
        self.counters.crawler_items_checked.add(checked);
        for at in dead {
            let found = store.index.find(&lock, store.hash_at(at), |location| location == at);
            let Some(slot) = found else { continue };
            self.counters.crawler_reclaimed.add(1);
            match store.why_dead(at, now) {
                Some(Miss::Expired) => store.unlink_expired(&mut lock, slot, &self.counters),
                _ => store.unlink(&mut lock, slot, &self.counters),
            }
        }
        drop(lock);
        if cursor.page == 0 {
            cursor.shard += 1;
        }
        store.housekeeping.store(true, Relaxed);
        cursor.shard < store.index.shards()
    }
}
