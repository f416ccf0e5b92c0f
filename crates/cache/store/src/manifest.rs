//! Manifests: what a store has outside of its mappings. With the file that backs these, another process has the same store.
//!
//! The memory of a store is in use as it is: nothing is walked, and nothing in it is changed. A manifest is a few hundred kilobytes for
//! ten million items: the queues of segments, the shards' CAS uniques and directories, and the places of large values.

pub(crate) mod numbers;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::{Config, Layout};
use crate::error::Error;
use crate::index::hash::KeyHash;
use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::memory::backing::Backing;
use crate::memory::unused::STEP_MAX;
use crate::statistics::{Counters, sums};
use crate::store::Store;
use crate::sync::lock;
use crate::tier::layout::FlashLayout;

/// What a store has outside of its mappings, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest(pub Vec<u64>);

/// Why a store does not come back from a file and a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ThawError {
    /// The manifest was written by an Evenkeel with another layout of memory.
    #[error("it was written by another version: its layout is {found}, and {LAYOUT_VERSION} is expected")]
    Version {
        /// The layout's version.
        found: u64,
    },
    /// Keys would not be found again.
    #[error("it was written by a version with another hash of keys")]
    Hash,
    /// CAS uniques are on in one of both and off in the other.
    #[error("it was written {}, and this server runs {}", with_cas(*.0), with_cas(!*.0))]
    Cas(bool),
    /// Items would be looked for in the wrong places of the flash.
    #[error("it was written by a server {found}, and this one runs {expected}")]
    Flash {
        /// The tier of the other one.
        found: String,
        /// The tier of this one.
        expected: String,
    },
    /// Numbers that contradict each other.
    #[error("its numbers contradict each other")]
    Damaged,
    /// The store itself cannot be made.
    #[error(transparent)]
    Store(#[from] Error),
}

fn with_cas(cas: bool) -> &'static str {
    if cas { "with CAS uniques" } else { "without CAS uniques (-C)" }
}

impl From<Damaged> for ThawError {
    fn from(_: Damaged) -> ThawError {
        ThawError::Damaged
    }
}

/// To be raised by every change of what lies where: records, slots, tables, their order in a file, and manifests.
pub const LAYOUT_VERSION: u64 = 4;

/// A key whose hash shows that the hash function is the same.
const SAMPLE_KEY: &[u8] = b"the same hash";

impl Store {
    /// The manifest of a store in a file; `None` for one in anonymous memory. From now on the file stays as it is: no handle may be
    /// used any more, and large values that are still sent are not part of it.
    pub fn freeze(&self) -> Option<Manifest> {
        self.seal_everything();
        while self.large.release_some(STEP_MAX) > 0 {}
        if !self.backing.set_frozen(true) {
            return None;
        }
        let mut manifest = ManifestWriter::default();
        manifest.put(LAYOUT_VERSION);
        let Layout { limit_bytes, reserve_bytes, shards, .. } = self.layout;
        [limit_bytes, reserve_bytes, shards as u64].into_iter().for_each(|number| manifest.put(number));
        self.flash_layout.freeze(&mut manifest);
        manifest.put(self.cas);
        manifest.put(self.first_cas);
        manifest.put(self.hash_secret as u64);
        manifest.put((self.hash_secret >> 64) as u64);
        manifest.put(self.hash.of(SAMPLE_KEY));
        manifest.put(self.flush_at.load(Relaxed));
        manifest.put(self.evicted_idle_s.load(Relaxed));
        self.ghosts.freeze(&mut manifest);
        self.segments.freeze(&mut manifest);
        self.index.freeze(&mut manifest);
        if let Some(tier) = &self.tier {
            tier.freeze(&mut manifest);
        }
        let counts = sums(&lock(&self.counters));
        counts.present().into_iter().for_each(|number| manifest.put(number));
        Some(Manifest(manifest.0))
    }

