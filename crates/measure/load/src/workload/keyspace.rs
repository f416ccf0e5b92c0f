//! Keys, and the value that belongs to each.
//!
//! Item `id` has one key, one value size and one value, whatever the seed and the command line of the run that
//! stores it: a later run can verify what an earlier one stored, if the sizes are the same.

use crate::types::sizes::{ItemSizes, Sizer};
use stdx::prng::{Prng, mix};

/// memcached's limit.
pub(crate) const KEY_SIZE_MAX: usize = 250;
/// The longest value that a law makes: it fits into memcached's default limit of 1 MiB together with its key.
const VALUE_SIZE_MAX: usize = 1_000_000;

/// The names of the items: `key:0000000017`, padded with zeros to the size asked for.
#[derive(Clone, Debug)]
pub(crate) struct ItemKeys {
    sizes: Sizer,
    template: [u8; KEY_SIZE_MAX],
}

impl ItemKeys {
    /// Keys of `sizes` for `count` items; `Err` says what is wrong with the sizes.
    pub(crate) fn new(count: u64, sizes: &ItemSizes) -> Result<ItemKeys, String> {
        let digits = count.saturating_sub(1).to_string().len();
        let sizes = sizes.sizer(PREFIX.len() + digits..=KEY_SIZE_MAX);
        if sizes.min() < digits {
            return Err(format!(
                "{count} keys need {digits} digits, a key size of {} has no room",
                sizes.min()
            ));
        }
        if sizes.max() > KEY_SIZE_MAX {
            return Err(format!("a key has at most {KEY_SIZE_MAX} bytes, not {}", sizes.max()));
        }
        let mut template = [b'0'; KEY_SIZE_MAX];
        if sizes.min() >= PREFIX.len() + digits {
            template[..PREFIX.len()].copy_from_slice(PREFIX);
        }
        Ok(ItemKeys { sizes, template })
    }

    /// Whether there is room for a prefix, by which a counter's key differs from an item's.
    pub(crate) fn have_prefix(&self) -> bool {
        self.template.starts_with(PREFIX)
    }

    /// Appends the key of the counter `id`; there is room for a prefix.
    pub(crate) fn write_counter(&self, id: u64, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(id, out);
        out[start..start + PREFIX.len()].copy_from_slice(COUNTER_PREFIX);
    }

    /// Appends the key of item `id`.
    #[inline]
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        let size = self.sizes.of(mix(id ^ KEY_SIZE_SALT));
        out.extend_from_slice(&self.template[..size]);
        write_digits(id, out);
    }

    /// The largest size.
    pub(crate) fn longest(&self) -> usize {
        self.sizes.max()
    }

    /// The mean size.
    pub(crate) fn mean(&self) -> f64 {
        self.sizes.mean()
    }

    /// Whether `key` is the key of item `id`.
    pub(crate) fn is(&self, key: &[u8], id: u64, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        self.write(id, scratch);
        scratch == key
    }
}

const PREFIX: &[u8; 4] = b"key:";
const COUNTER_PREFIX: &[u8; 4] = b"num:";
/// Seeds of their own keep the key's size and the value's size of an item independent.
const KEY_SIZE_SALT: u64 = 0x6b65_7973;
const VALUE_SIZE_SALT: u64 = 0x7661_6c75_6573;

/// Writes `id` in decimal over the end of `out`, which holds zeros there.
#[inline]
fn write_digits(mut id: u64, out: &mut [u8]) {
    let mut end = out.len();
    while id >= 10 {
        let pair = (id % 100) as usize * 2;
        out[end - 2..end].copy_from_slice(&PAIRS[pair..pair + 2]);
        id /= 100;
        end -= 2;
    }
    if id > 0 {
        out[end - 1] = b'0' + id as u8;
    }
}

/// `00` to `99`: two digits per step halve the divisions.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        pairs[at * 2] = b'0' + (at / 10) as u8;
        pairs[at * 2 + 1] = b'0' + (at % 10) as u8;
        at += 1;
    }
    pairs
};

/// The values of the items: eight letters that name the item, then a stretch of one fixed pool of letters.
#[derive(Clone, Debug)]
pub(crate) struct ItemValues {
    sizes: Sizer,
    pool: Vec<u8>,
}

impl ItemValues {
    pub(crate) fn new(sizes: &ItemSizes) -> ItemValues {
        let mut prng = Prng::new(0x706f_6f6c);
        let pool = (0..POOL_LEN).map(|_| letter(prng.next_u64())).collect();
        ItemValues { sizes: sizes.sizer(0..=VALUE_SIZE_MAX), pool }
    }

    /// The largest size.
    pub(crate) fn longest(&self) -> usize {
        self.sizes.max()
    }

    /// The mean size.
    pub(crate) fn mean(&self) -> f64 {
        self.sizes.mean()
    }

    /// The length of the value of item `id`.
    #[inline]
    pub(crate) fn size(&self, id: u64) -> usize {
        self.sizes.of(mix(id ^ VALUE_SIZE_SALT))
    }

