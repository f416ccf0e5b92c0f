//! Increment and decrement of decimal numbers, in place where the result fits.

use crate::error::Error;
use crate::handle::{Handle, Need};
use crate::index::hash::Key;
use crate::operations::new_item::{Body, NewItem};
use crate::operations::put::put;
use crate::operations::request::{Arithmetic, Counted, Direction};
use crate::segment::record::{BINARY_KEY, LARGE};

/// Digits of 2^64 - 1.
const DIGITS_MAX: usize = 20;

/// memcached stores larger items in chunks and rejects them as numbers before it compares a CAS unique.
const CHUNKED_MIN: u64 = 512 * 1024;

impl Handle {
    /// Adds to or subtracts from a number.
    ///
    /// The result is written over the old value unless it is longer; a shorter result is padded with spaces.
    pub fn arithmetic(&mut self, key: &Key<'_>, request: &Arithmetic, now: u32) -> Result<Counted, Error> {
        self.enter(now);
        let counted = loop {
            match self.try_arithmetic(key, request, now) {
                Ok(counted) => break counted,
                Err(need) => self.provide(need, now)?,
            }
        };
        self.store.reclaim_ahead(&self.counters, now);
        Ok(counted)
    }

    fn try_arithmetic(&mut self, key: &Key<'_>, request: &Arithmetic, now: u32) -> Result<Counted, Need> {
        let store = &*self.store;
        let set = &store.open_sets[self.set_number()];
        let mark = store.segments.flush_mark();
        let mut lock = store.index.lock(key.hash);
        let mut digits = [b' '; DIGITS_MAX];
        let old = match store.look_up(&mut lock, key, now, &self.counters) {
            Ok(slot) => slot,
            Err(miss) => {
                self.miss = miss;
                let Some(vivify) = request.vivify else {
                    store.drop_from_flash(&mut lock, key.hash);
                    return Ok(Counted::NotFound);
                };
                let bits = if request.key_is_binary { BINARY_KEY } else { 0 };
                let cas = store.cas(&mut lock, request.new_cas);
                let item = NewItem { flags: 0, expiry: vivify.expiry, bits, cas };
                let len = write_digits(&mut digits, vivify.initial);
                let body = Body::Bytes(&digits[..len]);
                let spare = &mut self.spare_page;
                put(store, &self.counters, set, spare, &mut lock, key, None, &item, &body, mark, now)?;
                self.counters.total_items.add(1);
                let (value, expiry) = (vivify.initial, vivify.expiry);
                return Ok(Counted::Counted { value, cas, expiry, expiry_before: 0, created: true });
            }
        };
        let record = store.segments.record(old.at());
        let is_large = record.bits() & LARGE != 0;
        let large_len = if is_large { record.len(&lock) } else { 0 };
        let is_chunked = store.item_size(key.bytes.len(), record.flags(&lock), large_len) > CHUNKED_MIN;
        if is_chunked || !is_large && record.value_len() == 0 {
            return Ok(Counted::NotNumeric);
        }
        let wanted = request.compare_cas.filter(|wanted| *wanted != 0);
        if wanted.is_some_and(|wanted| wanted != store.cas_of(record, &lock)) {
            return Ok(Counted::Exists);
        }
        if is_large {
            return Ok(Counted::NotNumeric);
        }
        let Some(before) = parse_number(record.value(&lock)) else { return Ok(Counted::NotNumeric) };
        let value = match request.direction {
            Direction::Increment => before.wrapping_add(request.delta),
            Direction::Decrement => before.saturating_sub(request.delta),
        };
        let expiry_before = record.expiry();
        let expiry = request.touch.unwrap_or(expiry_before);
        let cas = store.cas(&mut lock, request.new_cas);
        let len = write_digits(&mut digits, value);
        // As in memcached, a number that outgrows the old value is a new item, without the marks of the old one.
        let grows = len > record.value_len();
        let bits = if grows { record.bits() & BINARY_KEY } else { record.bits() };
        let item = NewItem { flags: record.flags(&lock), expiry, bits, cas };
        self.scratch.clear();
        self.scratch.extend_from_slice(&digits[..len]);
        self.scratch.resize(record.value_len().max(len), b' ');
        let body = Body::Bytes(&self.scratch);
        let spare = &mut self.spare_page;
        put(store, &self.counters, set, spare, &mut lock, key, Some(old), &item, &body, mark, now)?;
        if grows {
            self.counters.total_items.add(1);
        }
        Ok(Counted::Counted { value, cas, expiry, expiry_before, created: false })
    }
}

/// Writes a number to the start of `digits` and returns its length.
fn write_digits(digits: &mut [u8; DIGITS_MAX], mut value: u64) -> usize {
    let len = value.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..len].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    len
}

/// Parses a number as memcached does: optional white space, a sign, digits, and then white space, a zero byte
/// or the end; what follows the white space is ignored. A negative number is read as its complement to 2^64,
/// unless that has its highest bit set.
fn parse_number(bytes: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = bytes.iter().position(|byte| !is_space(byte))?;
    let (negative, rest) = match &bytes[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if len == 0 || rest.get(len).is_some_and(|byte| !is_space(byte) && *byte != 0) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    let magnitude = rest[..len].iter().try_fold(0, add)?;
    if !negative {
        return Some(magnitude);
    }
    Some(magnitude.wrapping_neg()).filter(|value| value >> 63 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse_number(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn numbers_are_taken_as_memcached_takes_them() {
        check("0", Some(0));
        check("18446744073709551615", Some(u64::MAX));
        check("18446744073709551616", None);
        check("9 ", Some(9));
        check(" \t9", Some(9));
        check("9 apples", Some(9));
        check("9\0apples", Some(9));
        check("9apples", None);
        check("", None);
        check("  ", None);
        check("+", None);
        check("+5", Some(5));
        check("-5", None);
        check("-0", Some(0));
        check("-18446744073709551615", Some(1));
    }

    #[test]
    fn digits_are_those_of_the_number() {
        for value in [0, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            let mut digits = [b' '; DIGITS_MAX];
            let len = write_digits(&mut digits, value);
            assert_eq!(digits[..len], *value.to_string().as_bytes());
        }
    }
}
