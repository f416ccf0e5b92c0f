//! Scanner of records: JSON whose texts are bytes, because keys are.

use super::error::RecordError;

/// Arrays and objects inside of each other that are passed over. Attributes of mcrouter are one object.
const DEPTH_MAX: usize = 8;

/// Bytes of a line that an error shows.
const SHOWN_MAX: usize = 40;

/// A line, and how much of it is read.
pub(super) struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(line: &'a [u8]) -> Scanner<'a> {
        Scanner { line, at: 0 }
    }

    /// The next byte that is not a space; it is not taken.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r') = self.line.get(self.at) {
            self.at += 1;
        }
        self.line.get(self.at).copied()
    }

    fn wrong(&self, expected: &'static str) -> RecordError {
        let rest = &self.line[self.at.min(self.line.len())..];
        match rest {
            [] => RecordError::Cut { expected },
            _ => RecordError::Syntax { expected, at: self.at + 1, found: shown(rest) },
        }
    }

    /// Takes this byte if it comes next.
    pub(super) fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes this byte.
    pub(super) fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), RecordError> {
        if self.takes(byte) { Ok(()) } else { Err(self.wrong(expected)) }
    }

    /// Only spaces are left.
    pub(super) fn end(&mut self) -> Result<(), RecordError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("the end of the line")) }
    }

    /// Takes a number, as it is written.
    pub(super) fn number(&mut self) -> Result<&'a str, RecordError> {
        self.peek();
        let rest = &self.line[self.at..];
        let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = rest.iter().take_while(|byte| is_of_number(byte)).count();
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        if len == rest.len() {
            return Err(RecordError::Cut { expected: "a number" });
        }
        if text.parse::<f64>().is_err() {
            return Err(self.wrong("a number"));
        }
        self.at += len;
        Ok(text)
    }

    /// Takes a text, without its escapes.
    pub(super) fn text(&mut self) -> Result<Vec<u8>, RecordError> {
        self.take(b'"', "a text in quotes")?;
        let mut text = Vec::new();
        loop {
            let Some(byte) = self.line.get(self.at).copied() else {
                return Err(RecordError::Cut { expected: "the end of a text" });
            };
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => self.escape(&mut text)?,
                0..0x20 => return Err(self.wrong("a text without control characters")),
                _ => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), RecordError> {
        let Some(kind) = self.line.get(self.at + 1) else {
            return Err(RecordError::Cut { expected: "an escape" });
        };
        let byte = match kind {
            b'"' | b'\\' | b'/' => *kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.character(text),
            _ => return Err(self.wrong("an escape of JSON")),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them for a character beyond them.
    fn character(&mut self, text: &mut Vec<u8>) -> Result<(), RecordError> {
        let first = self.unit(self.at)?;
        let (code, len) = match first {
            0xd800..0xdc00 => match self.unit(self.at + 6)? {
                second @ 0xdc00..0xe000 => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12),
                _ => return Err(self.wrong("the second half of a character")),
            },
            code => (code, 6),
        };
        let Some(character) = char::from_u32(code) else { return Err(self.wrong("a whole character")) };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        Ok(())
    }

    /// The number of the `\uXXXX` that begins there.
    fn unit(&self, at: usize) -> Result<u32, RecordError> {
        let Some(written) = self.line.get(at..at + 6) else {
            return Err(RecordError::Cut { expected: "an escape" });
        };
        let digits = written.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.wrong("an escape of JSON"))
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Result<(), RecordError> {
        self.skip_at(0)
    }

    fn skip_at(&mut self, depth: usize) -> Result<(), RecordError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("a value that is not so deep"));
        }
        match self.peek() {
            Some(b'"') => self.text().map(drop),
            Some(b'{') => self.skip_all(b'{', b'}', depth),
            Some(b'[') => self.skip_all(b'[', b']', depth),
            Some(b't' | b'f' | b'n') => {
                let words: [&[u8]; 3] = [b"true", b"false", b"null"];
                let word = words.into_iter().find(|word| self.line[self.at..].starts_with(word));
                self.at += word.ok_or_else(|| self.wrong("a value"))?.len();
                Ok(())
            }
            _ => self.number().map(drop),
        }
    }

    fn skip_all(&mut self, open: u8, close: u8, depth: usize) -> Result<(), RecordError> {
        self.take(open, "a value")?;
        if self.takes(close) {
            return Ok(());
        }
        loop {
            if open == b'{' {
                self.text()?;
                self.take(b':', "`:`")?;
            }
            self.skip_at(depth + 1)?;
            if self.takes(close) {
                return Ok(());
            }
            self.take(b',', "`,` or the end of a list")?;
        }
    }
}

/// The beginning of bytes that may be anything.
pub(super) fn shown(bytes: &[u8]) -> String {
    let more = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("`{}{more}`", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}
