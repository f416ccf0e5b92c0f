//! Framing of replies: lines and the bodies that some of them announce, from bytes cut anywhere.
//!
//! Bodies are passed over by their length, never searched. What a line means to a request is not decided here.

use memchr::memchr;

/// A part of the reply stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A whole line.
    Line(Line<'a>),
    /// The next bytes of the announced body, without its line end; `end` once that has been seen too.
    Body { bytes: &'a [u8], end: bool },
}

/// A line, as far as its first word tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// `VALUE <key> <flags> <len> [<unique>]`: a body follows.
    Value { key: &'a [u8], len: usize },
    /// `VA <len> <flags>*`: a body follows.
    MetaValue { len: usize, flags: &'a [u8] },
    /// `END`
    End,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `NOT_FOUND`
    NotFound,
    /// Digits alone: what a counter is at.
    Number,
    /// `HD`
    Header,
    /// `EN`
    Miss,
    /// `NS`
    MetaNotStored,
    /// `NF`
    MetaNotFound,
    /// `MN`
    Noop,
    /// `ERROR`, `CLIENT_ERROR …` or `SERVER_ERROR …`
    Error(&'a [u8]),
    /// Anything else.
    Unknown(&'a [u8]),
}

/// Bytes that no reply can begin with or contain, as found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) found: Vec<u8>,
    pub(crate) expected: &'static str,
}

/// The place in one connection's reply stream.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// Bytes of the announced body that have not arrived, its line end included.
    body_left: usize,
    /// The beginning of a line whose end has not arrived.
    carry: Vec<u8>,
    /// The line in `carry` was handed out.
    carry_is_used: bool,
}

impl Framer {
    /// The next piece at the front of `input`, which moves on; `None` when more bytes are needed.
    #[inline]
    pub(crate) fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'a>>, Broken> {
        if self.body_left > 0 {
            return self.body(input);
        }
        if self.carry_is_used {
            self.carry.clear();
            self.carry_is_used = false;
        }
        let Some(end) = memchr(b'\n', input) else {
            return self.keep(input);
        };
        let (line, rest) = (&input[..end], &input[end + 1..]);
        *input = rest;
        let line = if self.carry.is_empty() {
            line
        } else {
            self.carry.extend_from_slice(line);
            self.carry_is_used = true;
            &self.carry
        };
        let line = classify(line.strip_suffix(b"\r").unwrap_or(line))?;
        if let Line::Value { len, .. } | Line::MetaValue { len, .. } = line {
            self.body_left = len + BODY_END.len();
        }
        Ok(Some(Piece::Line(line)))
    }

    #[inline]
    fn body<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, Broken> {
        if self.body_left >= BODY_END.len() && input.len() >= self.body_left {
            let (body, rest) = input.split_at(self.body_left);
            if let Some(bytes) = body.strip_suffix(BODY_END) {
                *input = rest;
                self.body_left = 0;
                return Ok(Some(Piece::Body { bytes, end: true }));
            }
        }
        self.part_of_body(input)
    }

    /// The body is cut, or its end is wrong.
    #[cold]
    fn part_of_body<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, Broken> {
        if input.is_empty() {
            return Ok(None);
        }
        let (here, rest) = input.split_at(self.body_left.min(input.len()));
        let value_left = self.body_left.saturating_sub(BODY_END.len());
        let (bytes, end) = here.split_at(value_left.min(here.len()));
        let end_done = BODY_END.len() - (self.body_left - bytes.len()).min(BODY_END.len());
        if *end != BODY_END[end_done..end_done + end.len()] {
            return Err(Broken { found: end.to_vec(), expected: "the line end after a value" });
        }
        *input = rest;
        self.body_left -= here.len();
        Ok(Some(Piece::Body { bytes, end: self.body_left == 0 }))
    }

    #[cold]
    fn keep(&mut self, input: &mut &[u8]) -> Result<Option<Piece<'static>>, Broken> {
        self.carry.extend_from_slice(input);
        *input = &[];
        if self.carry.len() > LINE_LEN_MAX {
            return Err(Broken {
                found: self.carry[..64].to_vec(),
                expected: "a line of at most 2048 bytes",
            });
        }
        Ok(None)
    }
}

const BODY_END: &[u8; 2] = b"\r\n";
/// No reply line that we ask for comes near; a longer one is not memcached's protocol.
const LINE_LEN_MAX: usize = 2048;

#[inline]
fn classify(line: &[u8]) -> Result<Line<'_>, Broken> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        let (key, rest) = word(rest);
        let (_flags, rest) = word(rest);
        let (len, _unique) = word(rest);
        return Ok(Line::Value { key, len: number(len, line)? });
    }
    if let Some(rest) = line.strip_prefix(b"VA ") {
        let (len, flags) = word(rest);
        return Ok(Line::MetaValue { len: number(len, line)?, flags });
    }
    Ok(match line {
        b"END" => Line::End,
        b"STORED" => Line::Stored,
        b"NOT_STORED" => Line::NotStored,
        b"DELETED" => Line::Deleted,
        b"TOUCHED" => Line::Touched,
        b"NOT_FOUND" => Line::NotFound,
        b"HD" => Line::Header,
        b"EN" => Line::Miss,
        b"NS" => Line::MetaNotStored,
        b"NF" => Line::MetaNotFound,
        b"MN" => Line::Noop,
        b"ERROR" => Line::Error(line),
        _ if line.starts_with(b"CLIENT_ERROR ") || line.starts_with(b"SERVER_ERROR ") => Line::Error(line),
        // A server may repeat the request's flags.
        _ if line.starts_with(b"EN ") => Line::Miss,
        _ if line.starts_with(b"HD ") => Line::Header,
        _ if line.starts_with(b"NS ") => Line::MetaNotStored,
        _ if line.starts_with(b"NF ") => Line::MetaNotFound,
        _ if !line.is_empty() && line.iter().all(u8::is_ascii_digit) => Line::Number,
        _ => Line::Unknown(line),
    })
}

