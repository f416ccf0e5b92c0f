//! What could have been in std: gathered output, counters, time as data, random numbers, statistics, where a series
//! settles, sizes with units, archives.
//!
//! No word of caching in here, no I/O and no clock.

pub mod clock;
pub mod counter;
pub mod gather;
pub mod newc;
pub mod prng;
pub mod statistics;
pub mod steady;
pub mod units;
