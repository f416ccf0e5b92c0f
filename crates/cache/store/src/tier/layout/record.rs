//! Records on flash.
//!
//! ```text
//! 0 hash u64 | 8 sequence u64 | 16 CAS u64 | 24 expiry u32 | 28 last access u32 | 32 client flags u32
//! | 36 value length u32 | 40 CRC u32 of all the rest | 44 bits u8, key length u8, 0 u16 | 48 key | value | 0 up to 64
//! ```
//!
//! Records start at multiples of 64 bytes, so that a reader who knows only the page has 64 places to look at. A value may
//! hold what looks like a record: the hash of the key and the start of the CRC depend on a secret, so nobody can make one
//! that passes.
//!
//! The sequence is that of the segment in which the item lay in memory: a flush that came later also covers the item here.

use crate::segment::record::{CasOffset, Header};

/// Records start at multiples of this.
pub(crate) const RECORD_ALIGN: usize = 64;
const HEADER_LEN: usize = 48;
const CRC: std::ops::Range<usize> = 40..44;

/// An item as it is on flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashRecord<'r> {
    /// Where it begins in the bytes in which it was found.
    pub(crate) at: usize,
    pub(crate) hash: u64,
    pub(crate) sequence: u64,
    pub(crate) header: Header,
    pub(crate) key: &'r [u8],
    pub(crate) value: &'r [u8],
}

/// What a page has for a key.
#[derive(Debug)]
pub(crate) enum PageContent<'r> {
    /// The item.
    Record(FlashRecord<'r>),
    /// Its beginning: it has so many bytes.
    Beginning(usize),
    /// An item with the same tag in its slot.
    Another,
    /// Nothing that the slot could mean, or something with an error.
    Damaged,
}

