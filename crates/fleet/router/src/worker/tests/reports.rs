//! Conversations about reports: statistics, metrics, hot keys, keys about the router.

mod hot_keys;
mod metrics;
mod pool_counts;
mod service;
mod stats;

use super::*;
