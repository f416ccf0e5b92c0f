//! Keys: a single one, those of a `get` line, and a run of them that is longer than any buffer.

use memchr::{memchr, memchr2, memrchr};

use crate::limits::{KEY_LEN_MAX, LEADING_SPACES_MAX};
use crate::reply::line;

/// A key of the text protocol: 1 to 250 bytes, none of them a space or a line feed.
///
/// Other control characters are allowed, because memcached allows them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key<'a>(&'a [u8]);

/// The reason why bytes are not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No bytes at all.
    Empty,
    /// More than [`KEY_LEN_MAX`] bytes.
    TooLong,
    /// A space or a line feed, which ends a key on the wire.
    Separator,
}

impl KeyError {
    /// memcached's error line, the same for all reasons.
    pub fn reply(self) -> &'static [u8] {
        line::BAD_FORMAT
    }
}

impl<'a> Key<'a> {
    /// Checks every byte.
    pub fn new(bytes: &'a [u8]) -> Result<Key<'a>, KeyError> {
        if memchr2(b' ', b'\n', bytes).is_some() {
            return Err(KeyError::Separator);
        }
        Key::from_word(bytes)
    }

    /// Checks the length only: a word of a line has no separators in it.
    #[inline]
    pub(crate) fn from_word(word: &'a [u8]) -> Result<Key<'a>, KeyError> {
        match word.len() {
            0 => Err(KeyError::Empty),
            1..=KEY_LEN_MAX => Ok(Key(word)),
            _ => Err(KeyError::TooLong),
        }
    }

    /// The bytes of the key.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl std::fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The keys of a complete `get`, `gets`, `gat` or `gats` line: at least one, without a limit.
///
/// memcached answers a line that has an overlong key with the error alone: values of earlier keys are not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a> {
    /// From the next key's first byte to the end of the line; empty at the end.
    rest: &'a [u8],
    /// Length of the next key.
    len: usize,
}

impl<'a> Keys<'a> {
    /// `rest` starts with a key of `len` bytes, which ends at a space or at the end of the line.
    #[inline]
    pub(crate) fn starting(rest: &'a [u8], len: usize) -> Keys<'a> {
        debug_assert!(
            len > 0 && rest.get(len).is_none_or(|&byte| byte == b' '),
            "the first key is a whole word"
        );
        Keys { rest, len }
    }

    /// Skips the spaces at the start of `text` and measures the key after them.
    pub(crate) fn within(text: &'a [u8]) -> Keys<'a> {
        let start = text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
        let rest = &text[start..];
        Keys { rest, len: memchr(b' ', rest).unwrap_or(rest.len()) }
    }

    /// Bytes of the line, without its end, from the next key on.
    pub fn unread(&self) -> usize {
        self.rest.len()
    }

    /// Whether a key is too long. Does not visit each key: a key is too long if no space is among the first
    /// [`KEY_LEN_MAX`] + 1 bytes after a possible start of a word.
    pub fn any_too_long(&self) -> bool {
        let mut rest = self.rest;
        while rest.len() > KEY_LEN_MAX {
            match memrchr(b' ', &rest[..=KEY_LEN_MAX]) {
                Some(space) => rest = &rest[space + 1..],
                None => return true,
            }
        }
        false
    }

    /// The key, if it is the only one: the usual case.
    #[inline]
    pub fn only(&self) -> Option<Result<Key<'a>, KeyError>> {
        (self.len == self.rest.len()).then(|| Key::from_word(self.rest))
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Key<'a>, KeyError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.len == 0 {
            return None;
        }
        let (word, rest) = self.rest.split_at(self.len);
        *self = if rest.is_empty() { Keys { rest, len: 0 } } else { Keys::within(rest) };
        Some(Key::from_word(word))
    }
}

impl std::fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.map(|key| key.map_or_else(|error| format!("{error:?}"), |key| format!("{key:?}"))))
            .finish()
    }
}

/// A `get` or `gets` line that is still arriving: its keys are served as they arrive, so that the line may be longer
/// than any buffer. [`crate::request::unfinished`] starts one.
///
/// After an overlong key the rest of the line is discarded, and the error is sent in place of `END`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRun {
    with_cas: bool,
    /// The answer at the end of the line; an error after an overlong key.
    outcome: Result<(), &'static [u8]>,
    /// A line without any key is an error, too.
    any: bool,
}

/// One step along a [`KeyRun`]: the start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A complete key; the next step starts after it.
    Key {
        /// The key.
        key: Key<'a>,
        /// Bytes of the input that the step used, separators included.
        consumed: usize,
    },
    /// More input is needed. The unconsumed rest must be given again together with what follows it: at most
    /// [`KEY_LEN_MAX`] bytes and a carriage return.
    More {
        /// Bytes of the input that will not be needed again.
        consumed: usize,
    },
    /// The line ended: with `END`, or with this error instead.
    End {
        /// The error line to send, if any.
        outcome: Result<(), &'static [u8]>,
        /// Bytes of the input that the step used, line end included.
        consumed: usize,
    },
}

impl KeyRun {
    /// Starts a run if `input` is the start of a line that may be longer than any buffer. Returns the length of the
    /// command, too.
    pub(crate) fn start(input: &[u8]) -> Option<(KeyRun, usize)> {
        let spaces = input.iter().take_while(|&&byte| byte == b' ').count();
        let (with_cas, command) = match &input[spaces..] {
            [b'g', b'e', b't', b' ', ..] => (false, spaces + 4),
            [b'g', b'e', b't', b's', b' ', ..] => (true, spaces + 5),
            _ => return None,
        };
        // memcached waits for the end of an indented line as well, and only then refuses the command.
        let outcome = if spaces == 0 { Ok(()) } else { Err(line::ERROR) };
        (spaces <= LEADING_SPACES_MAX).then_some((KeyRun { with_cas, outcome, any: false }, command))
    }

