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

pub use admin::{
    Automove, CrawlerClasses, ExtstoreKnob, LruCommand, LruCrawlerCommand, LruMode, ShutdownMode,
    SlabsCommand, Streams,
};
pub use dispatch::parse;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use dispatch::parse_any;
pub use meta_command::{ArithmeticMode, SetMode};
pub use stats::{Cachedump, DetailCommand, StatsTopic};

use crate::key::{Key, KeyRun, Keys};
use crate::limits::LINE_LEN_MAX;
use crate::meta::{MetaFlags, MetaKey};
use crate::words::Words;

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// No line end yet: [`unfinished`] says whether to wait for it.
    Incomplete,
    /// A whole head.
    Head {
        /// What it asks for.
        request: Request<'a>,
        /// Its length, line end included.
        consumed: usize,
    },
}

/// One request, without its body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`. A body of `len` bytes and a line end follows.
    Store(Store<'a>),
    /// `mg`.
    MetaGet {
        /// The key.
        key: MetaKey<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
    },
    /// `ms`. A body of `len` bytes and a line end follows.
    MetaSet {
        /// The key.
        key: MetaKey<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
        /// Length of the value, without the line end.
        len: usize,
        /// Flag `M`.
        mode: SetMode,
    },
    /// `md`.
    MetaDelete {
        /// The key.
        key: MetaKey<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
    },
    /// `ma`.
    MetaArithmetic {
        /// The key.
        key: MetaKey<'a>,
        /// The flags.
        flags: MetaFlags<'a>,
        /// Flag `M`.
        mode: ArithmeticMode,
    },
    /// `me`.
    MetaDebug {
        /// The key.
        key: MetaKey<'a>,
    },
    /// `mn`: everything before it must have been answered and sent.
    MetaNoop,
    /// `delete`.
    Delete {
        /// The key.
        key: Key<'a>,
        /// Send no reply.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// Up or down.
        mode: ArithmeticMode,
        /// The key.
        key: Key<'a>,
        /// By how much.
        delta: u64,
        /// Send no reply.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: Key<'a>,
        /// When the item shall expire.
        exptime: i32,
        /// Send no reply.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// When to flush: an exptime; 0 and less is now. Or the error, which stands back behind "not allowed".
        delay: Result<i32, &'static [u8]>,
        /// Send no reply.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// 0 to [`crate::limits::VERBOSITY_MAX`].
        level: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `quit`.
    Quit,
    /// `shutdown`.
    Shutdown {
        /// How; or the error, which stands back behind "not enabled".
        mode: Result<ShutdownMode, &'static [u8]>,
        /// Send no reply.
        noreply: bool,
    },
    /// `stats`.
    Stats {
        /// About what; or the error.
        topic: StatsTopic,
        /// The words behind the command.
        args: Words<'a>,
    },
    /// `watch`.
    Watch {
        /// Which events; or the error, which stands back behind "not allowed" and "cannot pipeline".
        streams: Result<Streams, &'static [u8]>,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The new limit.
        megabytes: u32,
        /// Send no reply.
        noreply: bool,
    },
    /// `lru_crawler`.
    LruCrawler {
        /// What it shall do.
        command: LruCrawlerCommand,
        /// Send no reply.
        noreply: bool,
    },
    /// `slabs`.
    Slabs {
        /// What to do.
        command: SlabsCommand,
        /// Send no reply.
        noreply: bool,
    },
    /// `lru`.
    Lru {
        /// What to change.
        command: LruCommand,
        /// Send no reply.
        noreply: bool,
    },
    /// `extstore`.
    Extstore {
        /// What to change.
        knob: ExtstoreKnob,
        /// Send no reply.
        noreply: bool,
    },
    /// `refresh_certs`.
    RefreshCerts {
        /// Send no reply.
        noreply: bool,
    },
    /// A line that memcached refuses.
    Refused(Refused),
}

/// `get`, `gets`, `gat`, `gats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Send the CAS with each value.
    pub with_cas: bool,
    /// Also set this exptime (`gat`, `gats`).
    pub exptime: Option<i32>,
    /// At least one.
    pub keys: Keys<'a>,
}

/// A classic storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Which one.
    pub verb: Verb,
    /// The key.
    pub key: Key<'a>,
    /// The client's flags.
    pub flags: u32,
    /// As given: 0 is never, negative is at once, up to 30 days is from now, and more is Unix time.
    pub exptime: i32,
    /// Length of the value, without the line end.
    pub len: usize,
    /// Send no reply.
    pub noreply: bool,
}

/// Which storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `set`
    Set,
    /// `add`
    Add,
    /// `replace`
    Replace,
    /// `append`
    Append,
    /// `prepend`
    Prepend,
    /// `cas`, with the CAS that the item must have.
    Cas(u64),
}

/// A line that memcached refuses, and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The reply; empty if there is none (`noreply`, or the connection is closed).
    pub reply: &'static [u8],
    /// Bytes behind the head that belong to it: the value of a storage command and its line end.
    pub swallow: usize,
    /// Close the connection.
    pub close: bool,
}

impl Refused {
    /// A refusal that concerns this line alone.
    pub(crate) fn line(reply: &'static [u8]) -> Refused {
        Refused { reply, swallow: 0, close: false }
    }

    /// A refusal that `noreply` silences.
    pub(crate) fn unless(noreply: bool, reply: &'static [u8]) -> Refused {
        Refused::line(if noreply { b"" } else { reply })
    }

    /// The same, with a value of `len` bytes and its line end behind the head.
    pub(crate) fn with_body(self, len: usize) -> Refused {
        Refused { swallow: len + b"\r\n".len(), ..self }
    }

    fn closing() -> Refused {
        Refused { reply: b"", swallow: 0, close: true }
    }
}

impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.reply.trim_ascii_end().escape_ascii())?;
        if self.swallow > 0 {
            write!(f, " swallow {}", self.swallow)?;
        }
        if self.close {
            write!(f, " close")?;
        }
        Ok(())
    }
}

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
