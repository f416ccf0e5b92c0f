//! Items that exist: their keys, values and times to live.

use crate::types::ttl::Expiry;
use crate::workload::keyspace::{ItemKeys, ItemValues};

/// The items that exist, shared by all workers.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) count: u64,
    pub(crate) keys: ItemKeys,
    pub(crate) values: ItemValues,
    pub(crate) expiry: Expiry,
    /// When the run began, in seconds since 1970.
    pub(crate) start: u64,
}

impl Items {
    /// The expiration time of an item, as sent.
    #[inline]
    pub(crate) fn ttl(&self, item: u64) -> u64 {
        self.expiry.of(stdx::prng::mix(item ^ TTL_SALT))
    }

    /// Its time to live, in seconds.
    pub(crate) fn ttl_seconds(&self, item: u64) -> u64 {
        self.expiry.seconds(stdx::prng::mix(item ^ TTL_SALT))
    }
}

/// A seed of its own keeps an item's time to live independent of its sizes.
const TTL_SALT: u64 = 0x7474_6c73;
