//! Numbers: parsed exactly as memcached parses them, and written.
//!
//! memcached has two readers. Most words go through a strict one (digits only, and few of them). The flags and
//! the exptime of the storage commands go through C's `strtoul` and `strtol`, which skip white space, take a
//! sign, stop at any white space and wrap what does not fit 32 bits.

/// The longest 32-bit number in a word, its sign included: leading zeros count.
const WORD_32_LEN_MAX: usize = 11;
/// The longest 64-bit number in a word.
const WORD_64_LEN_MAX: usize = 22;
/// The longest word that is parsed as a fraction.
const WORD_F64_LEN_MAX: usize = 31;

/// A word of digits as a 32-bit number. An empty word is 0; a lone `-` therefore is 0 to the signed readers.
pub fn u32_word(word: &[u8]) -> Option<u32> {
    if word.len() > WORD_32_LEN_MAX {
        return None;
    }
    digits(word).and_then(|number| u32::try_from(number).ok())
}

/// A word of digits as a 64-bit number.
pub fn u64_word(word: &[u8]) -> Option<u64> {
    if word.len() > WORD_64_LEN_MAX {
        return None;
    }
    digits(word)
}

/// A word of digits, with or without a minus, as a 32-bit number.
pub fn i32_word(word: &[u8]) -> Option<i32> {
    if word.len() > WORD_32_LEN_MAX {
        return None;
    }
    let (word, negative) = match word {
        [b'-', rest @ ..] => (rest, true),
        _ => (word, false),
    };
    // At most eleven digits: no overflow in 64 bits.
    let magnitude = digits(word)? as i64;
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// A word as a fraction, as `strtod` reads it.
///
/// Hexadecimal fractions, which C accepts, are refused.
pub fn f64_word(word: &[u8]) -> Option<f64> {
    if word.len() > WORD_F64_LEN_MAX {
        return None;
    }
    let start = word.iter().position(|&byte| !is_space(byte))?;
    let word = &word[start..];
    let end = word.iter().position(|&byte| is_space(byte) || byte == 0).unwrap_or(word.len());
    let text = std::str::from_utf8(&word[..end]).ok()?;
    let number: f64 = text.parse().ok()?;
    let overflowed = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    (!overflowed).then_some(number)
}

/// The client flags at the start of `text`, the rest of the line: as `strtoul` reads them, kept to 32 bits.
pub fn c_flags(text: &[u8]) -> Option<u32> {
    let (magnitude, negative) = c_integer(text)?;
    if !negative {
        return Some(magnitude as u32);
    }
    // C negates an unsigned number in place; memcached then refuses a result that is negative as a signed number.
    let wrapped = magnitude.wrapping_neg();
    ((wrapped as i64) >= 0).then_some(wrapped as u32)
}

/// The exptime at the start of `text`, the rest of the line: as `strtol` reads it, kept to 32 bits.
pub fn c_exptime(text: &[u8]) -> Option<i32> {
    let (magnitude, negative) = c_integer(text)?;
    let number = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    i64::try_from(number).ok().map(|number| number as i32)
}

/// Magnitude and sign of the number at the start of `text`, if white space, a NUL or the end follows it.
fn c_integer(text: &[u8]) -> Option<(u64, bool)> {
    let start = text.iter().position(|&byte| !is_space(byte))?;
    let (text, negative) = match &text[start..] {
        [b'-', rest @ ..] => (rest, true),
        [b'+', rest @ ..] => (rest, false),
        rest => (rest, false),
    };
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let ends = text.get(len).is_none_or(|&byte| is_space(byte) || byte == 0);
    if len == 0 || !ends {
        return None;
    }
    Some((digits(&text[..len])?, negative))
}

/// C's `isspace` in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn digits(word: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for &byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

/// Appends `number` in decimal.
#[inline]
pub fn write_u64(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        return out.push(b'0' + number as u8);
    }
    let mut text = Backward::<20>::new();
    text.number(number);
    out.extend_from_slice(text.written());
}

