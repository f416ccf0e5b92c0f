//! Hot values: a small cache in front of servers, of values that one worker's clients ask for again and again.
//!
//! A key has a *slot* here once samples show it to be hot, and the reply to a `get` for it leaves its value there. What keeps
//! a client from reading what it has replaced is the order of requests, for which gets are numbered by *tickets*:
//!
//! * An update drops the value when it is sent. Until it is answered, nothing is kept.
//! * A reply is kept if the number of its get is at least that of the first get after the last such answer, and no reply to a
//!   later get was kept.
//!
//! So it does not matter over which connection each of them goes. What others change is seen when the value's time is over.
//!
//! No I/O, no clock, and no knowledge of a protocol.

mod memory;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ::hot_keys::{KeyAccess, KeySampler};
use stdx::clock::Now;

use memory::{HotPool, charge};
pub(crate) use settings::HotCacheSettings;

/// Keys of a worker that are hot at a time: those with a 500th of the gets each are 500 in one window of samples, and the
/// window before counts, too. Without its value a slot takes about 400 bytes.
const SLOTS_MAX: usize = 1024;

/// Share of a worker's gets for pools with such a cache, as a divisor, from which on a key is hot. A server would notice the
/// others as little.
const HOT_SHARE: u64 = 500;

/// Samples of a key in a window of five seconds before it is hot: fewer may be chance, and a key with fewer gets than that
/// is no load.
const HOT_SAMPLES_MIN: u64 = 32;

/// A key stays hot for so long after a sample has shown it: two windows.
const HOT_US: u64 = 2 * ::hot_keys::WINDOW_US;

/// The number of a get, in the order in which they are sent.
pub(crate) type Ticket = u64;

/// The key of an item at a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotName<'k> {
    hash: u64,
    server: u64,
    /// `None` where it was compared before.
    key: Option<&'k [u8]>,
}

/// A value, and what a reply says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotValue {
    /// The client's flags.
    pub(crate) flags: u64,
    pub(crate) bytes: Arc<[u8]>,
    /// Of a reply that would say it if a client were to store the item anew.
    pub(crate) is_fresh: bool,
}

/// Numbers for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotCounts {
    /// Gets that were answered.
    pub(crate) hits: u64,
    /// Values that were kept.
    pub(crate) fills: u64,
    /// Values that were dropped because of an update, a flush, a lost connection or another configuration.
    pub(crate) dropped: u64,
    /// Values that made room for others before their time.
    pub(crate) evicted: u64,
}

/// The values of a worker.
pub(crate) struct HotCache {
    /// With a secret: clients cannot choose keys that share a slot.
    hasher: RandomState,
    sampler: KeySampler,
    pools: Vec<HotPool>,
    /// Servers of all pools.
    servers: HashSet<u64>,
    slots: HashMap<u64, HotSlot>,
    /// Updates without an answer, by the hash of their key.
    updates: HashMap<u64, u32>,
    /// The same of those that change all items of a server, by the server.
    sweeps: HashMap<u64, u32>,
    next_ticket: Ticket,
    counts: HotCounts,
}

/// A key that is hot.
struct HotSlot {
    server: u64,
    key: Box<[u8]>,
    until: Now,
    /// The first ticket with which its value may be kept.
    valid_from: Ticket,
    kept: Option<KeptValue>,
}

/// The value of a slot.
struct KeptValue {
    value: HotValue,
    /// When it was asked for, and with which ticket.
    sent: Now,
    ticket: Ticket,
    /// To which pool its bytes are charged, and how many.
    pool: usize,
    charged: usize,
}

impl HotCache {
    /// Without pools, so for no requests. `seed` is for samples.
    pub(crate) fn new(hasher: RandomState, seed: u64) -> HotCache {
        HotCache {
            hasher,
            sampler: KeySampler::by_samples_alone(Arc::default(), seed),
            pools: Vec::new(),
            servers: HashSet::new(),
            slots: HashMap::new(),
            updates: HashMap::new(),
            sweeps: HashMap::new(),
            next_ticket: 0,
            counts: HotCounts::default(),
        }
    }

