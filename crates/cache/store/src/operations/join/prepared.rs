//! A value that was joined in steps, and the value that it was joined to.

use std::sync::Arc;

use super::claim::Claim;
use crate::memory::large::LargeValue;
use crate::segment::record::Record;
use crate::shard::Locked;

/// The result of a join, for the next [`Handle::store`](crate::Handle::store).
#[derive(Debug)]
pub(crate) enum Prepared {
    Whole {
        /// Held until the value is stored.
        _claim: Claim,
        old: Old,
        joined: Arc<LargeValue>,
    },
    /// There is no memory for the joined value.
    Nothing,
}

/// The value before the join.
#[derive(Debug)]
pub(crate) enum Old {
    Inline(Box<[u8]>),
    Large(Arc<LargeValue>),
}

impl Old {
    pub(super) fn of(record: Record<'_>, lock: &Locked<'_>) -> Old {
        match record.large(lock) {
            Some(large) => Old::Large(Arc::clone(large)),
            None => Old::Inline(record.value(lock).into()),
        }
    }

    /// Whether the item still has this value.
    pub(crate) fn is_of(&self, record: Record<'_>, lock: &Locked<'_>) -> bool {
        match (self, record.large(lock)) {
            (Old::Inline(bytes), None) => record.value(lock) == &**bytes,
            // Large values are never changed after they are stored.
            (Old::Large(value), Some(large)) => Arc::ptr_eq(value, large),
            _ => false,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Old::Inline(bytes) => bytes,
            Old::Large(value) => (**value).as_ref(),
        }
    }

    /// Its charge, without the record.
    pub(super) fn charge(&self) -> u64 {
        match self {
            Old::Inline(_) => 0,
            Old::Large(value) => value.charge(),
        }
    }
}