/// Appends `number` in decimal, with its sign if it is negative.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_u64(out, number.unsigned_abs());
}

/// A short text that is written from its end, because division yields the last digit of a number first. Appending it as
/// a whole is cheaper than appending its parts. Writing more than `N` bytes panics.
pub(crate) struct Backward<const N: usize> {
    text: [u8; N],
    at: usize,
}

impl<const N: usize> Backward<N> {
    #[inline]
    pub(crate) fn new() -> Backward<N> {
        Backward { text: [0; N], at: N }
    }

    #[inline]
    pub(crate) fn written(&self) -> &[u8] {
        &self.text[self.at..]
    }

    /// Prepends `byte`.
    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.at -= 1;
        self.text[self.at] = byte;
    }

    /// Prepends `number`, two digits at a time.
    #[inline]
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 100 {
            self.pair(number % 100);
            number /= 100;
        }
        if number >= 10 {
            self.pair(number);
        } else {
            self.byte(b'0' + number as u8);
        }
    }

    #[inline]
    fn pair(&mut self, pair: u64) {
        let digits = pair as usize * 2;
        self.at -= 2;
        self.text[self.at..self.at + 2].copy_from_slice(&PAIRS[digits..digits + 2]);
    }
}

/// "00", "01" … "99".
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[number * 2] = b'0' + (number / 10) as u8;
        pairs[number * 2 + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    #[track_caller]
    fn check<T: Debug>(read: impl Fn(&[u8]) -> Option<T>, expected: &[(&str, &str)]) {
        for (word, expected) in expected {
            let number = read(word.as_bytes());
            let number = number.map_or("no number".to_owned(), |number| format!("{number:?}"));
            assert_eq!(number, *expected, "of {word:?}");
        }
    }

    #[test]
    fn numeric_words_have_only_digits_and_a_limited_length() {
        check(u32_word, &[("0", "0"), ("4294967295", "4294967295"), ("4294967296", "no number")]);
        check(u32_word, &[("00000000001", "1"), ("000000000001", "no number"), ("1x", "no number")]);
        check(u64_word, &[("18446744073709551615", "18446744073709551615")]);
        check(u64_word, &[("18446744073709551616", "no number"), ("-1", "no number"), ("+1", "no number")]);
        check(i32_word, &[("-2147483648", "-2147483648"), ("2147483647", "2147483647"), ("-", "0")]);
        check(i32_word, &[("2147483648", "no number"), ("-2147483649", "no number"), ("- 1", "no number")]);
    }

    #[test]
    fn flags_and_exptime_are_as_lenient_as_c() {
        check(c_flags, &[("7 0 0", "7"), ("\t+7\t9", "7"), ("4294967297 ", "1"), ("-1", "no number")]);
        check(c_flags, &[("-18446744073709551615", "1"), ("18446744073709551616", "no number")]);
        check(c_flags, &[("1a", "no number"), ("", "no number"), ("\t", "no number"), ("3\09", "3")]);
        check(c_exptime, &[("-1 5", "-1"), ("99999999999", "1215752191"), ("9223372036854775807", "-1")]);
        check(c_exptime, &[("9223372036854775808", "no number"), ("-9223372036854775808", "0")]);
    }

    #[test]
    fn fractions_are_decimal_and_finite() {
        check(
            f64_word,
            &[("0.5", "0.5"), ("\t1e2", "100.0"), ("-1", "-1.0"), ("nan", "NaN"), ("inf", "inf")],
        );
        check(f64_word, &[("1e999", "no number"), ("x", "no number"), ("0.5x", "no number")]);
        check(f64_word, &[("", "no number"), ("00000000000000000000000000000001", "no number")]);
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let mut numbers = vec![0, 9, 10, 99, 100, 101, 999, 1000, u64::MAX, u64::MAX - 1];
        numbers.extend((0..64).map(|bit| 1u64 << bit));
        for number in numbers {
            let mut out = Vec::new();
            write_u64(&mut out, number);
            out.push(b' ');
            write_i64(&mut out, number as i64);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number} {}", number as i64));
        }
    }
}