    /// Drops everything but what is known of updates, and goes on with these pools, whose servers have these names.
    pub(crate) fn set_pools<'n>(
        &mut self,
        pools: impl IntoIterator<Item = Arc<HotCacheSettings>>,
        servers: impl IntoIterator<Item = &'n str>,
    ) {
        self.servers = servers.into_iter().map(|name| self.hasher.hash_one(name)).collect();
        let kept = self.slots.values().filter(|slot| slot.kept.is_some()).count();
        self.counts.dropped += kept as u64;
        self.slots.clear();
        self.pools = pools.into_iter().map(HotPool::new).collect();
    }

    /// The place of a pool with these settings.
    pub(crate) fn pool(&self, settings: &HotCacheSettings) -> Option<usize> {
        self.pools.iter().position(|pool| *pool.settings == *settings)
    }

    /// Names a server, if it is one of the pools'.
    pub(crate) fn server_of_pools(&self, name: &str) -> Option<u64> {
        Some(self.hasher.hash_one(name)).filter(|server| self.servers.contains(server))
    }

    /// Names an item of a server.
    #[inline]
    pub(crate) fn name<'k>(&self, server: u64, key: &'k [u8]) -> HotName<'k> {
        HotName { hash: self.hasher.hash_one((server, key)), server, key: Some(key) }
    }

    /// Names an item by its hash, for which a ticket was given.
    pub(crate) fn name_of(server: u64, hash: u64) -> HotName<'static> {
        HotName { hash, server, key: None }
    }

    /// What was counted since the last call.
    pub(crate) fn take_counts(&mut self) -> HotCounts {
        std::mem::take(&mut self.counts)
    }

    /// Bytes of all values.
    pub(crate) fn bytes(&self) -> usize {
        self.pools.iter().map(|pool| pool.bytes).sum()
    }

    /// Updates without an answer.
    #[cfg(test)]
    pub(crate) fn on_their_way(&self) -> usize {
        self.updates.len() + self.sweeps.len()
    }

    /// A client asks for an item. Keys become hot by this alone.
    #[inline]
    pub(crate) fn count(&mut self, name: HotName<'_>, now: Now) {
        if self.sampler.is_due_by_count() {
            self.sample(name, now);
        }
    }

    #[cold]
    fn sample(&mut self, name: HotName<'_>, now: Now) {
        let Some(key) = name.key else { return };
        let access = KeyAccess { key, hash: name.hash, bytes: 0, missed: false };
        let Some(share) = self.sampler.take(&access, now) else { return };
        let is_hot = share.certain.saturating_mul(HOT_SHARE) >= share.accesses
            && share.certain >= HOT_SAMPLES_MIN * u64::from(share.gap);
        if !is_hot {
            return;
        }
        let until = Now { us: now.us + HOT_US };
        if let Some(slot) = self.slots.get_mut(&name.hash) {
            slot.until = until;
            return;
        }
        if self.slots.len() >= SLOTS_MAX {
            self.forget_cold(now);
        }
        if self.slots.len() < SLOTS_MAX {
            // No get before this one is known to be later than the last update.
            let (key, valid_from) = (key.into(), self.next_ticket);
            self.slots.insert(name.hash, HotSlot { server: name.server, key, until, valid_from, kept: None });
        }
    }

    /// Removes slots whose keys are hot no more.
    fn forget_cold(&mut self, now: Now) {
        let pools = &mut self.pools;
        self.slots.retain(|_, slot| {
            let stays = slot.until > now;
            if !stays && let Some(kept) = slot.kept.take() {
                pools[kept.pool].bytes -= kept.charged;
            }
            stays
        });
    }

    /// The value of an item, if it is young enough for a pool. `is_meta`: for a meta request, whose reply says whether a
    /// client is to store the item anew.
    #[inline]
    pub(crate) fn get(
        &mut self,
        name: HotName<'_>,
        pool: usize,
        is_meta: bool,
        now: Now,
    ) -> Option<&HotValue> {
        let slot = self.slots.get(&name.hash).filter(|slot| slot.is(name))?;
        let kept = slot.kept.as_ref().filter(|kept| kept.value.is_fresh || !is_meta)?;
        if now.us >= kept.sent.us + self.pools[pool].settings.ttl_us() {
            return None;
        }
        self.counts.hits += 1;
        Some(&kept.value)
    }

    /// A get for an item is sent. Returns its ticket and the item's hash, if its reply may be kept.
    #[inline]
    pub(crate) fn ticket(&mut self, name: HotName<'_>) -> Option<(Ticket, u64)> {
        if !self.slots.get(&name.hash).is_some_and(|slot| slot.is(name)) {
            return None;
        }
        self.next_ticket += 1;
        Some((self.next_ticket - 1, name.hash))
    }

    /// An update of an item is about to be sent. [`HotCache::end_update`] follows, whatever comes of it.
    pub(crate) fn begin_update(&mut self, name: HotName<'_>) -> u64 {
        *self.updates.entry(name.hash).or_default() += 1;
        self.drop_value(name);
        name.hash
    }

    /// Drops the value of an item.
    pub(crate) fn drop_value(&mut self, name: HotName<'_>) {
        // Those of another key of this hash, too.
        if let Some(kept) = self.slots.get_mut(&name.hash).and_then(|slot| slot.kept.take()) {
            self.pools[kept.pool].bytes -= kept.charged;
            self.counts.dropped += 1;
        }
    }

    /// An update is answered, or it is known that no answer comes.
    pub(crate) fn end_update(&mut self, hash: u64) {
        end_one(&mut self.updates, hash);
        if let Some(slot) = self.slots.get_mut(&hash) {
            slot.valid_from = self.next_ticket;
        }
    }

    /// Something is about to be sent, or may be on its way, that changes items of a server, nobody knows which.
    /// [`HotCache::end_sweep`] follows.
    pub(crate) fn begin_sweep(&mut self, server: u64) {
        *self.sweeps.entry(server).or_default() += 1;
    }

    /// It is answered, or no answer comes.
    pub(crate) fn end_sweep(&mut self, server: u64) {
        end_one(&mut self.sweeps, server);
        for slot in self.slots.values_mut().filter(|slot| slot.server == server) {
            slot.valid_from = self.next_ticket;
        }
    }

    /// Drops all values of a server.
    pub(crate) fn drop_server(&mut self, server: u64) {
        for slot in self.slots.values_mut().filter(|slot| slot.server == server) {
            if let Some(kept) = slot.kept.take() {
                self.pools[kept.pool].bytes -= kept.charged;
                self.counts.dropped += 1;
            }
        }
    }

    /// The reply to a get has come: whether what it says is the latest that can be known of the item. If so, an older value is
    /// dropped.
    pub(crate) fn is_latest(&mut self, name: HotName<'_>, ticket: Ticket) -> bool {
        if self.updates.contains_key(&name.hash) || self.sweeps.contains_key(&name.server) {
            return false;
        }
        let slot = self.slots.get_mut(&name.hash).filter(|slot| slot.is(name) && ticket >= slot.valid_from);
        let Some(slot) = slot else { return false };
        // An earlier get's reply may still come, over another connection.
        slot.valid_from = ticket + 1;
        if let Some(old) = slot.kept.take() {
            self.pools[old.pool].bytes -= old.charged;
        }
        true
    }

    /// Whether a pool keeps a value of `len` bytes that was asked for at `sent`.
    pub(crate) fn keeps(&self, name: HotName<'_>, pool: usize, len: usize, sent: Now, now: Now) -> bool {
        let settings = &self.pools[pool].settings;
        let is_young = now.us < sent.us + settings.ttl_us();
        let charged = self.slots.get(&name.hash).map_or(usize::MAX, |slot| charge(&slot.key, len));
        is_young && len <= settings.value_max && charged <= settings.memory
    }

    /// Keeps a value for which [`HotCache::is_latest`] and [`HotCache::keeps`] hold.
    pub(crate) fn fill(
        &mut self,
        name: HotName<'_>,
        pool: usize,
        (ticket, sent): (Ticket, Now),
        value: HotValue,
        now: Now,
    ) {
        let Some(slot) = self.slots.get(&name.hash) else { return };
        let charged = charge(&slot.key, value.bytes.len());
        self.make_room(pool, charged, now);
        let Some(slot) = self.slots.get_mut(&name.hash) else { return };
        slot.kept = Some(KeptValue { value, sent, ticket, pool, charged });
        self.pools[pool].add(charged, name.hash, ticket);
        self.counts.fills += 1;
    }
}

impl HotSlot {
    fn is(&self, name: HotName<'_>) -> bool {
        self.server == name.server && name.key.is_none_or(|key| *self.key == *key)
    }
}

/// One less; none is no entry.
fn end_one(counts: &mut HashMap<u64, u32>, of: u64) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}
