//! Replies from bytes cut anywhere: lines as soon as they are whole, bodies as they arrive.
//!
//! Bodies are skipped by their length, never searched and never kept. Between two receives, only the beginning of a
//! line is kept.

use memchr::memchr;

use super::line::Line;
use super::reply::{MalformedReply, Parsed, parse};
use crate::limits::REPLY_LINE_LEN_MAX;

/// A part of the reply stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole line.
    Line {
        /// The parsed line.
        line: Line<'a>,
        /// The line as received, its line end included.
        raw: &'a [u8],
    },
    /// The next bytes of the announced body.
    Body {
        /// Without the line end behind the body.
        bytes: &'a [u8],
        /// The line end after the body has arrived, too: the body is complete.
        end: bool,
    },
}

/// The position in one connection's reply stream.
///
/// It cannot be used after an error. The position of an error does not depend on how the stream is cut, but how much of
/// a body was handed out before it does.
#[derive(Debug, Default)]
pub struct Framer {
    /// Bytes of the announced body that have not arrived, its line end included.
    body_left: usize,
    /// The beginning of a line whose end has not arrived: shorter than [`REPLY_LINE_LEN_MAX`], then whole.
    carry: Vec<u8>,
    /// The line in `carry` was handed out.
    carry_is_used: bool,
}

impl Framer {
    /// The next piece at the front of `input`, which moves on; `None` when more bytes are needed.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'a>>, MalformedReply<'a>> {
        if self.body_left > 0 {
            return self.body(input);
        }
        if !self.carry.is_empty() {
            if !self.carry_is_used {
                return self.rest_of_line(input);
            }
            self.carry.clear();
            self.carry_is_used = false;
        }
        match parse(input)? {
            Parsed::Incomplete => {
                self.carry.extend_from_slice(input);
                *input = &[];
                Ok(None)
            }
            Parsed::Head { line, consumed, body } => {
                let (raw, rest) = input.split_at(consumed);
                *input = rest;
                self.body_left = with_end(body);
                Ok(Some(Piece::Line { line, raw }))
            }
        }
    }

    /// Continues a line that began in an earlier receive.
    #[cold]
    fn rest_of_line<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'a>>, MalformedReply<'a>> {
        let room = REPLY_LINE_LEN_MAX - self.carry.len();
        let window = &input[..input.len().min(room)];
        let (here, rest) = input.split_at(memchr(b'\n', window).map_or(window.len(), |end| end + 1));
        self.carry.extend_from_slice(here);
        *input = rest;
        match parse(&self.carry)? {
            Parsed::Incomplete => Ok(None),
            Parsed::Head { line, body, .. } => {
                self.carry_is_used = true;
                self.body_left = with_end(body);
                Ok(Some(Piece::Line { line, raw: &self.carry }))
            }
        }
    }

    #[inline]
    fn body<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, MalformedReply<'i>> {
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

    /// The next part of a body, or an error if its line end is wrong.
    #[cold]
    fn part_of_body<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Piece<'i>>, MalformedReply<'i>> {
        if input.is_empty() {
            return Ok(None);
        }
        let (here, rest) = input.split_at(self.body_left.min(input.len()));
        let value_left = self.body_left.saturating_sub(BODY_END.len());
        let (bytes, end) = here.split_at(value_left.min(here.len()));
        let end_done = BODY_END.len() - (self.body_left - bytes.len()).min(BODY_END.len());
        if *end != BODY_END[end_done..end_done + end.len()] {
            return Err(MalformedReply { found: end, accepted: "the line end after a value" });
        }
        *input = rest;
        self.body_left -= here.len();
        Ok(Some(Piece::Body { bytes, end: self.body_left == 0 }))
    }
}

const BODY_END: &[u8; 2] = b"\r\n";

/// The length of a body with its line end.
#[inline]
fn with_end(body: Option<usize>) -> usize {
    body.map_or(0, |len| len + BODY_END.len())
}
