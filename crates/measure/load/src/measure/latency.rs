//! Latencies as percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Percentiles in microseconds; the crate's documentation defines how they are measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_us: f64,
    /// 90 % are below.
    pub p90_us: f64,
    /// 99 % are below.
    pub p99_us: f64,
    /// 99.9 % are below.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
}

impl Latency {
    /// `None`: nothing was recorded.
    pub(crate) fn of(histogram_ns: &Histogram<u64>) -> Option<Latency> {
        (!histogram_ns.is_empty()).then(|| Latency::or_zero(histogram_ns))
    }

    pub(crate) fn or_zero(histogram_ns: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let percentile = |share| us(histogram_ns.value_at_quantile(share));
        Latency {
            p50_us: percentile(0.5),
            p90_us: percentile(0.9),
            p99_us: percentile(0.99),
            p999_us: percentile(0.999),
            max_us: us(histogram_ns.max()),
            mean_us: histogram_ns.mean() / 1e3,
        }
    }
}
