//! The head of one reply: from bytes to a line that says whether a body follows, and how long it is.
//!
//! The body is not looked at: its length is in the head. A head borrows from the input, whose first `consumed` bytes are
//! the line as it came: what forwards a reply forwards those.

use std::fmt::{self, Display, Formatter};

use memchr::memchr;

use super::line::{Line, classify};
use crate::limits::{FOUND_SHOWN_MAX, REPLY_LINE_LEN_MAX};

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// No line end yet, and not too long to wait for it.
    Incomplete,
    /// A whole head.
    Head {
        /// What it says.
        line: Line<'a>,
        /// Its length, line end included.
        consumed: usize,
        /// The length of the body behind it, without the line end that a body has, too.
        body: Option<usize>,
    },
}

/// Bytes that are no reply. What comes behind them cannot be understood, either: close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken<'a> {
    /// The line, or the bytes that stand where something else belongs.
    pub found: &'a [u8],
    /// What would have been accepted: a noun phrase.
    pub accepted: &'static str,
}

impl Display for Broken<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = &self.found[..self.found.len().min(FOUND_SHOWN_MAX)];
        write!(f, "found \"{}\", expected {}", shown.escape_ascii(), self.accepted)
    }
}

/// Reads the head at the front of `input`, of which it looks at no more than [`REPLY_LINE_LEN_MAX`] bytes.
#[inline]
pub fn parse(input: &[u8]) -> Result<Parsed<'_>, Broken<'_>> {
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
fn unfinished(input: &[u8]) -> Result<Parsed<'_>, Broken<'_>> {
    if input.len() < REPLY_LINE_LEN_MAX { Ok(Parsed::Incomplete) } else { Err(too_long(input)) }
}

#[cold]
fn too_long(input: &[u8]) -> Broken<'_> {
    const { assert!(REPLY_LINE_LEN_MAX == 2048, "the message says the limit") };
    Broken { found: &input[..FOUND_SHOWN_MAX], accepted: "a line of at most 2048 bytes" }
}
