//! Histograms of nanoseconds, all of one shape.

use hdrhistogram::Histogram;

/// The shape of all histograms of latencies.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("constants that fit")
}

/// Three digits keep every percentile within 0.1 %.
const DIGITS: u8 = 3;
/// Anything longer counts as this long.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