    /// Continues a complete line of which some keys have been served: with the [`Keys::unread`] bytes and the line end.
    pub fn resume(with_cas: bool) -> KeyRun {
        KeyRun { with_cas, outcome: Ok(()), any: true }
    }

    /// Whether the values are sent with their CAS (`gets`).
    pub fn with_cas(&self) -> bool {
        self.with_cas
    }

    /// Reads the next key in `input`, which starts where the last step's `consumed` ended.
    pub fn step<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if self.outcome.is_err() {
            return self.swallow(input);
        }
        let start = input.iter().take_while(|&&byte| byte == b' ').count();
        let Some(len) = memchr2(b' ', b'\n', &input[start..]) else {
            return self.wait(input, start);
        };
        let end = start + len;
        let ended = input[end] == b'\n';
        let word = match &input[start..end] {
            [word @ .., b'\r'] if ended => word,
            word => word,
        };
        match Key::from_word(word) {
            // The line end is left for the next step, which then finds no key before it.
            Ok(key) => {
                self.any = true;
                Step::Key { key, consumed: start + word.len() }
            }
            Err(KeyError::Empty) if self.any => Step::End { outcome: Ok(()), consumed: end + 1 },
            Err(error) => {
                self.outcome = Err(error.reply());
                self.swallow(input)
            }
        }
    }

    /// No separator after `start`: the key may continue, unless it is too long already.
    fn wait<'a>(&mut self, input: &[u8], start: usize) -> Step<'a> {
        let carriage_return = 1;
        if input.len() - start > KEY_LEN_MAX + carriage_return {
            self.outcome = Err(KeyError::TooLong.reply());
            return Step::More { consumed: input.len() };
        }
        Step::More { consumed: start }
    }

    fn swallow<'a>(&mut self, input: &[u8]) -> Step<'a> {
        match memchr(b'\n', input) {
            Some(at) => Step::End { outcome: self.outcome, consumed: at + 1 },
            None => Step::More { consumed: input.len() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_250_bytes_and_no_separator() {
        assert_eq!(Key::new(b""), Err(KeyError::Empty));
        assert_eq!(Key::new(b"a b"), Err(KeyError::Separator));
        assert_eq!(Key::new(b"a\n"), Err(KeyError::Separator));
        assert_eq!(Key::new(&[b'k'; 251]), Err(KeyError::TooLong));
        assert_eq!(Key::new(&[b'k'; 250]).unwrap().as_bytes().len(), 250);
        assert_eq!(Key::new(b"tab\tand\0").unwrap().as_bytes(), b"tab\tand\0");
    }

    /// Feeds `line` in pieces of `size` bytes and returns the keys and the end as text.
    fn run(line: &str, size: usize) -> String {
        let (mut run, command) = KeyRun::start(line.as_bytes()).expect("a get line");
        let mut seen = Vec::new();
        let (mut at, mut end) = (command, command);
        loop {
            match run.step(&line.as_bytes()[at..end]) {
                Step::Key { key, consumed } => {
                    seen.push(format!("{key:?}"));
                    at += consumed;
                }
                Step::More { consumed } => {
                    at += consumed;
                    assert!(end < line.len(), "the line ends");
                    end = line.len().min(end + size);
                }
                Step::End { outcome, consumed } => {
                    assert_eq!(at + consumed, line.len());
                    let text =
                        outcome.map_or_else(|line| line.escape_ascii().to_string(), |()| "END".to_owned());
                    return format!("{} {text}", seen.join(" "));
                }
            }
        }
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        for size in [1, 2, 3, 7, 300, 10_000] {
            assert_eq!(run(line, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_run_of_keys_does_not_depend_on_how_it_arrives() {
        check("get a bb  ccc \r\n", "a bb ccc END");
        check("gets a\n", "a END");
        check("get a\rb\r\n", "a\\rb END");
        check("get   \r\n", " CLIENT_ERROR bad command line format\\r\\n");
    }

    #[test]
    fn an_overlong_key_loses_the_rest_of_the_line() {
        let long = "k".repeat(251);
        check(&format!("get a {long} b\r\n"), "a CLIENT_ERROR bad command line format\\r\\n");
        let key = "k".repeat(250);
        check(&format!("get {key}\r\n"), &format!("{key} END"));
    }

    #[test]
    fn an_overlong_key_is_found_without_visiting_each_key() {
        let mut prng = stdx::prng::Prng::new(1);
        let mut overlong = 0;
        for _ in 0..20_000 {
            let words: Vec<String> = (0..1 + prng.below(6))
                .map(|_| {
                    let len = if prng.below(2) == 0 { 1 + prng.below(20) } else { 244 + prng.below(9) };
                    "k".repeat(len as usize) + &" ".repeat(1 + prng.below(3) as usize)
                })
                .collect();
            let line = words.concat();
            let line = if prng.below(2) == 0 { line.trim_end() } else { &line };
            let keys = Keys::within(line.as_bytes());
            let expected = keys.clone().any(|key| key.is_err());
            assert_eq!(keys.any_too_long(), expected, "{line}");
            overlong += u32::from(expected);
        }
        assert!((5_000..15_000).contains(&overlong), "{overlong} of 20,000 have one");
    }

    #[test]
    fn an_indented_get_is_refused_at_its_end() {
        check("  get a b\r\n", " ERROR\\r\\n");
        assert_eq!(KeyRun::start(&[b" ".repeat(101).as_slice(), b"get a"].concat()), None);
        assert_eq!(KeyRun::start(b"gat 0 a"), None);
    }
}
