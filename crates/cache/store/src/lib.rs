//! Items, index, memory, eviction and expiry of the cache.
//!
//! There are no sockets, no clock and no threads here, and nothing of a protocol: time is an argument, and
//! every operation is one method of a [`Handle`]:
//!
//! ```text
//! Store::new(Config) -> Result<Arc<Store>, Error>
//!   store.handle() -> Handle                       one per worker
//!   store.set_memory_limit(bytes) -> Result<(), Error>
//!   store.flush(at_second)                         0: at once
//!   store.statistics() -> Statistics
//!   store.watch(kinds, room); store.take_events(|Event|) -> how many were dropped
//!   Store::prefault(&Weak<Store>)                 body of the pre-faulting thread
//!
//! handle.key(&[u8]) -> Key                         hashes once; 1..=250 bytes
//! handle.prefetch(&Key) -> Prefetched; handle.prefetch_item(Prefetched)
//! handle.needs_turn() -> bool                                             begin_turn soon, even without requests
//! handle.begin_turn(now)
//! handle.get(&Key, Look, now) -> Option<Item>      holds the shard's lock until dropped
//! handle.get_and_touch(&Key, expiry, now) -> Option<Item>
//! handle.meta_get(&Key, &MetaGet, now) -> Option<MetaFound>
//! handle.last_miss() -> Miss
//! handle.large_value(len, now) -> Result<LargeValue, Error>
//! handle.begin_value(len, now) -> Result<Option<PartialValue>, Error>      to be received; None: wait for other uploads
//! handle.extend_value(&mut PartialValue, now) -> Result<bool, Error>      room for more; false: in the next turn
//! handle.store(&Key, &Change, NewValue, now) -> Result<Stored, Error>
//! handle.begin_join(&Key, Condition, len, now) -> Option<Join>            to a large value; None: `store` does it at once
//! handle.step_join(&mut Join, &Key, new, now) -> Result<JoinStep, Error>
//! handle.prepare(Option<Join>)                                            sets the value for the next `store`
//! handle.delete(&Key, &Delete, now) -> Result<Deleted, Error>
//! handle.touch(&Key, expiry, now) -> bool
//! handle.arithmetic(&Key, &Arithmetic, now) -> Result<Counted, Error>
//! handle.dump(&mut DumpCursor, now, |&Dumped|) -> bool   false: no pages are left
//! handle.dump_flash(&mut FlashDump, &mut FlashReads, now, |&Dumped|) -> FlashDumped
//! handle.crawl(&mut DumpCursor, now) -> bool
//! ```
//!
//! `Item`: `value() -> Value::{Inline(&[u8]), Large(&Arc<LargeValue>)}`, `len`, `flags`, `cas`, `expiry`,
//! `last_access`, `hit_before`, `key`, `key_is_binary`, `is_stale`, `token_sent`.
//! `MetaFound`: `item`, `won`, `created`, `expiry_before`.
//!
//! After `Err` from a plain set the caller deletes the old value.

mod config;
mod error;
mod events;
mod handle;
mod index;
mod manifest;
mod memory;
mod operations;
mod reclaim;
mod segment;
mod shard;
mod statistics;
mod store;
mod sync;
mod tier;

pub use config::{Config, MEMORY_LIMIT_MAX, MEMORY_LIMIT_MIN};
pub use error::Error;
pub use events::{Event, Evicted, PerKind};
pub use handle::{Handle, Prefetched};
pub use index::hash::{KEY_LEN_MAX, Key};
pub use manifest::{LAYOUT_VERSION, Manifest, ThawError};
pub use memory::backing::is_items_file;
pub use memory::large::{LARGE_VALUE_MIN, LargeValue};
pub use memory::partial::PartialValue;
pub use operations::dump::{DumpCursor, Dumped};
pub use operations::join::{Join, JoinStep};
pub use operations::read::{Item, Value};
pub use operations::request::{
    Arithmetic, Change, Condition, Counted, Delete, Deleted, Direction, Look, MetaGet, Miss, NewValue,
    Stored, Vivify,
};
pub use reclaim::policy::{EvictionPolicy, NoPolicy, Optimise};
pub use reclaim::sample::PolicyState;
pub use statistics::{Counts, Statistics};
pub use store::Store;
pub use tier::FLASH_PAGE as FLASH_PAGE_BYTES;
pub use tier::{
    DeviceOff, FlashBacklog, FlashConfig, FlashCounts, FlashDevice, FlashDump, FlashDumped, FlashRead,
    FlashReads, FlashSegmentRow, FlashSettings, FlashSizes, FlashStatistics, FlashUse, Located, ReadState,
};
