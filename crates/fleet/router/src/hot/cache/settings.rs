//! Settings of a pool's cache of hot values.

/// `hot_cache` of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HotCacheSettings {
    /// The pool.
    pub pool: String,
    /// Age up to which a value is an answer, counted from when it was asked for.
    pub ttl_ms: u32,
    /// Bytes for values of the pool in each worker, with what they need besides.
    pub memory: usize,
    /// Longer values are not kept.
    pub value_max: usize,
}

impl HotCacheSettings {
    /// Age up to which a value is an answer, in microseconds.
    pub(crate) fn ttl_us(&self) -> u64 {
        u64::from(self.ttl_ms) * 1000
    }
}
