//! Reads the flags of a meta command word by word, as memcached does.

use super::{KNOWN, MetaFlags, MetaKey, bit};
use crate::base64;
use crate::limits::{KEY_LEN_MAX, META_WORDS_MAX};
use crate::number;
use crate::reply::line;
use crate::words::Words;

/// Reads the flags behind `before` words (the command, the key, and the length for `ms`).
///
/// memcached goes over the words three times: their first characters, their number, then each in turn. A letter
/// that is unknown or given twice ends it there; a bad argument is remembered while the next flags are read.
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

/// memcached takes any line with other first characters for malformed, whatever else is wrong with it.
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
            self.argument(letter, &word[1..]);
        }
    }

    #[inline]
    fn argument(&mut self, letter: u8, argument: &'a [u8]) {
        let flags = &mut self.flags;
        match letter {
            b'b' => {
                self.binary = true;
                let malformed = self.key.len() <= KEY_LEN_MAX
                    && base64::decode(self.key, &mut [0; KEY_LEN_MAX]).is_none();
                self.error = if malformed { Some(line::META_BAD_KEY) } else { self.error };
            }
            b'N' => {
                read(argument, number::i32_word, &mut flags.vivify, line::META_BAD_TOKEN, &mut self.error)
            }
            b'T' => {
                read(argument, number::i32_word, &mut flags.exptime, line::META_BAD_TOKEN, &mut self.error)
            }
            b'R' => {
                read(argument, number::i32_word, &mut flags.recache, line::META_BAD_TOKEN, &mut self.error)
            }
            b'C' => read(
                argument,
                number::u64_word,
                &mut flags.compare_cas,
                line::META_BAD_TOKEN,
                &mut self.error,
            ),
            b'E' => {
                read(argument, number::u64_word, &mut flags.new_cas, line::META_BAD_TOKEN, &mut self.error)
            }
            b'J' => {
                read(argument, number::u64_word, &mut flags.initial, line::META_BAD_INITIAL, &mut self.error)
            }
            b'D' => read(argument, number::u64_word, &mut flags.delta, line::META_BAD_DELTA, &mut self.error),
            b'F' => {
                // memcached forgets to name this error, so that an earlier one's name stands.
                let unnamed = self.error.unwrap_or(line::BAD_FORMAT);
                read(argument, number::u32_word, &mut flags.client_flags, unnamed, &mut self.error);
            }
            // Without an argument the mode is the separator behind the letter: no mode at all, but given.
            b'M' => flags.mode = argument.first().copied().unwrap_or(b' '),
            _ => {}
        }
    }
}

#[inline]
fn read<T>(
    argument: &[u8],
    number: impl Fn(&[u8]) -> Option<T>,
    into: &mut T,
    complaint: &'static [u8],
    error: &mut Option<&'static [u8]>,
) {
    match Some(argument).filter(|argument| !argument.is_empty()).and_then(number) {
        Some(number) => *into = number,
        None => *error = Some(complaint),
    }
}
