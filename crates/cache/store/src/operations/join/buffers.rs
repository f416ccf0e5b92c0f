//! Buffers of a handle for joins, and joins in one step.

use std::sync::Arc;

use super::prepared::Prepared;
use crate::memory::large::{LARGE_VALUE_MIN, LargeValue};
use crate::operations::new_item::Body;
use crate::operations::request::Condition;
use crate::reclaim::state::Spared;
use crate::segment::record::Record;
use crate::shard::Locked;

/// Buffers that are released at the end of an operation.
#[derive(Debug, Default)]
pub(crate) struct JoinBuffers {
    /// Memory taken in advance, because values are joined under a lock where none can be taken.
    pub(crate) spare: Option<LargeValue>,
    /// The item that must not be evicted while room is made for its joined value.
    pub(crate) spared: Option<Spared>,
    /// A value that was joined in steps, for the next store.
    pub(crate) prepared: Option<Prepared>,
}

impl JoinBuffers {
    /// Joins the `old` value, which `record` has, and the new one; in `scratch` unless the result is large.
    /// `None` if there is no memory. An error is the length of a large value that must be taken in advance.
    #[inline]
    pub(crate) fn at_once<'s>(
        &mut self,
        record: Record<'_>,
        lock: &Locked<'_>,
        old: &[u8],
        condition: Condition,
        new: &Body<'_>,
        scratch: &'s mut Vec<u8>,
    ) -> Result<Option<Body<'s>>, usize> {
        match &self.prepared {
            Some(Prepared::Nothing) => return Ok(None),
            Some(Prepared::Whole { old: joined_to, joined, .. }) if joined_to.is_of(record, lock) => {
                return Ok(Some(Body::Large(Arc::clone(joined))));
            }
            _ => {}
        }
        let pieces = match condition {
            Condition::Append => [old, new.as_bytes()],
            _ => [new.as_bytes(), old],
        };
        let len = old.len() + new.len();
        if len < LARGE_VALUE_MIN {
            scratch.clear();
            pieces.iter().for_each(|piece| scratch.extend_from_slice(piece));
            return Ok(Some(Body::Bytes(scratch)));
        }
        let mut large = self.spare.take().filter(|spare| spare.len() == len).ok_or(len)?;
        let (front, back) = large.as_mut().split_at_mut(pieces[0].len());
        front.copy_from_slice(pieces[0]);
        back.copy_from_slice(pieces[1]);
        Ok(Some(Body::Large(Arc::new(large))))
    }

    /// Keeps the memory of a joined value that was not stored, for the next attempt.
    pub(crate) fn keep(&mut self, joined: Arc<LargeValue>) {
        if let Ok(spare) = Arc::try_unwrap(joined) {
            self.spare = Some(spare);
        }
    }

    /// Releases everything at the end of an operation.
    #[inline]
    pub(crate) fn end(&mut self) {
        (self.spare, self.spared, self.prepared) = (None, None, None);
    }
}
