//! The codecs of a worker: their memory, and what they have done.

use zstd_safe::{CCtx, DCtx};

use super::header::{HEADER_LEN, Header, StoredCodec, stored_len_min};
use super::{COMPRESSED_LEN_MAX, Codec, Compression};

/// What has been counted since the worker took it over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompressionCounts {
    /// Values that were stored compressed, their bytes, and the bytes in their place.
    pub(crate) compressed: u64,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Values that did not become smaller, and were stored as they were.
    pub(crate) not_smaller: u64,
    pub(crate) decompressed: u64,
    /// Stored values that no router has written, or that have changed since: misses.
    pub(crate) damaged: u64,
    /// Those whose dictionary the pool does not have: misses.
    pub(crate) no_dictionary: u64,
}

/// A worker's codecs. What they allocate, at their first use, is bounded by [`COMPRESSED_LEN_MAX`] and the highest level.
#[derive(Default)]
pub(crate) struct Compressor {
    compressing: Option<CCtx<'static>>,
    decompressing: Option<DCtx<'static>>,
    /// The last value: compressed with its header, or decompressed.
    buffer: Vec<u8>,
    pub(crate) counts: CompressionCounts,
}

impl Compressor {
    /// What has been counted since the last time, if that is anything.
    pub(crate) fn take_counts(&mut self) -> Option<CompressionCounts> {
        let counts = std::mem::take(&mut self.counts);
        (counts != CompressionCounts::default()).then_some(counts)
    }

    /// The value as it is stored, with its line end. `None` if it is stored as it is.
    pub(crate) fn pack(&mut self, compression: &Compression, value: &[u8]) -> Option<&[u8]> {
        let len = value.len();
        if !(compression.min_len..=COMPRESSED_LEN_MAX).contains(&len) {
            return None;
        }
        match self.compress(compression, value) {
            Some(stored) => {
                self.counts.compressed += 1;
                self.counts.bytes_before += len as u64;
                self.counts.bytes_after += stored as u64;
                self.buffer[stored..stored + 2].copy_from_slice(b"\r\n");
                Some(&self.buffer[..stored + 2])
            }
            None => {
                self.counts.not_smaller += 1;
                None
            }
        }
    }

    /// Fills the buffer; returns the length of what is stored, if that is smaller.
    fn compress(&mut self, compression: &Compression, value: &[u8]) -> Option<usize> {
        // One byte less than the value, at most.
        let most = value.len().checked_sub(HEADER_LEN + 1)?;
        let (codec, dictionary, written) = match compression.codec {
            Codec::Zstd(level) => {
                let out = room(&mut self.buffer, HEADER_LEN + most + 2);
                let out = &mut out[HEADER_LEN..HEADER_LEN + most];
                let context = self.compressing.get_or_insert_with(CCtx::create);
                let dictionary = compression.dictionaries.first();
                // An error is that it does not fit.
                let written = match dictionary.and_then(|dictionary| dictionary.compressing()) {
                    Some(prepared) => context.compress_using_cdict(out, value, prepared),
                    None => context.compress(out, value, level),
                };
                (StoredCodec::Zstd, dictionary.map_or(0, |dictionary| dictionary.id()), written.ok()?)
            }
            Codec::Lz4 => {
                // It is not told how much there may be at most: it takes only room for the worst.
                let worst = lz4_flex::block::get_maximum_output_size(value.len());
                let out = room(&mut self.buffer, HEADER_LEN + worst + 2);
                let written = lz4_flex::block::compress_into(value, &mut out[HEADER_LEN..HEADER_LEN + worst]);
                (StoredCodec::Lz4, 0, written.ok().filter(|written| *written <= most)?)
            }
        };
        let head = self.buffer.first_chunk_mut::<HEADER_LEN>()?;
        Header::of(value, codec, dictionary, written).write(head);
        let end = HEADER_LEN + written;
        let stored = end.max(stored_len_min(value.len()));
        self.buffer[end..stored].fill(0);
        Some(stored)
    }

    /// The value of a stored one; `None` if it cannot be told.
    pub(crate) fn unpack(&mut self, compression: &Compression, stored: &[u8]) -> Option<&[u8]> {
        match self.decompress(compression, stored) {
            Ok(len) => {
                self.counts.decompressed += 1;
                Some(&self.buffer[..len])
            }
            Err(Failure::Damaged) => {
                self.counts.damaged += 1;
                None
            }
            Err(Failure::NoDictionary) => {
                self.counts.no_dictionary += 1;
                None
            }
        }
    }

    fn decompress(&mut self, compression: &Compression, stored: &[u8]) -> Result<usize, Failure> {
        let (header, compressed) = Header::read(stored).ok_or(Failure::Damaged)?;
        let len = header.len as usize;
        // Neither codec writes beyond it.
        let out = &mut room(&mut self.buffer, len)[..len];
        let written = match header.codec {
            StoredCodec::Zstd => {
                let context = self.decompressing.get_or_insert_with(DCtx::create);
                let mut dictionaries = compression.dictionaries.iter();
                match header.dictionary {
                    0 => context.decompress(out, compressed),
                    id => {
                        let dictionary = dictionaries.find(|dictionary| dictionary.id() == id);
                        let dictionary = dictionary.ok_or(Failure::NoDictionary)?;
                        context.decompress_using_ddict(out, compressed, dictionary.decompressing())
                    }
                }
                .map_err(|_| Failure::Damaged)?
            }
            StoredCodec::Lz4 => {
                lz4_flex::block::decompress_into(compressed, out).map_err(|_| Failure::Damaged)?
            }
        };
        let is_whole = out.get(..written).is_some_and(|value| header.is_of(value));
        is_whole.then_some(len).ok_or(Failure::Damaged)
    }
}

enum Failure {
    Damaged,
    NoDictionary,
}

/// At least so many bytes. They stay for the next value.
fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    buffer
}

#[cfg(test)]
mod tests;