impl FlashRecord<'_> {
    /// Its length on flash.
    pub(crate) fn len(&self) -> usize {
        (HEADER_LEN + self.key.len() + self.value.len()).next_multiple_of(RECORD_ALIGN)
    }

    /// Whether it begins these bytes, too: an older one of the same key is wiped when a newer one comes to its page.
    pub(crate) fn is_at(&self, bytes: &[u8]) -> bool {
        bytes.get(..8) == Some(&self.hash.to_le_bytes())
    }

    /// Writes it to `room`, which has its length.
    pub(crate) fn write(&self, room: &mut [u8], seed: u32) {
        let Header { expiry, last_access, cas, flags, bits } = self.header;
        room[0..8].copy_from_slice(&self.hash.to_le_bytes());
        room[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        room[16..24].copy_from_slice(&cas.unique(0).to_le_bytes());
        room[24..28].copy_from_slice(&expiry.to_le_bytes());
        room[28..32].copy_from_slice(&last_access.to_le_bytes());
        room[32..36].copy_from_slice(&flags.to_le_bytes());
        room[36..40].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        room[44..48].copy_from_slice(&[bits, self.key.len() as u8, 0, 0]);
        let (key, rest) = room[HEADER_LEN..].split_at_mut(self.key.len());
        let (value, padding) = rest.split_at_mut(self.value.len());
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
        padding.fill(0);
        let crc = crc_of(room, seed);
        room[CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

impl<'r> FlashRecord<'r> {
    /// The record at the start of `bytes`, if there is a whole one without an error.
    pub(crate) fn read(bytes: &'r [u8], seed: u32) -> Option<FlashRecord<'r>> {
        let header = bytes.get(..HEADER_LEN)?;
        let (record, key_len, value_len) = FlashRecord::without_value(header);
        if key_len == 0 || value_len > bytes.len() {
            return None;
        }
        let end = HEADER_LEN + key_len + value_len;
        let whole = bytes.get(..end.next_multiple_of(RECORD_ALIGN))?;
        let crc = u32::from_le_bytes(header[CRC].try_into().expect("four bytes"));
        if crc_of(whole, seed) != crc {
            return None;
        }
        let (key, value) = whole[HEADER_LEN..end].split_at(key_len);
        Some(FlashRecord { key, value, ..record })
    }

    /// What begins these bytes if it is a record: it without its value, the length of that, and that of all of it. Nothing is checked. The key
    /// is empty if it goes on behind the bytes.
    pub(crate) fn beginning(bytes: &'r [u8]) -> Option<(FlashRecord<'r>, usize, usize)> {
        let header = bytes.get(..HEADER_LEN)?;
        let (record, key_len, value_len) = FlashRecord::without_value(header);
        let key = bytes.get(HEADER_LEN..HEADER_LEN + key_len).unwrap_or_default();
        let len = (HEADER_LEN + key_len + value_len).next_multiple_of(RECORD_ALIGN);
        (key_len > 0).then_some((FlashRecord { key, ..record }, value_len, len))
    }

    /// Reads a header: the record without key and value, and their lengths.
    fn without_value(header: &[u8]) -> (FlashRecord<'static>, usize, usize) {
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (expiry, last_access, flags) = (u32_at(24), u32_at(28), u32_at(32));
        let fields =
            Header { expiry, last_access, cas: CasOffset::new(u64_at(16), 0), flags, bits: header[44] };
        let record =
            FlashRecord { at: 0, hash: u64_at(0), sequence: u64_at(8), header: fields, key: &[], value: &[] };
        (record, usize::from(header[45]), u32_at(36) as usize)
    }

    /// Looks in what a slot refers to, from its first page on, for the record of a key. `has_tag` says whether that slot could
    /// be one for a hash, and `is_long` that it is one of a long record.
    pub(crate) fn find(
        bytes: &'r [u8],
        key: &[u8],
        hash: u64,
        seed: u32,
        is_long: bool,
        has_tag: impl Fn(u64) -> bool,
    ) -> PageContent<'r> {
        let mut content = PageContent::Damaged;
        let starts = (0..bytes.len().min(crate::tier::layout::geometry::FLASH_PAGE)).step_by(RECORD_ALIGN);
        for (at, rest) in starts.map(|start| (start, &bytes[start..])) {
            let found = u64::from_le_bytes(rest[..8].try_into().expect("eight bytes"));
            if found != hash && !has_tag(found) {
                if is_long {
                    break;
                }
                continue;
            }
            match (
                FlashRecord::read(rest, seed),
                is_long.then(|| FlashRecord::beginning(rest).map(|(_, _, len)| len)).flatten(),
            ) {
                (Some(record), _) if record.key == key => {
                    return PageContent::Record(FlashRecord { at, ..record });
                }
                (Some(_), _) => content = PageContent::Another,
                // Not checked before it is whole: what is wrong here is found then.
                (None, Some(len)) if len > bytes.len() && found == hash => {
                    return PageContent::Beginning(len);
                }
                (None, Some(len)) if len > bytes.len() => content = PageContent::Another,
                (None, _) => {}
            }
            if is_long {
                // A long record begins its page.
                break;
            }
        }
        content
    }
}

/// The records in a piece, with their positions in it. What is not a record is passed over.
pub(crate) fn records(piece: &[u8], seed: u32) -> impl Iterator<Item = (usize, FlashRecord<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < piece.len() {
            let here = at;
            let is_empty = piece[here..here + 8] == [0; 8];
            match (!is_empty).then(|| FlashRecord::read(&piece[here..], seed)).flatten() {
                Some(record) => {
                    at += record.len();
                    return Some((here, record));
                }
                None => at += RECORD_ALIGN,
            }
        }
        None
    })
}

fn crc_of(record: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&record[..CRC.start]);
    hasher.update(&record[CRC.end..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u32 = 7;

    fn record<'r>(hash: u64, key: &'r [u8], value: &'r [u8]) -> FlashRecord<'r> {
        let header =
            Header { expiry: 9, last_access: 8, cas: CasOffset::new(1 << 60, 0), flags: 6, bits: 16 };
        FlashRecord { at: 0, hash, sequence: 5, header, key, value }
    }

    fn bytes(record: &FlashRecord<'_>) -> Vec<u8> {
        let mut room = vec![0xff; record.len()];
        record.write(&mut room, SEED);
        room
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for len in [0, 1, 15, 16, 4000, 32_767] {
            let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let written = record(3, b"a key", &value);
            let bytes = bytes(&written);
            let read = FlashRecord::read(&bytes, SEED).expect("a whole record");
            assert_eq!((read.hash, read.sequence, read.key), (3, 5, &b"a key"[..]));
            assert_eq!(read.value, value);
            let Header { expiry, last_access, cas, flags, bits } = read.header;
            assert_eq!((expiry, last_access, cas.unique(0), flags, bits), (9, 8, 1 << 60, 6, 16));
        }
    }

    #[test]
    fn a_changed_bit_anywhere_is_found() {
        let good = bytes(&record(3, b"a key", b"and a value"));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(FlashRecord::read(&bad, SEED).is_none(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(FlashRecord::read(&good[..len], SEED).is_none(), "{len} bytes");
        }
        assert!(FlashRecord::read(&good, SEED + 1).is_none(), "of another server");
    }

    #[test]
    fn the_record_of_a_key_is_found_among_others_of_its_page() {
        let mut page = bytes(&record(1, b"one", b"1"));
        page.extend([0; RECORD_ALIGN]);
        page.extend(bytes(&record(3, b"three", &[b'x'; 500])));
        page.extend(bytes(&record(2, b"two", b"2")));
        page.resize(crate::tier::layout::geometry::FLASH_PAGE, 0);
        let find = |key: &[u8], hash| FlashRecord::find(&page, key, hash, SEED, false, |found| found == hash);
        assert!(matches!(find(b"two", 2), PageContent::Record(found) if found.value == b"2"));
        assert!(matches!(find(b"three", 3), PageContent::Record(_)));
        assert!(matches!(find(b"other", 2), PageContent::Another));
        assert!(matches!(find(b"four", 4), PageContent::Damaged));
        let keys: Vec<&[u8]> = records(&page, SEED).map(|(_, record)| record.key).collect();
        assert_eq!(keys, [b"one".as_slice(), b"three", b"two"]);
    }

    #[test]
    fn the_first_page_of_a_long_record_says_how_long_it_is() {
        let value = vec![b'x'; 100_000];
        let whole = bytes(&record(3, b"a key", &value));
        let page = &whole[..crate::tier::layout::geometry::FLASH_PAGE];
        let find = |bytes, key, hash| FlashRecord::find(bytes, key, hash, SEED, true, |found| found == 3);
        assert!(matches!(find(page, b"a key", 3), PageContent::Beginning(len) if len == whole.len()));
        assert!(matches!(find(page, b"b key", 4), PageContent::Another), "it has the tag");
        assert!(matches!(find(&whole, b"a key", 3), PageContent::Record(found) if found.value == value));
        let mut bad = whole.clone();
        bad[50_000] ^= 1;
        assert!(matches!(find(&bad, b"a key", 3), PageContent::Damaged));
        let empty = FlashRecord::find(&[0; 4096], b"a key", 3, SEED, true, |_| false);
        assert!(matches!(empty, PageContent::Damaged));
    }

    #[test]
    fn a_record_that_a_client_has_put_into_a_value_is_none() {
        let forged = bytes(&FlashRecord { sequence: 9, ..record(3, b"key", b"forged") });
        let mut value = vec![b'x'; RECORD_ALIGN - HEADER_LEN % RECORD_ALIGN - b"other".len()];
        value.extend(&forged);
        // Even with the right hash: another server's secret began the CRC.
        let mut page = vec![0; crate::tier::layout::geometry::FLASH_PAGE];
        let outer = record(4, b"other", &value);
        outer.write(&mut page[..outer.len()], SEED + 1);
        assert_eq!(page[RECORD_ALIGN..][..8], 3u64.to_le_bytes(), "where a record may begin");
        let found = FlashRecord::find(&page, b"key", 3, SEED + 1, false, |_| false);
        assert!(matches!(found, PageContent::Damaged), "{found:?}");
        assert_eq!(records(&page, SEED + 1).count(), 1);
    }
}
