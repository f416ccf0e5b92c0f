//! The head of one request: parsed from bytes to a checked value.
//!
//! [`parse`] has two ways to the same answer. A few direct scans recognise requests in the usual spelling of clients;
//! every other line is split into words and checked as memcached checks it, with all its peculiarities. Tests compare
//! the results of the two ways.
//!
//! The body of a storage command is not read here: its length is in the head.

mod admin;
mod classic;
mod dispatch;
mod fast;
mod meta_command;
mod stats;
mod types;

pub use dispatch::parse;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use dispatch::parse_any;
pub use types::{
    ArithmeticMode, Automove, Cachedump, CrawlerClasses, DetailCommand, ExtstoreKnob, Get, LruCommand,
    LruCrawlerCommand, LruMode, Parsed, Refused, Request, SetMode, ShutdownMode, SlabsCommand, StatsTopic,
    Store, Streams, Verb,
};

use crate::key::KeyRun;
use crate::limits::LINE_LEN_MAX;

/// What to do with the start of a line that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Wait for more.
    Wait,
    /// A `get` that may be longer than any buffer: serve its keys as they arrive, from byte `consumed` on.
    Keys {
        /// Finds the keys.
        run: KeyRun,
        /// Length of the command and the space after it.
        consumed: usize,
    },
    /// No valid line is that long: close the connection.
    Close,
}

/// What to do after [`Parsed::Incomplete`].
pub fn unfinished(input: &[u8]) -> Unfinished {
    if input.len() <= LINE_LEN_MAX {
        return Unfinished::Wait;
    }
    match KeyRun::start(input) {
        Some((run, consumed)) => Unfinished::Keys { run, consumed },
        None => Unfinished::Close,
    }
}

#[cfg(test)]
mod tests;
