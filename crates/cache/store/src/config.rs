//! Configuration of a store.

use crate::error::Error;
use crate::index::{Index, LOCATIONS_END};
use crate::manifest::numbers::Damaged;
use crate::memory::system::Huge;
use crate::reclaim::ghost::Ghosts;
use crate::reclaim::policy::{EvictionPolicy, Optimise};
use crate::reclaim::sample::KeySample;
use crate::tier::config::FlashConfig;
use crate::tier::state::Tier;

/// The smallest memory limit. With the smallest segments, the fixed parts, the reserve of reclamation and two sets of open
/// segments take 2.2 MiB of it; the rest is for large values and sealed segments.
pub const MEMORY_LIMIT_MIN: u64 = 3 * 1024 * 1024;

/// The largest memory limit: index slots can address places up to here.
pub const MEMORY_LIMIT_MAX: u64 = LOCATIONS_END;

/// Sizes and policies of a [`crate::Store`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the resident memory of items, index and large values together.
    pub memory_limit_bytes: u64,
    /// The largest item, counted as by memcached's `-I`: key, value and 49 to 63 bytes of overhead.
    pub item_size_max_bytes: u64,
    /// Whether live items are evicted for new ones; otherwise a full store refuses new items (memcached's
    /// `-M`).
    pub evict: bool,
    /// Whether items carry a CAS unique; otherwise it is always 0 (memcached's `-C`).
    pub cas: bool,
    /// Number of writing handles: determines the number of shards and of open segments.
    pub workers: usize,
    /// The secret of the key hash. It is random in production, so that clients cannot choose keys of one
    /// index page.
    pub hash_secret: u128,
    /// The time of day, in milliseconds since 1970. CAS uniques start from it, so that uniques of an earlier
    /// process, which clients may still have, are not issued again.
    pub started_unix_ms: u64,
    /// What eviction keeps low.
    pub optimise: Optimise,
    /// How it evicts; `None`: as a sample of the keys shows to be best.
    pub policy: Option<EvictionPolicy>,
    /// A tier of flash for items that memory has no room for; `None`: they are gone.
    pub flash: Option<FlashConfig>,
}

impl Default for Config {
    /// memcached's defaults: 64 MiB, items of 1 MiB, eviction, CAS, four workers.
    fn default() -> Config {
        Config {
            memory_limit_bytes: 64 * 1024 * 1024,
            item_size_max_bytes: 1024 * 1024,
            evict: true,
            cas: true,
            workers: 4,
            hash_secret: 0,
            started_unix_ms: 0,
            optimise: Optimise::default(),
            policy: None,
            flash: None,
        }
    }
}

impl Config {
    /// Refuses sizes that a store cannot have.
    pub fn check(&self) -> Result<(), Error> {
        if self.memory_limit_bytes < MEMORY_LIMIT_MIN {
            return Err(Error::LimitTooSmall { bytes: self.memory_limit_bytes, least: MEMORY_LIMIT_MIN });
        }
        if self.memory_limit_bytes > MEMORY_LIMIT_MAX {
            return Err(Error::LimitTooLarge { bytes: self.memory_limit_bytes, most: MEMORY_LIMIT_MAX });
        }
        self.flash.as_ref().map_or(Ok(()), |flash| self.check_flash(flash))
    }

    /// A tier's fixed parts leave half of the memory to items and their index.
    fn check_flash(&self, flash: &FlashConfig) -> Result<(), Error> {
        flash.check()?;
        let (bytes, flash_bytes) = (self.memory_limit_bytes, flash.bytes());
        let least = 2 * (Index::fixed_bytes(self.shards()) + Tier::fixed_bytes(flash, bytes));
        if bytes < least {
            return Err(Error::LimitTooSmallForFlash { bytes, least, flash: flash_bytes });
        }
        Ok(())
    }

    /// The layout of a new store with this configuration and `reserve_bytes` of address space.
    pub(crate) fn layout(&self, reserve_bytes: u64) -> Layout {
        Layout::new(self.memory_limit_bytes, reserve_bytes, self.shards())
    }

    /// The first CAS unique (decision 17). 0 where CAS is off, or where the clock is before 2026.
    pub(crate) fn first_cas(&self) -> u64 {
        if !self.cas {
            return 0;
        }
        self.started_unix_ms.saturating_sub(CAS_EPOCH_UNIX_MS).saturating_mul(CAS_PER_MS)
    }

