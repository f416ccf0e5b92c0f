//! The head of one request: from bytes to a value that cannot be wrong.
//!
//! [`parse`] has two ways to the same answer. Most requests are written exactly as clients write them, and a
//! few direct scans recognise those; everything else is split into words and judged as memcached judges it,
//! quirk by quirk. The tests hold the first way to what the second one says.
//!
//! The body of a storage command is not looked at here: its length is in the head.

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
    /// A `get` that may be longer than any buffer: serve its keys as they come, from byte `consumed` on.
    Keys {
        /// Finds the keys.
        run: KeyRun,
        /// Length of the command and the space behind it.
        consumed: usize,
    },
    /// Nobody has a line that long: close the connection.
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
