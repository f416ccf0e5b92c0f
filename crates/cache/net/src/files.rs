//! Reads of files that outlive the round that began them.

pub mod block;
pub(crate) mod file_read;
pub(crate) mod file_reads;
pub(crate) mod file_ring;
pub(crate) mod read_threads;
pub(crate) mod registered_blocks;
