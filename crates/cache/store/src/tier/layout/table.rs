//! The table at the end of a piece: which records are in it. Whoever reuses its segment reads the table instead of all records.
//!
//! ```text
//! records | 0 … | table, from the beginning of a page on: 0 … | entry of the last record | … | of the first one | trailer
//! entry    hash u64 | place u32, length u32, in 64 bytes | expiry u32
//! trailer  highest sequence u64 | entries u32 | CRC u32 of both and of the entries
//! ```
//!
//! An entry may be of a record that was wiped since, because a newer one of the same tag came to its page: the newer one comes first.
//! The CRC begins as those of the records do, so a table of an earlier use of the segment is none.

use crate::tier::layout::geometry::FLASH_PAGE;
use crate::tier::layout::record::{FlashRecord, RECORD_ALIGN};

const ENTRY_LEN: usize = 20;
const TRAILER_LEN: usize = 16;
const CRC: std::ops::Range<usize> = 12..16;

/// A record in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) hash: u64,
    /// Where it begins in the piece, in bytes.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) expiry: u32,
}

/// Where the table of so many records begins in a piece: nothing of a record may be on its pages, where a reader could take the hash
/// of an entry for that of a record.
pub(crate) fn table_start(piece_bytes: usize, records: usize) -> usize {
    let start = piece_bytes.saturating_sub(TRAILER_LEN + records * ENTRY_LEN);
    start - start % FLASH_PAGE
}

/// Bytes of the longest record in a piece.
pub(crate) fn record_max(piece_bytes: usize) -> usize {
    table_start(piece_bytes, 1)
}

/// Writes the entry of a record, of which `number` others are in the piece already.
pub(crate) fn put_entry(piece: &mut [u8], number: usize, at: usize, record: &FlashRecord<'_>) {
    let start = piece.len() - TRAILER_LEN - (number + 1) * ENTRY_LEN;
    let entry = &mut piece[start..start + ENTRY_LEN];
    entry[0..8].copy_from_slice(&record.hash.to_le_bytes());
    entry[8..12].copy_from_slice(&((at / RECORD_ALIGN) as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&((record.len() / RECORD_ALIGN) as u32).to_le_bytes());
    entry[16..20].copy_from_slice(&record.header.expiry.to_le_bytes());
}

/// Completes a piece with so many records, which end at byte `filled`.
pub(crate) fn finish(piece: &mut [u8], filled: usize, records: usize, sequence_max: u64, seed: u32) {
    let entries = piece.len() - TRAILER_LEN - records * ENTRY_LEN;
    piece[filled..entries].fill(0);
    let trailer = piece.len() - TRAILER_LEN;
    piece[trailer..trailer + 8].copy_from_slice(&sequence_max.to_le_bytes());
    piece[trailer + 8..trailer + 12].copy_from_slice(&(records as u32).to_le_bytes());
    let crc = crc_of(&piece[entries..], seed);
    piece[trailer..][CRC].copy_from_slice(&crc.to_le_bytes());
}

/// What the end of a piece says of a table.
pub(crate) enum TableEnd {
    /// The table begins at this byte of the piece: more has to be read.
    Longer(usize),
    Whole(Table),
    /// There is none without an error.
    Damaged,
}

/// The table of a piece.
pub(crate) struct Table {
    /// The records, the last one first.
    pub(crate) entries: Vec<TableEntry>,
    /// The highest sequence of them.
    pub(crate) sequence_max: u64,
}

/// Reads a table from the last bytes of a piece of `piece_bytes`.
pub(crate) fn read_table(end: &[u8], piece_bytes: usize, seed: u32) -> TableEnd {
    let Some(trailer) = end.len().checked_sub(TRAILER_LEN) else { return TableEnd::Damaged };
    let records = u32_at(end, trailer + 8) as usize;
    if records > piece_bytes / RECORD_ALIGN {
        return TableEnd::Damaged;
    }
    let Some(start) = trailer.checked_sub(records * ENTRY_LEN) else {
        return match piece_bytes.checked_sub(TRAILER_LEN + records * ENTRY_LEN) {
            Some(_) => TableEnd::Longer(table_start(piece_bytes, records)),
            None => TableEnd::Damaged,
        };
    };
    if crc_of(&end[start..], seed) != u32_at(end, trailer + CRC.start) {
        return TableEnd::Damaged;
    }
    let entries = end[start..trailer].chunks_exact(ENTRY_LEN).map(|entry| TableEntry {
        hash: u64_at(entry, 0),
        at: u32_at(entry, 8) as usize * RECORD_ALIGN,
        len: u32_at(entry, 12) as usize * RECORD_ALIGN,
        expiry: u32_at(entry, 16),
    });
    TableEnd::Whole(Table { entries: entries.collect(), sequence_max: u64_at(end, trailer) })
}

/// Of entries and trailer.
fn crc_of(table: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&table[..table.len() - TRAILER_LEN + CRC.start]);
    hasher.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::record::Header;

    const PIECE: usize = 64 << 10;

    fn record(number: usize) -> FlashRecord<'static> {
        let header = Header { expiry: number as u32, ..Header::default() };
        FlashRecord { at: 0, hash: number as u64 + 1, sequence: 5, header, key: b"key", value: &[b'v'; 200] }
    }

    fn piece(records: usize) -> Vec<u8> {
        let mut piece = vec![0xff; PIECE];
        for number in 0..records {
            put_entry(&mut piece, number, number * 256, &record(number));
        }
        finish(&mut piece, records * 256, records, 9, 7);
        piece
    }

    fn whole(end: &[u8], seed: u32) -> Option<Table> {
        match read_table(end, PIECE, seed) {
            TableEnd::Whole(table) => Some(table),
            TableEnd::Longer(_) | TableEnd::Damaged => None,
        }
    }

    #[test]
    fn a_table_says_where_the_records_are_the_last_one_first() {
        let piece = piece(3);
        let table = whole(&piece[PIECE - FLASH_PAGE..], 7).expect("a table");
        let entry = |number: usize| TableEntry {
            hash: number as u64 + 1,
            at: number * 256,
            len: 256,
            expiry: number as u32,
        };
        assert_eq!((table.entries, table.sequence_max), (vec![entry(2), entry(1), entry(0)], 9));
        assert_eq!(
            piece[768..table_start(PIECE, 3)].iter().max(),
            Some(&0),
            "nothing is left of an earlier use"
        );
        assert_eq!(whole(&self::piece(0), 7).expect("one without entries").entries, []);
    }

    #[test]
    fn a_long_table_says_where_it_begins() {
        let piece = piece(210);
        let last = &piece[PIECE - FLASH_PAGE..];
        let TableEnd::Longer(start) = read_table(last, PIECE, 7) else { panic!("it has 4216 bytes") };
        assert_eq!(start, PIECE - 2 * FLASH_PAGE);
        assert_eq!(whole(&piece[start..], 7).expect("a table").entries.len(), 210);
    }

    #[test]
    fn a_changed_bit_anywhere_is_found() {
        let good = piece(3);
        let end = &good[PIECE - 3 * ENTRY_LEN - TRAILER_LEN..];
        for bit in 0..end.len() * 8 {
            let mut bad = end.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(whole(&bad, 7).is_none(), "bit {bit}");
        }
        assert!(whole(end, 8).is_none(), "of an earlier use of the segment");
        assert!((0..end.len()).all(|len| whole(&end[..len], 7).is_none()));
        assert!(whole(&[0xff; FLASH_PAGE], 7).is_none() && whole(&[0; FLASH_PAGE], 7).is_none());
    }
}
