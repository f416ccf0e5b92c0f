//! Joining to large values (`append`, `prepend`) in steps.
//!
//! The joined value is put together as one that is received is: charged as it grows, copied piece by piece while others
//! have their turns. Then [`Handle::store`] puts it in the old one's place, if that is still the one it began with.
//! Copied at once, 30 MB would hold up a worker's other connections for 50 ms.
//!
//! Joins to one key come one after the other: if they raced, each that ends would make all others begin again.

use std::sync::Arc;

use self::claim::Claim;
use self::prepared::{Old, Prepared};
use crate::error::Error;
use crate::handle::Handle;
use crate::hash::Key;
use crate::large::LARGE_VALUE_MIN;
use crate::partial::PartialValue;
use crate::reclaim::state::Spared;
use crate::record::Record;
use crate::request::Condition;
use crate::shard::Locked;
use crate::store::Store;

pub(crate) mod buffers;
pub(crate) mod claim;
pub(crate) mod prepared;

/// Shorter joined values are copied at once: some 0.4 ms.
const STEPS_MIN: usize = 256 * 1024;

/// A value that is being joined.
#[derive(Debug)]
pub struct Join {
    hash: u64,
    /// Whether the new part comes first.
    new_first: bool,
    /// `None` before it is this join's turn.
    begun: Option<Begun>,
}

/// A join whose turn it is.
#[derive(Debug)]
struct Begun {
    claim: Claim,
    old: Old,
    /// `None` while others that are being received have the whole share.
    partial: Option<PartialValue>,
}

/// How a join gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinStep {
    /// The joined value is whole: [`Handle::prepare`] it, and store.
    Whole,
    /// There is more to do, after others have had their turn.
    Soon,
    /// Values that are being received have to get through first, or a join to the same key that waits for them.
    Later,
    /// Another value, or none, has taken the place of the one it began with.
    Changed,
}

/// The rest, in one piece, of the part to which byte `at` of both together belongs.
fn piece<'p>((first, second): (&'p [u8], &'p [u8]), at: usize) -> &'p [u8] {
    match at.checked_sub(first.len()) {
        None => &first[at..],
        Some(at) => &second[at..],
    }
}

impl Handle {
    /// Begins to join `len` bytes to the item of this key. `None` if that need not be done in steps: because the
    /// condition is another one, because there is no such item, or because it takes no time.
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

    /// Goes on with a join of `new` to the item of this key. An error says that there is no memory for it.
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

    /// Copies what one turn allows.
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

    /// Has the next [`Handle::store`], of what was joined, put this in the old value's place. If another value is there
    /// by then, it joins to that at once; if the join is not whole, it does as if there were no memory for it.
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
    /// The live item of this key. Nothing is counted: that is for the operation for which it is looked at.
    fn joined_to(&self, lock: &Locked<'_>, key: &Key<'_>, now: u32) -> Option<Record<'_>> {
        let is_key = |at: usize| self.segments.record(at).key() == key.bytes;
        let slot = self.index.find(lock, key.hash, is_key)?;
        self.death_of(slot.at(), now).is_none().then(|| self.segments.record(slot.at()))
    }
}

const _: () = assert!(STEPS_MIN >= LARGE_VALUE_MIN, "what is joined in steps has memory of its own");