    /// Appends the value of item `id`.
    #[inline]
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        self.write_sized(id, self.size(id), out);
    }

    /// Appends the value that item `id` would have if it had this size.
    #[inline]
    pub(crate) fn write_sized(&self, id: u64, size: usize, out: &mut Vec<u8>) {
        let (name, start) = name_and_start(id);
        out.extend_from_slice(&name[..size.min(NAME_LEN)]);
        let (mut at, mut left) = (start, size.saturating_sub(NAME_LEN));
        while left > 0 {
            let part = &self.pool[at..][..left.min(POOL_LEN - at)];
            out.extend_from_slice(part);
            left -= part.len();
            at = 0;
        }
    }

    /// Whether `bytes` are those of the value of item `id` that begin at `offset`.
    pub(crate) fn matches(&self, id: u64, offset: usize, bytes: &[u8]) -> bool {
        if offset + bytes.len() > self.size(id) {
            return false;
        }
        let (name, start) = name_and_start(id);
        let (head, mut tail) = bytes.split_at(NAME_LEN.saturating_sub(offset).min(bytes.len()));
        if !head.is_empty() && head != &name[offset..offset + head.len()] {
            return false;
        }
        let mut at = (start + (offset + head.len()).saturating_sub(NAME_LEN)) % POOL_LEN;
        while !tail.is_empty() {
            let part = tail.len().min(POOL_LEN - at);
            if tail[..part] != self.pool[at..at + part] {
                return false;
            }
            tail = &tail[part..];
            at = 0;
        }
        true
    }
}

/// Small enough to stay in the second-level cache beside everything else that a turn touches.
const POOL_LEN: usize = 64 * 1024;
const NAME_LEN: usize = 8;

fn name_and_start(id: u64) -> ([u8; NAME_LEN], usize) {
    let hash = mix(id.wrapping_add(1));
    (std::array::from_fn(|place| letter(hash >> (place * 6))), (hash >> 48) as usize % POOL_LEN)
}

/// One of 64 printable letters: a value can be looked at in a terminal.
fn letter(bits: u64) -> u8 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    LETTERS[(bits & 63) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> ItemSizes {
        text.parse().expect(text)
    }

    fn key(keys: &ItemKeys, id: u64) -> String {
        let mut out = b"x".to_vec();
        keys.write(id, &mut out);
        String::from_utf8(out[1..].to_vec()).expect("letters")
    }

    #[test]
    fn a_key_is_its_number_padded() {
        let check = |count, size: usize, id, expected: &str| {
            let keys = ItemKeys::new(count, &sizes(&size.to_string())).expect("room");
            assert_eq!(key(&keys, id), expected);
            assert!(keys.is(expected.as_bytes(), id, &mut Vec::new()));
        };
        check(100_000, 14, 0, "key:0000000000");
        check(100_000, 14, 7, "key:0000000007");
        check(100_000, 14, 99_999, "key:0000099999");
        check(100_000, 5, 12_345, "12345");
        check(10, 1, 9, "9");
        check(u64::MAX, 24, u64::MAX - 1, "key:18446744073709551614");
        assert!(ItemKeys::new(1000, &sizes("2")).is_err());
        assert!(ItemKeys::new(1000, &sizes("251")).is_err());
        assert!(ItemKeys::new(1000, &sizes("240-251")).is_err());
    }

    #[test]
    fn keys_of_mixed_sizes_differ() {
        let keys = ItemKeys::new(1000, &sizes("3-9")).expect("room");
        let all: std::collections::HashSet<_> = (0..1000).map(|id| key(&keys, id)).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn a_law_makes_no_key_too_short_or_too_long() {
        let keys = ItemKeys::new(1000, &sizes("exp:60")).expect("room");
        let mut sizes: Vec<_> = (0..1000).map(|id| key(&keys, id).len()).collect();
        sizes.sort_unstable();
        assert_eq!((sizes[0], sizes[999]), (PREFIX.len() + 3, KEY_SIZE_MAX));
        assert_eq!(key(&keys, 17).get(..4), Some("key:"));
    }

    #[test]
    fn a_value_is_always_the_same_and_only_its_own() {
        let values = ItemValues::new(&sizes("0-3000"));
        for id in 0..300 {
            let mut out = Vec::new();
            values.write(id, &mut out);
            assert_eq!(out.len(), values.size(id));
            for at in [0, 3, 8, 9, out.len() / 2, out.len()] {
                let (head, tail) = out.split_at(at.min(out.len()));
                assert!(values.matches(id, 0, head) && values.matches(id, head.len(), tail), "{id} at {at}");
            }
            if let Some(last) = out.last_mut() {
                *last ^= 1;
                assert!(!values.matches(id, 0, &out), "a changed byte is seen");
            }
            out.push(b'A');
            assert!(!values.matches(id, 0, &out), "a byte too many is seen");
        }
    }

    #[test]
    fn values_longer_than_the_pool_wrap() {
        let values = ItemValues::new(&sizes("192k"));
        let mut out = Vec::new();
        values.write(5, &mut out);
        assert!(values.matches(5, 0, &out));
        for chunk in [1000, POOL_LEN, POOL_LEN + 1] {
            assert!(out.chunks(chunk).enumerate().all(|(n, part)| values.matches(5, n * chunk, part)));
        }
    }

    #[test]
    fn the_values_never_change_between_versions() {
        let values = ItemValues::new(&sizes("16"));
        let shown = |id| {
            let mut out = Vec::new();
            values.write(id, &mut out);
            String::from_utf8(out).expect("letters")
        };
        assert_eq!((shown(0).as_str(), shown(1).as_str()), ("lXwCQ0hFRM6J-Oju", "KSxK6cJOKPrefjxR"));
    }
}
