//! The store that all handles share: its parts, memory limit and statistics.

use std::fs::File;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Weak};

use crate::config::{Config, Layout, MEMORY_LIMIT_MIN};
use crate::error::Error;
use crate::events::{Event, Events, PerKind};
use crate::index::hash::KeyHash;
use crate::index::{DEPTH_MAX, FLASH_DEPTH_MAX, Index, LOCATIONS_END, PAGE_CHARGE};
use crate::memory::backing::Backing;
use crate::memory::budget::Budget;
use crate::memory::large::LargeSpace;
use crate::memory::partial::uploads::Uploads;
use crate::memory::prefault::PrefaultThread;
use crate::memory::system::{Huge, check_available, unpromised};
use crate::memory::unused::STEP_MAX;
use crate::operations::join::claim::Joins;
use crate::reclaim::ghost::Ghosts;
use crate::reclaim::sample::KeySample;
use crate::reclaim::state::Reclaim;
use crate::segment::Segments;
use crate::segment::open::{CLASSES, OpenSet};
use crate::statistics::{Counters, EvictedIdle, Statistics, sums};
use crate::sync::{Mutex, lock};
use crate::tier::layout::FlashLayout;
use crate::tier::state::Tier;

/// A cache. Use it through its [handles](Store::handle).
#[derive(Debug)]
pub struct Store {
    pub(crate) hash: KeyHash,
    pub(crate) hash_secret: u128,
    pub(crate) item_size_max: u64,
    pub(crate) evict: bool,
    pub(crate) cas: bool,
    pub(crate) first_cas: u64,
    /// The number of shards.
    pub(crate) cas_step: u64,
    /// Whether new items are placed by how soon they expire.
    pub(crate) lifetimes: bool,
    /// Whether huge pages back items and index.
    pub(crate) huge: bool,
    pub(crate) prefault_thread: Arc<PrefaultThread>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) large: Arc<LargeSpace>,
    /// The share of values that are being received.
    pub(crate) uploads: Arc<Uploads>,
    /// Joins under way.
    pub(crate) joins: Arc<Joins>,
    pub(crate) ghosts: Ghosts,
    /// Uses of some keys, and the policy of eviction that follows from them.
    pub(crate) sample: KeySample,
    pub(crate) open_sets: Box<[OpenSet]>,
    pub(crate) reclaim: Mutex<Reclaim>,
    /// Whether [`Handle::begin_turn`](crate::Handle::begin_turn) should look for something to reclaim.
    pub(crate) housekeeping: AtomicBool,
    pub(crate) events: Events,
    /// Seconds between the last access and the eviction of the most recently evicted item.
    pub(crate) evicted_idle_s: AtomicU32,
    pub(crate) next_handle: AtomicUsize,
    pub(crate) counters: Mutex<Vec<Arc<Counters>>>,
    /// The second of a scheduled flush; 0: none. Changed under the lock `flushing`.
    pub(crate) flush_at: AtomicU32,
    flushing: Mutex<()>,
    pub(crate) layout: Layout,
    pub(crate) backing: Backing,
    /// Flash below memory.
    pub(crate) tier: Option<Tier>,
    pub(crate) flash_layout: FlashLayout,
}

impl Store {
    /// An empty store. Address space is reserved now, memory becomes resident as it is used.
    pub fn new(config: Config) -> Result<Arc<Store>, Error> {
        Store::backed(&config, || Ok(Backing::Anonymous))
    }

    /// An empty store in a file, which has to be empty. Its contents can outlive this process: see [`Store::freeze`].
    pub fn in_file(config: Config, file: &Arc<File>) -> Result<Arc<Store>, Error> {
        Store::backed(&config, || Backing::new_file(Arc::clone(file)).map_err(Error::File))
    }

