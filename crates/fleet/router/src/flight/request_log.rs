//! Lines of a LoggingRoute: requests that found or stored an item. Their number is limited, as a log is read by people.

use stdx::clock::Now;

use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::shared::token_bucket::TokenBucket;

/// Lines in a second, of one worker.
const LINES_PER_SECOND: f64 = 100.0;

/// Lines to be written.
pub(crate) struct RequestLog {
    /// Lines that may be written.
    tokens: TokenBucket,
    /// Requests since the last line that are in none.
    left_out: u64,
    lines: Vec<String>,
}

impl Default for RequestLog {
    fn default() -> RequestLog {
        RequestLog {
            tokens: TokenBucket::new(LINES_PER_SECOND, LINES_PER_SECOND, -1.0),
            left_out: 0,
            lines: Vec::new(),
        }
    }
}

impl RequestLog {
    /// A request has its reply.
    pub(crate) fn note(
        &mut self,
        operation: Operation,
        key: &[u8],
        outcome: Outcome,
        reply_len: usize,
        now: Now,
    ) {
        if !outcome.is_hit() {
            return;
        }
        if !self.tokens.take(now.us as f64 / 1e6) {
            self.left_out += 1;
            return;
        }
        if self.left_out > 0 {
            self.lines.push(format!("log: {} requests were left out", self.left_out));
            self.left_out = 0;
        }
        let (name, key) = (operation.name(), key.escape_ascii());
        self.lines.push(format!("log: {name} {key}: {}, a reply of {reply_len} bytes", outcome.name()));
    }

    /// Whether there are lines.
    #[inline]
    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The lines since the last call.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_those_left_out_are_counted() {
        let mut log = RequestLog::default();
        for _ in 0..150 {
            log.note(Operation::Get, b"k\n", Outcome::Found, 14, Now::at_ms(5));
        }
        log.note(Operation::Get, b"k", Outcome::NotFound, 5, Now::at_ms(5));
        let lines = log.take();
        // A part of a token is lost by rounding.
        assert!((99..=100).contains(&lines.len()), "{lines:?}");
        assert_eq!(lines[0], "log: get k\\n: found, a reply of 14 bytes");
        log.note(Operation::Set, b"k", Outcome::Stored, 8, Now::at_ms(1000));
        let left_out = format!("log: {} requests were left out", 150 - lines.len());
        assert_eq!(log.take(), [&*left_out, "log: set k: stored, a reply of 8 bytes"]);
    }
}
