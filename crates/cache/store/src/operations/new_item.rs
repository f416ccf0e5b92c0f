//! A new item to be written: its header fields and its value.

use std::sync::Arc;

use crate::memory::large::LargeValue;

/// Header fields of a new item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewItem {
    pub(crate) flags: u32,
    pub(crate) expiry: u32,
    pub(crate) bits: u8,
    pub(crate) cas: u64,
}

/// Value of a new item.
#[derive(Clone, Debug)]
pub(crate) enum Body<'v> {
    Bytes(&'v [u8]),
    Large(Arc<LargeValue>),
}

impl Body<'_> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len()
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Bytes(bytes) => bytes,
            Body::Large(large) => large.as_ref().as_ref(),
        }
    }

    #[inline]
    pub(crate) fn charge(&self) -> Option<u64> {
        match self {
            Body::Bytes(_) => None,
            Body::Large(large) => Some(large.charge()),
        }
    }
}