    fn backed(config: &Config, backing: impl Fn() -> Result<Backing, Error>) -> Result<Arc<Store>, Error> {
        config.check()?;
        let limit = config.memory_limit_bytes;
        let headroom = HEADROOM + HEADROOM_PER_WORKER * config.workers;
        let mut reserve = address_space(limit);
        // What all processes share is never tried out: theirs would fail meanwhile.
        if let Some(unpromised) = unpromised() {
            while MAPPED_PER_RESERVED * reserve + headroom as u64 > unpromised && reserve / 2 >= limit {
                reserve /= 2;
            }
        }
        let (mut layout, mut headroom) = (config.layout(reserve), headroom);
        loop {
            let made = Store::reserve(config, layout, backing()?);
            // Where address space is limited (`ulimit -v`, vm.overcommit_memory 2), the reservation for
            // growth is reduced first: if an allocation of the rest of the process failed, the process would
            // end. Without headroom for it there is no store.
            let made = made.and_then(|store| check_available(headroom).map(|()| store));
            let made = made.and_then(|store| store.check_room(limit).map(|()| store));
            let least = (layout.least(), HEADROOM_LEAST);
            match made {
                Err(Error::Reserve { .. }) if layout.reserve_bytes / 2 >= limit => {
                    layout = config.layout(layout.reserve_bytes / 2);
                }
                Err(Error::Reserve { .. }) if backing()?.is_anonymous() && (layout, headroom) != least => {
                    (layout, headroom) = least;
                }
                made => {
                    return made.map(|store| {
                        store.index.begin();
                        Arc::new(store)
                    });
                }
            }
        }
    }

    /// Makes the mappings, always in the same order.
    pub(crate) fn reserve(config: &Config, layout: Layout, backing: Backing) -> Result<Store, Error> {
        let (limit, reserve, shards) = (layout.limit_bytes, layout.reserve_bytes, layout.shards);
        let budget = Arc::new(Budget::new(limit));
        let (segment_size, huge) = (layout.segment_size(), layout.huge());
        let prefault_thread = Arc::<PrefaultThread>::default();
        let pages = (reserve / 2 / PAGE_CHARGE) as usize;
        let depth_max = if config.flash.is_some() { FLASH_DEPTH_MAX } else { DEPTH_MAX };
        let woken = Arc::clone(&prefault_thread);
        let index = Index::new(shards, pages, depth_max, huge, &backing, woken, Arc::clone(&budget))?;
        let ghosts = Ghosts::new(limit, &backing)?;
        let fixed = layout.fixed_bytes(config.flash.as_ref());
        assert!(budget.charge(fixed), "the least memory limit leaves room for the fixed parts");
        let segments_in_limit = (limit / segment_size as u64) as usize;
        let sets = config.workers.clamp(1, (segments_in_limit / 16).max(1));
        Ok(Store {
            hash: KeyHash::new(config.hash_secret),
            hash_secret: config.hash_secret,
            item_size_max: config.item_size_max_bytes,
            evict: config.evict,
            cas: config.cas,
            first_cas: config.first_cas(),
            cas_step: shards as u64,
            lifetimes: segments_in_limit / 32 >= sets,
            segments: Segments::new(
                segment_size,
                reserve,
                if config.flash.is_some() { STAGING_PLACES } else { 0 },
                huge,
                &backing,
                Arc::clone(&budget),
                Arc::clone(&prefault_thread),
            )?,
            large: Arc::new(LargeSpace::new(layout.large_bytes, &backing, Arc::clone(&budget))?),
            huge: huge == Huge::Yes,
            prefault_thread,
            budget,
            index,
            uploads: Arc::default(),
            joins: Arc::default(),
            ghosts,
            sample: KeySample::new(limit, config.evict, config.optimise, config.policy),
            open_sets: (0..sets).map(|_| OpenSet::default()).collect(),
            reclaim: Mutex::default(),
            housekeeping: AtomicBool::new(false),
            events: Events::default(),
            evicted_idle_s: AtomicU32::new(0),
            next_handle: AtomicUsize::new(0),
            counters: Mutex::default(),
            flush_at: AtomicU32::new(0),
            flushing: Mutex::default(),
            layout,
            backing,
            flash_layout: FlashLayout::of(config.flash.as_ref(), limit),
            tier: config.flash.as_ref().map(|flash| Tier::new(flash, &layout, config.hash_secret)),
        })
    }

