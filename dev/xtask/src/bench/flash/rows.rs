//! The rows of `bench flash`, each a measurement of its own.

pub(super) mod amplification;
pub(super) mod hang;
pub(super) mod hit;
pub(super) mod latency;
pub(super) mod lost;
pub(super) mod memory;
pub(super) mod misses;
pub(super) mod mix;
pub(super) mod restart;