/// What comes before the first space, and what comes after it.
#[inline]
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b' ', text) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

/// At most ten digits: longer than any value that a server could hold.
#[inline]
fn number(digits: &[u8], line: &[u8]) -> Result<usize, Broken> {
    let broken = || Broken { found: line.to_vec(), expected: "a length" };
    if digits.is_empty() || digits.len() > 10 {
        return Err(broken());
    }
    digits.iter().try_fold(0usize, |sum, &byte| match byte {
        b'0'..=b'9' => Ok(sum * 10 + usize::from(byte - b'0')),
        _ => Err(broken()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every piece as text, bodies joined: the same however the input is cut.
    fn frame<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut framer = Framer::default();
        let mut seen = String::new();
        for mut part in parts {
            loop {
                match framer.next(&mut part) {
                    Ok(Some(Piece::Line(line))) => seen.push_str(&show(&line)),
                    Ok(Some(Piece::Body { bytes, end })) => {
                        seen.push_str(&bytes.escape_ascii().to_string());
                        seen.push_str(if end { "| " } else { "" });
                    }
                    Ok(None) => break,
                    Err(broken) => return format!("{seen}broken: {}", broken.expected),
                }
            }
            assert!(part.is_empty(), "everything is consumed");
        }
        seen
    }

    fn show(line: &Line<'_>) -> String {
        match line {
            Line::Value { key, len } => format!("value({}, {len}) ", key.escape_ascii()),
            Line::MetaValue { len, flags } => format!("value({len}, {}) ", flags.escape_ascii()),
            Line::Error(line) => format!("error({}) ", line.escape_ascii()),
            Line::Unknown(line) => format!("unknown({}) ", line.escape_ascii()),
            other => format!("{other:?} "),
        }
    }

    fn check(stream: &[u8], expected: &str) {
        assert_eq!(frame([stream]), expected, "whole");
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let parts = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(frame(parts), expected, "cut at {first} and {second}");
            }
        }
        assert_eq!(frame(stream.chunks(1)), expected, "byte by byte");
    }

    #[test]
    fn text_replies_are_framed_wherever_they_are_cut() {
        check(
            b"VALUE key:01 0 5\r\nabcde\r\nVALUE k 7 0\r\n\r\nEND\r\nSTORED\r\n",
            "value(key:01, 5) abcde| value(k, 0) | End Stored ",
        );
        check(
            b"VALUE a 0 8\r\nEND\r\nx\r\n\r\nEND\r\nNOT_STORED\r\n",
            "value(a, 8) END\\r\\nx\\r\\n| End NotStored ",
        );
        check(
            b"SERVER_ERROR out of memory storing object\r\n",
            "error(SERVER_ERROR out of memory storing object) ",
        );
        check(b"VALUE a 0 1 77\r\nx\r\nEND\r\n", "value(a, 1) x| End ");
        check(b"DELETED\r\nTOUCHED\r\nNOT_FOUND\r\n17\r\n-1\r\n\r\n", {
            "Deleted Touched NotFound Number unknown(-1) unknown() "
        });
        check(b"ERROR\r\nwhat\r\n", "error(ERROR) unknown(what) ");
    }

    #[test]
    fn meta_replies_are_framed_wherever_they_are_cut() {
        check(b"VA 3 k f0\r\nab\n\r\nVA 0\r\n\r\nEN\r\nMN\r\nHD\r\nNS\r\nNF\r\nEN kx\r\nNF b\r\n", {
            "value(3, k f0) ab\\n| value(0, ) | Miss Noop Header MetaNotStored MetaNotFound Miss MetaNotFound "
        });
    }

    #[test]
    fn broken_streams_are_noticed() {
        // How much of the body is handed out before depends on the cut; that the stream is refused does not.
        let stream = b"VALUE a 0 3\r\nabcd\r\n";
        for cut in 0..stream.len() {
            let seen = frame([&stream[..cut], &stream[cut..]]);
            assert!(seen.ends_with("broken: the line end after a value"), "cut at {cut}: {seen}");
        }
        check(b"VALUE a 0 x\r\n", "broken: a length");
        check(b"VALUE \r\n", "broken: a length");
        check(b"VALUE a 0 99999999999\r\n", "broken: a length");
        check(b"VA -1\r\n", "broken: a length");
        assert_eq!(frame([&[b'x'; 3000][..]]), "broken: a line of at most 2048 bytes");
    }
}
