//! The words of a line, separated by spaces.
//!
//! Only spaces separate words; tabs and other control characters are part of a word, as in memcached.

use crate::limits::{WORDS_MAX, WORDS_SPAN_MAX};

/// The words of (the rest of) a line, in order. Ends where memcached stops reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Words<'a> {
    /// The words of a whole line, without its line end.
    pub fn of_line(line: &'a [u8]) -> Words<'a> {
        Words { rest: &line[..line.len().min(WORDS_SPAN_MAX - 1)], left: WORDS_MAX }
    }

    /// The words of `rest` after `before` others on the same line, as if those had been read one by one.
    #[inline]
    pub(crate) fn behind(before: usize, rest: &'a [u8]) -> Words<'a> {
        Words { rest, left: WORDS_MAX - before }
    }

    /// The part that has not been read yet, spaces included.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&byte| byte != b' ')?;
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let word = &self.rest[start..];
        let len = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        self.rest = &word[len..];
        Some(&word[..len])
    }
}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.map(|word| word.escape_ascii().to_string())).finish()
    }
}

/// All words of one line, by their number. For the commands whose last word matters.
pub(crate) struct Sentence<'a> {
    line: &'a [u8],
    /// Where each word starts and ends in the line.
    spans: [(u16, u16); WORDS_MAX],
    count: usize,
}

impl<'a> Sentence<'a> {
    pub(crate) fn of_line(line: &'a [u8]) -> Sentence<'a> {
        const { assert!(WORDS_SPAN_MAX <= u16::MAX as usize, "a position in a line fits 16 bits") };
        let mut sentence = Sentence { line, spans: [(0, 0); WORDS_MAX], count: 0 };
        let mut words = Words::of_line(line);
        let span = words.rest().len();
        while let Some(word) = words.next() {
            let end = span - words.rest().len();
            sentence.spans[sentence.count] = ((end - word.len()) as u16, end as u16);
            sentence.count += 1;
        }
        sentence
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn word(&self, number: usize) -> Option<&'a [u8]> {
        let &(start, end) = self.spans[..self.count].get(number)?;
        Some(&self.line[usize::from(start)..usize::from(end)])
    }

    /// The line from the start of a word on: the input of C's number parsers.
    pub(crate) fn rest_from(&self, number: usize) -> &'a [u8] {
        &self.line[usize::from(self.spans[number].0)..]
    }

    pub(crate) fn last(&self) -> Option<&'a [u8]> {
        self.word(self.count.checked_sub(1)?)
    }

    /// `noreply` counts only as the last word, but there even if it is the key or the command.
    pub(crate) fn noreply(&self) -> bool {
        self.last() == Some(b"noreply")
    }

    /// Whether word `number` is an abbreviation of `full`: memcached accepts any prefix of an option.
    pub(crate) fn abbreviates(&self, number: usize, full: &[u8]) -> bool {
        self.word(number).is_some_and(|word| abbreviates(word, full))
    }
}

/// Whether `word` is a prefix of `full` by C's `strncmp`, which stops at a NUL after all of `full`.
pub(crate) fn abbreviates(word: &[u8], full: &[u8]) -> bool {
    full.starts_with(word) || word.strip_prefix(full).is_some_and(|rest| rest[0] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_separate_words() {
        assert_eq!(format!("{:?}", Words::of_line(b"  a  b\tc \0 ")), r#"["a", "b\\tc", "\\x00"]"#);
    }

    #[test]
    fn there_are_at_most_23_words() {
        let line = b"x ".repeat(40);
        assert_eq!(Words::of_line(&line).count(), 23);
        assert_eq!(Sentence::of_line(&line).count(), 23);
    }

    #[test]
    fn an_option_may_be_cut_short_and_end_with_a_nul() {
        assert!(abbreviates(b"o", b"on") && abbreviates(b"on", b"on") && abbreviates(b"on\0x", b"on"));
        assert!(!abbreviates(b"onx", b"on") && !abbreviates(b"o\0", b"on"));
    }

    #[test]
    fn the_start_of_each_word_is_kept() {
        let sentence = Sentence::of_line(b" set k \t 1");
        assert_eq!(sentence.rest_from(2), b"\t 1");
        assert_eq!(sentence.rest_from(0), b"set k \t 1");
    }
}
