//! Short cuts: requests in the usual spelling of clients, recognised by direct scans.
//!
//! Everything unusual is `None`: incomplete or indented lines, doubled spaces, unusual numbers, any error. The word
//! parser then decides. A result of these functions equals that of the word parser: `crate::fuzz` compares the two.

use memchr::{memchr, memchr2};

use super::types::{Store, Verb};
use crate::key::{Key, Keys};
use crate::limits::{KEY_LEN_MAX, META_WORDS_MAX, OPAQUE_LEN_MAX, VALUE_LEN_MAX};
use crate::meta::{self, MetaFlags, MetaKey};

/// The keys of a `get`, from byte `at` on, and the length of the line.
#[inline(always)]
pub(super) fn keys(input: &[u8], at: usize) -> Option<(Keys<'_>, usize)> {
    let text = &input[at..];
    let end = separator(text)?;
    let (line, len, newline) = if text[end] == b'\n' {
        let line = without_return(&text[..end]);
        (line, line.len(), end)
    } else {
        let newline = end + memchr(b'\n', &text[end..])?;
        (without_return(&text[..newline]), end, newline)
    };
    // The first key may be overlong: the server finds that when it reaches the key.
    (len > 0).then(|| (Keys::starting(line, len), at + newline + 1))
}

/// The same, after `command`.
#[inline(always)]
pub(super) fn keys_after<'a>(input: &'a [u8], command: &[u8]) -> Option<(Keys<'a>, usize)> {
    input.starts_with(command).then(|| keys(input, command.len())).flatten()
}

/// A storage command whose key starts at `at`, and the length of the line.
#[inline(always)]
pub(super) fn store(input: &[u8], at: usize, verb: Verb) -> Option<(Store<'_>, usize)> {
    let (key, text) = key_and_space(&input[at..])?;
    let (flags, text) = digits(text)?;
    let (exptime, text) = digits(text.strip_prefix(b" ")?)?;
    let (len, text) = digits(text.strip_prefix(b" ")?)?;
    let (noreply, rest) = line_end(text)?;
    let len = usize::try_from(len).ok().filter(|&len| len <= VALUE_LEN_MAX)?;
    // Like C, memcached lets flags and exptime wrap at 32 bits.
    let store = Store { verb, key, flags: flags as u32, exptime: exptime as i32, len, noreply };
    Some((store, input.len() - rest.len()))
}

/// A line that has only a key after `command`.
#[inline(always)]
pub(super) fn key<'a>(input: &'a [u8], command: &[u8]) -> Option<(Key<'a>, bool, usize)> {
    let text = input.strip_prefix(command)?;
    let end = separator(text)?;
    let word = if text[end] == b'\n' { text[..end].strip_suffix(b"\r")? } else { &text[..end] };
    // As the last word it would also be the request for no reply.
    if word == b"noreply" {
        return None;
    }
    let (noreply, rest) = line_end(&text[word.len()..])?;
    Some((Key::from_word(word).ok()?, noreply, input.len() - rest.len()))
}

/// A line that has a key and a number after `command`.
#[inline(always)]
pub(super) fn key_and_number<'a>(input: &'a [u8], command: &[u8]) -> Option<(Key<'a>, u64, bool, usize)> {
    let (key, text) = key_and_space(input.strip_prefix(command)?)?;
    let (number, text) = digits(text)?;
    let (noreply, rest) = line_end(text)?;
    Some((key, number, noreply, input.len() - rest.len()))
}

/// A meta command whose key starts at `at`: its key, its flags, and the length of the line.
#[inline(always)]
pub(super) fn meta(input: &[u8], at: usize) -> Option<(MetaKey<'_>, MetaFlags<'_>, usize)> {
    let text = &input[at..];
    let end = separator(text)?;
    let word = if text[end] == b'\n' { without_return(&text[..end]) } else { &text[..end] };
    let key = meta_key(word)?;
    let (flags, rest) = meta_flags(&text[word.len()..], 2)?;
    Some((key, flags, input.len() - rest.len()))
}

