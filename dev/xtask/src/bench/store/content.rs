//! Keys and values that follow from a number, so that nothing has to be remembered to check a reply.

use stdx::prng::{Prng, mix};

/// Longest value that can be made.
pub(crate) const VALUE_LEN_MAX: usize = 1 << 20;
/// Values of one length start at this many different places.
const STARTS: u64 = 4096;
/// Shorter keys could not distinguish all numbers.
pub(crate) const KEY_LEN_MIN: usize = 8;
/// memcached's longest.
pub(crate) const KEY_LEN_MAX: usize = 250;

/// Makes values: pieces of a long run of random letters.
#[derive(Debug)]
pub(crate) struct Values {
    letters: Vec<u8>,
}

impl Values {
    pub(crate) fn new() -> Values {
        let mut prng = Prng::new(0);
        let letter = |_| b'a' + prng.below(26) as u8;
        Values { letters: (0..VALUE_LEN_MAX + STARTS as usize).map(letter).collect() }
    }

    /// The value of item `number`, if it has `len` bytes.
    pub(crate) fn get(&self, number: u64, len: usize) -> &[u8] {
        let start = (mix(number) % STARTS) as usize;
        &self.letters[start..start + len]
    }
}

/// Appends the key of item `number`, of exactly `len` bytes: the number in base 32, then dots.
pub(crate) fn push_key(out: &mut Vec<u8>, number: u64, len: usize) {
    debug_assert!((KEY_LEN_MIN..=KEY_LEN_MAX).contains(&len) && number < 1 << (5 * KEY_LEN_MIN));
    for digit in 0..KEY_LEN_MIN {
        out.push(b"0123456789abcdefghijklmnopqrstuv"[(number >> (5 * digit)) as usize & 31]);
    }
    out.resize(out.len() + len - KEY_LEN_MIN, b'.');
}

/// The number in a key that [`push_key`] made.
pub(crate) fn number_in(key: &[u8]) -> Option<u64> {
    let digits = key.get(..KEY_LEN_MIN)?;
    digits.iter().rev().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'v' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 5 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_its_number() {
        for (number, len) in [(0, 8), (31, 21), (32, 21), (123_456_789, 250)] {
            let mut key = Vec::new();
            push_key(&mut key, number, len);
            assert_eq!((key.len(), number_in(&key)), (len, Some(number)));
        }
    }
}
