//! Figures of a server: counters, histograms, statistics and metrics.

pub(crate) mod counters;
pub(crate) mod histogram;
pub mod metrics;
pub(crate) mod notes;
pub(crate) mod prefixes;
pub(crate) mod service_times;
pub(crate) mod stats;
