//! A shard: one lock, what it guards, and proof that it is held.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::manifest::numbers::{Damaged, ManifestReader, ManifestWriter};
use crate::memory::large::{LargeSpace, LargeValue};
use crate::sync::{Mutex, MutexGuard, lock};

/// The keys whose hashes start with the same bits. Its index pages are in `index.rs`.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Shard {
    state: Mutex<ShardState>,
    /// The directory has 2^depth entries. Changed under the lock; read without it for hints only.
    pub(crate) depth: AtomicU32,
}

#[derive(Debug, Default)]
pub(crate) struct ShardState {
    /// Number of CAS uniques issued.
    cas_given: u64,
    large: LargeValues,
    pages: Pages,
}

/// The length that stands for a number without a value.
const NO_VALUE: u64 = u64::MAX;

/// The index's data about a shard's pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Number of pages that use all bits of the directory.
    pub(crate) deepest: usize,
}

impl Shard {
    #[inline]
    pub(crate) fn lock(&self, number: usize) -> Locked<'_> {
        Locked { number, state: lock(&self.state), dropped: None }
    }
}

/// Proof that a shard's lock is held.
#[derive(Debug)]
pub(crate) struct Locked<'s> {
    /// The shard's number.
    pub(crate) number: usize,
    state: MutexGuard<'s, ShardState>,
    /// Dropped after the lock is released, because giving back the memory of a large value takes a while.
    dropped: Option<Arc<LargeValue>>,
}

impl Locked<'_> {
    pub(crate) fn pages(&mut self) -> &mut Pages {
        &mut self.state.pages
    }

    /// Counts a CAS unique that is issued now. Returns the number issued so far.
    pub(crate) fn count_cas(&mut self) -> u64 {
        self.state.cas_given += 1;
        self.state.cas_given
    }

    /// What a manifest has of this shard, without its pages.
    pub(crate) fn freeze(&self, manifest: &mut ManifestWriter) {
        manifest.put(self.state.cas_given);
        manifest.put(self.state.large.places.len() as u64);
        for place in &self.state.large.places {
            let [offset, len] = place.as_ref().map_or([0, NO_VALUE], |value| value.place());
            manifest.put(offset);
            manifest.put(len);
        }
    }

    pub(crate) fn thaw(
        &mut self,
        manifest: &mut ManifestReader<'_>,
        space: &Arc<LargeSpace>,
    ) -> Result<(), Damaged> {
        self.state.cas_given = manifest.count()?;
        let count = manifest.below(u64::from(u32::MAX))?;
        for number in 0..count {
            let (offset, len) = (manifest.take()?, manifest.take()?);
            if len == NO_VALUE {
                self.state.large.places.push(None);
                self.state.large.free.push(number as u32);
                continue;
            }
            let value = space.thaw(offset as usize, len as usize).ok_or(Damaged)?;
            self.state.large.places.push(Some(Arc::new(value)));
        }
        Ok(())
    }

    pub(crate) fn keep_large(&mut self, value: Arc<LargeValue>) -> u32 {
        self.state.large.insert(value)
    }

    pub(crate) fn large(&self, number: u32) -> &Arc<LargeValue> {
        self.state.large.places[number as usize].as_ref().expect("a record refers to it")
    }

    /// Removes a large value. Returns its charge.
    pub(crate) fn drop_large(&mut self, number: u32) -> u64 {
        let value = self.state.large.remove(number);
        let charge = value.charge();
        self.dropped = Some(value);
        charge
    }
}

/// Large values by number.
#[derive(Debug, Default)]
struct LargeValues {
    places: Vec<Option<Arc<LargeValue>>>,
    free: Vec<u32>,
}

impl LargeValues {
    fn insert(&mut self, value: Arc<LargeValue>) -> u32 {
        if let Some(number) = self.free.pop() {
            self.places[number as usize] = Some(value);
            return number;
        }
        self.places.push(Some(value));
        u32::try_from(self.places.len() - 1).expect("fewer than 2^32 large values of 32 KiB")
    }

    fn remove(&mut self, number: u32) -> Arc<LargeValue> {
        self.free.push(number);
        self.places[number as usize].take().expect("a record refers to it")
    }
}