    /// Enough shards that two workers rarely lock the same one. Every shard has at least one index page, so there are no more than
    /// that with less than a MiB of memory for each, and never more than one per 64 KiB.
    fn shards(&self) -> usize {
        let least = (16 * self.workers.max(1)).next_power_of_two();
        let wanted = least.clamp(256, 1 << 16);
        if let Some(flash) = &self.flash {
            return wanted.max(flash.shards());
        }
        let one_per = |bytes: u64| 1usize << (self.memory_limit_bytes / bytes).max(1).ilog2();
        wanted.min(one_per(1 << 20).max(least)).min(one_per(1 << 16))
    }
}

/// The sizes that decide where everything lies in a store's mappings: those of its creation, whatever changes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) limit_bytes: u64,
    /// Address space for segments.
    pub(crate) reserve_bytes: u64,
    /// Address space for large values. It is fragmented, so there is twice as much as they may take together.
    pub(crate) large_bytes: u64,
    pub(crate) shards: usize,
}

impl Layout {
    pub(crate) fn new(limit_bytes: u64, reserve_bytes: u64, shards: usize) -> Layout {
        Layout { limit_bytes, reserve_bytes, large_bytes: 2 * reserve_bytes, shards }
    }

    /// The layout that another process has written, if its sizes in bytes are possible. [`Layout::check`] looks at the rest.
    pub(crate) fn written(limit_bytes: u64, reserve_bytes: u64, shards: usize) -> Result<Layout, Damaged> {
        let is_right = (MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX).contains(&limit_bytes)
            && (limit_bytes..=MEMORY_LIMIT_MAX).contains(&reserve_bytes);
        if is_right { Ok(Layout::new(limit_bytes, reserve_bytes, shards)) } else { Err(Damaged) }
    }

    /// The least address space that the items fit: large values find no room somewhat earlier. A file has the full one, so that its next
    /// process finds everything where it was.
    pub(crate) fn least(self) -> Layout {
        Layout { reserve_bytes: self.limit_bytes, large_bytes: self.limit_bytes, ..self }
    }

    /// Whether a store with this flash can have this layout, for one that another process has written.
    pub(crate) fn check(&self, flash: Option<&FlashConfig>) -> Result<(), Damaged> {
        let shards_max = if flash.is_some() { 1 << 16 } else { (self.limit_bytes >> 16).max(1) };
        let is_right = self.shards.is_power_of_two()
            && self.shards as u64 <= shards_max
            && self.fixed_bytes(flash) <= self.limit_bytes / 2;
        if is_right { Ok(()) } else { Err(Damaged) }
    }

    /// What a store of this layout always has in memory.
    pub(crate) fn fixed_bytes(&self, flash: Option<&FlashConfig>) -> u64 {
        let tier = flash.map_or(0, |flash| Tier::fixed_bytes(flash, self.limit_bytes));
        let beside = Ghosts::bytes_for(self.limit_bytes) + KeySample::bytes_for(self.limit_bytes);
        Index::fixed_bytes(self.shards) + beside + tier
    }

    /// Segments small enough that a few open ones do not matter, large enough that there are not too
    /// many: 256 MiB → 256 KiB, 8 GiB and more → 8 MiB.
    pub(crate) fn segment_size(&self) -> usize {
        let share = (self.limit_bytes / 1024).max(1).next_power_of_two();
        share.clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX) as usize
    }

    /// Whether huge pages back items and index.
    pub(crate) fn huge(&self) -> Huge {
        if self.limit_bytes >= HUGE_LIMIT_MIN { Huge::Yes } else { Huge::No }
    }
}

/// A huge page that is used in part is resident as a whole: with less memory than this, the few partly used
/// ones would exceed the limit noticeably.
const HUGE_LIMIT_MIN: u64 = 256 << 20;

/// The beginning of 2026: no earlier version derived CAS uniques from the clock.
const CAS_EPOCH_UNIX_MS: u64 = 1_767_225_600_000;
/// CAS uniques reserved for each millisecond: 10^9 changes per second, if they spread over all shards. A
/// server that exceeds this rate on average over its lifetime may repeat uniques after a restart. A signed
/// 64-bit number holds them until the year 2304.
const CAS_PER_MS: u64 = 1 << 20;

/// Room for two of the largest inline records.
const SEGMENT_SIZE_MIN: u64 = 128 * 1024;
/// Larger segments would make eviction coarser without a gain.
const SEGMENT_SIZE_MAX: u64 = 8 * 1024 * 1024;
