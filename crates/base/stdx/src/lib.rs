//! Parts that could be in std: gathered output, counters, escapes, time as data, dates, random numbers, statistics, the settling
//! of a series, sizes with units, archives, metrics as text,
//! buckets of histograms, levels of log lines, counts in words.
//!
//! Nothing in here is about caching, does I/O or reads a clock.

pub mod calendar;
pub mod clock;
pub mod counter;
pub mod escape;
pub mod exposition;
pub mod gather;
pub mod log_level;
pub mod log_linear;
pub mod newc;
pub mod prng;
pub mod statistics;
pub mod steady;
pub mod units;
pub mod words;
