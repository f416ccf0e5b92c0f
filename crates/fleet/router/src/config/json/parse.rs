//! The parser: JSON with comments and trailing commas, with the leniences of mcrouter's and with limits.
//!
//! Comments go first, and nothing takes their place: `1/**/2` is 12, and a comment without an end reaches to the end of
//! the text. Of a key that stands twice, the last value counts. Control characters may stand in strings; `NaN`,
//! `Infinity`, leading zeros and `1.` are numbers; what follows a zero byte after the value is ignored. What is not
//! UTF-8 is refused outside comments (mcrouter passes it on), and so are integers beyond 64 bits.

use super::{ConfigError, Json, JsonValue, Location};
use std::collections::HashMap;

/// Bytes of a text. Configurations of thousands of servers are below 1 MB; a log file taken by mistake is above.
pub const TEXT_LEN_MAX: usize = 16 << 20;

/// Values of a text, so that `[[],[],…` of 16 MiB does not take gigabytes: 2 M of them take up to 270 MB.
pub const NODE_COUNT_MAX: usize = 1 << 21;

/// Depth of values in values, the limit of mcrouter's parser; the parser calls itself as often.
pub const DEPTH_MAX: usize = 100;

/// Entries of an object below which a key is found faster by looking at all than by hashing.
const SMALL_OBJECT_LEN: usize = 16;

/// Reads a text. `source` is its number in [`super::Sources`].
pub fn parse(source: u32, text: &[u8]) -> Result<Json, ConfigError> {
    let start = Location { source, line: 1 };
    if text.len() > TEXT_LEN_MAX {
        let found = format!("{} bytes", text.len());
        return Err(ConfigError::expected(start, format_args!("at most {TEXT_LEN_MAX} bytes"), found));
    }
    let text = strip_comments(source, text)?;
    let text = std::str::from_utf8(&text).map_err(|error| {
        let line = 1 + count_lines(&text[..error.valid_up_to()]);
        ConfigError::new(Location { source, line }, "expected UTF-8, found other bytes")
    })?;
    let mut parser = Parser { text, at: 0, place: start, node_count: 0 };
    let node = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None | Some(0) => Ok(node),
        Some(_) => Err(parser.wrong("the end of the text")),
    }
}

/// The text without comments, but with their line breaks.
fn strip_comments(source: u32, text: &[u8]) -> Result<Vec<u8>, ConfigError> {
    let mut kept = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'/', Some(b'*')) => at = skip_block(text, at + 2, &mut kept),
            (b'/', Some(b'/')) => {
                at = text[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |n| at + n)
            }
            (b'"', _) => {
                let Some(end) = string_end(text, at) else {
                    let line = 1 + count_lines(&kept);
                    return Err(ConfigError::expected(
                        Location { source, line },
                        "`\"`",
                        "the end of the text",
                    ));
                };
                kept.extend_from_slice(&text[at..end]);
                at = end;
            }
            _ => {
                kept.push(byte);
                at += 1;
            }
        }
    }
    Ok(kept)
}

/// Skips the inside of a comment, keeps its line breaks, and returns where it ends.
fn skip_block(text: &[u8], mut at: usize, kept: &mut Vec<u8>) -> usize {
    while at < text.len() {
        if text[at..].starts_with(b"*/") {
            return at + 2;
        }
        if text[at] == b'\n' {
            kept.push(b'\n');
        }
        at += 1;
    }
    at
}

