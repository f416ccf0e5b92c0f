//! Compression between the router and the servers of a pool.
//!
//! ```text
//!  client ── value ──► Compressor::pack ──► header, compressed bytes ──► server, with the pool's bit among the flags
//!  client ◄── value ── Compressor::unpack ◄──────────── a reply whose flags have the bit
//! ```

mod compressor;
mod dictionary;
mod header;

pub(crate) use compressor::Compressor;
pub use dictionary::DICTIONARY_LEN_MAX;
pub(crate) use dictionary::Dictionary;

use std::fmt;

/// The longest value that is compressed, and the longest that is made from a compressed one: memcached's default limit for
/// an item. A worker serves no other request meanwhile, and whoever can write to a server chooses what is decompressed.
pub(crate) const COMPRESSED_LEN_MAX: usize = 1 << 20;

/// The least `min_size`: longer than any number, so that `incr` and `decr` find what they expect.
pub(crate) const MIN_LEN_MIN: usize = 32;

/// How values are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// zstd, with its level.
    Zstd(i32),
    /// The block format of LZ4.
    Lz4,
}

/// How the values of a pool are compressed.
pub(crate) struct Compression {
    /// Of values that are stored. Those that are read say their own.
    pub codec: Codec,
    /// The bit of the client's flags that marks a compressed value.
    pub flag: u64,
    /// Shorter values stay as they are, in bytes.
    pub min_len: usize,
    /// For zstd. The first compresses, all decompress.
    pub dictionaries: Vec<Dictionary>,
}

impl fmt::Debug for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<u32> = self.dictionaries.iter().map(Dictionary::id).collect();
        formatter
            .debug_struct("Compression")
            .field("codec", &self.codec)
            .field("flag", &self.flag)
            .field("min_len", &self.min_len)
            .field("dictionaries", &ids)
            .finish()
    }
}
