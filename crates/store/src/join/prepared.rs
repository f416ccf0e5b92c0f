//! A value that was joined in steps, to be stored next, and the value that it was joined to.

use std::sync::Arc;

use super::claim::Claim;
use crate::large::LargeValue;
use crate::record::Record;
use crate::shard::Locked;

/// What the next [`Handle::store`](crate::Handle::store) of a join is to use.
#[derive(Debug)]
pub(crate) enum Prepared {
    Whole {
        /// Kept until it is stored.
        _claim: Claim,
        old: Old,
        joined: Arc<LargeValue>,
    },
    /// There is no memory for it.
    Nothing,
}

/// The value that is joined to.
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
            // Large values are never written over.
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

    /// What it takes of the memory limit besides its record.
    pub(super) fn charge(&self) -> u64 {
        match self {
            Old::Inline(_) => 0,
            Old::Large(value) => value.charge(),
        }
    }
}