/// The same for `ms`, which has a length between the key and the flags.
#[inline(always)]
pub(super) fn meta_set(input: &[u8], at: usize) -> Option<(MetaKey<'_>, usize, MetaFlags<'_>, usize)> {
    let (key, text) = key_and_space(&input[at..])?;
    let (len, text) = digits(text)?;
    let len = usize::try_from(len).ok().filter(|&len| len <= VALUE_LEN_MAX)?;
    let (flags, rest) = meta_flags(text, 3)?;
    Some((meta_key(key.as_bytes())?, len, flags, input.len() - rest.len()))
}

#[inline(always)]
fn meta_key(word: &[u8]) -> Option<MetaKey<'_>> {
    (1..=KEY_LEN_MAX).contains(&word.len()).then(|| MetaKey::new(word, false))
}

/// The flags up to the line end, after `before` words; and what follows the line.
#[inline(always)]
fn meta_flags(text: &[u8], before: usize) -> Option<(MetaFlags<'_>, &[u8])> {
    let mut flags = MetaFlags::none();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'\r', b'\n', after @ ..] => {
                flags.set_words(before, &text[..text.len() - rest.len()]);
                return (before + flags.count() <= META_WORDS_MAX).then_some((flags, after));
            }
            [b' ', letter, behind @ ..] => {
                flags.claim(*letter)?;
                meta_argument(*letter, behind, &mut flags)?
            }
            _ => return None,
        };
    }
}

/// Reads the argument of `letter`, and returns what follows it.
#[inline(always)]
fn meta_argument<'a>(letter: u8, text: &'a [u8], flags: &mut MetaFlags<'_>) -> Option<&'a [u8]> {
    if meta::takes_no_argument(letter) {
        // If one is given all the same, the word parser ignores it.
        return Some(text);
    }
    match letter {
        b'O' => {
            let len =
                text.iter().take(OPAQUE_LEN_MAX).position(|&byte| matches!(byte, b' ' | b'\r' | b'\n'))?;
            Some(&text[len..])
        }
        b'M' => {
            let (&mode, text) = text.split_first()?;
            flags.mode = mode;
            mode.is_ascii_alphabetic().then_some(text)
        }
        _ => {
            let (number, text) = digits(text)?;
            flags.set_number(letter, number)?;
            Some(text)
        }
    }
}

/// A key, and what follows the one space after it.
#[inline(always)]
fn key_and_space(text: &[u8]) -> Option<(Key<'_>, &[u8])> {
    let end = separator(text)?;
    let key = Key::from_word(&text[..end]).ok()?;
    Some((key, text[end..].strip_prefix(b" ")?))
}

/// The line end, with or without `noreply` before it; and what follows.
#[inline(always)]
fn line_end(text: &[u8]) -> Option<(bool, &[u8])> {
    match text {
        [b'\r', b'\n', rest @ ..] => Some((false, rest)),
        [b' ', b'n', b'o', b'r', b'e', b'p', b'l', b'y', b'\r', b'\n', rest @ ..] => Some((true, rest)),
        _ => None,
    }
}

/// One to ten digits, and what follows them.
#[inline(always)]
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (len, &byte) in text.iter().take(DIGITS_MAX + 1).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (len > 0).then_some((number, &text[len..]));
        }
        number = number * 10 + u64::from(digit);
    }
    None
}

/// This many digits never overflow 64 bits, and are accepted for every kind of number.
const DIGITS_MAX: usize = 10;

/// The first space or line feed.
///
/// Keys are short: eight bytes at a time beat a call that sets up wide registers. The bits of `eq` are exact up to the
/// first match, and later ones are not used (Mycroft's test for a zero byte).
#[inline(always)]
fn separator(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = 0;
    while at < KEY_LEN_SHORT
        && let Some(bytes) = text.get(at..).and_then(|text| text.first_chunk::<8>())
    {
        let word = u64::from_le_bytes(*bytes);
        let eq = zero(word ^ (ONES * b' ' as u64)) | zero(word ^ (ONES * b'\n' as u64));
        if eq != 0 {
            return Some(at + eq.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(b' ', b'\n', &text[at..]).map(|offset| at + offset)
}

/// From this length on, the wide search is faster.
const KEY_LEN_SHORT: usize = 32;

#[inline(always)]
fn without_return(line: &[u8]) -> &[u8] {
    match line {
        [line @ .., b'\r'] => line,
        line => line,
    }
}
