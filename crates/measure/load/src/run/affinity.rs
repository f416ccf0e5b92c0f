//! Affinity of worker threads to CPUs.

use crate::types::error::Error;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Binds the calling thread to `cpu`.
pub(crate) fn pin(cpu: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| Error::Pin { cpu, source: error.into() })
}
