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
    /// The memory limit leaves too little beside what a flash tier always has in memory.
    #[error("work within {bytes} bytes with {flash} bytes of flash: at least {least} are needed")]
    LimitTooSmallForFlash {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
        /// Bytes of all devices.
        flash: u64,
    },
    /// The sizes of segments and pieces do not go together.
    #[error(
        "use flash segments of {segment} bytes in pieces of {piece} bytes: pieces are powers of two from {least} to {most} \
         bytes, and a segment is a whole number of them"
    )]
    FlashPieces {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of a piece.
        piece: u64,
        /// The least for a piece.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The flash has too few segments.
    #[error("use {bytes} bytes of flash: at least {least} are needed for segments of this size")]
    FlashTooSmall {
        /// What was asked for.
        bytes: u64,
        /// What is needed.
        least: u64,
    },
    /// The index cannot address as much flash.
    #[error("use {bytes} bytes of flash: between 1 device and {most} bytes can be used")]
    FlashTooLarge {
        /// What was asked for.
        bytes: u64,
        /// What can be used.
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
    /// The file that holds items cannot be examined, or written.
    #[error("use the file that holds items")]
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
