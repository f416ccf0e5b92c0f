//! Joins to large values (`append`, `prepend`) in steps.
//!
//! The joined value is built like one that is received: charged as it grows, and copied piece by piece over
//! several turns. Then [`Handle::store`] stores it in place of the old one, if that is still the one with
//! which the join began. Copied at once, 30 MB would delay the worker's other connections by 50 ms.
//!
//! Joins to one key run one after the other: if they ran concurrently, each that finishes would make all
//! others start over.

use std::sync::Arc;

use self::claim::Claim;
use self::prepared::{Old, Prepared};
use crate::error::Error;
use crate::handle::Handle;
use crate::index::hash::Key;
use crate::memory::large::LARGE_VALUE_MIN;
use crate::memory::partial::PartialValue;
use crate::operations::request::Condition;
use crate::reclaim::state::Spared;
use crate::segment::record::Record;
use crate::shard::Locked;
use crate::store::Store;

pub(crate) mod buffers;
pub(crate) mod claim;
pub(crate) mod prepared;

/// Shorter joined values are copied at once, in some 0.4 ms.
const STEPS_MIN: usize = 256 * 1024;

/// A value that is being joined.
#[derive(Debug)]
pub struct Join {
    hash: u64,
    /// Whether the new part is prepended.
    new_first: bool,
    /// `None` while another join has the claim to the key.
    begun: Option<Begun>,
}

/// A join that has the claim to its key.
#[derive(Debug)]
struct Begun {
    claim: Claim,
    old: Old,
    /// `None` while other values that are being received use the whole share.
    partial: Option<PartialValue>,
}

/// Result of a step of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinStep {
    /// The joined value is complete: call [`Handle::prepare`], then store.
    Whole,
    /// More steps are needed; continue in the next turn.
    Soon,
    /// The join waits for values that are being received, or for a join to the same key that waits for them.
    Later,
    /// The item was replaced or removed since the join began.
    Changed,
}

/// The rest of that one of the two parts to which byte `at` of the joined value belongs.
fn piece<'p>((first, second): (&'p [u8], &'p [u8]), at: usize) -> &'p [u8] {
    match at.checked_sub(first.len()) {
        None => &first[at..],
        Some(at) => &second[at..],
    }
}

impl Handle {
    /// Begins to join `len` bytes to the item of this key. `None` if no steps are needed: the condition is
    /// another one, there is no such item, or the join is short.
    pub fn begin_join(&mut self, key: &Key<'_>, condition: Condition, len: usize, now: u32) -> Option<Join> {
        if !matches!(condition, Condition::Append | Condition::Prepend) {
            return None;
        }
        self.enter(now);
        let store = &*self.store;
        let lock = store.index.lock(key.hash);
        let record = store.joined_to(&lock, key, now)?;
        let joined = record.len(&lock) + len;
        let in_steps =
            joined >= STEPS_MIN && store.check_size(key.bytes.len(), record.flags(&lock), joined).is_ok();
        let new_first = condition == Condition::Prepend;
        in_steps.then_some(Join { hash: key.hash, new_first, begun: None })
    }

    /// Makes the next step of a join of `new` to the item of this key. An error means that there is no memory
    /// for it.
    pub fn step_join(
        &mut self,
        join: &mut Join,
        key: &Key<'_>,
        new: &[u8],
        now: u32,
    ) -> Result<JoinStep, Error> {
        self.enter(now);
        let begun = match &mut join.begun {
            Some(begun) if self.still_has(key, &begun.old, now) => begun,
            Some(_) => return Ok(JoinStep::Changed),
            None => match Claim::take(&self.store.joins, join.hash) {
                Err(waits) => return Ok(if waits { JoinStep::Later } else { JoinStep::Soon }),
                Ok(claim) => {
                    let Some(old) = self.old(key, now) else { return Ok(JoinStep::Changed) };
                    join.begun.insert(Begun { claim, old, partial: None })
                }
            },
        };
        let old = begun.old.as_bytes();
        let parts = if join.new_first { (new, old) } else { (old, new) };
        let partial = match &mut begun.partial {
            Some(partial) => partial,
            None => {
                let spared = Spared { hash: key.hash, charge: begun.old.charge() };
                let partial = self.begin_value_beside(old.len() + new.len(), Some(spared), now)?;
                begun.claim.set_waits(partial.is_none());
                match partial {
                    Some(partial) => begun.partial.insert(partial),
                    None => return Ok(JoinStep::Later),
                }
            }
        };
        self.copy(parts, partial, now)
    }

    /// Copies as much as one turn allows.
    fn copy(
        &mut self,
        parts: (&[u8], &[u8]),
        partial: &mut PartialValue,
        now: u32,
    ) -> Result<JoinStep, Error> {
        while !partial.is_full() {
            if self.copied_left == 0 {
                return Ok(JoinStep::Soon);
            }
            if partial.room().is_empty() && !self.extend_value(partial, now)? {
                return Ok(JoinStep::Soon);
            }
            let piece = piece(parts, partial.filled());
            let room = partial.room();
            let count = room.len().min(piece.len()).min(self.copied_left);
            room[..count].copy_from_slice(&piece[..count]);
            partial.fill(count);
            self.copied_left -= count;
        }
        Ok(JoinStep::Whole)
    }

    fn old(&self, key: &Key<'_>, now: u32) -> Option<Old> {
        let store = &*self.store;
        let lock = store.index.lock(key.hash);
        store.joined_to(&lock, key, now).map(|record| Old::of(record, &lock))
    }

    fn still_has(&self, key: &Key<'_>, old: &Old, now: u32) -> bool {
        let store = &*self.store;
        let lock = store.index.lock(key.hash);
        store.joined_to(&lock, key, now).is_some_and(|record| old.is_of(record, &lock))
    }

    /// Makes the next [`Handle::store`] of the joined request store this value in place of the old one. If
    /// the item has changed by then, the store joins to the new value at once; if the join is incomplete, the
    /// store fails as if there were no memory.
    pub fn prepare(&mut self, join: Option<Join>) {
        self.join.prepared = join.map(|join| match join.begun {
            Some(Begun { claim, old, partial: Some(partial) }) if partial.is_full() => {
                Prepared::Whole { _claim: claim, old, joined: Arc::new(partial.into_value()) }
            }
            _ => Prepared::Nothing,
        });
    }
}

impl Store {
    /// The live item of this key. Nothing is counted here: the operation that follows counts.
    fn joined_to(&self, lock: &Locked<'_>, key: &Key<'_>, now: u32) -> Option<Record<'_>> {
        let is_key = |at: usize| self.segments.record(at).key() == key.bytes;
        let slot = self.index.find(lock, key.hash, is_key)?;
        self.why_dead(slot.at(), now).is_none().then(|| self.segments.record(slot.at()))
    }
}

const _: () = assert!(STEPS_MIN >= LARGE_VALUE_MIN, "a value joined in steps is a large value");
