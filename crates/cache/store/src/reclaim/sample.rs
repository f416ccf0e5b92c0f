//! Uses of sampled keys, on their way from the handles to the miniature caches.
//!
//! A handle notes the uses of the keys whose hashes have none of the mask's bits. At the beginning of its next turn, or of an
//! operation when it has noted half as many as it may, they go to the miniatures; if another handle is there at the time, the next turn tries
//! again, and what no longer finds a place is lost and counted. So no request waits, and with one handle the outcome
//! depends on the requests alone.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::miniature::{KeyUse, Miniatures};
use super::policy::{EvictionPolicy, Optimise};
use super::share::QueueActivity;
use crate::operations::request::Miss;
use crate::sync::{Mutex, lock};

/// The sample of one store, and the policy that follows from it.
#[derive(Debug)]
pub(crate) struct KeySample {
    optimise: Optimise,
    /// A policy that was given; nothing is chosen then.
    pinned: Option<EvictionPolicy>,
    /// A key is sampled if its hash has none of these bits.
    mask: AtomicU64,
    chosen: AtomicUsize,
    stored: AtomicU64,
    found_in_main: AtomicU64,
    /// Uses for which there was no place.
    lost: AtomicU64,
    changes: AtomicU64,
    /// Bytes of items when the store was last full; `u64::MAX`: not yet.
    capacity: AtomicU64,
    miniatures: Mutex<Miniatures>,
}

/// The uses that one handle has noted.
#[derive(Debug)]
pub(crate) struct NotedUses {
    mask: u64,
    uses: Vec<(u64, KeyUse)>,
}

/// The policy of a store, and how it came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyState {
    /// What decides about evictions.
    pub policy: EvictionPolicy,
    /// Whether it was given rather than chosen.
    pub pinned: bool,
    /// How often another one was chosen.
    pub changes: u64,
    /// One key in so many is sampled.
    pub sampled_one_in: u64,
    /// Uses of sampled keys that were lost, because the workers had no time for them.
    pub lost: u64,
}

/// Uses that a handle keeps: some 30 µs of work.
const NOTED_MAX: usize = 256;
/// No hash is without these bits, but one in 2^64.
const NONE: u64 = u64::MAX;

impl KeySample {
    /// For a memory limit of `limit` bytes. Without eviction there is nothing to choose.
    pub(crate) fn new(
        limit: u64,
        evict: bool,
        optimise: Optimise,
        pinned: Option<EvictionPolicy>,
    ) -> KeySample {
        let miniatures = Miniatures::new(limit, optimise);
        KeySample {
            optimise,
            pinned,
            mask: AtomicU64::new(if evict { miniatures.mask() } else { NONE }),
            chosen: AtomicUsize::new(0),
            stored: AtomicU64::new(0),
            found_in_main: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            capacity: AtomicU64::new(u64::MAX),
            miniatures: Mutex::new(miniatures),
        }
    }

    /// Bytes for a memory limit of `limit` bytes.
    pub(crate) fn bytes_for(limit: u64) -> u64 {
        Miniatures::bytes_for(limit)
    }

    /// What decides at present.
    #[inline]
    pub(crate) fn policy(&self) -> EvictionPolicy {
        self.pinned.unwrap_or_else(|| self.optimise.candidates()[self.chosen.load(Relaxed)])
    }

    pub(crate) fn state(&self) -> PolicyState {
        let mask = self.mask.load(Relaxed);
        PolicyState {
            policy: self.policy(),
            pinned: self.pinned.is_some(),
            changes: if self.pinned.is_some() { 0 } else { self.changes.load(Relaxed) },
            sampled_one_in: if mask == NONE { 0 } else { mask + 1 },
            lost: self.lost.load(Relaxed),
        }
    }

    pub(crate) fn activity(&self) -> QueueActivity {
        QueueActivity { stored: self.stored.load(Relaxed), found_in_main: self.found_in_main.load(Relaxed) }
    }

    /// Notes how many bytes of items fit, when something has been evicted.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.capacity.store(bytes, Relaxed);
    }

    /// Forgets all keys.
    pub(crate) fn clear(&self) {
        lock(&self.miniatures).clear();
    }

    /// Takes what was noted, unless another handle is doing the same.
    pub(crate) fn take(&self, noted: &mut NotedUses, now: u32) {
        noted.mask = self.mask.load(Relaxed);
        if noted.uses.is_empty() {
            return;
        }
        let Ok(mut miniatures) = self.miniatures.try_lock() else { return };
        miniatures.set_capacity(self.capacity.load(Relaxed));
        for (hash, usage) in noted.uses.drain(..) {
            match usage {
                KeyUse::Found { main: true, .. } => {
                    self.found_in_main.store(self.found_in_main.load(Relaxed) + 1, Relaxed)
                }
                KeyUse::Stored { new: true, .. } => self.stored.store(self.stored.load(Relaxed) + 1, Relaxed),
                _ => {}
            }
            miniatures.note(hash, usage, now);
        }
        self.mask.store(miniatures.mask(), Relaxed);
        self.chosen.store(miniatures.chosen(), Relaxed);
        self.changes.store(miniatures.changes(), Relaxed);
        noted.mask = miniatures.mask();
    }
}

impl Default for NotedUses {
    /// Nothing is sampled before the first turn.
    fn default() -> NotedUses {
        NotedUses { mask: NONE, uses: Vec::new() }
    }
}

impl NotedUses {
    /// Whether it is time to let the sample have them.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.uses.len() >= NOTED_MAX / 2
    }

    /// Whether uses of this key are noted.
    #[inline]
    pub(crate) fn samples(&self, hash: u64) -> bool {
        hash & self.mask == 0
    }

    /// Notes a use of a sampled key.
    #[cold]
    pub(crate) fn add(&mut self, hash: u64, usage: KeyUse, sample: &KeySample) {
        if self.uses.len() >= NOTED_MAX {
            sample.lost.fetch_add(1, Relaxed);
            return;
        }
        self.uses.push((hash, usage));
    }

    /// Notes a get of a sampled key that found nothing.
    #[cold]
    pub(crate) fn add_miss(&mut self, hash: u64, miss: Miss, sample: &KeySample) {
        if miss != Miss::Absent {
            self.add(hash, KeyUse::Gone, sample);
        }
        self.add(hash, KeyUse::Missed, sample);
    }
}
