//! Errors of the store.

use std::io;

/// A half-sentence that follows "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The item is larger than [`crate::Config::item_size_max_bytes`].
    #[error("store an item larger than the limit")]
    TooLarge,
    /// No memory, and nothing may (or can) be evicted for it.
    #[error("find memory for the item")]
    OutOfMemory,
    /// The memory limit leaves no room to work in.
    #[error("work within {bytes} bytes: at least {least} are needed")]
    LimitTooSmall {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// The memory limit is beyond the address space there is.
    #[error("use {bytes} bytes of memory: there is address space for {most}")]
    LimitTooLarge {
        /// What was asked for.
        bytes: u64,
        /// What can be had.
        most: u64,
    },
    /// The operating system gave no address space.
    #[error("reserve {bytes} bytes of address space")]
    Reserve {
        /// How much was asked for.
        bytes: u64,
        /// What the operating system said.
        source: io::Error,
    },
}