/// Where the string that begins at `at` ends; `None` if it does not.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        match *text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn count_lines(text: &[u8]) -> u32 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u32
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    place: Location,
    node_count: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(byte @ (b' ' | b'\n' | b'\t' | b'\r')) = self.peek() {
            self.place.line += u32::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn consume(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn wrong(&self, expected: &str) -> ConfigError {
        // `at` may be inside a character after a broken escape.
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(character) if character.is_control() => format!("`{}`", character.escape_debug()),
            Some(character) => format!("`{character}`"),
            None => "the end of the text".to_owned(),
        };
        ConfigError::expected(self.place, expected, found)
    }

    fn value(&mut self, depth: usize) -> Result<Json, ConfigError> {
        self.skip_space();
        if depth > DEPTH_MAX {
            return Err(self.wrong(&format!("at most {} values in each other", DEPTH_MAX + 1)));
        }
        self.node_count += 1;
        if self.node_count > NODE_COUNT_MAX {
            return Err(ConfigError::expected(
                self.place,
                format_args!("at most {NODE_COUNT_MAX} values"),
                "more",
            ));
        }
        let place = self.place;
        let value = match self.peek() {
            Some(b'[') => self.array(depth)?,
            Some(b'{') => self.object(depth)?,
            Some(b'"') => JsonValue::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Json { place, value })
    }

    fn word(&mut self) -> Result<JsonValue, ConfigError> {
        if self.consume("true") {
            Ok(JsonValue::Bool(true))
        } else if self.consume("false") {
            Ok(JsonValue::Bool(false))
        } else if self.consume("null") {
            Ok(JsonValue::Null)
        } else if self.consume("Infinity") {
            Ok(JsonValue::Double(f64::INFINITY))
        } else if self.consume("NaN") {
            Ok(JsonValue::Double(f64::NAN))
        } else {
            Err(self.wrong("a value"))
        }
    }

    fn array(&mut self, depth: usize) -> Result<JsonValue, ConfigError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.consume("]") {
                return Ok(JsonValue::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if !self.consume(",") {
                break;
            }
        }
        if self.consume("]") { Ok(JsonValue::Array(items)) } else { Err(self.wrong("`,` or `]`")) }
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, ConfigError> {
        self.at += 1;
        let mut entries = Entries::default();
        loop {
            self.skip_space();
            if self.consume("}") {
                return Ok(JsonValue::Object(entries.list));
            }
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in quotes, or `}`"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.consume(":") {
                return Err(self.wrong("`:` after a key"));
            }
            let node = self.value(depth + 1)?;
            entries.set(key, node);
            self.skip_space();
            if !self.consume(",") {
                break;
            }
        }
        if self.consume("}") { Ok(JsonValue::Object(entries.list)) } else { Err(self.wrong("`,` or `}`")) }
    }

    fn number(&mut self) -> Result<JsonValue, ConfigError> {
        let start = self.at;
        let is_negative = self.consume("-");
        if is_negative && self.consume("Infinity") {
            return Ok(JsonValue::Double(f64::NEG_INFINITY));
        }
        if self.skip_digits() == 0 {
            return Err(self.wrong("digits after `-`"));
        }
        if !matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            let digits = &self.text[start..self.at];
            return digits.parse().map(JsonValue::Int).map_err(|_| {
                ConfigError::expected(self.place, "an integer of 64 bits", format_args!("{:.40}", digits))
            });
        }
        if self.consume(".") {
            self.skip_digits();
        }
        if self.consume("e") || self.consume("E") {
            let _ = self.consume("+") || self.consume("-");
            if self.skip_digits() == 0 {
                return Err(self.wrong("digits of an exponent"));
            }
        }
        self.text[start..self.at].parse().map(JsonValue::Double).map_err(|_| self.wrong("a number"))
    }

    fn skip_digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<String, ConfigError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(len) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\')) else {
                self.at = self.text.len();
                return Err(self.wrong("`\"`"));
            };
            string.push_str(&rest[..len]);
            self.place.line += count_lines(&rest.as_bytes()[..len]);
            self.at += len + 1;
            if rest.as_bytes()[len] == b'"' {
                return Ok(string);
            }
            string.push(self.escape()?);
        }
    }

    /// What stands after a backslash.
    fn escape(&mut self) -> Result<char, ConfigError> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.code_point();
            }
            _ => return Err(self.wrong("one of `\"\\/bfnrtu` after `\\`")),
        };
        self.at += 1;
        Ok(character)
    }

    fn code_point(&mut self) -> Result<char, ConfigError> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first)
                .ok_or_else(|| self.wrong("the first half of a surrogate pair before"));
        }
        if !self.consume("\\u") {
            return Err(self.wrong("`\\u` with the second half of a surrogate pair"));
        }
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(self.wrong("the second half of a surrogate pair before"));
        }
        let code_point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Ok(char::from_u32(code_point).expect("a pair of surrogates is a character"))
    }

    fn hex(&mut self) -> Result<u32, ConfigError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let number = digits.and_then(|digits| {
            digits.iter().try_fold(0, |number, &digit| Some(number * 16 + char::from(digit).to_digit(16)?))
        });
        let Some(number) = number else { return Err(self.wrong("4 hexadecimal digits")) };
        self.at += 4;
        Ok(number)
    }
}

/// Entries of an object that grows: a key that is there already gets the new value.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) list: Vec<(String, Json)>,
    /// Where keys are in the list, once it is long.
    index: HashMap<String, usize>,
}

impl From<Vec<(String, Json)>> for Entries {
    /// Keys must be different.
    fn from(list: Vec<(String, Json)>) -> Entries {
        let late = list.iter().enumerate().skip(SMALL_OBJECT_LEN);
        let index = late.map(|(at, (key, _))| (key.clone(), at)).collect();
        Entries { list, index }
    }
}

impl Entries {
    pub(crate) fn set(&mut self, key: String, node: Json) {
        match self.position(&key) {
            Some(at) => self.list[at].1 = node,
            None => {
                if self.list.len() >= SMALL_OBJECT_LEN {
                    self.index.insert(key.clone(), self.list.len());
                }
                self.list.push((key, node));
            }
        }
    }

    /// The first entries are looked at, the others are in the index.
    fn position(&self, key: &str) -> Option<usize> {
        let first = self.list.iter().take(SMALL_OBJECT_LEN).position(|(name, _)| name == key);
        first.or_else(|| self.index.get(key).copied())
    }
}
