//! Places in a text of JSON with comments: entries, lines, and what to cut.
//!
//! Comments become spaces, so that every byte stays at its place. What a value means is not known here.

use std::ops::Range;

use serde_json::Value;

/// A text without its comments.
pub(crate) struct BareText {
    bytes: Vec<u8>,
}

/// An entry of an object, or an item of an array.
pub(crate) struct TextEntry {
    /// The key, or the item's number.
    pub(crate) step: String,
    /// From the key to the end of the value.
    pub(crate) range: Range<usize>,
    /// The first byte of the value.
    pub(crate) value: usize,
}

impl BareText {
    /// Takes the comments away as mcrouter does: one without an end reaches to the end of the text.
    pub(crate) fn new(text: &str) -> BareText {
        let mut bytes = text.as_bytes().to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let end = match &bytes[at..] {
                [b'"', ..] => {
                    at = string_end(&bytes, at);
                    continue;
                }
                [b'/', b'/', ..] => find(&bytes, at, b"\n"),
                [b'/', b'*', ..] => (find(&bytes, at + 2, b"*/") + 2).min(bytes.len()),
                _ => {
                    at += 1;
                    continue;
                }
            };
            bytes[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at = end;
        }
        BareText { bytes }
    }

    /// Its value. A comma may stand behind the last entry.
    pub(crate) fn value(&self) -> Result<Value, serde_json::Error> {
        let mut bytes = self.bytes.clone();
        let (mut at, mut before) = (0, b'[');
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            at = if byte == b'"' { string_end(&bytes, at) } else { at + 1 };
            let has_entry_before = !matches!(before, b'[' | b'{' | b',' | b':');
            if byte == b',' && has_entry_before && matches!(self.next(at).1, Some(b']' | b'}')) {
                bytes[start] = b' ';
            } else if !byte.is_ascii_whitespace() {
                before = byte;
            }
        }
        serde_json::from_slice(&bytes)
    }

    /// Whether a text has comments: its bare text is this one, and not the text itself.
    pub(crate) fn differs_from(&self, text: &str) -> bool {
        self.bytes != text.as_bytes()
    }

    /// Line of a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.bytes[..at].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Entries of the object or items of the array at a byte; none of anything else. The text has been read.
    pub(crate) fn entries(&self, at: usize) -> Vec<TextEntry> {
        let (mut at, opening) = self.next(at);
        let mut entries = Vec::new();
        if !matches!(opening, Some(b'{' | b'[')) {
            return entries;
        }
        at += 1;
        loop {
            let (start, first) = self.next(at);
            match first {
                Some(b',') => at = start + 1,
                None | Some(b'}' | b']') => return entries,
                Some(_) => {
                    let (step, value) = match opening {
                        Some(b'{') => self.key(start),
                        _ => (entries.len().to_string(), start),
                    };
                    at = self.value_end(value);
                    entries.push(TextEntry { step, range: start..at, value });
                }
            }
        }
    }

    /// The byte that a path leads to, or as far as it goes. Of a key that stands twice, the last one counts.
    pub(crate) fn find(&self, path: &[String]) -> usize {
        let mut at = self.next(0).0;
        for step in path {
            match self.entries(at).into_iter().rfind(|entry| entry.step == *step) {
                Some(entry) => at = entry.value,
                None => break,
            }
        }
        at
    }

    /// What to cut so that an entry is gone: with one comma, and with its lines if nothing else stands there.
    pub(crate) fn cut(&self, text: &str, entry: &Range<usize>) -> Range<usize> {
        let mut cut = entry.clone();
        if let (comma, Some(b',')) = self.next(cut.end) {
            cut.end = comma + 1;
        } else if let Some(comma) =
            self.bytes[..cut.start].iter().rposition(|byte| !byte.is_ascii_whitespace())
            && self.bytes[comma] == b','
        {
            // What stands between them may be a comment, which stays if the comma is all that goes.
            let is_blank = text[comma + 1..cut.start].trim().is_empty();
            if is_blank {
                cut.start = comma;
                return cut;
            }
        }
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let before = text.as_bytes()[..cut.start].iter().rev().take_while(|byte| is_space(byte)).count();
        let after = text.as_bytes()[cut.end..].iter().take_while(|byte| is_space(byte)).count();
        let begins_line = text[..cut.start - before].ends_with('\n');
        let ends_line = text[cut.end + after..].starts_with('\n');
        if begins_line && ends_line {
            cut = cut.start - before..cut.end + after + 1;
        }
        cut
    }

    /// The next byte that is no space, and where it stands.
    fn next(&self, at: usize) -> (usize, Option<u8>) {
        let spaces = self.bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        (at + spaces, self.bytes.get(at + spaces).copied())
    }

    /// The key at a byte, and where its value begins.
    fn key(&self, at: usize) -> (String, usize) {
        let end = string_end(&self.bytes, at);
        let key = serde_json::from_slice(&self.bytes[at..end]).unwrap_or_default();
        let (colon, _) = self.next(end);
        (key, self.next((colon + 1).min(self.bytes.len())).0)
    }

    fn value_end(&self, start: usize) -> usize {
        let (mut at, mut depth) = (start, 0_usize);
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'"' => {
                    at = string_end(&self.bytes, at);
                    if depth == 0 {
                        return at;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return at,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                b',' if depth == 0 => return at,
                _ if depth == 0 && byte.is_ascii_whitespace() => return at,
                _ => {}
            }
            at += 1;
        }
        at
    }
}

/// The byte behind the string that begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The first place of a word from `at` on, or the end.
fn find(bytes: &[u8], at: usize, word: &[u8]) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.windows(word.len()).position(|window| window == word).map_or(bytes.len(), |found| at + found)
}
