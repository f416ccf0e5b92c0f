//! Placement of workers: their CPUs, the worker of a connection, and busy polling.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Where workers run, and which of them serves a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPlacement {
    /// The CPU of each worker; empty where the kernel chooses. A worker moves there before it allocates, so that what it
    /// uses alone comes from the memory of that CPU's node.
    pub cpus: Vec<u32>,
    /// The choice of a worker for an accepted connection.
    pub deal: Deal,
    /// How long a worker's wait polls the receive queues of its connections before it sleeps (EPIOCSPARAMS, Linux 6.9);
    /// 0 for not at all.
    pub busy_poll_us: u32,
}

/// The choice of a worker for an accepted connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deal {
    /// One after the other.
    #[default]
    InTurn,
    /// The worker on the CPU that has handled the connection's packets, unless it has many more than others.
    ByCpu,
    /// The worker that has the connections of the same receive queue (NAPI id), as memcached's -N.
    ByNapiId,
}

/// Moves the calling thread to a CPU for good.
pub(crate) fn pin(cpu: u32) -> Result<(), Errno> {
    let mut one = CpuSet::new();
    match (cpu as usize) < CpuSet::MAX_CPU {
        true => one.set(cpu as usize),
        false => return Err(Errno::INVAL),
    }
    sched_setaffinity(None, &one)
}