    /// Goes on after [`Store::freeze`], or [`Store::begin_finish_flash`], if nobody has taken the file.
    pub fn go_on(&self) {
        self.backing.set_frozen(false);
        if let Some(tier) = &self.tier {
            tier.resume();
        }
    }

    /// Begins after [`Store::thaw_frozen`]: from now on the file is this store's, with the limit of its configuration.
    pub fn begin(&self, limit_bytes: u64) -> Result<(), Error> {
        self.go_on();
        self.set_memory_limit(limit_bytes)
    }

    fn seal_everything(&self) {
        let mut reclaim = lock(&self.reclaim);
        reclaim.put_back(&self.segments);
        self.open_sets.iter().for_each(|set| set.seal_all(&self.segments));
    }

    /// The store whose manifest this is, in the same file. Its sizes are those of its creation; a memory limit that is now different
    /// comes into force as by [`Store::set_memory_limit`].
    pub fn thaw(config: Config, file: &Arc<File>, manifest: &Manifest) -> Result<Arc<Store>, ThawError> {
        let limit_bytes = config.memory_limit_bytes;
        let store = Store::thaw_frozen(config, file, manifest)?;
        store.begin(limit_bytes)?;
        Ok(store)
    }

    /// The same, but the file stays as it is until [`Store::begin`]: another store may still go on with it. Until then, no item may be
    /// stored or removed.
    pub fn thaw_frozen(
        config: Config,
        file: &Arc<File>,
        manifest: &Manifest,
    ) -> Result<Arc<Store>, ThawError> {
        config.check()?;
        let mut numbers = ManifestReader(&manifest.0);
        let found = numbers.take()?;
        if found != LAYOUT_VERSION {
            return Err(ThawError::Version { found });
        }
        let (limit_bytes, reserve_bytes) = (numbers.take()?, numbers.take()?);
        let layout = Layout::written(limit_bytes, reserve_bytes, numbers.below(1 << 17)? as usize)?;
        let flash = FlashLayout::thaw(&mut numbers)?;
        let expected = FlashLayout::of(config.flash.as_ref(), limit_bytes);
        if flash != expected {
            return Err(ThawError::Flash { found: flash.to_string(), expected: expected.to_string() });
        }
        layout.check(config.flash.as_ref())?;
        if numbers.below(2)? != u64::from(config.cas) {
            return Err(ThawError::Cas(!config.cas));
        }
        let first_cas = numbers.count()?;
        let hash_secret = u128::from(numbers.take()?) | u128::from(numbers.take()?) << 64;
        if KeyHash::new(hash_secret).of(SAMPLE_KEY) != numbers.take()? {
            return Err(ThawError::Hash);
        }
        let limit = config.memory_limit_bytes;
        let config = Config { hash_secret, ..config };
        let backing = Backing::file(Arc::clone(file));
        // If it comes to nothing, all is as it was for the next attempt.
        backing.set_frozen(true);
        let mut store = Store::reserve(&config, layout, backing)?;
        store.first_cas = first_cas;
        store.fill(&mut numbers)?;
        store.check_limit(limit)?;
        Ok(Arc::new(store))
    }

    fn fill(&self, numbers: &mut ManifestReader<'_>) -> Result<(), Damaged> {
        let second = u64::from(u32::MAX) + 1;
        self.flush_at.store(numbers.below(second)? as u32, Relaxed);
        self.evicted_idle_s.store(numbers.below(second)? as u32, Relaxed);
        self.ghosts.thaw(numbers)?;
        let segments = self.segments.thaw(numbers)?;
        self.index.thaw(numbers, &self.large)?;
        if let Some(tier) = &self.tier {
            tier.thaw(numbers)?;
        }
        self.budget.adopt(
            self.tier_bytes() + self.policy_bytes() + self.index.bytes() + segments + self.large.page_bytes(),
        );
        let counters = Counters::default();
        for counter in counters.present() {
            counter.add(numbers.count()?);
        }
        lock(&self.counters).push(Arc::new(counters));
        if numbers.0.is_empty() { Ok(()) } else { Err(Damaged) }
    }
}
