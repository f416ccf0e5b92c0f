//! Reads the flags of a meta command word by word, as memcached does.

use super::table::{self, Argument, KNOWN, Range, bit};
use super::{MetaFlags, MetaKey, takes_no_argument};
use crate::base64;
use crate::limits::{KEY_LEN_MAX, META_WORDS_MAX};
use crate::number;
use crate::reply::line;
use crate::words::Words;

/// Reads the flags after `before` words (the command, the key, and the length for `ms`).
///
/// memcached goes over the words three times: their first characters, their number, then each word in turn. An unknown
/// or repeated letter ends the third pass; a bad argument is remembered while the next flags are read.
#[inline]
pub(crate) fn parse<'a>(
    key: &'a [u8],
    words: Words<'a>,
    before: usize,
) -> Result<(MetaKey<'a>, MetaFlags<'a>), &'static [u8]> {
    let mut reader = Reader::new(key, words);
    let mut count = before;
    for word in words {
        count += 1;
        if !starts_flag(word) {
            return Err(line::BAD_FORMAT);
        }
        if reader.fatal.is_none() {
            reader.flag(word);
        }
    }
    if key.len() > KEY_LEN_MAX {
        return Err(line::BAD_FORMAT);
    }
    if count > META_WORDS_MAX {
        return Err(line::META_TOO_MANY_FLAGS);
    }
    match reader.fatal.or(reader.error) {
        Some(line) => Err(line),
        None => Ok((MetaKey { text: key, binary: reader.binary }, reader.flags)),
    }
}

/// memcached reports a line with other first characters as malformed, whatever other errors it has.
#[inline]
pub(crate) fn starts_flag(word: &[u8]) -> bool {
    matches!(word[0], b'A'..=b'z' | b'0'..=b'9')
}

struct Reader<'a> {
    key: &'a [u8],
    flags: MetaFlags<'a>,
    binary: bool,
    /// Ends the reading.
    fatal: Option<&'static [u8]>,
    /// The error of the latest bad argument.
    error: Option<&'static [u8]>,
}

impl<'a> Reader<'a> {
    #[inline]
    fn new(key: &'a [u8], words: Words<'a>) -> Reader<'a> {
        let flags = MetaFlags { words, ..MetaFlags::none() };
        Reader { key, flags, binary: false, fatal: None, error: None }
    }

    #[inline]
    fn flag(&mut self, word: &'a [u8]) {
        let letter = word[0];
        let bit = bit(letter);
        if self.flags.present & bit != 0 {
            self.fatal = Some(line::META_DUPLICATE_FLAG);
        } else if KNOWN & bit == 0 {
            self.fatal = Some(line::META_INVALID_FLAG);
        } else {
            self.flags.present |= bit;
            if !takes_no_argument(letter) {
                self.argument(letter, &word[1..]);
            }
        }
    }

    #[inline]
    fn argument(&mut self, letter: u8, argument: &'a [u8]) {
        match *table::argument(letter) {
            Argument::Nothing | Argument::Opaque => {}
            Argument::KeyIsBinary => {
                self.binary = true;
                let malformed = self.key.len() <= KEY_LEN_MAX
                    && base64::decode(self.key, &mut [0; KEY_LEN_MAX]).is_none();
                self.error = if malformed { Some(line::META_BAD_KEY) } else { self.error };
            }
            // Without an argument, memcached reads the separator after the letter as the mode: given, but not a valid
            // one.
            Argument::Mode => self.flags.mode = argument.first().copied().unwrap_or(b' '),
            Argument::Number { range, error, .. } => match number(argument, range) {
                Some(number) => self.flags.numbers.set_wrapped(letter, number),
                None => self.error = error.or(self.error).or(Some(line::BAD_FORMAT)),
            },
        }
    }
}

/// The complete word as a number; negative ones wrap.
#[inline]
fn number(word: &[u8], range: Range) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    match range {
        Range::I32 => number::i32_word(word).map(|number| number as u64),
        Range::U32 => number::u32_word(word).map(u64::from),
        Range::U64 => number::u64_word(word),
    }
}
