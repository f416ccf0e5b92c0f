//! A tier of flash below memory.
//!
//! ```text
//! eviction ── record ──► open piece ── full ──► waiting pieces ── thread ──► device
//!                                                                              │ segment reused:
//!                        open piece `Again` ◄── items that were used ── thread ◄┘ the rest is dropped
//! ```
//!
//! An item that would be evicted is copied to a piece in memory instead, and its slot in the index says at once where on flash
//! it will be: the slot is all that stays in memory. One thread ([`Store::keep_flash`](crate::Store::keep_flash)) writes full pieces and reads back
//! segments that are reused; it is the only one that waits for a device. Operations never do: a piece that is not written
//! yet is read from memory; where there is no free piece the item is dropped, as without flash. Whoever serves clients asks before
//! ([`Store::flash_is_behind`](crate::Store::flash_is_behind)) and lets those wait that store. The end of a store waits for all
//! pieces, but for no device for ever ([`Store::begin_finish_flash`](crate::Store::begin_finish_flash)). Whoever serves a client reads
//! records as he likes, and hands the bytes to [`Handle::locate`](crate::Handle::locate).
//!
//! **Nothing old comes back.** A key has one slot at most. It is removed under its shard's lock by whatever replaces or deletes
//! the item; a read counts only if the slot and the version of its segment are the same afterwards; and a page never has two records
//! that one slot could mean, because the older one is wiped while the page is still in memory. Any doubt is a miss.
//!
//! Locks: that of changes by the thread, a shard's, then that of the tier, which is an innermost one.

pub use self::config::{FlashConfig, FlashDevice, FlashSettings};
pub use self::devices::health::DeviceOff;
pub use self::dump::{FlashDump, FlashDumped};
pub use self::layout::FlashSizes;
pub use self::layout::geometry::FLASH_PAGE;
pub(crate) use self::locate::SoughtItem;
pub use self::locate::{FlashRead, FlashReads, FlashUse, Located, ReadState};
pub use self::statistics::counters::FlashCounts;
pub use self::statistics::{FlashSegmentRow, FlashStatistics};
pub use self::thread::finish::FlashBacklog;

pub(crate) mod config;
mod demote;
mod devices;
mod dump;
mod index_limit;
pub(crate) mod layout;
mod locate;
mod manifest;
mod pieces;
mod promote;
mod segments;
pub(crate) mod staged;
pub(crate) mod state;
mod statistics;
mod thread;

#[cfg(test)]
mod tests;
