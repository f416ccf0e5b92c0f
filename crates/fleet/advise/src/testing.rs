//! A workload for tests.

use fleet::advise::CacheWorkload;

/// A usual one.
pub(crate) fn moderate() -> CacheWorkload {
    crate::parse_workload(MODERATE).expect("a workload")
}

/// As a file.
pub(crate) const MODERATE: &str = "\
name = \"test\"
[requests]
get = 900_000
set = 100_000
[items]
count = 1_000_000_000
key_bytes = 40
value_bytes = 500
[latency]
p99_ms = 1
";
