//! The items that a server leaves in its memory file, described by numbers beside it: `FILE.meta`.
//!
//! ```text
//! "EVENKEEL" | format | time of day at the clock's 0 (ms) | time of day at the end (ms)
//! | blocks, and for each its number and checksum | numbers of the store's manifest, and these | checksum of all before
//! ```
//!
//! Each is of 64 bits, the lowest byte first.

use server::Manifest;

use super::sums::Sums;

const MAGIC: u64 = u64::from_le_bytes(*b"EVENKEEL");
const FORMAT: u64 = 1;

/// What the next server needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftItems {
    /// The time of day when the server's clock showed 0, in milliseconds since 1970.
    pub zero_unix_ms: u64,
    /// The time of day when it ended.
    pub(super) ended_unix_ms: u64,
    pub(super) sums: Sums,
    /// What the store needs beside the file.
    pub manifest: Manifest,
}

impl LeftItems {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let LeftItems { zero_unix_ms, ended_unix_ms, sums, manifest } = self;
        let head = [MAGIC, FORMAT, *zero_unix_ms, *ended_unix_ms, sums.len() as u64];
        let sums = sums.iter().flat_map(|(block, sum)| [*block, u64::from(*sum)]);
        let numbers = head.into_iter().chain(sums).chain([manifest.0.len() as u64]);
        let mut bytes: Vec<u8> =
            numbers.chain(manifest.0.iter().copied()).flat_map(u64::to_le_bytes).collect();
        bytes.extend(u64::from(crc32fast::hash(&bytes)).to_le_bytes());
        bytes
    }

    /// Whether a server has begun to write them, in this format or another.
    pub(super) fn are_begun_in(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// # Errors
    /// Why these are not such numbers, in words that follow the file's name.
    pub(super) fn of(bytes: &[u8]) -> Result<LeftItems, String> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        match numbers[..] {
            [MAGIC, FORMAT, ..] => {}
            [MAGIC, format, ..] => {
                return Err(format!(
                    "it has format {format}, and {FORMAT} is expected: another version wrote it"
                ));
            }
            _ => return Err("evenkeel did not write it".to_owned()),
        }
        let damaged = || "it is damaged: its checksum is wrong".to_owned();
        let (sum, before) = numbers.split_last().ok_or_else(damaged)?;
        if !rest.is_empty() || *sum != u64::from(crc32fast::hash(&bytes[..before.len() * 8])) {
            return Err(damaged());
        }
        LeftItems::of_numbers(&before[2..]).ok_or_else(damaged)
    }

    fn of_numbers(numbers: &[u64]) -> Option<LeftItems> {
        let [zero_unix_ms, ended_unix_ms, count, rest @ ..] = numbers else { return None };
        let (sums, rest) = rest.split_at_checked(usize::try_from(*count).ok()?.checked_mul(2)?)?;
        let (count, manifest) = rest.split_first()?;
        let sum = |pair: &[u64; 2]| Some((pair[0], u32::try_from(pair[1]).ok()?));
        let is_whole = manifest.len() as u64 == *count;
        is_whole.then_some(LeftItems {
            zero_unix_ms: *zero_unix_ms,
            ended_unix_ms: *ended_unix_ms,
            sums: sums.as_chunks::<2>().0.iter().map(sum).collect::<Option<Sums>>()?,
            manifest: Manifest(manifest.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> LeftItems {
        LeftItems {
            zero_unix_ms: 1_800_000_000_000,
            ended_unix_ms: 1_800_000_012_345,
            sums: vec![(3, 7), (1 << 40, u32::MAX)],
            manifest: Manifest(vec![1, 2, u64::MAX]),
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(LeftItems::of(&left().to_bytes()), Ok(left()));
        let empty = LeftItems { sums: Vec::new(), manifest: Manifest(Vec::new()), ..left() };
        assert_eq!(LeftItems::of(&empty.to_bytes()), Ok(empty));
    }

    #[test]
    fn whatever_is_cut_or_changed_is_refused() {
        let bytes = left().to_bytes();
        for len in 0..bytes.len() {
            assert!(LeftItems::of(&bytes[..len]).is_err(), "{len}");
        }
        for at in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(LeftItems::of(&other).is_err(), "bit {at}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(LeftItems::of(&longer), Err("it is damaged: its checksum is wrong".to_owned()));
    }

    #[test]
    fn other_programs_and_versions_are_named() {
        let mut other = left().to_bytes();
        other[8] = 9;
        let expected = "it has format 9, and 1 is expected: another version wrote it";
        assert_eq!(LeftItems::of(&other), Err(expected.to_owned()));
        assert_eq!(LeftItems::of(b"slab_page_size=1048576\n"), Err("evenkeel did not write it".to_owned()));
    }
}
