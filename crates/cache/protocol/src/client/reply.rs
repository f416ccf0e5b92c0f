//! The head of one reply: parsed from bytes to a line, with the length of the body that follows.
//!
//! The body is not read: its length is in the head. A head borrows from the input, whose first `consumed` bytes are the
//! line as received: a proxy forwards those.

use std::fmt::{self, Display, Formatter};

use memchr::memchr;

use super::line::{Line, classify};
use crate::limits::{FOUND_SHOWN_MAX, REPLY_LINE_LEN_MAX};

/// The start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// No line end yet, and the line is not too long so far.
    Incomplete,
    /// A whole head.
    Head {
        /// The parsed line.
        line: Line<'a>,
        /// Its length, line end included.
        consumed: usize,
        /// The length of the body after it, without the body's own line end.
        body: Option<usize>,
    },
}

/// Bytes that are not a reply. What follows them cannot be parsed, either: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedReply<'a> {
    /// The line, or the bytes in the place of what was expected.
    pub found: &'a [u8],
    /// The expected input: a noun phrase.
    pub accepted: &'static str,
}

impl Display for MalformedReply<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = &self.found[..self.found.len().min(FOUND_SHOWN_MAX)];
        write!(f, "found \"{}\", expected {}", shown.escape_ascii(), self.accepted)
    }
}

/// Reads the head at the start of `input`: at most [`REPLY_LINE_LEN_MAX`] bytes.
#[inline]
pub fn parse(input: &[u8]) -> Result<Parsed<'_>, MalformedReply<'_>> {
    let Some(end) = memchr(b'\n', input) else {
        return unfinished(input);
    };
    if end >= REPLY_LINE_LEN_MAX {
        return Err(too_long(input));
    }
    let line = &input[..end];
    let line = classify(line.strip_suffix(b"\r").unwrap_or(line))?;
    Ok(Parsed::Head { line, consumed: end + 1, body: line.body() })
}

#[cold]
fn unfinished(input: &[u8]) -> Result<Parsed<'_>, MalformedReply<'_>> {
    if input.len() < REPLY_LINE_LEN_MAX { Ok(Parsed::Incomplete) } else { Err(too_long(input)) }
}

#[cold]
fn too_long(input: &[u8]) -> MalformedReply<'_> {
    const { assert!(REPLY_LINE_LEN_MAX == 2048, "the message says the limit") };
    MalformedReply { found: &input[..FOUND_SHOWN_MAX], accepted: "a line of at most 2048 bytes" }
}
