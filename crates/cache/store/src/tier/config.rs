//! Configuration of a flash tier, and settings that change while it runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use flash::Bucket;

use crate::error::Error;
use crate::index::FlashPlace;
use crate::tier::layout::geometry::FLASH_PAGE;

/// A tier of flash below memory.
#[derive(Clone, Debug)]
pub struct FlashConfig {
    /// The devices, in the order of the numbers that the disk knows them by.
    pub devices: Vec<FlashDevice>,
    /// Bytes that are reused together (memcached's `ext_page_size`).
    pub segment_bytes: u64,
    /// Bytes that are written together (memcached's `ext_wbuf_size`). Less is used where memory is small.
    pub piece_bytes: u64,
    /// What goes there.
    pub settings: FlashSettings,
}

/// A device of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashDevice {
    /// Its size. A rest that makes no whole segment is not used.
    pub bytes: u64,
    /// The items that it is for.
    pub bucket: Bucket,
}

/// Settings that may change at any time, by memcached's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashSettings {
    /// Smaller items are not written (`ext_item_size`): bytes as [`crate::Store::item_size`] counts them.
    pub item_size_min: u32,
    /// Items that expire sooner than in this time are written apart (`ext_low_ttl`), in seconds; 0: none.
    pub low_ttl_s: u32,
    /// Of the uses of items on flash that were used there before, one in so many brings the item back into memory
    /// (`ext_recache_rate`); 0: none.
    pub recache_rate: u32,
    /// Segments that are kept free, so that writes never wait for one (`ext_compact_under`); 0: one in a hundred.
    pub free_min: u32,
    /// The most of a segment's items that are kept when it is reused, in percent (memcached's `ext_max_frag` is a share, too).
    pub kept_max_percent: u32,
    /// Bytes per second that may be written to all devices together, on average (`ext_write_rate`); 0: any number.
    pub write_rate: u64,
}

impl Default for FlashSettings {
    /// memcached's defaults, where they mean the same.
    fn default() -> FlashSettings {
        FlashSettings {
            item_size_min: 512,
            low_ttl_s: 0,
            recache_rate: 2000,
            free_min: 0,
            kept_max_percent: 12,
            write_rate: 0,
        }
    }
}

impl FlashConfig {
    /// Refuses sizes that a tier cannot have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (segment, piece) = (self.segment_bytes, self.piece_bytes);
        let fits = segment >= piece && segment.is_multiple_of(piece);
        if !(PIECE_BYTES_MIN..=PIECE_BYTES_MAX).contains(&piece) || !piece.is_power_of_two() || !fits {
            return Err(Error::FlashPieces { segment, piece, least: PIECE_BYTES_MIN, most: PIECE_BYTES_MAX });
        }
        let (bytes, most) = (self.bytes(), FlashPlace::PAGES_MAX * FLASH_PAGE as u64);
        let segments: u64 = self.devices.iter().map(|device| device.bytes / segment).sum();
        if segments < SEGMENTS_MIN {
            return Err(Error::FlashTooSmall { bytes, least: SEGMENTS_MIN * segment });
        }
        if bytes > most || self.devices.is_empty() {
            return Err(Error::FlashTooLarge { bytes, most });
        }
        Ok(())
    }

    /// Bytes of all devices.
    pub(crate) fn bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.bytes).sum()
    }

    /// Bytes that are written together: at most one part in 64 of the memory limit, because several pieces wait at a time.
    pub fn piece_within(&self, limit_bytes: u64) -> u64 {
        let share = (limit_bytes / PIECE_SHARE).max(1);
        (1 << share.ilog2()).clamp(PIECE_BYTES_MIN, self.piece_bytes.max(PIECE_BYTES_MIN))
    }

    /// Shards whose directories, with their fewer levels, have room for as many items as the flash holds.
    pub(crate) fn shards(&self) -> usize {
        let least = u64::from(self.settings.item_size_min.clamp(RECORD_LEAST, 4096));
        let per_shard = ITEMS_PER_SHARD * least;
        let wanted = self.bytes().div_ceil(per_shard).next_power_of_two();
        wanted.min(SHARDS_MAX) as usize
    }
}

/// The longest record has to fit in.
const PIECE_BYTES_MIN: u64 = 256 << 10;
const PIECE_BYTES_MAX: u64 = 64 << 20;
/// One for each stream of items, one that is emptied, and one to go on with.
const SEGMENTS_MIN: u64 = 5;
const PIECE_SHARE: u64 = 64;
/// A shard has 128 pages of 227 entries or more.
const ITEMS_PER_SHARD: u64 = 29_000;
const RECORD_LEAST: u32 = 64;
const SHARDS_MAX: u64 = 1 << 16;

/// Settings as all threads see them.
#[derive(Debug)]
pub(super) struct SharedSettings {
    item_size_min: AtomicU32,
    low_ttl_s: AtomicU32,
    recache_rate: AtomicU32,
    free_min: AtomicU32,
    kept_max_percent: AtomicU32,
    write_rate: AtomicU64,
}

impl SharedSettings {
    pub(super) fn new(settings: FlashSettings) -> SharedSettings {
        let new = SharedSettings {
            item_size_min: AtomicU32::new(0),
            low_ttl_s: AtomicU32::new(0),
            recache_rate: AtomicU32::new(0),
            free_min: AtomicU32::new(0),
            kept_max_percent: AtomicU32::new(0),
            write_rate: AtomicU64::new(0),
        };
        new.set(settings);
        new
    }

    pub(super) fn set(&self, to: FlashSettings) {
        self.item_size_min.store(to.item_size_min, Relaxed);
        self.low_ttl_s.store(to.low_ttl_s, Relaxed);
        self.recache_rate.store(to.recache_rate, Relaxed);
        self.free_min.store(to.free_min, Relaxed);
        self.kept_max_percent.store(to.kept_max_percent.min(100), Relaxed);
        self.write_rate.store(to.write_rate, Relaxed);
    }

    pub(super) fn write_rate(&self) -> u64 {
        self.write_rate.load(Relaxed)
    }

    pub(super) fn get(&self) -> FlashSettings {
        FlashSettings {
            item_size_min: self.item_size_min.load(Relaxed),
            low_ttl_s: self.low_ttl_s.load(Relaxed),
            recache_rate: self.recache_rate.load(Relaxed),
            free_min: self.free_min.load(Relaxed),
            kept_max_percent: self.kept_max_percent.load(Relaxed),
            write_rate: self.write_rate(),
        }
    }
}
