//! The head of one request as a checked value.

mod admin;

pub(super) use admin::STREAM_NAMES;
pub use admin::{
    Automove, Cachedump, CrawlerClasses, DetailCommand, ExtstoreKnob, LruCommand, LruCrawlerCommand, LruMode,
    ShutdownMode, SlabsCommand, StatsTopic, Streams,
};

use crate::key::{Key, Keys};
use crate::meta::{MetaFlags, MetaKey};
use crate::words::Words;

/// The start of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// No line end yet: [`unfinished`](super::unfinished) decides whether to wait for it.
    Incomplete,
    /// A whole head.
    Head {
        /// The request.
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
    /// `mn`: answered after everything before it has been answered and sent.
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
        /// The item's new exptime.
        exptime: i32,
        /// Send no reply.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// When to flush: an exptime; 0 and less is now. Or the error, which "not allowed" precedes.
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
        /// How; or the error, which "not enabled" precedes.
        mode: Result<ShutdownMode, &'static [u8]>,
        /// Send no reply.
        noreply: bool,
    },
    /// `stats`.
    Stats {
        /// The topic; or the error.
        topic: StatsTopic,
        /// The words after the command.
        args: Words<'a>,
    },
    /// `watch`.
    Watch {
        /// Which events; or the error, which "not allowed" and "cannot pipeline" precede.
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
        /// What to do.
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
    /// `config get cluster`, of auto-discovery. memcached does not know it.
    Discover,
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

/// What `ms` does with the value: flag `M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Store it (`S`).
    Set,
    /// Store it unless there is one (`E`).
    Add,
    /// Store it if there is one (`R`).
    Replace,
    /// Put it after the old one (`A`).
    Append,
    /// Put it before the old one (`P`).
    Prepend,
}

impl SetMode {
    /// The mode by its letter; 0 if flag `M` was not given.
    #[inline]
    pub(in crate::request) fn of_flag(letter: u8) -> Option<SetMode> {
        match letter {
            0 | b'S' => Some(SetMode::Set),
            b'E' => Some(SetMode::Add),
            b'R' => Some(SetMode::Replace),
            b'A' => Some(SetMode::Append),
            b'P' => Some(SetMode::Prepend),
            _ => None,
        }
    }
}

/// What to do with a counter: `incr`, `decr`, and flag `M` of `ma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticMode {
    /// Add, wrapping at 64 bits.
    Increment,
    /// Subtract, but never below 0.
    Decrement,
}

impl ArithmeticMode {
    /// The mode by its letter; 0 if flag `M` was not given.
    #[inline]
    pub(in crate::request) fn of_flag(letter: u8) -> Option<ArithmeticMode> {
        match letter {
            0 | b'I' | b'+' => Some(ArithmeticMode::Increment),
            b'D' | b'-' => Some(ArithmeticMode::Decrement),
            _ => None,
        }
    }
}

/// A line that memcached refuses, and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The reply; empty if there is none (`noreply`, or the connection is closed).
    pub reply: &'static [u8],
    /// Bytes after the head that belong to it: the value of a storage command and its line end.
    pub swallow: usize,
    /// Close the connection.
    pub close: bool,
}

impl Refused {
    /// A refusal that concerns this line alone.
    pub(crate) fn line(reply: &'static [u8]) -> Refused {
        Refused { reply, swallow: 0, close: false }
    }

    /// A refusal that `noreply` suppresses.
    pub(crate) fn unless(noreply: bool, reply: &'static [u8]) -> Refused {
        Refused::line(if noreply { b"" } else { reply })
    }

    /// The same, with a value of `len` bytes and its line end after the head.
    pub(crate) fn with_body(self, len: usize) -> Refused {
        Refused { swallow: len + b"\r\n".len(), ..self }
    }

    pub(in crate::request) fn closing() -> Refused {
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
