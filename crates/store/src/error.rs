//! Errors of the store.

use std::io;

/// An error of a store, worded to follow "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The item is larger than [`crate::Config::item_size_max_bytes`].
    #[error("store an item larger than the limit")]
    TooLarge,
    /// There is no memory, and nothing may (or can) be evicted.
    #[error("find memory for the item")]
    OutOfMemory,
    /// The memory limit is below the minimum.
    #[error("work within {bytes} bytes: at least {least} are needed")]
    LimitTooSmall {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// The memory limit exceeds the reserved address space.
    #[error("use {bytes} bytes of memory: there is address space for {most}")]
    LimitTooLarge {
        /// What was asked for.
        bytes: u64,
        /// What can be had.
        most: u64,
    },
    /// The file system of the file that holds items is too small.
    #[error("keep {bytes} bytes of items in the file: its file system has room for {most}")]
    NoRoom {
        /// What was asked for.
        bytes: u64,
        /// What can be had.
        most: u64,
    },
    /// The file that holds items cannot be examined.
    #[error("examine the file that holds items")]
    File(#[source] io::Error),
    /// The operating system refused to reserve address space.
    #[error("reserve {bytes} bytes of address space")]
    Reserve {
        /// How much was asked for.
        bytes: u64,
        /// What the operating system said.
        source: io::Error,
    },
}