    /// Changes the memory limit. A higher limit is usable at once; for a lower one, items are evicted step by
    /// step in the handles' coming turns.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), Error> {
        self.check_limit(bytes)?;
        self.budget.set_limit(bytes);
        self.trim_towards_limit();
        self.lower_effective();
        self.housekeeping.store(true, Relaxed);
        Ok(())
    }

    /// Whether this can be the memory limit.
    pub(crate) fn check_limit(&self, bytes: u64) -> Result<(), Error> {
        let least = self.memory_limit_min();
        if bytes < least {
            return Err(Error::LimitTooSmall { bytes, least });
        }
        let most = self.segments.reserved();
        if bytes > most {
            return Err(Error::LimitTooLarge { bytes, most });
        }
        self.check_room(bytes)
    }

    /// Whether the file that holds items, if there is one, may become as large.
    fn check_room(&self, bytes: u64) -> Result<(), Error> {
        match self.backing.room().map_err(Error::File)? {
            Some(most) if most < bytes => Err(Error::NoRoom { bytes, most }),
            _ => Ok(()),
        }
    }

    /// The minimum for this store: its fixed parts, the reserve, and two sets of open segments.
    fn memory_limit_min(&self) -> u64 {
        let open = 2 * (CLASSES * self.segments.size()) as u64;
        let fixed = self.policy_bytes() + Index::fixed_bytes(self.index.shards()) + self.tier_bytes();
        (fixed + self.segments.reserve_bytes() + open).max(MEMORY_LIMIT_MIN)
    }

    /// Bytes of what decides about evictions: ghosts, and the sample of keys.
    pub(crate) fn policy_bytes(&self) -> u64 {
        self.ghosts.bytes() + KeySample::bytes_for(self.layout.limit_bytes)
    }

    /// Bytes that a flash tier always has in memory.
    pub(crate) fn tier_bytes(&self) -> u64 {
        self.tier.as_ref().map_or(0, Tier::memory)
    }

    /// Bytes to be evicted for a limit that has been lowered.
    pub(crate) fn excess(&self) -> u64 {
        self.budget.charged().saturating_sub(self.budget.limit().max(self.effective_min()))
    }

    /// Gives some free segments back for a limit that has been lowered. False if there were none.
    pub(crate) fn trim_towards_limit(&self) -> bool {
        self.segments.trim(self.excess().min(STEP_MAX as u64)) > 0
    }

    /// Lowers the effective limit, as far as memory has been given back for it.
    pub(crate) fn lower_effective(&self) {
        if self.budget.is_lowering() {
            self.budget.lower_effective(self.effective_min());
        }
    }

    /// The minimum of the effective limit: values that are being received or still sent cannot be evicted;
    /// half of the limit beside them is left to other items.
    fn effective_min(&self) -> u64 {
        self.held_large_bytes() + self.budget.limit() / 2
    }

    /// Bytes of large values that cannot be evicted: those that are being received, and those that are still sent.
    fn held_large_bytes(&self) -> u64 {
        self.large.bytes().saturating_sub(self.segments.large_total())
    }

    /// Whether a large value of `bytes` bytes leaves a quarter of the limit to other items, beside the large values
    /// that cannot be evicted. Otherwise a few clients that read large values slowly would make each new large value
    /// displace all small items.
    pub(crate) fn leaves_others_room(&self, bytes: u64) -> bool {
        !self.evict || self.held_large_bytes() + bytes <= self.joins_max()
    }

    /// Bytes of large values after which a segment is sealed, however few records it has: eviction would be
    /// too coarse otherwise.
    pub(crate) fn large_enough(&self) -> u64 {
        (self.segments.size() as u64).max(self.budget.limit() / 256)
    }

    /// Charges memory for anything but a segment, if necessary that of free segments. False: reclaim some.
    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let charge = || self.budget.charge_keeping(bytes, self.segments.keep());
        charge() || {
            self.segments.trim_to_charge(bytes);
            charge()
        }
    }

    /// Flushes everything stored so far: now (0), or when a handle first sees that second. A flush replaces
    /// one that was scheduled before.
    pub fn flush(&self, at_second: u32) {
        let _guard = lock(&self.flushing);
        if at_second == 0 {
            self.segments.flush();
            self.sample.clear();
        }
        self.flush_at.store(at_second, Release);
        self.housekeeping.store(true, Relaxed);
    }

    pub(crate) fn flush_if_due(&self, now: u32) {
        let is_due = |at: u32| at != 0 && at <= now;
        if is_due(self.flush_at.load(Acquire)) {
            let _guard = lock(&self.flushing);
            if is_due(self.flush_at.load(Acquire)) {
                self.segments.flush();
                self.sample.clear();
                self.flush_at.store(0, Release);
                self.housekeeping.store(true, Relaxed);
            }
        }
    }

    /// The size of an item as memcached counts it: key, value and overhead.
    #[inline]
    pub fn item_size(&self, key_len: usize, flags: u32, value_len: usize) -> u64 {
        let flags = if flags != 0 { 4 } else { 0 };
        let cas = if self.cas { CAS_OVERHEAD } else { 0 };
        ITEM_OVERHEAD + cas + flags + (key_len + value_len) as u64
    }

    /// Whether an item is within the size limit.
    #[inline]
    pub fn check_size(&self, key_len: usize, flags: u32, value_len: usize) -> Result<(), Error> {
        let fits = self.item_size(key_len, flags, value_len) <= self.item_size_max;
        if fits { Ok(()) } else { Err(Error::TooLarge) }
    }

    /// Sets the kinds of events to keep, and the size of their buffer in bytes.
    pub fn watch(&self, wanted: PerKind<bool>, room: usize) {
        self.events.watch(wanted, room);
    }

    /// Calls `each` with the events since the last call, in order. Returns how many were dropped.
    pub fn take_events(&self, each: impl FnMut(Event<'_>)) -> PerKind<u64> {
        self.events.take(each)
    }

    /// Pre-faults memory until the store is dropped. To be run by a thread of its own with the lowest
    /// priority; returns at once where there are no huge pages.
    pub fn prefault(store: &Weak<Store>) {
        while let Some(store) = store.upgrade() {
            if !store.huge {
                return;
            }
            store.prefault_thread.register();
            store.segments.prefault();
            store.index.prefault(store.budget.left());
            // If the last owner is gone by now, this drops the store.
            drop(store);
            std::thread::park();
        }
    }

    /// Evicted items by the time since their last access.
    pub fn evicted_idle(&self) -> EvictedIdle {
        EvictedIdle::of(&lock(&self.counters))
    }

    /// Statistics of all handles and of the memory.
    pub fn statistics(&self) -> Statistics {
        let mut counts = sums(&lock(&self.counters));
        if let Some(flash) = self.flash_statistics() {
            counts.curr_items += flash.objects;
            counts.bytes += flash.bytes_used;
        }
        Statistics {
            limit_bytes: self.budget.limit(),
            charged_bytes: self.budget.charged(),
            index_bytes: self.index.bytes(),
            index_home_slots: self.index.home_slots(),
            large_bytes: self.large.bytes(),
            ghost_bytes: self.ghosts.bytes(),
            sample_bytes: KeySample::bytes_for(self.layout.limit_bytes),
            policy: self.sample.state(),
            evicted_idle_s: self.evicted_idle_s.load(Relaxed),
            segments: self.segments.statistics(),
            counts,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.prefault_thread.wake();
        if let Some(tier) = &self.tier {
            tier.wake();
        }
    }
}

/// Handles that can use items as they lie on flash; others move them to memory. The places are address space until they are used, and
/// their number is part of the layout of a file.
const STAGING_PLACES: usize = 256;

/// memcached's overhead for an item: 48 bytes of header, one after the key, two of line end.
const ITEM_OVERHEAD: u64 = 51;
/// And for its CAS unique.
const CAS_OVERHEAD: u64 = 8;

/// Address space left to the rest of the process: buffers of connections, reports, and stacks of threads.
const HEADROOM: usize = 64 << 20;
const HEADROOM_PER_WORKER: usize = 4 << 20;
/// The least, with which a server begins where there is no more: it may run out of memory for many connections. memcached begins
/// there, too.
const HEADROOM_LEAST: usize = 24 << 20;

/// Bytes of all mappings for each byte that items may grow to: segments, twice as much for large values, and the index.
const MAPPED_PER_RESERVED: u64 = 4;

/// Address space to reserve, with room for a higher limit: address space is cheap.
fn address_space(limit: u64) -> u64 {
    if cfg!(any(miri, test)) {
        return 2 * limit;
    }
    (16 * limit).clamp(64 << 30, LOCATIONS_END)
}
