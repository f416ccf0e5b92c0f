//! The header of a stored value: how it was made, and what it must become.
//!
//! ```text
//!  at  0  "EK"                         numbers: the lowest byte first
//!      2  1, the format
//!      3  the codec
//!      4  the dictionary
//!      8  the length of the value
//!     12  the length of the compressed bytes
//!     16  the checksum of the value
//!     24  the compressed bytes, and zeros up to the least length
//! ```

use super::COMPRESSED_LEN_MAX;
use crate::plan::hash::murmur64a;

pub(super) const HEADER_LEN: usize = 24;

/// How many times longer than what is stored a value may be: a turn reads so many bytes from a server, and what a worker makes
/// of them is bounded by this, whatever a client has stored and however often it asks for it.
const GROWTH_MAX: usize = 64;

/// The least that stands for a value of this length.
pub(super) fn stored_len_min(len: usize) -> usize {
    len.div_ceil(GROWTH_MAX)
}

const MAGIC: [u8; 2] = *b"EK";
const FORMAT: u8 = 1;

/// The codec as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredCodec {
    Zstd = 1,
    Lz4 = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) codec: StoredCodec,
    /// 0 for none.
    pub(super) dictionary: u32,
    /// Of the value.
    pub(super) len: u32,
    /// Of the compressed bytes.
    pub(super) packed: u32,
    pub(super) checksum: u64,
}

impl Header {
    pub(super) fn of(value: &[u8], codec: StoredCodec, dictionary: u32, packed: usize) -> Header {
        let (len, packed) = (value.len() as u32, packed as u32);
        Header { codec, dictionary, len, packed, checksum: checksum(value, dictionary) }
    }

    pub(super) fn write(&self, out: &mut [u8; HEADER_LEN]) {
        out[..2].copy_from_slice(&MAGIC);
        out[2] = FORMAT;
        out[3] = self.codec as u8;
        out[4..8].copy_from_slice(&self.dictionary.to_le_bytes());
        out[8..12].copy_from_slice(&self.len.to_le_bytes());
        out[12..16].copy_from_slice(&self.packed.to_le_bytes());
        out[16..].copy_from_slice(&self.checksum.to_le_bytes());
    }

    /// Takes a stored value apart. `None` for one that no router has written: anybody may set a bit of the flags.
    pub(super) fn read(stored: &[u8]) -> Option<(Header, &[u8])> {
        let (head, compressed) = stored.split_first_chunk::<HEADER_LEN>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let codec = match head[3] {
            1 => StoredCodec::Zstd,
            2 => StoredCodec::Lz4,
            _ => return None,
        };
        let checksum = u64::from(number(16)) | u64::from(number(20)) << 32;
        let header = Header { codec, dictionary: number(4), len: number(8), packed: number(12), checksum };
        let len = header.len as usize;
        let is_ours = head[..2] == MAGIC
            && head[2] == FORMAT
            && len <= COMPRESSED_LEN_MAX
            // Nothing else is stored compressed.
            && (stored_len_min(len)..len).contains(&stored.len())
            && (header.dictionary == 0 || codec == StoredCodec::Zstd);
        let compressed = compressed.get(..header.packed as usize)?;
        is_ours.then_some((header, compressed))
    }

    /// Whether this is the value.
    pub(super) fn is_of(&self, value: &[u8]) -> bool {
        value.len() == self.len as usize && checksum(value, self.dictionary) == self.checksum
    }
}

/// Against damage and mix-ups, not against forgery: whoever can write to a server can write a value.
fn checksum(value: &[u8], dictionary: u32) -> u64 {
    murmur64a(value, dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let codec = StoredCodec::Zstd;
        let header = Header { codec, dictionary: 0x0102_0304, len: 27, packed: 1, checksum: u64::MAX - 6 };
        let mut stored = [7; HEADER_LEN + 2];
        header.write(stored.first_chunk_mut().expect("room"));
        let expected =
            b"EK\x01\x01\x04\x03\x02\x01\x1b\0\0\0\x01\0\0\0\xf9\xff\xff\xff\xff\xff\xff\xff\x07\x07";
        assert_eq!(&stored, expected);
        assert_eq!(Header::read(&stored), Some((header, &[7][..])));
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Vec<u8>)) {
        let value = [7; 100];
        let mut stored = vec![0; 50];
        Header::of(&value, StoredCodec::Lz4, 0, 26).write(stored.first_chunk_mut().expect("room"));
        assert!(Header::read(&stored).is_some());
        change(&mut stored);
        assert_eq!(Header::read(&stored), None);
    }

    #[test]
    fn what_no_router_writes_is_refused() {
        refused(|stored| stored[0] = b'e');
        refused(|stored| stored[2] = 2);
        refused(|stored| stored[3] = 0);
        refused(|stored| stored[3] = 3);
        refused(|stored| stored[4] = 1); // LZ4 with a dictionary.
        refused(|stored| stored[8] = 50); // No smaller than the value.
        refused(|stored| stored[9] = 0x0d); // 3428, more than 64 times as long.
        refused(|stored| stored[11] = 1); // 16 MiB.
        refused(|stored| stored[12] = 27); // More than there are.
        refused(|stored| stored.truncate(HEADER_LEN - 1));
        refused(Vec::clear);
    }
}
